"""What config.yml asks for, expanded as each project expands it."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml


@dataclass
class Definition:
    """An algorithm with all that it is built with, and all that it is asked with."""

    name: str
    module: str
    constructor: str
    arguments: list[Any]
    queries: list[list[Any]] = field(default_factory=list)
    disabled: bool = False
    ood: bool = False

    def make(self) -> Any:
        """The adapter's class, called."""
        module = importlib.import_module(self.module)
        return getattr(module, self.constructor)(*self.arguments)


def combined(choices: Any) -> list[Any]:
    """Every way to take one of each: of lists in a list, or of the values of a dict."""
    if isinstance(choices, dict):
        values = [value if isinstance(value, list) else [value] for value in choices.values()]
        return [dict(zip(choices, chosen, strict=True)) for chosen in product(*values)]
    return [list(chosen) for chosen in product(*(one if isinstance(one, list) else [one] for one in choices))]


def grouped(group: dict[str, Any], name: str, apart: str, positional: bool) -> list[Any]:
    """What `args` or `arg_groups` of a run group stand for; the second holds several, taken together."""
    if apart in group:
        return combined([combined(part) if isinstance(part, dict) else part for part in group[apart]])
    choices = group.get(name, [])
    if isinstance(choices, str):  # big-ann writes JSON: a list of what is to be given
        return list(json.loads(choices))
    if not choices:
        return []
    found = combined(choices)
    return [list(one.values()) for one in found] if positional and isinstance(choices, dict) else found


def as_arguments(one: Any) -> list[Any]:
    return one if isinstance(one, list) else [one]


def expanded(name: str, algorithm: dict[str, Any], known: dict[str, Any], positional: bool) -> list[Definition]:
    """Every definition of an algorithm; keys are written with - or with _."""
    algorithm = {key.replace("-", "_"): value for key, value in algorithm.items()}
    found = []
    for group in algorithm["run_groups"].values():
        group = {key.replace("-", "_"): value for key, value in group.items()}
        queries = grouped(group, "query_args", "query_arg_groups", positional)
        for one in grouped(group, "args", "arg_groups", positional):
            given = [*algorithm.get("base_args", []), *as_arguments(one)]
            arguments = [known.get(value, value) if isinstance(value, str) else value for value in given]
            found.append(
                Definition(
                    name,
                    algorithm["module"],
                    algorithm["constructor"],
                    arguments,
                    [as_arguments(query) for query in queries],
                    bool(algorithm.get("disabled", False)),
                    bool(algorithm.get("ood", False)),
                )
            )
    return found


def read_hdf5_project(project: str, path: Path, distance: str, dimension: int, count: int) -> list[Definition]:
    """ann-benchmarks and VIBE: by type of numbers, then by distance or "any"; modules are called module.py."""
    config = yaml.safe_load(path.read_text())["float"]
    both = project == "vibe"  # the other takes "any" alone, where there is one
    algorithms = [*config.get("any", []), *(config.get(distance, []) if both or "any" not in config else [])]
    known = {"@metric": distance, "@dimension": dimension, "@count": count}
    found: list[Definition] = []
    for algorithm in algorithms:
        found += expanded(algorithm["name"], algorithm, known, positional=both)
    for definition in found:
        definition.module += ".module"
    return [definition for definition in found if not definition.disabled]


def read_big_ann(path: Path, dataset: str, distance: str, dimension: int, count: int) -> list[Definition]:
    """big-ann-benchmarks: by data set or "any"; one that it does not know is treated as random-xs."""
    config = yaml.safe_load(path.read_text())
    algorithms = {**config.get("any", {}), **config.get(dataset, {})} or config["random-xs"]
    known = {"@metric": distance, "@dimension": dimension, "@count": count}
    found: list[Definition] = []
    for name, algorithm in algorithms.items():
        found += expanded(name, algorithm, known, positional=False)
    return [definition for definition in found if not definition.disabled]
