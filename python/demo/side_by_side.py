# SPDX-License-Identifier: Apache-2.0
"""Run the seed query on stock and on patched datafusion and show both side by side.

Each interpreter is that of a venv with its own build of datafusion. Exit status: 0
if stock and patched both give what they must, else 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 120

MEANING = {
    "first": "the first run of the plan",
    "rerun_after_change": (
        "the same plan run again after v[:] = 100: the join kept its build side, "
        "so this is the old answer, and no error"
    ),
    "planned_anew": "planned again and run: the right answer for the new data",
    "reset": "plan.reset_state() and run: right, without planning",
    "original_after_reset": (
        "the original plan once more: making and running the copy did not touch it"
    ),
}


class DemoError(Exception):
    """Something that the demo shows is not as it must be."""


def run_script(python: Path, script: str) -> str:
    """Run a script of this folder in another interpreter and return what it prints."""
    try:
        done = subprocess.run(
            [str(python), str(HERE / script)],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except OSError as error:
        msg = f"cannot start {python}: {error}"
        raise DemoError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"{script} in {python} did not end within {TIME_LIMIT_S} s"
        raise DemoError(msg) from error
    if done.returncode != 0:
        msg = f"{script} in {python} failed:\n{done.stdout}{done.stderr}".rstrip()
        raise DemoError(msg)
    return done.stdout


def seed_query(python: Path) -> dict[str, float | str | None]:
    """Return what seed_query.py measured in this interpreter."""
    printed = run_script(python, "seed_query.py")
    try:
        return json.loads(printed)
    except ValueError as error:
        msg = f"seed_query.py in {python} printed no JSON but:\n{printed}"
        raise DemoError(msg) from error


def table(stock: dict, patched: dict) -> str:
    """Return the numbers of both builds with what each of them means."""
    rows = [("", f"stock {stock['datafusion']}", f"patched {patched['datafusion']}")]
    for name in MEANING:
        shown = [
            "n/a" if build[name] is None else str(build[name])
            for build in (stock, patched)
        ]
        rows.append((name, *shown))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {left:>{widths[1]}}  {right:>{widths[2]}}"
        for name, left, right in rows
    ]
    lines.append("")
    lines.append("What they mean:")
    lines.extend(f"  {name}: {meaning}" for name, meaning in MEANING.items())
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Compare two interpreters."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("stock", "patched"):
        parser.add_argument(
            f"--{name}",
            type=Path,
            metavar="PYTHON",
            required=True,
            help=f"interpreter of the venv with the {name} datafusion",
        )
    args = parser.parse_args(argv)

    try:
        stock = seed_query(args.stock)
        patched = seed_query(args.patched)
        print(table(stock, patched), flush=True)
        if stock["reset"] is not None:
            msg = f"{args.stock} is not stock: its datafusion can reset a plan"
            raise DemoError(msg)
        if patched["reset"] is None:
            msg = (
                f"{args.patched} is not patched: datafusion {patched['datafusion']} "
                "has no ExecutionPlan.reset_state()"
            )
            raise DemoError(msg)
        types = run_script(args.patched, "empty_table.py")
        print(f"\nThe type of a result, on patched:\n{types}", end="")
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
