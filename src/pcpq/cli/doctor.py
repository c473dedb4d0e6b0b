"""The command `pcpq doctor`: shows the installation and tests that pcpq works."""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcpq.cli.parsers import Commands, add_json
from pcpq.cli.problems import EXTRAS, Wrong, how_to_get
from pcpq.cli.terminal import print_facts, print_result, print_table
from pcpq.io.arrays import Float32Array

ROWS, DIMENSIONS, N_QUERIES, K = 4000, 24, 50, 10
# Smallest recall of searches with default settings on random vectors: their target less a margin for chance.
LEAST_RECALL = 0.9


class Check(NamedTuple):
    """The result of one test."""

    name: str
    ok: bool
    detail: str


def add_doctor(commands: Commands) -> None:
    """Add the command `pcpq doctor`."""
    parser = commands.add(
        "doctor",
        doctor,
        "show the installation, and test that pcpq works",
        ["pcpq doctor"],
        "Builds, searches, stores and reads a small index with every instruction set of the processor, and "
        "compares results with exact ones. Ends with exit code 1 if a test fails.",
    )
    add_json(parser)


def doctor(options: argparse.Namespace) -> None:
    """Print facts about the machine and its packages, and run the self-test."""
    start = time.perf_counter()
    about, packages, checks = machine(), optional_packages(), list(self_test())
    seconds = time.perf_counter() - start
    ok = all(check.ok for check in checks)
    found = {
        **about,
        "packages": packages,
        "checks": [check._asdict() for check in checks],
        "ok": ok,
        "seconds": seconds,
    }

    def show() -> None:
        print_facts({name: shown(value) for name, value in about.items()}, title="this machine")
        print()
        rows = [(name, version or how_to_get(name)) for name, version in packages.items()]
        print_table(("optional package", "version, or how to install it"), rows, left=2)
        print()
        tests = [(check.name, "ok" if check.ok else "FAILED", check.detail) for check in checks]
        print_table(("self-test", "", ""), tests, left=3)
        if ok:
            print(f"\nall tests passed ({seconds:.1f} s)")

    print_result(options.json, found, show)
    if not ok:
        wrong = next(check for check in checks if not check.ok)
        raise Wrong(f"self-test: {wrong.name}: {wrong.detail}")


def machine() -> dict[str, Any]:
    """Return the processor, the operating system and versions."""
    import pcpq
    from pcpq import _core
    from pcpq.experiments.environment import processor
    from pcpq.util.threads import available_threads

    return {
        "pcpq": pcpq.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "safetensors": version_of("safetensors"),
        "system": platform.platform(),
        "cpu": processor(),
        "cpus": available_threads(None),
        "simd": _core.simd_level(),
        "simd_levels": _core.simd_levels(),
    }


def shown(value: Any) -> str:
    """Return a fact as text."""
    return ", ".join(value) if isinstance(value, list) else str(value)


def optional_packages() -> dict[str, str | None]:
    """Return the versions of optional packages, None for those that are not installed."""
    return {package: version_of(package) for package in EXTRAS}


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def self_test() -> Iterator[Check]:
    """Yield the checks of building, searching and storing a small index with every instruction set."""
    from pcpq import _core

    generator = np.random.default_rng(0)
    means = generator.normal(size=(40, DIMENSIONS))
    rows = means[generator.integers(40, size=ROWS)] + 0.5 * generator.normal(size=(ROWS, DIMENSIONS))
    vectors = rows.astype(np.float32)
    queries = vectors[:N_QUERIES] + np.float32(0.1)
    before = _core.simd_level()
    answers: dict[str, Any] = {}
    try:
        for level in _core.simd_levels():
            _core.set_simd_level(level)
            yield from tests_of(level, vectors, queries, answers)
    finally:
        _core.set_simd_level(before)
    same = all(np.array_equal(a, b) for a, b in pairwise(answers.values()))
    yield Check("levels agree", same, f"bit for bit: {', '.join(answers) or 'no results'}")


def tests_of(
    level: str, vectors: Float32Array, queries: Float32Array, answers: dict[str, Any]
) -> Iterator[Check]:
    """Yield the checks with one instruction set, and store its results in `answers`."""
    import pcpq

    exact = exact_scores(vectors, queries)
    with tempfile.TemporaryDirectory(prefix="pcpq-") as folder:
        index = pcpq.build(vectors, metric="dot", keep="float32")
        every = index.search(queries, K, probes=ROWS, rerank=ROWS)
        error = float(np.abs(every.scores - exact).max() / np.abs(exact).max())
        yield Check(f"{level}: exact search", error < 1e-5, f"largest relative error of scores {error:.1g}")
        usual = index.search(queries, K)
        reached = float((usual.scores >= exact[:, -1:] - 1e-4 * np.abs(exact[:, -1:])).mean())
        yield Check(f"{level}: usual search", reached >= LEAST_RECALL, f"recall {reached:.3f}")
        path = Path(folder) / "index"
        index.save(path)
        with pcpq.open(path) as stored:
            try:
                stored.verify()
                again = stored.search(queries, K)
            except (ValueError, OSError) as error_found:
                yield Check(f"{level}: store", False, str(error_found))
                return
        same = np.array_equal(usual.ids, again.ids) and np.array_equal(usual.scores, again.scores)
        yield Check(f"{level}: store", same, "saved, opened, verified, equal results")
    answers[level] = np.concatenate([usual.ids, usual.scores.view(np.int32), every.ids], axis=1)


def exact_scores(vectors: Float32Array, queries: Float32Array) -> Any:
    """Return the (n, K) largest inner products, computed by NumPy."""
    products = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    return -np.sort(-products, axis=1)[:, :K]
