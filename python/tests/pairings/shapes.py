# SPDX-License-Identifier: Apache-2.0
"""Run every shape of the fixture extension on this interpreter's DataFusion.

    shapes.py FOLDER MODULE

FOLDER is an unpacked wheel, MODULE its package. Prints JSON: for each shape the rows of
a first run, of the same plan again and of a reset copy, and the nodes that the host says
cannot forward a reset. An exception takes the place of rows as its text; what the host
cannot do at all is null.
"""

from __future__ import annotations

import importlib
import json
import sys

from datafusion import ExecutionPlan, SessionConfig, SessionContext

SHAPES = ["build_side", "one_shot", "counter", "local_child"]
BEFORE, AFTER = [1, 2, 3, 4], [10, 20, 30, 40]


def run(ctx: SessionContext, plan: ExecutionPlan) -> list[list[int]] | str:
    """Return the rows of all partitions, sorted, or what went wrong."""
    try:
        rows = [
            list(row.values())
            for partition in range(plan.partition_count)
            for batch in ctx.execute(plan, partition)
            for row in batch.to_pyarrow().to_pylist()
        ]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return sorted(rows)


def main(folder: str, module: str) -> dict:
    """Return what each shape gives."""
    sys.path.insert(0, folder)
    extension = importlib.import_module(module)
    report = {}
    for shape in SHAPES:
        ctx = SessionContext(SessionConfig().with_target_partitions(1))
        table = extension.ReuseTable(shape, BEFORE)
        ctx.register_table("t", table)

        def plan(ctx: SessionContext = ctx) -> ExecutionPlan:
            return ctx.sql("SELECT * FROM t").execution_plan()

        again, original, reset, without = plan(), plan(), None, None
        fresh = run(ctx, again)
        run(ctx, original)
        if hasattr(original, "reset_state"):
            copy = original.reset_state()
            without = [
                node.display().strip() for node in original.nodes_without_reset_state()
            ]
        table.set_rows(AFTER)
        rerun = run(ctx, again)
        if hasattr(original, "reset_state"):
            reset = run(ctx, copy)
        report[shape] = {
            "fresh": fresh,
            "rerun": rerun,
            "reset": reset,
            "planned_anew": run(ctx, plan()),
            "without_reset_state": without,
        }
    return report


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
