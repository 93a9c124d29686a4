# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of the patched wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from datafusion import ExecutionPlan, SessionConfig, SessionContext

PYTHON_DIR = Path(__file__).resolve().parent.parent


def run_python(
    python: str, *args: str | Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter, at most 100 s, and return what it printed and its status.

    It finds the packages in the folder `path` before those of its venv.
    """
    return subprocess.run(
        [python, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(path)} if path else None,
    )


def session(partitions: int = 1, **options: str) -> SessionContext:
    """Return a session; options are named `execution__x`, without `datafusion.`."""
    config = SessionConfig().with_target_partitions(partitions)
    for name, value in options.items():
        config = config.set(f"datafusion.{name.replace('__', '.')}", value)
    return SessionContext(config)


def together(*calls: Callable[[], Any], timeout: float = 60) -> list[Any]:
    """Make all calls at the same time and return what they return.

    Raises the first error, or TimeoutError after `timeout` seconds.
    """
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = calls[number]()
        except BaseException as error:  # a panic is no Exception
            errors.append(error)

    # Not an executor, which would wait for a thread that hangs.
    threads = [
        threading.Thread(target=run, args=(number,), daemon=True)
        for number in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        if thread.is_alive():
            msg = f"not done after {timeout} s"
            raise TimeoutError(msg)
    if errors:
        raise errors[0]
    return results


def drain(ctx: SessionContext, plan: ExecutionPlan) -> list[dict]:
    """Run every partition of a plan at the same time and return all rows.

    One after another, partitions can wait for each other for ever.
    """

    def rows(partition: int) -> list[dict]:
        batches = ctx.execute(plan, partition)
        return [row for batch in batches for row in batch.to_pyarrow().to_pylist()]

    runs = [partial(rows, partition) for partition in range(plan.partition_count)]
    return [row for part in together(*runs) for row in part]


def nodes(plan: ExecutionPlan) -> list[ExecutionPlan]:
    """Return the plan and everything under it, from the root down."""
    return [plan, *(node for child in plan.children() for node in nodes(child))]


def from_environment(variable: str) -> str:
    """Return the path that a variable has, which the tests cannot do without."""
    path = os.environ.get(variable)
    if not path or not Path(path).exists():
        pytest.fail(
            f"{variable} names no file: {path}. `cargo xtask test python` makes what "
            "these tests need and runs them"
        )
    return path


@pytest.fixture(scope="session")
def stock_python() -> str:
    """Return the interpreter of the venv with the released wheel."""
    return from_environment("STOCK_PYTHON")


@pytest.fixture(scope="session")
def patched_python() -> str:
    """Return this interpreter: these tests run in the venv of the patched wheel."""
    return sys.executable


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Callable[[str], Path]:
    """Return what installs the wheels of a requirements file, alone in a folder."""

    def installed(requirements: str) -> Path:
        folder = tmp_path_factory.mktemp("extensions")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--no-compile", "--target", str(folder)]
        command += ["-r", str(PYTHON_DIR / "requirements" / requirements)]
        subprocess.run(command, check=True, timeout=100)
        return folder

    return installed
