# SPDX-License-Identifier: Apache-2.0
"""Use the fixture extension in this interpreter's DataFusion.

    extension.py WHAT MODULE...

WHAT is a function below, MODULE a build of the extension. Prints as JSON what the
function returns.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import mmap
import statistics
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import datafusion
from datafusion import ExecutionPlan, SessionConfig, SessionContext

SHAPES = ["build_side", "one_shot", "counter", "local_child"]
BEFORE, AFTER = [1, 2, 3, 4], [10, 20, 30, 40]

FAILURES = [
    f"{where}_{what}"
    for where in ("reset", "execute", "stream")
    for what in ("error", "panic")
]

# What each run leaks where a leak is planted; a window of runs; how many windows.
LEAK, RUNS, WINDOWS = 256, 100, 20


def session(**tables: object) -> SessionContext:
    """Return a session with these tables."""
    ctx = SessionContext(SessionConfig().with_target_partitions(1))
    for name, table in tables.items():
        ctx.register_table(name, table)
    return ctx


def plan(ctx: SessionContext, query: str = "SELECT * FROM t") -> ExecutionPlan:
    """Return the plan of a query."""
    return ctx.sql(query).execution_plan()


def run(ctx: SessionContext, plan: ExecutionPlan) -> list[list[int]]:
    """Return the rows of all partitions, sorted."""
    return sorted(
        list(row.values())
        for partition in range(plan.partition_count)
        for batch in ctx.execute(plan, partition)
        for row in batch.to_pyarrow().to_pylist()
    )


def without_reset_state(plan: ExecutionPlan) -> list[str]:
    """Return the nodes that the host says cannot forward a reset."""
    return [node.display().strip() for node in plan.nodes_without_reset_state()]


def shapes(extension: ModuleType) -> dict:
    """Return what each shape gives: run, run again, as a reset copy and planned anew.

    What the host cannot do at all is null.
    """
    report = {}
    for shape in SHAPES:
        table = extension.ReuseTable(shape, BEFORE)
        ctx = session(t=table)
        again, original, reset, without = plan(ctx), plan(ctx), None, None
        fresh = run(ctx, again)
        run(ctx, original)
        if hasattr(original, "reset_state"):
            without = without_reset_state(original)
            reset = original.reset_state()
        table.set_rows(AFTER)
        report[shape] = {
            "fresh": fresh,
            "rerun": outcome(ctx, again),
            "reset": reset and outcome(ctx, reset),
            "planned_anew": run(ctx, plan(ctx)),
            "without_reset_state": without,
        }
    return report


def outcome(ctx: SessionContext, plan: ExecutionPlan) -> list[list[int]] | str:
    """Return the rows of a plan, or the text of the error that it ends with."""
    try:
        return run(ctx, plan)
    except Exception as error:
        return str(error)


def kit(extension: ModuleType) -> dict:
    """Return what `datafusion.reuse` finds in each shape, and what a reset warns of."""
    report = {}
    for shape in SHAPES:
        table = extension.ReuseTable(shape, list(range(100)))
        ctx = session(t=table)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan(ctx).reset_state()
        change = partial(table.set_rows, [7] * 100)
        found = datafusion.reuse.check(ctx, partial(plan, ctx), change=change)
        failure = None
        try:
            found.raise_if_broken()
        except AssertionError as error:
            failure = str(error)
        report[shape] = {
            "ok": found.ok,
            "report": str(found),
            "failure": failure,
            "warnings": [str(warning.message) for warning in caught],
        }
    return report


def failures(extension: ModuleType) -> dict:
    """Return what a reset copy of each failing plan raises; all around it is right."""
    report = {}
    for shape in FAILURES:
        ctx = session(t=extension.FailingTable(shape))
        original, error = plan(ctx), None
        first = run(ctx, original)
        try:
            run(ctx, original.reset_state())
        except BaseException as raised:  # a panic is no Exception
            error = raised
        report[shape] = {
            "first": first,
            "is_exception": isinstance(error, Exception),
            "text": str(error),
            "afterwards": run(ctx, plan(ctx, "SELECT 1")),
        }
    return report


def mixed(patched: ModuleType, stock: ModuleType) -> dict:
    """Return the nodes without a reset of a plan over both builds, and of either half."""
    ctx = session(a=patched.ReuseTable("counter"), b=stock.ReuseTable("local_child"))
    queries = {
        "patched": "SELECT * FROM a",
        "stock": "SELECT * FROM b",
        "both": "SELECT * FROM a JOIN b USING (value)",
    }
    return {
        name: without_reset_state(plan(ctx, query)) for name, query in queries.items()
    }


def memory(extension: ModuleType) -> dict:
    """Return by how many bytes a reset and a run let each heap grow.

    After the plans comes what must and what must not be taken for flat: a segment that an
    allocator takes once, and what leaks in each of the heaps.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: a huge page takes in a small leak
    libc.mallinfo2.restype = MallInfo
    ctx = session(
        counter=extension.ReuseTable("counter"),
        local_child=extension.ReuseTable("local_child"),
    )
    ctx.from_pydict({"value": [1, 2, 3]}, name="own")
    plans = {
        "counter": plan(ctx, "SELECT * FROM counter"),
        "local_child": plan(ctx, "SELECT * FROM local_child"),
        "own": plan(ctx, "SELECT max(a.value) FROM own a JOIN own b USING (value)"),
    }
    kept = []

    def reset_and_run(name: str) -> ExecutionPlan:
        copy = plans[name].reset_state()
        if not run(ctx, copy):
            msg = f"{name} has no rows"
            raise ValueError(msg)
        return copy

    steps = {name: partial(reset_and_run, name) for name in plans}
    steps["segment"] = lambda: kept or kept.append(b"x" * 2**22)
    steps["copies"] = lambda: kept.append(reset_and_run("counter"))
    steps["host"] = lambda: kept.append(datafusion.lit("x" * LEAK))
    steps["extension"] = lambda: libc.malloc(LEAK)
    return {name: growth(libc, step) for name, step in steps.items()}


class MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def growth(libc: ctypes.CDLL, step: Callable[[], object]) -> dict[str, float]:
    """Return the bytes a step, in the median window of steps.

    An allocator that takes or gives back a segment does so in a few of the windows; a
    leak is in each. What is allocated with malloc, as by the extension, is counted. The
    host's allocator does not tell, and so its pages are.
    """
    samples: dict[str, list[int]] = {"resident": [], "malloc": []}
    for _ in range(WINDOWS + 1):
        pages = Path("/proc/self/statm").read_text().split()[1]
        samples["resident"].append(int(pages) * mmap.PAGESIZE)
        info = libc.mallinfo2()
        samples["malloc"].append(info.hblkhd + info.uordblks)
        for _ in range(RUNS):
            step()
    return {
        heap: statistics.median(b - a for a, b in itertools.pairwise(sizes)) / RUNS
        for heap, sizes in samples.items()
    }


def main(what: str, *modules: str) -> None:
    """Print what one of the functions returns of these modules."""
    functions = (shapes, kit, failures, mixed, memory)
    function = {it.__name__: it for it in functions}[what]
    print(json.dumps(function(*map(importlib.import_module, modules))))


if __name__ == "__main__":
    main(*sys.argv[1:])
