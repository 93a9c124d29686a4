# SPDX-License-Identifier: Apache-2.0
"""Check a shape of the fixture extension with `datafusion.reuse`.

    kit.py FOLDER MODULE SHAPE

FOLDER is an unpacked wheel, MODULE its package. Prints JSON: whether the check found
nothing, its report, the failure that it raises, and the warnings of one `reset_state`.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings

from datafusion import ExecutionPlan, SessionConfig, SessionContext, reuse


def main(folder: str, module: str, shape: str) -> dict:
    """Return what the kit finds."""
    sys.path.insert(0, folder)
    extension = importlib.import_module(module)
    ctx = SessionContext(SessionConfig().with_target_partitions(1))
    table = extension.ReuseTable(shape, list(range(100)))
    ctx.register_table("t", table)

    def plan() -> ExecutionPlan:
        return ctx.sql("SELECT * FROM t").execution_plan()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan().reset_state()
    report = reuse.check(ctx, plan, change=lambda: table.set_rows([7] * 100))
    failure = None
    try:
        report.raise_if_broken()
    except AssertionError as error:
        failure = str(error)
    return {
        "ok": report.ok,
        "report": str(report),
        "failure": failure,
        "warnings": [str(warning.message) for warning in caught],
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
