# SPDX-License-Identifier: Apache-2.0
"""One plan over tables of two builds of the fixture extension.

    mixed.py PATCHED_FOLDER STOCK_FOLDER

Prints JSON: the nodes that the host says cannot forward a reset, for the plan and for
each half of it alone.
"""

from __future__ import annotations

import json
import sys

from datafusion import SessionConfig, SessionContext


def main(patched: str, stock: str) -> dict:
    """Return the nodes without a reset, by query."""
    sys.path[:0] = [patched, stock]
    import reuse_fixture
    import reuse_fixture_stock

    ctx = SessionContext(SessionConfig().with_target_partitions(1))
    ctx.register_table("a", reuse_fixture.ReuseTable("counter"))
    ctx.register_table("b", reuse_fixture_stock.ReuseTable("local_child"))
    queries = {
        "patched": "SELECT * FROM a",
        "stock": "SELECT * FROM b",
        "both": "SELECT * FROM a JOIN b USING (value)",
    }
    return {
        name: [
            node.display().strip()
            for node in ctx.sql(query).execution_plan().nodes_without_reset_state()
        ]
        for name, query in queries.items()
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
