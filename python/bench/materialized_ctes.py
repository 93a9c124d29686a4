# SPDX-License-Identifier: Apache-2.0
"""Time materialised CTEs beside inlined ones, and beside DuckDB's.

The first table is of chains: CTEs over 16 rows, each of which joins the one before it
with itself. Inlined, each level doubles the plan, so that the deep ones are left out.
Printed is the median time to plan and to run (a reset copy, as for each further run) in
ms, both measured in one run, the depths and ways taking turns. `us/level` must not grow
with the depth.

The second table is of a body that is read once, over 1,000,000 rows: what keeping its
output costs beside the inlined query, run alone.

Before the timing, each way must give the same rows. Exit status: 0; 1 if it does not, or
on a released build.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version

import numpy as np
import pyarrow as pa
from datafusion import ExecutionPlan, SessionConfig, SessionContext
from plan_reuse import measure, open_duckdb

DEPTHS = (5, 10, 20, 100)
# 2 ** depth references to the first CTE.
DEEPEST_INLINED = 10
ROWS = 16
MANY_ROWS = 1_000_000

MATERIALIZED = "MATERIALIZED"
INLINED = "inlined"
DUCKDB = "DuckDB"
READ_ONCE = {
    "rows": "SELECT sum(v) AS s FROM x",
    "groups": "SELECT max(s) AS s FROM (SELECT g, sum(v) AS s FROM x GROUP BY g)",
    "sorted": "SELECT sum(v) AS s FROM (SELECT v FROM x ORDER BY v LIMIT 100)",
}


def chain(depth: int, hint: str = MATERIALIZED) -> str:
    """Return the SQL of a chain. Its sums stay whole numbers below 1,000."""
    ctes = [f"l0 AS {hint} (SELECT i, v FROM small)"]
    ctes += [
        f"l{level} AS {hint} (SELECT a.i, (a.v + b.v + {level}) % 1000 AS v "
        f"FROM l{level - 1} a JOIN l{level - 1} b ON a.i = b.i)"
        for level in range(1, depth + 1)
    ]
    return f"WITH {', '.join(ctes)} SELECT sum(v) AS s FROM l{depth}"


def read_once(continuation: str, hint: str = MATERIALIZED) -> str:
    """Return the SQL of a body that keeps half of the rows and is read once."""
    return f"WITH x AS {hint} (SELECT g, v FROM large WHERE v % 2 = 0) {continuation}"


class Databases:
    """The two tables, in DataFusion and in DuckDB."""

    def __init__(self) -> None:
        """Register the tables."""
        self.ctx = SessionContext(SessionConfig().with_target_partitions(1))
        small, large = np.arange(ROWS), np.arange(MANY_ROWS)
        batches = {
            "small": pa.RecordBatch.from_pydict({"i": small, "v": small}),
            "large": pa.RecordBatch.from_pydict({"g": large % 1000, "v": large}),
        }
        for name, batch in batches.items():
            # In the batches that DataFusion itself would make.
            parts = pa.Table.from_batches([batch]).to_batches(max_chunksize=8192)
            self.ctx.register_record_batches(name, [parts])
        self.duckdb = open_duckdb(batches)

    def plan(self, sql: str) -> ExecutionPlan:
        """Plan a query in DataFusion."""
        return self.ctx.sql(sql).execution_plan()

    def run(self, plan: ExecutionPlan) -> int:
        """Run a reset copy of a plan of one partition and return its only value."""
        batches = [b.to_pyarrow() for b in self.ctx.execute(plan.reset_state(), 0)]
        return pa.Table.from_batches(batches).column("s")[0].as_py()

    def run_duckdb(self, sql: str) -> int:
        """Plan and run a query in DuckDB and return its only value."""
        return self.duckdb.execute(sql).fetchone()[0]


def chains(data: Databases, depths: list[int]) -> Iterator[tuple[tuple, Callable]]:
    """Return what to time: (depth, way, what), and what to call."""
    for depth in depths:
        ways = {MATERIALIZED: chain(depth)}
        if depth <= DEEPEST_INLINED:
            ways[INLINED] = chain(depth, hint="")
        values = set()
        for way, sql in ways.items():
            plan = data.plan(sql)
            values.add(data.run(plan))
            yield (depth, way, "plan"), lambda sql=sql: data.plan(sql)
            yield (depth, way, "run"), lambda plan=plan: data.run(plan)
        sql = chain(depth)
        values.add(data.run_duckdb(sql))
        yield (depth, DUCKDB, "plan and run"), lambda sql=sql: data.run_duckdb(sql)
        check(f"depth {depth}", values)


def bodies(data: Databases) -> Iterator[tuple[tuple, Callable]]:
    """Return the same for the bodies that are read once: (name, way)."""
    for name, continuation in READ_ONCE.items():
        values = set()
        for way, hint in ((INLINED, ""), (MATERIALIZED, MATERIALIZED)):
            plan = data.plan(read_once(continuation, hint))
            values.add(data.run(plan))
            yield (name, way), lambda plan=plan: data.run(plan)
        sql = read_once(continuation)
        values.add(data.run_duckdb(sql))
        yield (name, DUCKDB), lambda sql=sql: data.run_duckdb(sql)
        check(name, values)


def check(what: str, values: set) -> None:
    """Raise unless all ways gave one value."""
    if len(values) != 1:
        msg = f"{what}: the ways give {sorted(values)}"
        raise ValueError(msg)


def main(argv: list[str] | None = None) -> int:
    """Check, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=20, help="calls of each way (default: %(default)s)"
    )
    parser.add_argument(
        "--depths",
        type=lambda text: [int(depth) for depth in text.split(",")],
        default=list(DEPTHS),
        help=f"default: {','.join(map(str, DEPTHS))}",
    )
    args = parser.parse_args(argv)
    if args.rounds < 1 or min(args.depths) < 1:
        parser.error("--rounds and --depths must be at least 1")
    if not hasattr(ExecutionPlan, "reset_state"):
        print(
            f"datafusion {version('datafusion')} has no materialised CTEs: this needs "
            "the patched wheel",
            file=sys.stderr,
        )
        return 1

    data = Databases()
    try:
        ways = dict(chains(data, args.depths))
        once = dict(bodies(data))
    except ValueError as error:
        print(f"materialized_ctes: {error}", file=sys.stderr)
        return 1
    print(
        f"datafusion {version('datafusion')}, duckdb {version('duckdb')}, median of "
        f"{args.rounds} rounds"
    )
    print("\nA chain of CTEs that each read the one before twice:")
    print(f"{'depth':>5} {'way':<13} {'what':<13} {'ms':>9} {'us/level':>9}")
    for (depth, way, what), ms in measure(ways, args.rounds, warm_up=0).items():
        print(f"{depth:>5} {way:<13} {what:<13} {ms:>9.3f} {1e3 * ms / depth:>9.1f}")
    print(f"\nA body that is read once, {MANY_ROWS} rows, run alone:")
    print(f"{'continuation':<13} {'way':<13} {'ms':>9} {'ratio':>6}")
    times = measure(once, args.rounds, warm_up=0)
    for (name, way), ms in times.items():
        print(f"{name:<13} {way:<13} {ms:>9.3f} {ms / times[name, INLINED]:>6.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
