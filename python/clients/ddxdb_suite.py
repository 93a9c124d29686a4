# SPDX-License-Identifier: Apache-2.0
"""Run the tests that ship in the ddxdb sdist on stock and on patched datafusion.

ddxdb is a real client of datafusion. Its test files are taken from the sdist and
run, in both interpreters, against the *installed* ddxdb, which must be of the
sdist's version. Then the outcomes are compared, test by test. Which tests fail on
stock does not matter and is in no list here.

Exit status: 0; 1 if a test that passes on stock does not pass on patched, if a
test is missing on one side, or if no test ran; 2 if the comparison could not be
made.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Tests, and the manifest that test_version_is_single_sourced... reads beside them.
# Nothing else is unpacked: the sdist's own `ddxdb/` package lacks the compiled
# extension and would shadow the installed one.
TESTS = ("test_ad.py", "test_ddxdb.py")
MEMBERS = tuple(f"python/ddxdb/tests/{name}" for name in TESTS)
NEEDED = (*MEMBERS, "python/ddxdb/Cargo.toml", "PKG-INFO")
TIME_LIMIT_S = 900

# From the best outcome to the worst, as two reports of one test are merged.
OUTCOMES = ("passed", "skipped", "failed", "error")
RAN = ("passed", "failed", "error")

PROBE = """
import json, sys
from importlib.metadata import distribution, version
import ddxdb, ddxdb._ddxdb, datafusion
print(json.dumps({
    "prefix": sys.prefix,
    "imported": ddxdb.__file__,
    "installed": str(distribution("ddxdb").locate_file("ddxdb/__init__.py")),
    **{name: version(name) for name in ("ddxdb", "datafusion", "pytest")},
}))
"""


class SuiteError(Exception):
    """The comparison cannot be made."""


@dataclass(frozen=True)
class Comparison:
    """What differs between the outcomes on stock and those on patched.

    `failures` are reasons for exit status 1, `notes` are differences that are not.
    """

    failures: list[str]
    notes: list[str]


def compare(stock: dict[str, str], patched: dict[str, str]) -> Comparison:
    """Compare outcomes by test name."""
    failures: list[str] = []
    notes: list[str] = []
    for side, outcomes in (("stock", stock), ("patched", patched)):
        if not any(outcome in RAN for outcome in outcomes.values()):
            failures.append(f"no test ran on {side}")
    if not failures and "passed" not in stock.values():
        failures.append("no test passes on stock: there is nothing to compare with")
    for name in sorted(stock.keys() | patched.keys()):
        before, after = stock.get(name), patched.get(name)
        if after is None:
            failures.append(f"{name}: missing on patched ({before} on stock)")
        elif before is None:
            failures.append(f"{name}: missing on stock ({after} on patched)")
        elif before == "passed" != after:
            failures.append(f"{name}: passed on stock, {after} on patched")
        elif before != after:
            notes.append(f"{name}: {before} on stock, {after} on patched")
    return Comparison(failures, notes)


def read_report(report: str) -> dict[str, str]:
    """Return the outcome of each test in a JUnit XML report of pytest."""
    outcomes: dict[str, str] = {}
    for case in ET.fromstring(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        outcome = "passed"
        for tag, named in (
            ("skipped", "skipped"),
            ("failure", "failed"),
            ("error", "error"),
        ):
            if case.find(tag) is not None:
                outcome = named
        known = outcomes.get(name, outcome)
        outcomes[name] = max(known, outcome, key=OUTCOMES.index)
    return outcomes


def unpack(sdist: Path, into: Path) -> str:
    """Unpack the files needed, each to a path of our own; return ddxdb's version."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(sdist, "r:gz") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                name = "/".join(parts[1:])
                if name in NEEDED and member.isfile():
                    found[name] = archive.extractfile(member).read()
    except (OSError, EOFError, tarfile.TarError) as error:
        msg = f"cannot read the sdist {sdist}: {error}"
        raise SuiteError(msg) from error
    missing = [name for name in NEEDED if name not in found]
    if missing:
        msg = f"{sdist} is no ddxdb sdist: it lacks {', '.join(missing)}"
        raise SuiteError(msg)
    for name, content in found.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for line in found["PKG-INFO"].decode().splitlines():
        if line.startswith("Version: "):
            return line.removeprefix("Version: ").strip()
    msg = f"PKG-INFO in {sdist} names no version"
    raise SuiteError(msg)


def execute(python: Path, args: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run an interpreter that sees nothing but its own venv."""
    # What these name would reach both interpreters and could shadow what is
    # installed or change how pytest runs.
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST"))
    }
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        return subprocess.run(
            [str(python), *args],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except OSError as error:
        msg = f"cannot start {python}: {error}"
        raise SuiteError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"{python} did not end within {TIME_LIMIT_S} s"
        raise SuiteError(msg) from error


def probe(python: Path, version: str, empty: Path) -> dict[str, str]:
    """Return what is installed; raise unless it is the compiled ddxdb of `version`."""
    done = execute(python, ["-c", PROBE], empty)
    if done.returncode != 0:
        msg = f"{python} cannot run the suite:\n{done.stderr}".rstrip()
        raise SuiteError(msg)
    installed = json.loads(done.stdout)
    if installed["ddxdb"] != version:
        msg = f"{python} has ddxdb {installed['ddxdb']}, the sdist is {version}"
        raise SuiteError(msg)
    if installed["imported"] != installed["installed"]:
        msg = f"{python} imports {installed['imported']}, not the ddxdb installed there"
        raise SuiteError(msg)
    return installed


def run_suite(python: Path, root: Path, empty: Path, report: Path) -> dict[str, str]:
    """Run the unpacked tests and return the outcome of each."""
    config = root / "pytest.ini"
    config.write_text("[pytest]\n")
    done = execute(
        python,
        [
            *("-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
            *("-c", str(config), "--rootdir", str(root)),
            f"--junitxml={report}",
            *(str(root / name) for name in MEMBERS),
        ],
        empty,
    )
    # 0: all passed; 1: some failed; 5: none collected. Anything else is no outcome.
    if done.returncode not in (0, 1, 5) or not report.is_file():
        printed = f"{done.stdout}{done.stderr}".rstrip()
        msg = f"pytest of {python} ended with {done.returncode}:\n{printed}"
        raise SuiteError(msg)
    return read_report(report.read_text(encoding="utf-8"))


def counts(outcomes: dict[str, str]) -> str:
    """Return how many tests had each outcome, in words."""
    found = Counter(outcomes.values())
    parts = [f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome]]
    return ", ".join(parts) or "no tests"


def main(argv: list[str] | None = None) -> int:
    """Run both sides, print the counts and each difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sdist", type=Path, metavar="FILE", required=True, help="ddxdb-VERSION.tar.gz"
    )
    for side in ("stock", "patched"):
        parser.add_argument(
            f"--{side}",
            type=Path,
            metavar="PYTHON",
            required=True,
            help=f"interpreter of the venv with the {side} datafusion and ddxdb",
        )
    parser.add_argument(
        "--reports",
        type=Path,
        metavar="DIR",
        help="keep pytest's JUnit reports, with every traceback, in this folder",
    )
    args = parser.parse_args(argv)

    scratch = Path(tempfile.mkdtemp(prefix="ddxdb-suite-"))
    try:
        root, empty = scratch / "sdist", scratch / "empty"
        root.mkdir()
        empty.mkdir()
        reports = (args.reports or scratch).absolute()
        reports.mkdir(parents=True, exist_ok=True)
        version = unpack(args.sdist, root)
        # Not resolved: a venv is its own path to an interpreter, a link away.
        pythons = {
            "stock": args.stock.absolute(),
            "patched": args.patched.absolute(),
        }
        installed = {
            side: probe(python, version, empty) for side, python in pythons.items()
        }
        if installed["stock"]["prefix"] == installed["patched"]["prefix"]:
            msg = f"stock and patched are one venv: {installed['stock']['prefix']}"
            raise SuiteError(msg)

        def run(side: str) -> dict[str, str]:
            report = reports / f"{side}.xml"
            # So that none of an earlier run can be read instead.
            report.unlink(missing_ok=True)
            return run_suite(pythons[side], root, empty, report)

        with ThreadPoolExecutor() as pool:
            outcomes = dict(zip(pythons, pool.map(run, pythons), strict=True))
        for side in pythons:
            print(
                f"ddxdb {version}, "
                f"datafusion {installed[side]['datafusion']} ({side}), "
                f"pytest {installed[side]['pytest']}: {counts(outcomes[side])}"
            )
    except SuiteError as error:
        print(f"ddxdb_suite: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

    result = compare(outcomes["stock"], outcomes["patched"])
    for name, outcome in sorted(outcomes["stock"].items()):
        if outcome in ("failed", "error") and outcomes["patched"].get(name) == outcome:
            print(f"  {outcome} on both: {name}")
    for note in result.notes:
        print(f"  differs: {note}")
    for failure in result.failures:
        print(f"ddxdb_suite: {failure}", file=sys.stderr)
    if not result.failures:
        print("  every test that passes on stock passes on patched")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
