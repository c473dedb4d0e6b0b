"""The public names, their signatures and the options of the command line are those of interface.txt.

Users see what changes it: a change needs a line in CHANGELOG.md, a rename an alias with a DeprecationWarning.
`python tests/test_interface.py` writes the file again.
"""

import argparse
import importlib
import inspect
from pathlib import Path

import pcpq
from pcpq.cli.program import make_commands

COMMITTED = Path(__file__).with_name("interface.txt")
# Modules that docs/api.md describes, and that need no other library.
MODULES = ("pcpq", "pcpq.datasets", "pcpq.formats")


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
    yield from command_line()


def test_the_interface_is_the_committed_one():
    assert list(interface()) == COMMITTED.read_text().splitlines()


def test_every_name_of_all_is_there():
    assert all(hasattr(pcpq, name) for name in pcpq.__all__)


if __name__ == "__main__":
    COMMITTED.write_text("".join(f"{line}\n" for line in interface()))
