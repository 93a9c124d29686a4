# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the names that upstream's docstring examples take for given.

Upstream's own test configuration, which defines them, is not in the sdist.
"""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from datafusion import functions

NAMES = {
    "dfn": datafusion,
    "F": functions,
    "col": datafusion.col,
    "lit": datafusion.lit,
    "np": np,
    "pa": pa,
}


@pytest.fixture(autouse=True)
def names(doctest_namespace: dict[str, object]) -> None:
    """Add the names to every example."""
    doctest_namespace.update(NAMES)
