# SPDX-License-Identifier: Apache-2.0
"""The demo shows what it says, and fails when that does not hold."""

from __future__ import annotations

from importlib.metadata import version

import layers
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
ON_STOCK = {**RIGHT, "reset": None, "original_after_reset": None}


@pytest.mark.parametrize("name", RIGHT)
def test_seed_query_fails_on_a_wrong_number(monkeypatch, capsys, name):
    wrong = {**RIGHT, "datafusion": "0", name: 1.0}
    monkeypatch.setattr(seed_query, "measure", lambda: wrong)
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
    patched = version("datafusion")
    assert lines[0] == ["stock", patched.split("+")[0], "patched", patched]
    for line, (name, right) in zip(lines[1:], RIGHT.items(), strict=False):
        on_stock = "n/a" if ON_STOCK[name] is None else str(right)
        assert line == [name, on_stock, str(right)]
    assert ["s:", "double"] in lines
    assert ["v2:", "double"] in lines


@pytest.mark.parametrize(
    ("stock", "patched", "message"),
    [
        ("patched", "stock", "patched is not stock"),
        ("stock", "stock", "stock is not patched: datafusion 0 has no ExecutionPlan"),
    ],
)
def test_side_by_side_refuses(monkeypatch, capsys, stock, patched, message):
    builds = {"stock": ON_STOCK, "patched": RIGHT}
    monkeypatch.setattr(
        side_by_side,
        "seed_query",
        lambda python: {**builds[python.name], "datafusion": "0"},
    )
    assert side_by_side.main(["--stock", stock, "--patched", patched]) == 1
    assert message in capsys.readouterr().err


def test_side_by_side_names_an_interpreter_that_is_not_there(capsys):
    args = ["--stock", "/no/such/python", "--patched", "python"]
    assert side_by_side.main(args) == 1
    assert "cannot start /no/such/python" in capsys.readouterr().err


@pytest.fixture
def few_layers(monkeypatch) -> list[str]:
    """Return arguments for a model that is planned in no time."""
    monkeypatch.setattr(layers, "INLINED", (2, 4))
    return ["--layers", "20", "--steps", "3"]


def test_layers(few_layers, capsys):
    assert layers.main(few_layers) == 0
    printed = capsys.readouterr().out
    assert " 20 layers materialised: " in printed
    assert "3 steps, each as NumPy computes it" in printed


def test_layers_fails_on_another_number(few_layers, monkeypatch, capsys):
    expected = layers.Model.expected
    monkeypatch.setattr(layers.Model, "expected", lambda self: expected(self) + 1e-6)
    assert layers.main(few_layers) == 1
    printed = capsys.readouterr().err
    assert "step 0: " in printed
    assert "nan" not in printed


def test_layers_on_stock(stock_python):
    done = run_python(stock_python, PYTHON_DIR / "demo" / "layers.py")
    assert done.returncode == 1
    assert "needs the patched wheel" in done.stderr
