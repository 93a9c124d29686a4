# SPDX-License-Identifier: Apache-2.0
"""Show `ExecutionPlan.schema()`: a run without batches still makes a typed table.

A run whose filter keeps nothing may return no record batch at all, and then
nothing tells the columns and their types but the plan. Needs a build of
datafusion that has `ExecutionPlan.schema`.
"""

from __future__ import annotations

import sys

import pyarrow as pa
from seed_query import QUERY, tables

EMPTY_QUERY = "SELECT i, 2 * v AS v2 FROM a WHERE v < 0"


def main() -> int:
    """Print the schema of the seed query's plan, then the empty table."""
    ctx, _ = tables()
    print("plan.schema() of the seed query:")
    print(indent(ctx.sql(QUERY).execution_plan().schema()))

    plan = ctx.sql(EMPTY_QUERY).execution_plan()
    batches = [batch.to_pyarrow() for batch in ctx.execute(plan, 0)]
    table = pa.Table.from_batches(batches, schema=plan.schema())
    print(f"\nA query whose filter keeps nothing:\n    {EMPTY_QUERY}")
    print(
        f"batches: {len(batches)}; "
        "pa.Table.from_batches(batches, schema=plan.schema()) has "
        f"{table.num_rows} rows and these columns:"
    )
    print(indent(table.schema))
    if table.num_rows or table.schema != plan.schema():
        print("the table is not empty or not of the plan's schema", file=sys.stderr)
        return 1
    return 0


def indent(schema: pa.Schema) -> str:
    """Return the schema, a field a line, set in."""
    return "\n".join(f"    {line}" for line in schema.to_string().splitlines())


if __name__ == "__main__":
    sys.exit(main())
