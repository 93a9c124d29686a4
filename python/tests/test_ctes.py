# SPDX-License-Identifier: Apache-2.0
"""Materialised CTEs from Python: planned, run partition by partition, reset."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from conftest import drain, nodes, session
from datafusion import udf

ROWS = 100


def counting_session(partitions: int):
    """Return a session with table `t` and a function `tick`, and what `tick` has seen."""
    ctx = session(partitions)
    parts = [
        [pa.record_batch({"k": np.arange(part, ROWS, partitions)})]
        for part in range(partitions)
    ]
    ctx.register_record_batches("t", parts)
    seen = []

    def tick(values: pa.Array) -> pa.Array:
        seen.append(len(values))
        return values

    ctx.register_udf(udf(tick, [pa.int64()], pa.int64(), "volatile", name="tick"))
    return ctx, seen


TWICE = (
    "WITH x AS MATERIALIZED (SELECT tick(k) AS k FROM t) "
    "SELECT k FROM x UNION ALL SELECT k + 1 FROM x"
)


@pytest.mark.parametrize("partitions", [1, 4])
def test_body_runs_once_when_partitions_run_one_after_another(partitions):
    ctx, seen = counting_session(partitions)
    plan = ctx.sql(TWICE).execution_plan()
    assert plan.partition_count == 2 * partitions
    for run in (plan.reset_state(), plan):
        seen.clear()
        rows = [
            value
            for partition in range(run.partition_count)
            for batch in ctx.execute(run, partition)
            for value in batch.to_pyarrow()["k"].to_pylist()
        ]
        assert sorted(rows) == sorted([*range(ROWS), *range(1, ROWS + 1)])
        assert sum(seen) == ROWS


def test_a_second_run_needs_a_reset():
    ctx, _ = counting_session(1)
    plan = ctx.sql(TWICE).execution_plan()
    assert len(drain(ctx, plan)) == 2 * ROWS
    with pytest.raises(Exception, match=r"name=x.*reset"):
        drain(ctx, plan)
    assert len(drain(ctx, plan.reset_state())) == 2 * ROWS


def test_explain_and_plan_name_the_cte():
    ctx, _ = counting_session(1)
    text = ctx.sql(f"EXPLAIN {TWICE}").to_pydict()["plan"]
    assert any("MaterializedCteExec: name=x" in plan for plan in text)
    plan = ctx.sql(TWICE).execution_plan()
    names = [node.display().strip() for node in nodes(plan)]
    assert names.count("MaterializedCteScanExec: name=x") == 2


@pytest.mark.parametrize("hint", ["", "NOT MATERIALIZED"])
def test_others_are_inlined(hint):
    ctx, seen = counting_session(1)
    sql = TWICE.replace("MATERIALIZED", hint)
    drain(ctx, ctx.sql(sql).execution_plan())
    assert sum(seen) == 2 * ROWS


def test_encoding_is_refused_by_name():
    ctx, _ = counting_session(1)
    frame = ctx.sql(TWICE)
    with pytest.raises(Exception, match="MaterializedCteExec: name=x"):
        frame.execution_plan().to_bytes(ctx)
    with pytest.raises(Exception, match="MaterializedCte"):
        frame.logical_plan().to_bytes(ctx)
