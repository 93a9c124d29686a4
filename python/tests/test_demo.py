# SPDX-License-Identifier: Apache-2.0
"""The demo shows what it says, and fails when that does not hold."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
import seed_query
import side_by_side
from conftest import PYTHON_DIR, run_python

RIGHT = {
    "first": 120.0,
    "rerun_after_change": 120.0,
    "planned_anew": 8000.0,
    "reset": 8000.0,
    "original_after_reset": 120.0,
}


def test_seed_query_on_patched(patched_python):
    done = run_python(patched_python, PYTHON_DIR / "demo" / "seed_query.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {**RIGHT, "datafusion": version("datafusion")}


def test_seed_query_on_stock(stock_python):
    done = run_python(stock_python, PYTHON_DIR / "demo" / "seed_query.py")
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout)
    numbers.pop("datafusion")
    assert numbers == {**RIGHT, "reset": None, "original_after_reset": None}


@pytest.mark.parametrize("name", RIGHT)
def test_seed_query_fails_on_a_wrong_number(monkeypatch, capsys, name):
    wrong = {**RIGHT, "datafusion": "0", name: 1.0}
    monkeypatch.setattr(seed_query, "measure", lambda: wrong)
    monkeypatch.setattr("sys.argv", ["seed_query.py"])
    assert seed_query.main() == 1
    assert f"{name} is 1.0, must be {RIGHT[name]}" in capsys.readouterr().err


def test_seed_query_fails_when_only_one_reset_number_is_missing():
    half = {**RIGHT, "datafusion": "0", "original_after_reset": None}
    assert seed_query.problems(half) == ["original_after_reset is None, must be 120.0"]


def test_an_array_that_pyarrow_copies_is_refused():
    ctx, _ = seed_query.tables()
    with pytest.raises(RuntimeError, match="table strided"):
        seed_query.register(ctx, "strided", v=seed_query.np.arange(8)[::2])


def test_side_by_side(stock_python, patched_python):
    done = run_python(
        patched_python,
        PYTHON_DIR / "demo" / "side_by_side.py",
        *("--stock", stock_python, "--patched", patched_python),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [
        "stock",
        version("datafusion").split("+")[0],
        "patched",
        version("datafusion"),
    ] in lines
    assert ["reset", "n/a", "8000.0"] in lines
    assert ["original_after_reset", "n/a", "120.0"] in lines
    assert ["s:", "double"] in lines
    assert ["v2:", "double"] in lines


def test_side_by_side_refuses_interpreters_the_wrong_way_round(
    stock_python, patched_python, capsys
):
    args = ["--stock", patched_python, "--patched", stock_python]
    assert side_by_side.main(args) == 1
    assert f"{patched_python} is not stock" in capsys.readouterr().err


def test_side_by_side_refuses_stock_as_patched(stock_python, capsys):
    assert side_by_side.main(["--stock", stock_python, "--patched", stock_python]) == 1
    assert "has no ExecutionPlan.reset_state()" in capsys.readouterr().err


def test_side_by_side_names_an_interpreter_that_is_not_there(patched_python, capsys):
    args = ["--stock", "/no/such/python", "--patched", patched_python]
    assert side_by_side.main(args) == 1
    assert "cannot start /no/such/python" in capsys.readouterr().err
