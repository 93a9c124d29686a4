# SPDX-License-Identifier: Apache-2.0
"""What a reset copy does not share with the original, over the wheel: dynamic filters,
the results of scalar subqueries and metrics. On the released crates it shares them all.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import drain, nodes, session, together

ROWS = 100_000


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    """Return a Parquet file with k = v = 0..99999, in row groups of 1000 rows."""
    path = tmp_path_factory.mktemp("data") / "big.parquet"
    k = np.arange(ROWS)
    pq.write_table(pa.table({"k": k, "v": k}), path, row_group_size=1000)
    return path


# Dynamic filters: in the released crates the copy's producer gets a new filter or none,
# and the scan keeps the first run's. Without them all is right there.


@pytest.fixture(params=["true", "false"], ids=["dynamic", "static"])
def over_parquet(request, file):
    """Return what gives a session with table `big`, and a plan that shows these words."""

    def plan(query, *words, arrays=None, **options):
        filters = {"optimizer__enable_dynamic_filter_pushdown": request.param}
        ctx = session(**filters, **options)
        ctx.register_parquet("big", str(file))
        if arrays:
            ctx.register_record_batches("build", [[pa.record_batch(arrays)]])
        plan = ctx.sql(query).execution_plan()
        shown = plan.display_indent()
        assert ("DynamicFilter" in shown) == (request.param == "true"), shown
        assert all(word in shown for word in words), shown
        return ctx, plan

    return plan


def test_hash_join_after_its_build_side_changed(over_parquet):
    # 1 and 50000 are in different row groups: the first run's filter prunes the
    # row group that the second needs.
    key = np.array([1])
    query = "SELECT big.v FROM build JOIN big ON build.k = big.k"
    ctx, plan = over_parquet(query, "HashJoinExec", arrays={"k": key})
    assert drain(ctx, plan) == [{"v": 1}]
    key[:] = 50_000
    assert drain(ctx, plan.reset_state()) == [{"v": 50_000}]


# Partial mode takes more than one partition of this one small file.
PARTIAL = {"partitions": 4, "optimizer__repartition_file_min_size": "1"}


@pytest.mark.parametrize(
    ("query", "word", "rows", "options"),
    [
        pytest.param(
            "SELECT k FROM big ORDER BY k LIMIT 1",
            "TopK",
            [{"k": 0}],
            {},
            id="topk",
        ),
        pytest.param(
            "SELECT k FROM big ORDER BY k LIMIT 3",
            "TopK",
            [{"k": 0}, {"k": 1}, {"k": 2}],
            {"execution__parquet__pushdown_filters": "true"},
            id="topk that filters rows",
        ),
        # The condition starts at a row group: a filter on the answer prunes each of them.
        pytest.param(
            "SELECT max(k) AS x FROM big WHERE v >= 1000",
            "mode=Partial",
            [{"x": ROWS - 1}],
            PARTIAL,
            id="max",
        ),
        pytest.param(
            "SELECT min(k) AS x FROM big WHERE v >= 1000",
            "mode=Partial",
            [{"x": 1000}],
            PARTIAL,
            id="min",
        ),
    ],
)
def test_a_second_run(over_parquet, query, word, rows, options):
    ctx, plan = over_parquet(query, word, **options)
    assert drain(ctx, plan) == rows
    assert drain(ctx, plan.reset_state()) == rows


# Scalar subqueries: in the released crates the original and all copies share the slots of
# the results, and a reset empties them in place.


def subquery_plan(**options: str):
    """Return a session, a plan that gives the last 10 of 100 rows, and their array."""
    ctx = session(**options)
    k = np.arange(100)
    ctx.register_record_batches("t", [[pa.record_batch({"k": k})]])
    query = "SELECT k FROM t WHERE k > (SELECT max(k) - 10 FROM t)"
    plan = ctx.sql(query).execution_plan()
    assert "ScalarSubqueryExec" in plan.display_indent()
    return ctx, plan, k


def last_rows(k: np.ndarray) -> list[dict]:
    return pa.table({"k": k[-10:]}).to_pylist()


def test_copies_of_a_scalar_subquery_plan_one_after_the_other():
    ctx, plan, k = subquery_plan()
    copies = [plan.reset_state(), plan.reset_state()]
    for copy in (*copies, copies[0].reset_state()):
        assert drain(ctx, copy) == last_rows(k)
        k += 100
    assert drain(ctx, plan) == last_rows(k)


def test_copies_of_a_scalar_subquery_plan_at_the_same_time():
    ctx, plan, k = subquery_plan()
    assert drain(ctx, plan) == last_rows(k)
    k += 100
    copies = [plan.reset_state() for _ in range(4)]
    assert together(*(partial(drain, ctx, it) for it in copies)) == [last_rows(k)] * 4


def test_a_reset_while_a_scalar_subquery_plan_runs():
    ctx, plan, k = subquery_plan(execution__batch_size="1")
    stream = ctx.execute(plan, 0)
    rows = next(stream).to_pyarrow().to_pylist()
    copy = plan.reset_state()
    rows += [row for batch in stream for row in batch.to_pyarrow().to_pylist()]
    assert rows == last_rows(k)
    k += 100
    assert drain(ctx, copy) == last_rows(k)


# Metrics of a file scan: in the released crates they are in the source that all share.


def test_metrics_of_a_file_scan_are_those_of_one_run(file):
    def scanned_rows(plan) -> int | None:
        (scan,) = [it for it in nodes(plan) if it.display().startswith("DataSourceExec")]
        return scan.metrics().output_rows

    ctx = session()
    ctx.register_parquet("big", str(file))
    plan = ctx.sql("SELECT k FROM big").execution_plan()
    assert len(drain(ctx, plan)) == ROWS
    assert scanned_rows(plan) == ROWS
    copy = plan.reset_state()
    assert not scanned_rows(copy)
    assert len(drain(ctx, copy)) == ROWS
    assert scanned_rows(copy) == ROWS
    assert scanned_rows(plan) == ROWS
