# SPDX-License-Identifier: Apache-2.0
"""Extensions that others built for an older DataFusion: an error, not a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import PYTHON_DIR, run_python
from test_pairings import install

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
def older(tmp_path_factory) -> Path:
    """Return a folder with extensions for older versions."""
    folder = tmp_path_factory.mktemp("older")
    install(PYTHON_DIR / "requirements/extensions-older.txt", folder)
    return folder


@pytest.mark.parametrize("extension", REFUSALS)
def test_patched_host_refuses(patched_python, older, extension):
    result = run_python(patched_python, SCRIPT, older, extension)
    assert result.returncode == 0, f"{result.returncode}: {result.stderr}"
    kind, text = json.loads(result.stdout)["error"]
    assert kind == "ImportError"
    assert REFUSALS[extension] in text
    assert "55" in text


def test_stock_host_refuses_a_table(stock_python, older):
    """So it does today: the released wheel checks the version of a table provider."""
    result = run_python(stock_python, SCRIPT, older, "table")
    assert REFUSALS["table"] in json.loads(result.stdout)["error"][1]


@pytest.mark.parametrize("extension", ["aggregate", "scalar"])
def test_stock_host_does_not_refuse_a_function(stock_python, older, extension):
    """It has crashed at every try; the point here is only that there is no such error."""
    result = run_python(stock_python, SCRIPT, older, extension)
    assert REFUSALS[extension] not in result.stdout
