# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures what it says; its times are no test."""

from __future__ import annotations

import pyarrow as pa
import plan_reuse
import pytest


def test_each_way_is_measured(capsys):
    assert plan_reuse.main(["--rounds", "2", "--show-plan"]) == 0
    printed = capsys.readouterr().out
    assert "15 operators, 5 tables of 16 rows, median of 2 rounds" in printed
    assert printed.count("HashJoinExec") == 4
    for name in plan_reuse.Bench().ways():
        assert f"\n{name} " in printed
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


def test_without_duckdb_it_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert plan_reuse.main(["--rounds", "2"]) == 0
    assert "duckdb is not installed: pip install" in capsys.readouterr().out


def test_rounds_must_be_positive():
    with pytest.raises(SystemExit):
        plan_reuse.main(["--rounds", "0"])
