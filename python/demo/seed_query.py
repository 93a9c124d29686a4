# SPDX-License-Identifier: Apache-2.0
"""Run the seed query and print, as one JSON object, what each way of running gives.

Two NumPy-backed tables are registered without a copy. The query is planned once
and run; then the values of table `a` are changed in place and the query is run
in each way there is. A hash join keeps its build side, so the plan gives the old
answer when it is simply run again.

A build of datafusion without `ExecutionPlan.reset_state` gives null for the two
numbers that need it. Exit status: 0, or 1 if a number is not what it must be.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import numpy as np
import pyarrow as pa
from datafusion import ExecutionPlan, SessionConfig, SessionContext

QUERY = (
    "SELECT sum(t.v2 * b.w) AS s FROM (SELECT i, 2 * v AS v2 FROM a) t JOIN b USING (i)"
)

# With v = 0..3, and with every v = 100.
BEFORE = 120.0
AFTER = 8000.0

# What each number must be. `rerun_after_change` is wrong on purpose: it is what
# a plan gives that runs again without a reset.
EXPECTED = {
    "first": BEFORE,
    "rerun_after_change": BEFORE,
    "planned_anew": AFTER,
    "reset": AFTER,
    "original_after_reset": BEFORE,
}
NEED_RESET = ("reset", "original_after_reset")


def register(ctx: SessionContext, name: str, **columns: np.ndarray) -> None:
    """Register NumPy arrays of equal length as table `name`, sharing their memory."""
    batch = pa.RecordBatch.from_pydict(columns)
    for column, array in zip(batch.columns, columns.values(), strict=True):
        if column.buffers()[1].address != array.ctypes.data:
            msg = f"pyarrow copied a column of table {name}: nothing can change in place"
            raise RuntimeError(msg)
    ctx.register_record_batches(name, [[batch]])


def tables() -> tuple[SessionContext, np.ndarray]:
    """Return a session with tables `a` and `b`, and the value array of `a`."""
    ctx = SessionContext(SessionConfig().with_target_partitions(1))
    v = np.arange(4, dtype=np.float64)
    register(ctx, "a", i=np.arange(4), v=v)
    register(ctx, "b", i=np.arange(4), w=np.full(4, 10.0))
    return ctx, v


def run(ctx: SessionContext, plan: ExecutionPlan) -> float:
    """Run a plan of one partition and return its only value."""
    batches = [batch.to_pyarrow() for batch in ctx.execute(plan, 0)]
    return pa.Table.from_batches(batches).column("s")[0].as_py()


def measure() -> dict[str, float | str | None]:
    """Run the query in each way; return the numbers and the version of datafusion."""
    ctx, v = tables()
    plan = ctx.sql(QUERY).execution_plan()
    numbers: dict[str, float | str | None] = dict.fromkeys(EXPECTED)
    numbers["first"] = run(ctx, plan)
    v[:] = 100
    numbers["rerun_after_change"] = run(ctx, plan)
    numbers["planned_anew"] = run(ctx, ctx.sql(QUERY).execution_plan())
    if hasattr(plan, "reset_state"):
        numbers["reset"] = run(ctx, plan.reset_state())
        numbers["original_after_reset"] = run(ctx, plan)
    return {**numbers, "datafusion": version("datafusion")}


def problems(numbers: dict[str, float | str | None]) -> list[str]:
    """Say, a line each, which numbers are not what they must be."""
    without_reset = all(numbers[name] is None for name in NEED_RESET)
    return [
        f"{name} is {numbers[name]}, must be {expected}"
        for name, expected in EXPECTED.items()
        if numbers[name] != expected and not (without_reset and name in NEED_RESET)
    ]


def main() -> int:
    """Print the numbers, and on stderr what is wrong with them."""
    numbers = measure()
    print(json.dumps(numbers))
    wrong = problems(numbers)
    for line in wrong:
        print(f"seed query, datafusion {numbers['datafusion']}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
