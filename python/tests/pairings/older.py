# SPDX-License-Identifier: Apache-2.0
"""Use an extension that was built for an older DataFusion.

    older.py EXTENSION

Prints JSON: `error`, the type and text of the exception that refuses the extension, or
`rows`, what a query with it gives. May crash.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext, udaf, udf


def table(ctx: SessionContext) -> str:
    """Register a table of xarray-sql, whose package needs more than its library."""
    (folder,) = importlib.util.find_spec("xarray_sql").submodule_search_locations
    (library,) = Path(folder).glob("_native*")
    loader = importlib.machinery.ExtensionFileLoader("_native", str(library))
    spec = importlib.util.spec_from_loader("_native", loader)
    native = importlib.util.module_from_spec(spec)
    loader.exec_module(native)

    schema = pa.schema([("v", pa.int64())])

    def reader(_projection: list[str] | None) -> pa.RecordBatchReader:
        batch = pa.record_batch([pa.array([1, 2, 3])], schema=schema)
        return pa.RecordBatchReader.from_batches(schema, [batch])

    ctx.register_table("it", native.LazyArrowStreamTable([(reader, {}, 3)], schema))
    return "SELECT sum(v) AS s FROM it"


def aggregate(ctx: SessionContext) -> str:
    """Register an aggregate function of datafusion-extra-functions-ffi."""
    import datafusion_extra_functions_ffi as extension

    ctx.register_udaf(udaf(extension.udaf_by_name("mode")))
    return "SELECT mode(v) AS m FROM t"


def scalar(ctx: SessionContext) -> str:
    """Register a scalar function of geodatafusion."""
    from geodatafusion import geo

    ctx.register_udf(udf(geo.Area()))
    return "SELECT st_area(v) AS a FROM t"


def main(extension: str) -> dict:
    """Use the extension and return what came of it."""
    ctx = SessionContext()
    ctx.from_pydict({"v": [1.0, 2.0, 2.0]}, name="t")
    try:
        query = {"table": table, "aggregate": aggregate, "scalar": scalar}[extension](ctx)
        return {"rows": ctx.sql(query).to_pydict()}
    except Exception as error:
        return {"error": [type(error).__name__, str(error)]}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
