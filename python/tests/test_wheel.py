# SPDX-License-Identifier: Apache-2.0
"""The patched wheel takes the place of the released one."""

from __future__ import annotations

import json
import re
from importlib.metadata import requires, version

import pytest
from conftest import PYTHON_DIR, run_python
from packaging.requirements import Requirement
from packaging.version import Version

# Prints every public name of the package: modules, what they hold, and the public
# attributes of classes. `_internal`, the compiled module, shows what was built in.
NAMES = """
import importlib, inspect, json, pkgutil
import datafusion, datafusion._internal

names = set()

def walk(path, holder, depth=0):
    for name in dir(holder):
        if name.startswith("_"):
            continue
        names.add(f"{path}.{name}")
        value = getattr(holder, name, None)
        compiled = path.startswith("datafusion._internal")
        # What another package's classes have differs between Python versions.
        own = compiled or str(getattr(value, "__module__", "")).startswith("datafusion")
        if inspect.isclass(value) and own:
            names.update(
                f"{path}.{name}.{attribute}"
                for attribute in dir(value)
                if not attribute.startswith("_")
            )
        elif inspect.ismodule(value) and compiled and depth < 3:
            walk(f"{path}.{name}", value, depth + 1)

for module in pkgutil.walk_packages(datafusion.__path__, "datafusion."):
    if not module.name.endswith("__main__"):
        names.add(module.name)
        walk(module.name, importlib.import_module(module.name))
walk("datafusion", datafusion)
print(json.dumps(sorted(names)))
"""


@pytest.fixture(scope="session")
def pin() -> Requirement:
    """Return the requirement on the released wheel that this one must satisfy."""
    line = version("datafusion").partition(".")[0]
    lines = (PYTHON_DIR / f"requirements/stock-{line}.txt").read_text().splitlines()
    (requirement,) = [line for line in lines if line.startswith("datafusion==")]
    return Requirement(requirement)


def public_names(python: str) -> set[str]:
    """Return the public names of the datafusion that this interpreter has."""
    done = run_python(python, "-c", NAMES)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_version_label_tells_it_from_stock(pin):
    (released,) = [specifier.version for specifier in pin.specifier]
    assert re.fullmatch(
        rf"{re.escape(released)}\+reuse\.[1-9][0-9]*", version("datafusion")
    )


def test_version_satisfies_the_pin_on_the_released_wheel(pin):
    assert pin.specifier.contains(Version(version("datafusion")))


def test_package_reports_the_version_of_the_wheel():
    import datafusion

    assert datafusion.__version__ == version("datafusion")


def test_substrait_is_built_in():
    from datafusion import SessionContext, substrait

    ctx = SessionContext()
    plan = substrait.Serde.serialize_to_plan("SELECT 1 AS one", ctx)
    logical = substrait.Consumer.from_substrait_plan(ctx, plan)
    (batch,) = ctx.create_dataframe_from_logical_plan(logical).collect()
    assert batch.to_pydict() == {"one": [1]}


def test_stock_interpreter_has_the_released_wheel(stock_python, pin):
    done = run_python(
        stock_python,
        "-c",
        "import importlib.metadata as m; print(m.version('datafusion'))",
    )
    assert f"=={done.stdout.strip()}" == str(pin.specifier), done.stderr


def test_every_public_name_of_stock_is_there(stock_python, patched_python):
    stock = public_names(stock_python)
    patched = public_names(patched_python)
    # Seen before it is trusted: names of each kind that the walk must find.
    assert {
        "datafusion.SessionContext",
        "datafusion.plan.ExecutionPlan.metrics",
        "datafusion.substrait.Serde",
        "datafusion._internal.substrait",
    } <= stock
    assert sorted(stock - patched) == []
    added = {name for name in patched - stock if "._internal" not in name}
    assert "datafusion.plan.ExecutionPlan.reset_state" in added
    assert "datafusion.plan.ExecutionPlan.schema" in added


def test_it_needs_what_stock_needs(stock_python):
    done = run_python(
        stock_python,
        "-c",
        "import importlib.metadata as m, json\n"
        "print(json.dumps(m.requires('datafusion')))",
    )
    stock = set(json.loads(done.stdout))
    # A patch reads what an extension's distribution requires.
    assert set(requires("datafusion")) == stock | {"packaging>=22.0"}, done.stderr
