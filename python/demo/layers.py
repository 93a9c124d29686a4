# SPDX-License-Identifier: Apache-2.0
"""Run a model of many layers, planned once, and check each step against NumPy.

The model is SQL. Each layer is a materialised CTE that reads the one before it twice:
once as what it adds to, once as what its weights are multiplied with:

    h[l] = h[l-1] + tanh(w[l] @ h[l-1])

Inlined, as DataFusion 55 plans a CTE, the plan doubles with each layer: the operators
of the first few depths are printed, and what they come to at the depth that is run.
As `MATERIALIZED` each layer is planned and computed once.

The plan is run as often as `--steps` says, each time as a reset copy with other weights,
which are written in place into the NumPy array that is the table. Needs a patched build
of datafusion.

Exit status: 0; 1 if a step differs from NumPy, or if the build is a released one.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

import numpy as np
import pyarrow as pa
from datafusion import ExecutionPlan, SessionConfig, SessionContext
from seed_query import register

WIDTH = 8
LAYERS = 30
# Depths that are planned inlined, to count the operators.
INLINED = (2, 4, 6, 8)


def query(layers: int, hint: str = "MATERIALIZED") -> str:
    """Return the model's SQL: rows `i`, `h` of the last layer, in any order."""
    ctes = [f"h0 AS {hint} (SELECT i, x AS h FROM input)"]
    ctes += [
        f"""h{layer} AS {hint} (
          SELECT h.i, h.h + tanh(m.s) AS h
          FROM h{layer - 1} h
          JOIN (
            SELECT w.i, sum(w.w * h.h) AS s
            FROM weights w JOIN h{layer - 1} h ON w.j = h.i
            WHERE w.layer = {layer} GROUP BY w.i
          ) m ON h.i = m.i
        )"""
        for layer in range(1, layers + 1)
    ]
    return f"WITH {', '.join(ctes)} SELECT i, h FROM h{layers}"


class Model:
    """The session, and the arrays that its tables are."""

    def __init__(self, layers: int) -> None:
        """Register the input and the weights of so many layers, all zero."""
        self.ctx = SessionContext(SessionConfig().with_target_partitions(1))
        self.x = np.zeros(WIDTH)
        register(self.ctx, "input", i=np.arange(WIDTH), x=self.x)
        self.w = np.zeros(layers * WIDTH * WIDTH)
        layer, i, j = np.indices((layers, WIDTH, WIDTH)).reshape(3, -1)
        register(self.ctx, "weights", layer=layer + 1, i=i, j=j, w=self.w)

    def plan(self, layers: int, hint: str = "MATERIALIZED") -> ExecutionPlan:
        """Return the plan of the first layers."""
        return self.ctx.sql(query(layers, hint)).execution_plan()

    def set(self, rng: np.random.Generator) -> None:
        """Write an input and weights in place."""
        self.x[:] = rng.normal(size=self.x.shape)
        self.w[:] = rng.normal(size=self.w.shape) / WIDTH

    def run(self, plan: ExecutionPlan) -> np.ndarray:
        """Run a plan of one partition and return `h` by `i`."""
        batches = [batch.to_pyarrow() for batch in self.ctx.execute(plan, 0)]
        table = pa.Table.from_batches(batches, schema=plan.schema())
        h = np.full(WIDTH, np.nan)
        h[table["i"].to_numpy()] = table["h"].to_numpy()
        return h

    def expected(self) -> np.ndarray:
        """Return the same, computed by NumPy."""
        h = self.x
        for w in self.w.reshape(-1, WIDTH, WIDTH):
            h = h + np.tanh(w @ h)
        return h


def operators(plan: ExecutionPlan) -> int:
    """Return how many operators a plan has."""
    return 1 + sum(operators(child) for child in plan.children())


def main(argv: list[str] | None = None) -> int:
    """Count, plan, run and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=LAYERS, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=100, help="default: %(default)s")
    args = parser.parse_args(argv)
    if args.layers < max(INLINED) or args.steps < 1:
        parser.error(f"--layers must be at least {max(INLINED)}, --steps at least 1")
    if not hasattr(ExecutionPlan, "reset_state"):
        print(
            f"datafusion {version('datafusion')} has no materialised CTEs: this needs "
            "the patched wheel",
            file=sys.stderr,
        )
        return 1

    model = Model(args.layers)
    inlined = {depth: operators(model.plan(depth, hint="")) for depth in INLINED}
    for depth, count in inlined.items():
        print(f"{depth:>3} layers inlined: {count} operators")
    last = inlined[INLINED[-1]]
    estimate = last * 2 ** (args.layers - INLINED[-1])
    print(f"{args.layers:>3} layers inlined: {estimate:.1e} operators, not planned")

    plan = model.plan(args.layers)
    print(f"{args.layers:>3} layers materialised: {operators(plan)} operators")
    rng = np.random.default_rng(0)
    worst = 0.0
    for step in range(args.steps):
        model.set(rng)
        found, expected = model.run(plan.reset_state()), model.expected()
        error = np.abs(found - expected).max()
        # A missing row is NaN, which no comparison finds small.
        if not error <= 1e-9:
            print(f"step {step}: {found}, NumPy has {expected}", file=sys.stderr)
            return 1
        worst = max(worst, error)
    print(f"{args.steps} steps, each as NumPy computes it: at most {worst:.0e} apart")
    return 0


if __name__ == "__main__":
    sys.exit(main())
