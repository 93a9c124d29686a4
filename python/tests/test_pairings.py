# SPDX-License-Identifier: Apache-2.0
"""Hosts and extensions of the same version, patched and not, in every pairing.

Each pairing runs in a process of its own: a wrong layout crashes. The scripts are in
`pairings/`. EXTENSION_PATCHED_WHEEL and EXTENSION_STOCK_WHEEL are wheels of the fixture
extension, built against the patched crates and against the released ones.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import from_environment, run_python
from pairings.extension import FAILURES, LEAK

SCRIPTS = Path(__file__).parent / "pairings"
MODULES = {"patched": "reuse_fixture", "stock": "reuse_fixture_stock"}

# What each shape gives, with the rows changed from 1, 2, 3, 4 to 10, 20, 30, 40 before
# the plan is run again. `reset` is also what a new plan gives.
FRESH = {
    "build_side": [[1, 10], [2, 10], [3, 10], [4, 10]],
    "one_shot": [[1], [2], [3], [4]],
    "counter": [[1, 1], [2, 2], [3, 3], [4, 4]],
    "local_child": [[1, 1, 1], [2, 2, 3], [3, 3, 6], [4, 4, 10]],
}
RERUN = {
    "build_side": [[10, 10], [20, 10], [30, 10], [40, 10]],
    "one_shot": "OneShotExec has been executed",
    "counter": [[10, 5], [20, 6], [30, 7], [40, 8]],
    "local_child": [[10, 5, 20], [20, 6, 40], [30, 7, 70], [40, 8, 110]],
}
RESET = {
    "build_side": [[10, 100], [20, 100], [30, 100], [40, 100]],
    "one_shot": [[10], [20], [30], [40]],
    "counter": [[10, 1], [20, 2], [30, 3], [40, 4]],
    "local_child": [[10, 1, 10], [20, 2, 30], [30, 3, 60], [40, 4, 100]],
}
NODES = {
    "build_side": ["BuildSideExec"],
    "one_shot": ["OneShotExec"],
    "counter": ["CounterExec"],
    "local_child": ["RunningTotalExec", "CounterExec"],
}


def run_script(python: str, script: str, *args: str | Path, path: Path) -> dict:
    """Run a script of `pairings/` with the packages in `path`; return what it prints."""
    result = run_python(python, SCRIPTS / script, *args, path=path)
    assert result.returncode == 0, f"{result.returncode}: {result.stderr}"
    return json.loads(result.stdout)


def matches(found: list | str, expected: list | str) -> bool:
    """Return whether rows are equal; an error is told by a part of its text."""
    return expected in found if isinstance(expected, str) else found == expected


def named(displays: list[str], names: list[str]) -> bool:
    """Return whether these nodes, from the root down, have these names."""
    return len(displays) == len(names) and all(
        name in display for name, display in zip(names, displays, strict=True)
    )


@pytest.fixture(scope="session")
def hosts(stock_python, patched_python) -> dict[str, str]:
    """Return the interpreters with the two wheels."""
    return {"patched": patched_python, "stock": stock_python}


@pytest.fixture(scope="session")
def use(hosts, tmp_path_factory) -> Callable[..., dict]:
    """Return what has a host use builds of the fixture extension, once for all tests."""
    folder = tmp_path_factory.mktemp("fixture")
    for build in MODULES:
        wheel = from_environment(f"EXTENSION_{build.upper()}_WHEEL")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)

    @functools.cache
    def use(what: str, host: str, *builds: str) -> dict:
        modules = [MODULES[build] for build in builds]
        return run_script(hosts[host], "extension.py", what, *modules, path=folder)

    return use


@pytest.mark.parametrize("shape", FRESH)
@pytest.mark.parametrize("build", MODULES)
@pytest.mark.parametrize("host", ["patched", "stock"])
class TestPairing:
    """Each shape, from each build of the extension, on each host."""

    def test_run(self, use, host, build, shape):
        """A first run is right, a second shows the state, a new plan is right again."""
        result = use("shapes", host, build)[shape]
        assert result["fresh"] == FRESH[shape]
        assert matches(result["rerun"], RERUN[shape]), result["rerun"]
        assert result["planned_anew"] == RESET[shape]

    def test_reset(self, use, host, build, shape):
        """A reset copy is right if both sides are patched; else as upstream's default."""
        result = use("shapes", host, build)[shape]
        if host == "stock":
            assert result["reset"] is None
        else:
            expected = (RESET if build == "patched" else RERUN)[shape]
            assert matches(result["reset"], expected), result["reset"]

    def test_nodes_without_reset_state(self, use, host, build, shape):
        """The host names every node that cannot forward a reset, and no other."""
        found = use("shapes", host, build)[shape]["without_reset_state"]
        if host == "stock":
            assert found is None
        else:
            assert named(found, NODES[shape] if build == "stock" else []), found


@pytest.mark.parametrize("shape", FRESH)
@pytest.mark.parametrize("build", MODULES)
def test_kit(use, build, shape):
    """The kit finds nothing in the patched build, and each node of the stock one."""
    found = use("kit", "patched", build)[shape]
    for node in NODES[shape]:
        assert node in found["report"]
    assert "shows nothing" not in found["report"]  # of the change of the rows
    if build == "patched":
        assert found["ok"], found["report"]
        assert found["failure"] is None
        assert found["warnings"] == []
    else:
        assert not found["ok"]
        assert found["failure"] == found["report"]
        assert found["report"].count("a reset does not reach it") == len(NODES[shape])
        (warning,) = found["warnings"]
        for node in NODES[shape]:
            assert node in warning


def test_nodes_of_both_builds_in_one_plan(use):
    found = use("mixed", "patched", "patched", "stock")
    assert found["patched"] == []
    assert named(found["stock"], NODES["local_child"]), found["stock"]
    assert named(found["both"], NODES["local_child"]), found["both"]


@pytest.mark.parametrize("shape", FAILURES)
def test_failures_are_exceptions(use, shape):
    """What goes wrong in the extension is an exception, and the process goes on."""
    found = use("failures", "patched", "patched")[shape]
    assert found["first"] == [[1], [2], [3], [4]]
    assert found["is_exception"], found
    where, what = shape.split("_")
    assert re.search(f"FailingExec: deliberate {what} of .*{where}", found["text"]), found
    assert found["afterwards"] == [[1]]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat(use):
    """No run keeps anything; the leaks that the script plants are seen."""
    found = use("memory", "patched", "patched")
    growth = {name: max(heaps.values()) for name, heaps in found.items()}
    flat = {name for name, bytes_a_run in growth.items() if bytes_a_run < LEAK / 2}
    assert flat == {"counter", "local_child", "own", "segment"}, found
    assert growth.keys() - flat == {"copies", "host", "extension"}


def test_released_extensions_give_the_same_on_both_hosts(hosts, installed, tmp_path):
    released = installed("extensions-55.txt")
    found = {
        host: run_script(python, "released.py", tmp_path / host, path=released)
        for host, python in hosts.items()
    }
    first = {
        host: {name: result["first"] for name, result in results.items()}
        for host, results in found.items()
    }
    assert all(first["patched"].values())
    assert first["patched"] == first["stock"]
    assert first["patched"]["area"] == [[4], [4], [8], [8], [20]]
    assert first["patched"]["delta"] == [[2, 5], [3, 6]]
    assert first["patched"]["delta_join"] == [[8 + 45]]
    # A foreign function is no node of the plan; the nodes of a foreign table are.
    for name, result in found["patched"].items():
        if name.startswith("delta"):
            assert result["without_reset_state"]
        else:
            assert result["without_reset_state"] == []
            assert result["reset"] == result["first"]
