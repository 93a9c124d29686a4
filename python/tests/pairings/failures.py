# SPDX-License-Identifier: Apache-2.0
"""Make a node of the fixture extension fail, and use the process afterwards.

    failures.py FOLDER MODULE SHAPE

Prints JSON: the type and text of the exception, whether it is an `Exception`, and what
another query gives after it.
"""

from __future__ import annotations

import importlib
import json
import sys

from datafusion import SessionConfig, SessionContext


def main(folder: str, module: str, shape: str) -> dict:
    """Run a plan, reset it, run the copy, and report what went wrong."""
    sys.path.insert(0, folder)
    extension = importlib.import_module(module)
    ctx = SessionContext(SessionConfig().with_target_partitions(1))
    ctx.register_table("t", extension.FailingTable(shape))
    plan = ctx.sql("SELECT * FROM t").execution_plan()
    first = sum(batch.to_pyarrow().num_rows for batch in ctx.execute(plan, 0))
    error = None
    try:
        copy = plan.reset_state()
        for batch in ctx.execute(copy, 0):
            batch.to_pyarrow()
    except BaseException as raised:  # a panic is no Exception
        error = raised
    return {
        "first": first,
        "type": type(error).__name__,
        "is_exception": isinstance(error, Exception),
        "text": str(error),
        "afterwards": ctx.sql("SELECT 1 AS one").to_pydict(),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
