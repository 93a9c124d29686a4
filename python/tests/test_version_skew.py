# SPDX-License-Identifier: Apache-2.0
"""Extensions that others built for an older DataFusion: an error, not a crash."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import run_python

SCRIPT = Path(__file__).parent / "pairings/older.py"

# What refuses each extension, and why.
REFUSALS = {
    # By the version in the struct.
    "table": "DataFusion table provider major version 54; expected 55",
    # By what the distribution requires: these structs have no version.
    "aggregate": "datafusion-extra-functions-ffi 0.1.0 requires datafusion>=54,<55",
    "scalar": "geodatafusion 0.3.1 requires datafusion>=53,<54",
}


@pytest.fixture(scope="session")
def use(installed) -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """Return what uses an extension in an interpreter, which may crash."""
    older = installed("extensions-older.txt")
    return lambda python, extension: run_python(python, SCRIPT, extension, path=older)


@pytest.mark.parametrize("extension", REFUSALS)
def test_patched_host_refuses(patched_python, use, extension):
    result = use(patched_python, extension)
    assert result.returncode == 0, f"{result.returncode}: {result.stderr}"
    kind, text = json.loads(result.stdout)["error"]
    assert kind == "ImportError"
    assert REFUSALS[extension] in text
    assert "55" in text


def test_stock_host_refuses_a_table(stock_python, use):
    """So it does today: the released wheel checks the version of a table provider."""
    result = use(stock_python, "table")
    assert REFUSALS["table"] in json.loads(result.stdout)["error"][1]


@pytest.mark.parametrize("extension", ["aggregate", "scalar"])
def test_stock_host_does_not_refuse_a_function(stock_python, use, extension):
    """It has crashed at every try, killed by a signal."""
    result = use(stock_python, extension)
    assert result.returncode < 0 or "rows" in json.loads(result.stdout), result
