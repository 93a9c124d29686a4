# SPDX-License-Identifier: Apache-2.0
"""Reset and run a foreign plan many times and watch the resident size.

    memory.py FOLDER MODULE SHAPE RUNS [keep]

Prints JSON: the resident size in KiB, 20 times from a quarter of the runs on, when pools
and caches are full. With `keep` every copy is kept, to see that a leak of one copy a run
shows.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from datafusion import SessionConfig, SessionContext

ROWS, SAMPLES = [1, 2, 3], 20


def resident() -> int:
    """Return the resident size of this process in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    msg = "no VmRSS in /proc/self/status"
    raise RuntimeError(msg)


def main(folder: str, module: str, shape: str, runs: str, keep: str = "") -> dict:
    """Return the sizes, and how many runs gave a wrong answer."""
    sys.path.insert(0, folder)
    extension = importlib.import_module(module)
    ctx = SessionContext(SessionConfig().with_target_partitions(1))
    ctx.register_table("t", extension.ReuseTable(shape, ROWS))
    plan = ctx.sql("SELECT * FROM t").execution_plan()
    warm_up = int(runs) // 4
    every = (int(runs) - warm_up) // (SAMPLES - 1)
    sizes, kept, wrong = [], [], 0
    for count in range(int(runs)):
        copy = plan.reset_state()
        batches = [batch.to_pyarrow() for batch in ctx.execute(copy, 0)]
        values = [value for batch in batches for value in batch["value"].to_pylist()]
        wrong += values != ROWS
        if keep:
            kept.append(copy)
        if count >= warm_up and (count - warm_up) % every == 0:
            sizes.append(resident())
    return {"sizes": sizes, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
