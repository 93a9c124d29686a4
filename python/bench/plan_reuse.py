# SPDX-License-Identifier: Apache-2.0
"""Time the ways to run one small query again and again.

The query joins five in-memory tables of 16 rows; its physical plan has 15
operators. Printed is the median time of each way and its ratio to planning and
running, all measured in one run, the ways taking turns in one loop. Before the
timing, each way must give what the freshly planned query gives.

`bare rerun` runs the used plan again as it is. Its rows are right here only
because the data never changes: its joins keep their first build sides. Ways that
need `ExecutionPlan.reset_state` are n/a on a stock build.

Exit status: 0; 1 if a way gives another result, if the plan has not 15 operators,
or if --max-ratio does not hold.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Hashable
from importlib.metadata import version

import duckdb
import numpy as np
import pyarrow as pa
from datafusion import ExecutionPlan, SessionConfig, SessionContext

OPERATORS = 15
TABLES = 5
ROWS = 16

# Read by DataFusion and DuckDB alike. Every value is a whole number far below
# 2**53, so that sums agree to the last bit in whatever order they are taken.
QUERY = """
SELECT g, sum(x) AS s, count(*) AS n
FROM (
  SELECT t0.g AS g, t0.v * t1.v + t2.v * t3.v - t4.v AS x
  FROM t0
  JOIN t1 ON t0.i = t1.i
  JOIN t2 ON t1.i = t2.i
  JOIN t3 ON t2.i = t3.i
  JOIN t4 ON t3.i = t4.i
  WHERE t0.v + t4.v > 5 AND t1.v > 2
) joined
GROUP BY g
HAVING sum(x) > 0
ORDER BY s DESC
"""

BASELINE = "plan and run"
RESET_AND_RUN = "reset and run"
DUCKDB = "DuckDB prepared"
NO_RESET = "n/a (no ExecutionPlan.reset_state: stock build)"


class BenchError(Exception):
    """The benchmark does not measure what it says."""


def table_batches() -> dict[str, pa.RecordBatch]:
    """Return the five tables: a key, a group and a value column, 16 rows each."""
    key = np.arange(ROWS)
    return {
        f"t{number}": pa.RecordBatch.from_pydict(
            {
                "i": key,
                "g": key * (number + 3) % 4,
                "v": (key + number).astype(np.float64),
            }
        )
        for number in range(TABLES)
    }


def count_operators(plan: ExecutionPlan) -> int:
    """Return how many operators a plan has."""
    return 1 + sum(count_operators(child) for child in plan.children())


def open_duckdb(batches: dict[str, pa.RecordBatch]) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection with these tables."""
    connection = duckdb.connect()
    # One thread, as DataFusion has one partition.
    connection.execute("SET threads = 1")
    for name, batch in batches.items():
        connection.register("source", pa.Table.from_batches([batch]))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
        connection.unregister("source")
    return connection


class Bench:
    """The ways to run the query, over one DataFusion session and one of DuckDB."""

    def __init__(self) -> None:
        """Register the tables and plan the query once."""
        self.ctx = SessionContext(SessionConfig().with_target_partitions(1))
        batches = table_batches()
        for name, batch in batches.items():
            self.ctx.register_record_batches(name, [[batch]])
        self.plan = self.ctx.sql(QUERY).execution_plan()
        operators = count_operators(self.plan)
        if operators != OPERATORS or self.plan.partition_count != 1:
            msg = (
                f"the plan has {operators} operators and {self.plan.partition_count} "
                f"partitions, must be {OPERATORS} and 1:\n{self.plan.display_indent()}"
            )
            raise BenchError(msg)
        # Before the first run, so that no run state can be in it.
        self.encoded = self.plan.to_bytes(self.ctx)
        self.duckdb = open_duckdb(batches)
        self.duckdb.execute(f"PREPARE q AS {QUERY}")

    def run(self, plan: ExecutionPlan) -> list[pa.RecordBatch]:
        """Run a plan of one partition and return its batches."""
        return [batch.to_pyarrow() for batch in self.ctx.execute(plan, 0)]

    def plan_and_run(self) -> list[pa.RecordBatch]:
        """From SQL text to batches."""
        return self.run(self.ctx.sql(QUERY).execution_plan())

    def decode_and_run(self) -> list[pa.RecordBatch]:
        """Run a fresh copy of the plan, decoded from its protobuf bytes."""
        return self.run(ExecutionPlan.from_bytes(self.ctx, self.encoded))

    def bare_rerun(self) -> list[pa.RecordBatch]:
        """Run the one used plan again as it is."""
        return self.run(self.plan)

    def reset(self) -> ExecutionPlan:
        """Make a reset copy, without running it."""
        return self.plan.reset_state()

    def reset_and_run(self) -> list[pa.RecordBatch]:
        """Make a reset copy and run it."""
        return self.run(self.plan.reset_state())

    def duckdb_prepared(self) -> list[pa.RecordBatch]:
        """Execute DuckDB's prepared statement, to batches as well."""
        return self.duckdb.execute("EXECUTE q").to_arrow_table().to_batches()

    def ways(self) -> dict[str, Callable[[], object] | str]:
        """Return each way by name: what to call, or why it cannot be called."""
        can_reset = hasattr(ExecutionPlan, "reset_state")
        return {
            BASELINE: self.plan_and_run,
            "decode and run": self.decode_and_run,
            "bare rerun": self.bare_rerun,
            "reset": self.reset if can_reset else NO_RESET,
            RESET_AND_RUN: self.reset_and_run if can_reset else NO_RESET,
            DUCKDB: self.duckdb_prepared,
        }


def rows(batches: list[pa.RecordBatch]) -> list[dict]:
    """Return a result as rows, for comparison."""
    return pa.Table.from_batches(batches).to_pylist()


def check(bench: Bench) -> None:
    """Raise unless each way gives the rows of the freshly planned query."""
    fresh = rows(bench.plan_and_run())
    if not fresh:
        msg = "the query has no rows: equal results would show nothing"
        raise BenchError(msg)
    for name, way in bench.ways().items():
        if isinstance(way, str):
            continue
        # Twice, since a first bare rerun is the plan's first run.
        for _ in range(2):
            result = way()
            if isinstance(result, ExecutionPlan):
                result = bench.run(result)
            if rows(result) != fresh:
                msg = f"{name} gives {rows(result)}, freshly planned: {fresh}"
                raise BenchError(msg)


def measure(
    ways: dict[Hashable, Callable[[], object]], rounds: int, warm_up: int = 20
) -> dict[Hashable, float]:
    """Return the median time of each way in ms, one call of each a round.

    Before the timing, each way is called `warm_up` times, but at most `rounds`.
    """
    times: dict[Hashable, list[int]] = {name: [] for name in ways}
    for way in ways.values():
        for _ in range(min(rounds, warm_up)):
            way()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, way in ways.items():
                start = time.perf_counter_ns()
                way()
                times[name].append(time.perf_counter_ns() - start)
    finally:
        gc.enable()
    return {name: statistics.median(each) / 1e6 for name, each in times.items()}


def main(argv: list[str] | None = None) -> int:
    """Check, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=500,
        help="calls of each way (default: %(default)s)",
    )
    parser.add_argument(
        "--show-plan", action="store_true", help="print the physical plan first"
    )
    parser.add_argument(
        "--max-ratio",
        type=float,
        metavar="X",
        help=f"fail if '{RESET_AND_RUN}' takes more than X of '{BASELINE}'",
    )
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")

    try:
        bench = Bench()
        check(bench)
    except BenchError as error:
        print(f"plan_reuse: {error}", file=sys.stderr)
        return 1
    if args.show_plan:
        print(bench.plan.display_indent())

    ways = bench.ways()
    medians = measure(
        {name: way for name, way in ways.items() if not isinstance(way, str)},
        args.rounds,
    )
    print(
        f"datafusion {version('datafusion')}, duckdb {version('duckdb')}: {OPERATORS} "
        f"operators, {TABLES} tables of {ROWS} rows, median of {args.rounds} rounds"
    )
    print(f"{'':<16} {'ms':>8} {'ratio':>7}")
    for name, way in ways.items():
        if isinstance(way, str):
            print(f"{name:<16} {way}")
        else:
            ratio = medians[name] / medians[BASELINE]
            print(f"{name:<16} {medians[name]:>8.4f} {ratio:>7.3f}")

    if args.max_ratio is not None:
        if RESET_AND_RUN not in medians:
            print(
                f"plan_reuse: --max-ratio: {RESET_AND_RUN} is {NO_RESET}",
                file=sys.stderr,
            )
            return 1
        ratio = medians[RESET_AND_RUN] / medians[BASELINE]
        if ratio > args.max_ratio:
            print(
                f"plan_reuse: {RESET_AND_RUN} takes {ratio:.3f} of {BASELINE}, "
                f"more than {args.max_ratio}",
                file=sys.stderr,
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
