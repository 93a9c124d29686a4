# SPDX-License-Identifier: Apache-2.0
"""What a reset copy does not share with the original, over the wheel: dynamic filters, the
results of scalar subqueries and metrics. On the released wheel a copy shares each of them.
"""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import drain, nodes, session

ROWS = 100_000
NO_DYNAMIC_FILTERS = {"optimizer__enable_dynamic_filter_pushdown": "false"}


class BrokenTestError(Exception):
    """A test does not get as far as what it is about."""


def with_reset(
    ctx, query: str, expected: list[dict], change=lambda: None, before=None
) -> None:
    """Assert what a reset copy gives after `change`; the first run gives `before`."""
    plan = ctx.sql(query).execution_plan()
    first = drain(ctx, plan)
    if first != (expected if before is None else before):
        msg = f"a first run gives {first}"
        raise BrokenTestError(msg)
    change()
    if drain(ctx, ctx.sql(query).execution_plan()) != expected:
        msg = "planned anew, the query does not give what is expected"
        raise BrokenTestError(msg)
    assert drain(ctx, plan.reset_state()) == expected


@pytest.fixture(scope="session")
def big(tmp_path_factory):
    """Return a Parquet file with k = v = 0..99999, in row groups of 1000 rows."""
    path = tmp_path_factory.mktemp("data") / "big.parquet"
    k = np.arange(ROWS)
    pq.write_table(pa.table({"k": k, "v": k}), path, row_group_size=1000)
    return path


@pytest.fixture
def files(tmp_path):
    """Return a folder of 4 Parquet files of 100 rows."""
    for number in range(4):
        pq.write_table(
            pa.table({"k": np.arange(100) + 100 * number}),
            tmp_path / f"{number}.parquet",
        )
    return tmp_path


# Dynamic filters: in a released build the copy's producer gets a new filter or none, and
# the scan keeps the first run's.


def hash_join_with_parquet_probe(big, **options) -> None:
    # 1 and 50000 are in different row groups: the first run's filter prunes the
    # row group that the second needs.
    ctx = session(**options)
    ctx.register_parquet("big", str(big))
    key = np.array([1])
    ctx.register_record_batches("build", [[pa.RecordBatch.from_pydict({"k": key})]])

    def change() -> None:
        key[:] = 50_000

    with_reset(
        ctx,
        "SELECT big.v FROM build JOIN big ON build.k = big.k",
        [{"v": 50_000}],
        change,
        before=[{"v": 1}],
    )


def test_hash_join_with_parquet_probe_after_its_build_side_changed(big):
    hash_join_with_parquet_probe(big)


def test_hash_join_with_parquet_probe_is_right_without_dynamic_filters(big):
    hash_join_with_parquet_probe(big, **NO_DYNAMIC_FILTERS)


def topk(big, limit: int, **options) -> None:
    ctx = session(**options)
    ctx.register_parquet("big", str(big))
    with_reset(
        ctx,
        f"SELECT k FROM big ORDER BY k LIMIT {limit}",
        [{"k": k} for k in range(limit)],
    )


def test_topk_of_1_over_parquet(big):
    topk(big, 1)


def test_topk_of_3_over_parquet_that_filters_rows(big):
    topk(big, 3, execution__parquet__pushdown_filters="true")


def test_topk_of_1_over_parquet_is_right_without_dynamic_filters(big):
    topk(big, 1, **NO_DYNAMIC_FILTERS)


def test_topk_of_3_over_parquet_that_filters_rows_is_right_without_dynamic_filters(big):
    topk(big, 3, execution__parquet__pushdown_filters="true", **NO_DYNAMIC_FILTERS)


def partial_aggregate(big, function: str, expected: int, **options) -> None:
    # Partial mode takes more than one partition of this one small file. The condition
    # starts at a row group, so that a filter on the answer prunes every row group.
    ctx = session(4, optimizer__repartition_file_min_size="1", **options)
    ctx.register_parquet("big", str(big))
    query = f"SELECT {function}(k) AS x FROM big WHERE v >= 1000"
    plan = ctx.sql(query).execution_plan()
    if "mode=Partial" not in plan.display_indent():
        msg = f"no partial aggregate:\n{plan.display_indent()}"
        raise BrokenTestError(msg)
    with_reset(ctx, query, [{"x": expected}])


def test_max_in_partial_mode_over_parquet(big):
    partial_aggregate(big, "max", ROWS - 1)


def test_min_in_partial_mode_over_parquet(big):
    partial_aggregate(big, "min", 1000)


@pytest.mark.parametrize(("function", "expected"), [("max", ROWS - 1), ("min", 1000)])
def test_partial_mode_over_parquet_is_right_without_dynamic_filters(
    big, function, expected
):
    partial_aggregate(big, function, expected, **NO_DYNAMIC_FILTERS)


# Scalar subqueries: in a released build the original and all copies share the slots of
# the results, and a reset empties them in place.

SUBQUERY = "SELECT k FROM t WHERE k > (SELECT max(k) - 2 FROM t)"
SUBQUERY_ROWS = [{"k": 98}, {"k": 99}]


def subquery_plan():
    ctx = session()
    ctx.register_record_batches(
        "t", [[pa.RecordBatch.from_pydict({"k": np.arange(100)})]]
    )
    plan = ctx.sql(SUBQUERY).execution_plan()
    if "ScalarSubqueryExec" not in plan.display_indent():
        msg = f"no scalar subquery:\n{plan.display_indent()}"
        raise BrokenTestError(msg)
    return ctx, plan


def outcome(run) -> object:
    """Return what `run` returns, or the message of its error."""
    try:
        return run()
    except Exception as error:
        return str(error)


def test_two_copies_of_a_scalar_subquery_plan_one_after_the_other():
    ctx, plan = subquery_plan()
    copies = [plan.reset_state(), plan.reset_state()]
    assert [outcome(lambda c=copy: drain(ctx, c)) for copy in copies] == [
        SUBQUERY_ROWS
    ] * 2


def test_two_copies_of_a_scalar_subquery_plan_at_the_same_time():
    ctx, plan = subquery_plan()
    copies = [plan.reset_state(), plan.reset_state()]
    results: list[object] = [None, None]

    def run(number: int) -> None:
        results[number] = outcome(lambda: drain(ctx, copies[number]))

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [SUBQUERY_ROWS] * 2


def test_a_reset_while_a_scalar_subquery_plan_runs():
    ctx = session(execution__batch_size="1")
    ctx.register_record_batches(
        "t", [[pa.RecordBatch.from_pydict({"k": np.arange(100)})]]
    )
    plan = ctx.sql(SUBQUERY.replace("- 2", "- 90")).execution_plan()
    stream = ctx.execute(plan, 0)
    first = next(stream).to_pyarrow().num_rows
    plan.reset_state()
    rest = outcome(lambda: sum(batch.to_pyarrow().num_rows for batch in stream))
    assert rest == 90 - first


def test_a_copy_made_after_the_last_one_ran_is_right():
    ctx, plan = subquery_plan()
    assert drain(ctx, plan) == SUBQUERY_ROWS
    for _ in range(3):
        assert drain(ctx, plan.reset_state()) == SUBQUERY_ROWS


# Metrics of a file scan: in a released build they live in the source that all share.


def scanned_rows(plan) -> int | None:
    (scan,) = [
        node for node in nodes(plan) if node.display().startswith("DataSourceExec")
    ]
    return scan.metrics().output_rows


def run_and_reset(files):
    ctx = session()
    ctx.register_parquet("files", str(files))
    plan = ctx.sql("SELECT k FROM files").execution_plan()
    if len(drain(ctx, plan)) != 400 or scanned_rows(plan) != 400:
        msg = "a first run of the file scan is wrong"
        raise BrokenTestError(msg)
    return ctx, plan, plan.reset_state()


def test_metrics_of_a_file_scan_start_empty(files):
    _, _, copy = run_and_reset(files)
    assert not scanned_rows(copy)


def test_metrics_of_a_file_scan_count_one_run(files):
    ctx, _, copy = run_and_reset(files)
    drain(ctx, copy)
    assert scanned_rows(copy) == 400


def test_metrics_of_a_file_scan_stay_the_originals(files):
    ctx, plan, copy = run_and_reset(files)
    drain(ctx, copy)
    assert scanned_rows(plan) == 400


def test_metrics_of_a_file_scan_are_right_as_a_difference(files):
    ctx, _, copy = run_and_reset(files)
    before = scanned_rows(copy) or 0
    assert len(drain(ctx, copy)) == 400
    assert scanned_rows(copy) - before == 400
