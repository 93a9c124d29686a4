# SPDX-License-Identifier: Apache-2.0
"""The comparer of ddxdb's tests must fail when there is something to find."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import ddxdb_suite
import pytest

PASSING = {"m::a": "passed", "m::b": "passed", "m::c": "failed"}


@pytest.fixture
def sdist(tmp_path):
    """Return a function that writes an sdist with these test files."""

    def write(files: dict[str, str], **more: str) -> Path:
        content = {
            "PKG-INFO": "Metadata-Version: 2.4\nName: ddxdb\nVersion: 1.2.3\n",
            "python/ddxdb/Cargo.toml": 'version = "1.2.3"\n',
            **{f"python/ddxdb/tests/{name}": text for name, text in files.items()},
            **more,
        }
        path = tmp_path / "ddxdb-1.2.3.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in content.items():
                member = tarfile.TarInfo(f"ddxdb-1.2.3/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return path

    return write


@pytest.fixture
def folders(tmp_path):
    """Return a folder to unpack into, and an empty one to run in."""
    root, empty = tmp_path / "root", tmp_path / "empty"
    root.mkdir()
    empty.mkdir()
    return root, empty


def main_in_this_venv(file: Path) -> int:
    """Run the comparer on an sdist with this interpreter on both sides."""
    python = sys.executable
    return ddxdb_suite.main(
        ["--sdist", str(file), "--stock", python, "--patched", python]
    )


@pytest.fixture
def run_main(monkeypatch, sdist):
    """Return a function that runs the comparer over outcomes given by hand."""

    def run(stock: dict[str, str], patched: dict[str, str]) -> int:
        outcomes = {"stock": stock, "patched": patched}
        monkeypatch.setattr(
            ddxdb_suite,
            "probe",
            lambda python, *_: {
                "prefix": python.name,
                "datafusion": "0",
                "pytest": "0",
            },
        )
        monkeypatch.setattr(
            ddxdb_suite, "run_suite", lambda python, *_: outcomes[python.name]
        )
        file = sdist(dict.fromkeys(ddxdb_suite.TESTS, ""))
        return ddxdb_suite.main(
            ["--sdist", str(file), "--stock", "stock", "--patched", "patched"]
        )

    return run


def test_equal_outcomes_are_right(run_main, capsys):
    assert run_main(PASSING, PASSING) == 0
    printed = capsys.readouterr()
    assert "(stock), pytest 0: 2 passed, 1 failed" in printed.out
    assert "(patched), pytest 0: 2 passed, 1 failed" in printed.out
    assert "failed on both: m::c" in printed.out
    assert not printed.err


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
def test_a_regression_fails(run_main, capsys, outcome):
    assert run_main(PASSING, {**PASSING, "m::b": outcome}) == 1
    assert f"m::b: passed on stock, {outcome} on patched" in capsys.readouterr().err


def test_a_test_that_only_patched_passes_is_shown_and_right(run_main, capsys):
    assert run_main(PASSING, {**PASSING, "m::c": "passed"}) == 0
    assert "differs: m::c: failed on stock, passed on patched" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["m::a", "m::c"])
def test_a_missing_test_fails_whatever_its_outcome(run_main, capsys, name):
    less = {other: outcome for other, outcome in PASSING.items() if other != name}
    assert run_main(PASSING, less) == 1
    assert f"{name}: missing on patched" in capsys.readouterr().err
    assert run_main(less, PASSING) == 1
    assert f"{name}: missing on stock" in capsys.readouterr().err


@pytest.mark.parametrize("outcomes", [{}, {"m::a": "skipped"}], ids=["empty", "skipped"])
def test_a_run_of_no_test_fails(run_main, capsys, outcomes):
    assert run_main(outcomes, outcomes) == 1
    printed = capsys.readouterr().err
    assert "no test ran on stock" in printed
    assert "no test ran on patched" in printed


def test_a_run_without_a_passing_test_compares_nothing(run_main, capsys):
    assert run_main({"m::a": "failed"}, {"m::a": "failed"}) == 1
    assert "nothing to compare with" in capsys.readouterr().err


def test_outcomes_are_those_of_pytest(sdist, folders, tmp_path):
    file = sdist(
        {
            "test_ad.py": (
                "import pytest\n"
                "def test_pass(): pass\n"
                "def test_fail(): assert False\n"
                "def test_skip(): pytest.skip('why')\n"
                "@pytest.fixture\n"
                "def broken():\n"
                "    yield\n"
                "    raise ValueError\n"
                "def test_passes_then_errors(broken): pass\n"
                "@pytest.mark.parametrize('n', [1, 2])\n"
                "def test_each(n): assert n == 1\n"
            ),
            "test_ddxdb.py": (
                "from pathlib import Path\n"
                "def test_manifest():\n"
                "    assert (Path(__file__).parent.parent / 'Cargo.toml').is_file()\n"
            ),
        }
    )
    root, empty = folders
    assert ddxdb_suite.unpack(file, root) == "1.2.3"
    outcomes = ddxdb_suite.run_suite(
        Path(sys.executable), root, empty, tmp_path / "report.xml"
    )
    assert {name.rpartition("::")[2]: outcome for name, outcome in outcomes.items()} == {
        "test_pass": "passed",
        "test_fail": "failed",
        "test_skip": "skipped",
        "test_passes_then_errors": "error",
        "test_each[1]": "passed",
        "test_each[2]": "failed",
        "test_manifest": "passed",
    }


def test_files_without_tests_are_an_empty_run(sdist, folders, tmp_path):
    root, empty = folders
    ddxdb_suite.unpack(sdist(dict.fromkeys(ddxdb_suite.TESTS, "")), root)
    report = tmp_path / "report.xml"
    assert ddxdb_suite.run_suite(Path(sys.executable), root, empty, report) == {}


def test_a_file_that_cannot_be_imported_is_no_outcome(sdist, folders, tmp_path):
    root, empty = folders
    ddxdb_suite.unpack(
        sdist({"test_ad.py": "import nowhere_at_all", "test_ddxdb.py": ""}), root
    )
    with pytest.raises(ddxdb_suite.SuiteError, match="nowhere_at_all"):
        ddxdb_suite.run_suite(Path(sys.executable), root, empty, tmp_path / "r.xml")


def test_unpack_writes_nothing_but_the_files_named(sdist, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    file = sdist(
        dict.fromkeys(ddxdb_suite.TESTS, ""),
        **{"../../../outside.py": "", "ddxdb/__init__.py": "", "setup.py": ""},
    )
    ddxdb_suite.unpack(file, root)
    written = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    assert written == set(ddxdb_suite.NEEDED)
    assert not list(tmp_path.parent.rglob("outside.py"))


def test_a_truncated_sdist_is_named(sdist, tmp_path, capsys):
    file = sdist(dict.fromkeys(ddxdb_suite.TESTS, ""))
    file.write_bytes(file.read_bytes()[:40])
    assert main_in_this_venv(file) == 2
    assert str(file) in capsys.readouterr().err


def test_an_sdist_without_the_tests_is_named(sdist, tmp_path):
    with pytest.raises(ddxdb_suite.SuiteError, match=r"lacks .*test_ddxdb\.py"):
        ddxdb_suite.unpack(sdist({"test_ad.py": ""}), tmp_path)


def test_an_interpreter_that_is_not_there_is_named(sdist, capsys):
    file = sdist(dict.fromkeys(ddxdb_suite.TESTS, ""))
    args = ["--sdist", str(file), "--stock", "/no/such/python", "--patched", "python"]
    assert ddxdb_suite.main(args) == 2
    assert "cannot start /no/such/python" in capsys.readouterr().err


def test_an_installed_ddxdb_of_another_version_is_refused(sdist, capsys):
    file = sdist(dict.fromkeys(ddxdb_suite.TESTS, ""))
    assert main_in_this_venv(file) == 2
    assert "the sdist is 1.2.3" in capsys.readouterr().err
