"""The public names, their signatures and the options of the command line are those of interface.txt.

Users see what changes it: a change needs a line in CHANGELOG.md, a rename an alias with a DeprecationWarning.
`python tests/test_interface.py` writes the file again.
"""

import argparse
import ast
import importlib
import inspect
from pathlib import Path

import pcpq
from pcpq.cli.program import make_commands

COMMITTED = Path(__file__).with_name("interface.txt")
# Modules that docs/api.md describes, and that need no other library.
MODULES = ("pcpq", "pcpq.datasets", "pcpq.formats")
# Public names of integrations, by file. They are read from source, because their libraries may be missing.
INTEGRATIONS = Path(pcpq.__file__).parent / "integrations"
INTEGRATED = {
    "faiss": ["from_faiss"],
    "langchain": ["PCPQVectorStore"],
    "llama_index": ["PCPQVectorStore"],
    "ray/building": ["build"],
    "ray/replicas": ["ShardLostError"],
    "ray/sharded": ["PartialResult", "ShardedIndex"],
    "ray/writer": ["WriterLostError"],
    "sklearn/graphs": ["symmetric_graph"],
    "sklearn/neighbors": ["PCPQNeighborsTransformer"],
    "sklearn/quantizing": ["QuantizerTransformer"],
}


def signature(thing):
    """With defaults, without annotations: those say more about the inside than about calls."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    empty = inspect.Parameter.empty
    parameters = [
        parameter.replace(annotation=empty) for name, parameter in found.parameters.items() if name != "self"
    ]
    return str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def describe(name, thing):
    yield f"{name}{signature(thing)}"
    if not inspect.isclass(thing):
        return
    for member in sorted(dir(thing)):
        found = inspect.getattr_static(thing, member)
        inherited_from_python = not any(
            member in vars(one) for one in thing.__mro__ if one.__module__ != "builtins"
        )
        if member.startswith("_") or inherited_from_python:
            continue
        called = getattr(thing, member)
        yield f"{name}.{member}{signature(called) if callable(called) else ''}" + (
            " property" if isinstance(found, property) else ""
        )


def source_signature(function):
    for node in ast.walk(function.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    if "property" in decorators:
        return " property"
    arguments = ast.unparse(function.args).removeprefix("self").removeprefix("cls").removeprefix(", ")
    return f"({arguments})"


def describe_source(name, thing):
    if isinstance(thing, ast.FunctionDef):
        yield f"{name}{source_signature(thing)}"
        return
    found = {}
    for member in thing.body:
        if isinstance(member, ast.AnnAssign):
            found[member.target.id] = ""
        elif isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[member.name] = source_signature(member)  # of overloads, the last
    yield f"{name}{found.get('__init__', '')}"
    yield from (f"{name}.{member}{found[member]}" for member in sorted(found) if not member.startswith("_"))


def integrations():
    for file, names in INTEGRATED.items():
        tree = ast.parse((INTEGRATIONS / f"{file}.py").read_text())
        for thing in tree.body:
            if isinstance(thing, (ast.FunctionDef, ast.ClassDef)) and thing.name in names:
                package = file.split("/")[0]
                yield from describe_source(f"pcpq.integrations.{package}.{thing.name}", thing)


def command_line():
    _, commands = make_commands()
    for name, parser in sorted(commands.by_name.items()):
        for action in parser._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            names = "/".join(action.option_strings) or action.dest
            choices = "" if action.choices is None else f" of {', '.join(map(str, action.choices))}"
            yield f"pcpq {name} {names}{choices} default {action.default!r}"


def interface():
    for module in MODULES:
        found = importlib.import_module(module)
        names = getattr(found, "__all__", None) or [name for name in vars(found) if name == "load_words"]
        for name in sorted(names):
            yield from describe(f"{module}.{name}", getattr(found, name))
    yield from integrations()
    yield from command_line()


def test_the_interface_is_the_committed_one():
    assert list(interface()) == COMMITTED.read_text().splitlines()


def test_every_name_of_all_is_there():
    assert all(hasattr(pcpq, name) for name in pcpq.__all__)


def test_every_public_name_of_integrations_is_listed():
    for package in ("ray", "sklearn"):
        tree = ast.parse((INTEGRATIONS / package / "__init__.py").read_text())
        lists = [node.value for node in tree.body if isinstance(node, ast.Assign)]
        public = [ast.literal_eval(names) for names in lists]
        listed = [
            name for file, names in INTEGRATED.items() if file.startswith(f"{package}/") for name in names
        ]
        assert public == [sorted(listed)]


if __name__ == "__main__":
    COMMITTED.write_text("".join(f"{line}\n" for line in interface()))
