"""Imports between packages go one way, and no module reads another's private names."""

import ast
from pathlib import Path

import pytest

import pcpq

pytestmark = pytest.mark.quick

ROOT = Path(pcpq.__file__).parent
# A package, or a module beside them, imports only from those before it and from itself.
ORDER = [
    "_core",
    "errors",
    "util",
    "io",
    "ivf",
    "quantizers",
    "config",
    "segment",
    "search",
    "tuning",
    "store",
    "index",
    "building",
    "",  # pcpq itself: the public names
    "recall",
    "datasets",
    "formats",
    "integrations",
    "experiments",
    "explore",
    "cli",
]
MODULES = sorted(ROOT.rglob("*.py"))
# Named tuples, argparse and sys have public names that begin with a line.
NOT_PRIVATE = {"_replace", "_asdict", "_fields", "_getframe", "_actions", "_HelpAction", "_SubParsersAction"}


def package_of(path):
    return path.relative_to(ROOT).with_suffix("").parts[0].replace("__init__", "")


def imports_of(tree):
    """Yield (package, imported name) of every import from pcpq."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, *parts = alias.name.split(".")
                if top == "pcpq":
                    yield parts[0] if parts else "", parts[-1] if parts else ""
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pcpq":
            parts = node.module.split(".")[1:]
            for alias in node.names:
                yield parts[0] if parts else alias.name if alias.name in ORDER else "", alias.name


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import numpy, json.decoder", []),
        ("import pcpq", [("", "")]),
        ("import pcpq.store", [("store", "store")]),
        ("import json, pcpq.store._files as files", [("store", "_files")]),
        ("from pcpq import store, Index", [("store", "store"), ("", "Index")]),
        ("from pcpq.store.state import State", [("store", "State")]),
    ],
)
def test_every_form_of_import_is_seen(statement, found):
    assert list(imports_of(ast.parse(statement))) == found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_from_packages_before_it(path):
    own = ORDER.index(package_of(path))  # a new package must be given its place
    for package, name in imports_of(ast.parse(path.read_text())):
        assert ORDER.index(package) <= own, f"{name} is imported from {package or 'pcpq'}, which comes later"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_reads_private_names_of_another(path):
    tree = ast.parse(path.read_text())
    for _, name in imports_of(tree):
        assert not name.startswith("_") or name in ("_core", "__version__"), f"{name} is private"
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and of_self(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.endswith("__"):
            continue
        if node.attr not in own | NOT_PRIVATE and not of_self(node):
            raise AssertionError(f"line {node.lineno} reads {ast.unparse(node)}")


def of_self(node):
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
