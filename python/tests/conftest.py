# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of the patched wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import ExecutionPlan, SessionConfig, SessionContext

PYTHON_DIR = Path(__file__).resolve().parent.parent


def run_python(python: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run an interpreter, at most 100 s, and return what it printed and its status."""
    return subprocess.run(
        [python, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def session(partitions: int = 1, **options: str) -> SessionContext:
    """Return a session; options are named `execution__x`, without `datafusion.`."""
    config = SessionConfig().with_target_partitions(partitions)
    for name, value in options.items():
        config = config.set(f"datafusion.{name.replace('__', '.')}", value)
    return SessionContext(config)


def drain(ctx: SessionContext, plan: ExecutionPlan, timeout: float = 60) -> list[dict]:
    """Run every partition of a plan at the same time and return all rows.

    One after another, partitions can wait for each other for ever. Raises the first
    error of a partition, or TimeoutError after `timeout` seconds.
    """
    count = plan.partition_count
    batches: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    errors: list[BaseException] = []

    def run(partition: int) -> None:
        try:
            for batch in ctx.execute(plan, partition):
                batches[partition].append(batch.to_pyarrow())
        except BaseException as error:  # a panic is no Exception
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(partition,), daemon=True)
        for partition in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        if thread.is_alive():
            msg = f"a partition was not done after {timeout} s"
            raise TimeoutError(msg)
    if errors:
        raise errors[0]
    return [
        row for partition in batches for batch in partition for row in batch.to_pylist()
    ]


def nodes(plan: ExecutionPlan) -> list[ExecutionPlan]:
    """Return the plan and everything under it, from the root down."""
    return [plan, *(node for child in plan.children() for node in nodes(child))]


@pytest.fixture(scope="session")
def stock_python() -> str:
    """Return the interpreter of the venv with the released wheel."""
    python = os.environ.get("STOCK_PYTHON")
    if not python:
        pytest.skip("STOCK_PYTHON is not set to an interpreter with the released wheel")
    if not Path(python).exists():
        pytest.fail(f"STOCK_PYTHON is {python}, which does not exist")
    return python


@pytest.fixture(scope="session")
def patched_python() -> str:
    """Return this interpreter: these tests run in the venv of the patched wheel."""
    return sys.executable
