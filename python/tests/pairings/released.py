# SPDX-License-Identifier: Apache-2.0
"""Use extensions that others built for DataFusion 55.

    released.py SCRATCH

SCRATCH is an empty folder to write a table to. Prints JSON: the result of each query, and
for a host that can reset, of a reset copy after a run.
"""

from __future__ import annotations

import json
import sys

import datafusion_extra_functions
import geodatafusion
import pyarrow as pa
from datafusion import udaf
from deltalake import DeltaTable, write_deltalake
from extension import plan, run, session, without_reset_state

QUERIES = {
    # datafusion-extra-functions: aggregate functions.
    "mode": "SELECT g, mode(v) AS m FROM t GROUP BY g ORDER BY g",
    "max_by": "SELECT max_by(g, v) AS m FROM t",
    "window": "SELECT v, max_by(v, v) OVER (PARTITION BY g) AS m FROM t ORDER BY v",
    # geodatafusion: scalar functions.
    "point": "SELECT st_x(st_geomfromtext('POINT(1 2)')) AS x",
    "area": (
        "SELECT st_area(st_geomfromtext('POLYGON((0 0,0 2,2 2,2 0,0 0))')) * v AS a "
        "FROM t ORDER BY v"
    ),
    # deltalake: a table, alone and joined.
    "delta": "SELECT x, y FROM delta WHERE x > 1 ORDER BY x",
    "delta_join": "SELECT sum(y * v) AS s FROM delta JOIN t ON x = g",
}


def main(scratch: str) -> dict:
    """Return the rows of each query."""
    ctx = session()
    ctx.from_pydict({"g": [1, 1, 2, 2, 2], "v": [1.0, 1.0, 2.0, 2.0, 5.0]}, name="t")
    for name in datafusion_extra_functions.list_functions():
        ctx.register_udaf(udaf(datafusion_extra_functions.udaf_by_name(name)))
    geodatafusion.register_all(ctx)
    write_deltalake(scratch, pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}))
    ctx.register_table("delta", DeltaTable(scratch))

    report = {}
    for name, query in QUERIES.items():
        original = plan(ctx, query)
        first, reset, without = run(ctx, original), None, None
        if hasattr(original, "reset_state"):
            without = without_reset_state(original)
            reset = run(ctx, original.reset_state())
        report[name] = {"first": first, "reset": reset, "without_reset_state": without}
    return report


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
