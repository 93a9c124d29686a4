# SPDX-License-Identifier: Apache-2.0
"""The benchmarks measure what they say; their times are no test."""

from __future__ import annotations

import materialized_ctes
import plan_reuse
import pyarrow as pa
import pytest
from conftest import PYTHON_DIR, run_python


def test_each_way_is_measured(capsys):
    assert plan_reuse.main(["--rounds", "2", "--show-plan"]) == 0
    printed = capsys.readouterr().out
    assert "15 operators, 5 tables of 16 rows, median of 2 rounds" in printed
    assert printed.count("HashJoinExec") == 4
    for name in plan_reuse.Bench().ways():
        assert f"\n{name:<16} " in printed
    assert "stock build" not in printed


def test_a_way_that_gives_another_result_fails(monkeypatch, capsys):
    wrong = [pa.RecordBatch.from_pydict({"g": [0], "s": [0.0], "n": [0]})]
    monkeypatch.setattr(plan_reuse.Bench, "decode_and_run", lambda _: wrong)
    assert plan_reuse.main(["--rounds", "2"]) == 1
    assert "decode and run gives" in capsys.readouterr().err


def test_a_plan_of_other_size_fails(monkeypatch, capsys):
    monkeypatch.setattr(plan_reuse, "QUERY", "SELECT g FROM t0")
    assert plan_reuse.main(["--rounds", "2"]) == 1
    assert "the plan has 1 operators" in capsys.readouterr().err


def test_max_ratio(capsys):
    assert plan_reuse.main(["--rounds", "2", "--max-ratio", "1000"]) == 0
    assert plan_reuse.main(["--rounds", "2", "--max-ratio", "0"]) == 1
    assert "more than 0.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "args", "message"),
    [
        ("plan_reuse.py", ["--rounds", "1", "--max-ratio", "1"], "n/a (no Exec"),
        ("materialized_ctes.py", [], "needs the patched wheel"),
    ],
    ids=["plan_reuse", "materialized_ctes"],
)
def test_on_stock(stock_python, script, args, message):
    done = run_python(stock_python, PYTHON_DIR / "bench" / script, *args)
    assert done.returncode == 1
    assert message in done.stderr


def test_rounds_must_be_positive(capsys):
    with pytest.raises(SystemExit, match="2"):
        plan_reuse.main(["--rounds", "0"])
    assert "--rounds must be at least 1" in capsys.readouterr().err


def test_ctes(capsys):
    assert materialized_ctes.main(["--rounds", "1", "--depths", "2,12"]) == 0
    printed = capsys.readouterr().out
    assert "    2 inlined       run " in printed
    assert "   12 inlined" not in printed
    assert "   12 DuckDB        plan and run" in printed
    for name in materialized_ctes.READ_ONCE:
        assert f"\n{name:<13} MATERIALIZED " in printed


def test_ctes_fail_when_the_ways_differ(monkeypatch, capsys):
    monkeypatch.setattr(materialized_ctes.Databases, "run_duckdb", lambda *_: -1)
    assert materialized_ctes.main(["--rounds", "1", "--depths", "2"]) == 1
    assert "depth 2: the ways give" in capsys.readouterr().err
