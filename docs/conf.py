"""Sphinx: `make docs` builds these pages as HTML. Nothing is fetched from anywhere."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pcpq

project = "pcpq"
author = "The pcpq authors"
copyright = "The pcpq authors"
version = release = pcpq.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["plots", "figures"]
myst_heading_anchors = 3
default_role = "code"
smartquotes = False  # a string is "dot", not what a typesetter makes of it

html_theme = "furo"
html_title = f"pcpq {version}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autodoc_mock_imports = ["faiss"]  # only its names are needed

SECTIONS = ("Parameters", "Returns", "Attributes")
NAME = re.compile(r"^([\w, ]+) : (.*)$")


def escaped(text: str) -> str:
    """Prose, in which stars, bars and last underscores mean nothing outside of code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def fields(lines: list[str]) -> list[str]:
    """Sections of "name : what it is", which goes on in deeper lines, as lists."""
    found: list[str] = []
    number = 0
    while number < len(lines):
        if lines[number] not in SECTIONS or lines[number + 1] != "-" * len(lines[number]):
            found.append(escaped(lines[number]))
            number += 1
            continue
        found += ["", f":{lines[number]}:"]
        number += 2
        while number < len(lines) and lines[number]:
            if match := NAME.match(lines[number]):
                found.append(f"    - **{escaped(match[1])}**: {escaped(match[2])}")
            else:
                found.append(f"      {escaped(lines[number].strip())}")
            number += 1
        found.append("")
    return found


def documented(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings as reStructuredText; quantizers with the parameters that their kind adds."""
    if inspect.isclass(thing) and issubclass(thing, pcpq.Quantizer) and thing is not pcpq.Quantizer:
        for kind in thing.__mro__:
            if kind.__name__.startswith("_") and (inspect.getdoc(kind) or "").startswith("Adds:"):
                lines += ["", *(inspect.getdoc(kind) or "").splitlines()]
    lines[:] = fields([line.rstrip() for line in lines])


def signed(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """The six have the parameters of all quantizers: only their names are needed."""
    if inspect.isclass(thing) and issubclass(thing, pcpq.Quantizer):
        return "(**parameters)", None
    return None


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", documented)
    app.connect("autodoc-process-signature", signed)
