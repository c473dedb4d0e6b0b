"""Feed forged indexes to everything that reads one: python tests/fuzz/fuzz_index.py --seconds 600

A case is a good index and a few edits of its files: values of arrays, shapes, metadata, headers, the manifest.
Checksums are made right after each edit, as an attacker would. Two outcomes are allowed: answers whose ids are
ids of the index or none, or a FormatError that names a file. No other exception, no crash, no hang, nothing of
another index.

Cases are drawn from a seed, and are the same for the same seed. They run in a process of their own, so that a
crash is counted and the next case goes on. `corpus.jsonl` holds cases that crashed or gave a wrong answer once.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import chain, product, takewhile
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from forging import file_of, forge, forge_manifest, load, set_entry

import pcpq
from pcpq import _core
from pcpq.store import serialization as objects
from pcpq.store.manifest import read_manifest

CORPUS = Path(__file__).parent / "corpus.jsonl"
D, N, N_SMALL, N_QUERIES = 8, 400, 24, 12
# Two-digit seconds mean that a case hangs; sanitized builds are slow to start.
MOST_SECONDS = 60.0

# What may come of a case; the last if one edit broke what the next one needs.
FINE = ("answered", "refused", "unwritable")

Case = dict[str, Any]
Edit = dict[str, Any]


def some_vectors(n: int, seed: int) -> Any:
    """Rows in a few clusters."""
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(9).normal(size=(9, D))
    return (centers[generator.integers(9, size=n)] + 0.5 * generator.normal(size=(n, D))).astype(np.float32)


VECTORS, QUERIES = some_vectors(N + N_SMALL, 0), some_vectors(N_QUERIES, 1)
STRANGE = QUERIES.copy()
STRANGE.reshape(-1)[::7] = np.resize([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0], STRANGE.size // 7 + 1)
FAST = {"max_iterations": 2, "gain": False, "bias": False}  # the sample that decides on corrections takes long
CODINGS: dict[str, dict[str, Any]] = {
    "plain": {"quantizer": pcpq.PQ(section_size=2, **FAST)},
    "scaled": {"quantizer": pcpq.QPCPQ(section_size=2, max_iterations=2, gain=True, bias=True)},
    "loose": {"quantizer": pcpq.PQ(section_size=2, n_centers=20, **FAST)},
    "loose scales": {"quantizer": pcpq.QPCPQ(section_size=4, n_centers=30, n_scales=20, **FAST)},
    "exact": {"quantizer": pcpq.PCPQ(section_size=4, max_iterations=2, gain=True, bias=True)},
    "vector": {
        "quantizer": pcpq.QPCPQ(section_size=4, n_centers=20, scales_per="vector", **FAST),
        "rotation": "random",
    },
    "norm": {"quantizer": pcpq.PQ(section_size=3, n_centers=8, norm_scale=True, **FAST)},
    "own plain": {"quantizer": pcpq.PQ(section_size=2, n_centers=4, **FAST), "codebooks": "per_list"},
    "own scaled": {"quantizer": pcpq.QPCPQ(section_size=4, n_centers=4, **FAST), "codebooks": "per_list"},
    "own exact": {"quantizer": pcpq.PCPQ(section_size=2, n_centers=4, **FAST), "codebooks": "per_list"},
}
LISTS = (3, 8, 16, 32)
KEEPS = (None, "int8", "int16", "float16", "float32")
METRICS = ("dot", "euclidean", "cosine")


def variants() -> dict[str, dict[str, Any]]:
    """Every coding with every number of lists; what is kept, the metric, ids and parts go round beside them."""
    found = {}
    for (c, coding), (n, n_lists) in product(enumerate(CODINGS), enumerate(LISTS)):
        found[f"{coding}, {n_lists} lists"] = CODINGS[coding] | {
            "n_lists": n_lists,
            "keep": KEEPS[(c + 2 * n) % 5],
            "metric": METRICS[(c + n) % 3],
            "words": (c + n) % 4 == 1,
            "parts": (c // 2 + n) % 2 == 0,
        }
    return found


VARIANTS = variants()


class Indexes:
    """Good indexes, made when they are first wanted, and the one that is tried."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.tried = directory, directory / f"tried-{os.getpid()}"
        # Another index, searched in between: nothing of it may ever be found in the one that is tried.
        self.other = pcpq.Index(metric="dot", n_lists=8, quantizer=pcpq.PQ(section_size=2, max_iterations=1))
        self.other.fit(VECTORS).add(VECTORS, np.arange(N + N_SMALL) + 10**15)

    def good(self, name: str) -> Path:
        """The directory of a variant."""
        path = self.directory / name.replace(" ", "-")
        if not path.exists():
            options = dict(VARIANTS[name])
            words, parts = options.pop("words"), options.pop("parts")
            ids = [f"wörd {i}" for i in range(N + N_SMALL)] if words else list(range(N + N_SMALL))
            index = pcpq.Index(**options).fit(VECTORS[:N], threads=1)
            index.add(VECTORS[:N], ids[:N])
            if parts:
                index.add(VECTORS[N:], ids[N:])
                index.remove(ids[3:40:4])
            new = path.with_name(f"{path.name}-{os.getpid()}")
            index.save(new)
            with suppress(OSError):  # made by another process in the meantime
                new.rename(path)
        return path

    def copy(self, name: str) -> Path:
        """A copy to forge."""
        good = self.good(name)
        shutil.rmtree(self.tried, ignore_errors=True)
        shutil.copytree(good, self.tried)
        return self.tried


# Cases

FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-38, 1e-45, 0.0, -1.0, 3e7, -3e7, 1e15, 1e30)
INTEGERS = (
    0,
    1,
    -1,
    255,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 32) - 1,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
)
ANYTHING = (
    None,
    True,
    -1,
    0,
    1,
    3,
    0.5,
    -0.0,
    1e-45,
    1e-310,
    3e38,
    1e300,
    float("nan"),
    float("inf"),
    1 << 31,
    1 << 62,
    1 << 64,
    10**400,
    10**4000,
    "x",
    "",
    [],
    {},
    [1, 2],
    [1 << 40, 1 << 40],
)
SHAPES = ("longer", "shorter", "empty", "deeper", "wider", "flat", "transposed", "missing", "dtype")
ENTRIES = ("shape", "dtype", "data_offsets")


def cases(seed: int, indexes: Indexes) -> Iterator[Case]:
    """Without end."""
    names, levels = list(VARIANTS), _core.simd_levels()
    for number in range(seed * 1_000_000, (seed + 1) * 1_000_000):
        generator = np.random.default_rng(number)
        variant = names[int(generator.integers(len(names)))]
        count = 1 + int(generator.random() < 0.25)
        edits = [draw(generator, indexes.good(variant)) for _ in range(count)]
        level = levels[int(generator.integers(len(levels)))]
        unchecked = bool(generator.random() < 0.4)
        yield {"variant": variant, "level": level, "unchecked": unchecked, "edits": edits}


def attacks() -> Iterator[Case]:
    """Floats that the choice of lists and thresholds must bear, with whole groups of eight lists or without."""
    some = ("plain", "scaled", "loose", "own plain")
    arrays, values = ("centers", "spreads", "offsets"), (np.nan, np.inf, 3e38)
    for coding, n_lists, array, value in product(some, LISTS, arrays, values):
        edit = {"kind": "trained", "array": array, "how": "set", "value": value, "places": None}
        if n_lists == 16:
            edit["places"] = [0, 5]
        level = _core.simd_levels()[0]
        yield {"variant": f"{coding}, {n_lists} lists", "level": level, "unchecked": True, "edits": [edit]}


def draw(generator: np.random.Generator, path: Path) -> Edit:
    """One edit."""

    def pick(values: Any) -> Any:
        return values[int(generator.integers(len(values)))]

    manifest = read_manifest(path)
    kinds = ["trained"] * 4 + ["first"] * 4 + ["manifest"]
    kinds += ["second"] * (2 * (len(manifest.parts) > 1)) + ["live"] * any(p.live for p in manifest.parts)
    kind = pick(kinds)
    if kind == "manifest":
        content = json.loads((path / "manifest.json").read_text())
        return {"kind": kind, "how": "about", "keys": keys_in(content, pick), "value": pick(ANYTHING)}
    arrays, _, about = load(path / file_of(path, kind))
    name = pick(list(arrays))
    array = arrays[name]
    edit: Edit = {"kind": kind, "array": name}
    how = pick(
        ["set"] * 10 + ["bits"] * 3 + ["copy", "copy", "swap", "shape", "about", "about", "header", "raw"]
    )
    if how == "about" and not about:
        how = "set"
    edit["how"] = how
    if how == "set":
        edit["value"] = pick(FLOATS if array.dtype.kind == "f" else INTEGERS)
        edit["places"] = places(generator, array.size)
    elif how == "bits":
        edit["places"] = [
            int(bit) for bit in generator.integers(8 * max(array.nbytes, 1), size=pick([1, 3, 50]))
        ]
    elif how == "copy":  # equal ids, and everything else that may be equal
        edit["places"], edit["source"] = (
            places(generator, array.size),
            int(generator.integers(max(array.size, 1))),
        )
    elif how == "swap":
        edit["other"] = pick(list(arrays))
    elif how == "shape":
        edit["value"] = pick(SHAPES)
    elif how == "about":
        edit["keys"], edit["value"] = keys_in(about, pick), pick(ANYTHING)
    elif how == "raw":  # bytes of the header
        count = pick([1, 1, 4, 20])
        edit["places"] = [int(place) for place in generator.integers(2000, size=count)]
        edit["bytes"] = [
            int(byte) for byte in generator.choice(list(b'[]{}0123456789-.eE",:ainfFU\\\x00\xff'), count)
        ]
    else:
        edit["entry"], edit["value"] = (
            pick(ENTRIES),
            pick([*ANYTHING, "F32", "U8", "I64", [0, 64], [8, 8], [-1]]),
        )
    return edit


def places(generator: np.random.Generator, size: int) -> list[int] | None:
    """Of a flat array; None: all of it."""
    count = int(generator.choice([0, 1, 1, 2, 8, 40]))
    return [int(place) for place in generator.integers(max(size, 1), size=count)] if count else None


def keys_in(content: Any, pick: Any) -> list[Any]:
    """The way to something in JSON."""
    keys: list[Any] = []
    while isinstance(content, (dict, list)) and content and (not keys or pick([True, True, False])):
        keys.append(pick(list(content)) if isinstance(content, dict) else pick(range(len(content))))
        content = content[keys[-1]]
    return keys


def apply(path: Path, edit: Edit) -> None:
    """Forge a file."""
    kind, how = edit["kind"], edit["how"]
    if kind == "manifest":
        forge_manifest(path, lambda content: put(content, edit["keys"], edit["value"]))
    elif how == "about":
        forge(path, kind, edit_about=lambda about: put(about, edit["keys"], edit["value"]))
    elif how == "raw":
        file = file_of(path, kind)
        content = bytearray((path / file).read_bytes())
        for place, byte in zip(edit["places"], edit["bytes"], strict=True):
            content[place % len(content)] = byte
        set_entry(path, file, bytes(content))
    elif how == "header":
        forge(path, kind, edit_header=lambda header: put(header, [edit["array"], edit["entry"]], edit["value"]))
    else:
        forge(path, kind, lambda arrays: change(arrays, edit))


def put(content: Any, keys: list[Any], value: Any) -> None:
    """Set something in JSON, if it is still there."""
    for key in keys[:-1]:
        if not isinstance(content, (dict, list)) or (isinstance(content, dict) and key not in content):
            return
        content = content[key]
    if isinstance(content, dict) or (isinstance(content, list) and keys[-1] < len(content)):
        content[keys[-1]] = value


def change(arrays: dict[str, Any], edit: Edit) -> None:
    """Change an array."""
    name, how = edit["array"], edit["how"]
    if name not in arrays:
        return
    array = arrays[name]
    flat, some = array.reshape(-1), edit.get("places")
    within = slice(None) if some is None else [place for place in some if place < flat.size]
    if how == "set":
        value = edit["value"]
        bits = 8 * array.itemsize
        whole = array.dtype.kind != "f"
        flat[within] = (
            np.uint64(value % (1 << bits)).astype(f"u{array.itemsize}").view(array.dtype) if whole else value
        )
    elif how == "bits":
        raw = flat.view(np.uint8)
        for bit in some:
            if bit // 8 < raw.size:
                raw[bit // 8] ^= 1 << bit % 8
    elif how == "copy" and flat.size:
        flat[within] = flat[edit["source"] % flat.size]
    elif how == "swap":
        arrays[name], arrays[edit["other"]] = arrays[edit["other"]], array
    elif how == "shape":
        reshape(arrays, name, edit["value"])


def reshape(arrays: dict[str, Any], name: str, how: str) -> None:
    """Another shape, or type."""
    array = arrays[name]
    if how == "missing":
        del arrays[name]
        return
    arrays[name] = {
        "longer": lambda: np.concatenate([array, array[:1]]),
        "shorter": lambda: array[:-1],
        "empty": lambda: array[:0],
        "deeper": lambda: array[None],
        "wider": lambda: np.concatenate([array, array[..., :1]], axis=-1),
        "flat": lambda: array.reshape(-1),
        "transposed": lambda: np.ascontiguousarray(array.T),
        "dtype": lambda: array.astype(np.float32 if array.dtype.kind != "f" else np.int64),
    }[how]()


# Use


def outcome(case: Case, indexes: Indexes) -> str:
    """In one word if all is well, "answered" or "refused"; otherwise what went wrong."""
    path = indexes.copy(case["variant"])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for edit in case["edits"]:
                apply(path, edit)
        except Exception:
            return "unwritable"
        _core.set_simd_level(case["level"] if case["level"] in _core.simd_levels() else "auto")
        try:
            with unchecked() if case["unchecked"] else nullcontext():
                use(path, indexes.other)
        except pcpq.FormatError as error:
            return "refused" if str(path) in str(error) else f"wrong: names no file: {error!r}"
        except BaseException as error:
            return f"wrong: {error!r}"[:2000]
    return "answered"


@contextmanager
def unchecked() -> Iterator[None]:
    """Without the ranges of what is trained: native code gets to see values that are refused otherwise."""

    def floats(tensors: Any, name: str, shape: Any, *_: float) -> Any:
        array = tensors.shaped(name, "F32", shape)
        if array.size == 0:
            raise pcpq.FormatError(f"{tensors.path}: {name} is empty")
        return array

    before, objects.floats = objects.floats, floats
    try:
        yield
    finally:
        objects.floats = before


class Watched:
    """An index whose every answer is looked at."""

    def __init__(self, index: Any, other: Any) -> None:
        self.index, self.other = index, other
        self.ids: dict[bool, set[Any]] = {}  # words, or numbers

    def search(self, queries: Any, **options: Any) -> Any:
        """After a search of another index on this thread, so that nothing can be left of that."""
        self.other.search(queries, k=options["k"], probes=8, rerank=60, threads=1)
        found = self.index.search(queries, **options, threads=1)
        self.look_at(found.ids)
        return found

    def look_at(self, found: Any) -> None:
        """Only ids that the index has, or none."""
        found = set(np.asarray(found).reshape(-1).tolist())
        words = any(isinstance(one, str) for one in found)
        if words not in self.ids:
            # As they lie in files: whatever those call an id may be an answer.
            self.ids[words] = {-1, None}
            for part in self.index._state.snapshot.parts:
                names, count = part.segment.names, len(part.segment)
                own = (names[place] for place in range(count)) if words else part.segment.ids.tolist()
                self.ids[words].update(own)
        strange = found - self.ids[words]
        if strange:
            raise AssertionError(f"found {sorted(map(str, strange))[:5]}, which the index does not have")


def use(path: Path, other: Any) -> None:
    """Everything that reads files; after a refusal the next thing is tried, since each checks other parts."""
    refused = []

    def attempt(function: Any) -> Any:
        try:
            return function()
        except pcpq.FormatError as error:
            refused.append(error)
            return None

    with pcpq.open(path) as index:
        watched = Watched(index, other)
        names = index._state.kind == "str"
        some = [f"wörd {i}" for i in range(30)] if names else list(range(30))
        bound = {"max_distance": 4.0} if index.metric == "euclidean" else {"min_score": 0.5}
        for queries in (QUERIES, QUERIES[:5], QUERIES[0]):
            for options in (
                {},
                {"probes": 1, "rerank": 5},
                {"probes": 2, "rerank": 10},
                {"probes": 40, "rerank": 500},
            ):
                attempt(lambda queries=queries, options=options: watched.search(queries, k=5, **options))
        attempt(lambda: watched.search(QUERIES, k=N + 300, probes=100))
        # On threads that have searched nothing yet.
        attempt(lambda: watched.look_at(index.search(QUERIES, k=5, probes=2, rerank=10, threads=2).ids))
        attempt(lambda: watched.search(QUERIES, k=5, filter=some))
        attempt(lambda: watched.search(QUERIES, k=5, exclude=some, probes=2))
        attempt(lambda: watched.look_at(index.search_range(QUERIES, **bound, threads=1)[2]))
        attempt(lambda: index.explain(QUERIES[0], k=5, probes=2))
        for part in index._state.snapshot.parts:
            # As if another thread had changed the queries after they were checked.
            for some_queries in (STRANGE, STRANGE[:3], STRANGE[3:4]):
                plan = {"k": 5, "probes": 2, "rerank": 10, "allowed": part.everything, "threads": 1}
                scan = partial(part.segment.search, some_queries, **plan)
                attempt(lambda scan=scan: watched.look_at(scan()[1]))
        attempt(lambda: some[5] in index)
        attempt(lambda: index.reconstruct([one for one in some if one in index]))
        attempt(index.stats)
        attempt(index.verify)

        def read() -> None:
            for part in index._state.snapshot.parts:
                part.segment.rows()
                part.segment.vectors(np.arange(len(part.segment)))

        attempt(read)
        if index._state.snapshot.parts:
            attempt(lambda: pcpq.store.merging.merge(index._state.snapshot.parts))
    if refused:
        raise refused[0]


# Processes


def work(directory: Path) -> None:
    """Cases from standard input, what came of them to standard output."""
    faulthandler.enable()
    indexes = Indexes(directory)
    for line in sys.stdin:
        print(outcome(json.loads(line), indexes).replace("\n", " "), flush=True)


@contextmanager
def good_indexes() -> Iterator[Indexes]:
    """In memory, where that is a directory."""
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="pcpq-fuzz-", dir=where) as directory:
        yield Indexes(Path(directory))


class Worker:
    """A process that tries cases."""

    def __init__(self, directory: Path) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        command = [sys.executable, __file__, "--worker", str(directory)]
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.said: SimpleQueue[str] = SimpleQueue()
        self.listener = Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.said.put(line.rstrip("\n"))
        self.said.put("")

    def outcome(self, case: Case) -> str:
        """What came of a case; "crashed" or "hung" if nothing did."""
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
            said = self.said.get(timeout=MOST_SECONDS)
        except Empty:
            return "hung"
        except BrokenPipeError:
            said = ""
        if said:
            return said
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        telling = [line for line in text.splitlines() if "ERROR" in line or "error" in line or " in " in line]
        return f"crashed: code {self.process.wait()} {' | '.join(telling[:6])}"

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.listener.join()
        with suppress(BrokenPipeError):
            self.process.communicate()
        self.errors.close()


def bad_cases(tried: Iterable[Case], indexes: Indexes, counts: Counter[str]) -> Iterator[tuple[Case, str]]:
    """Try cases one after the other; those that go wrong, and how."""
    process = Worker(indexes.directory)
    try:
        for case in tried:
            said = process.outcome(case)
            counts[said.split(":")[0]] += 1
            if said in FINE:
                continue
            yield case, said
            if not said.startswith("wrong"):
                process.stop()
                process = Worker(indexes.directory)
    finally:
        process.stop()


def corpus() -> list[Case]:
    """Cases that went wrong once."""
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


def main() -> int:
    """Try cases for some time; 1 if any went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, help="a file that cases that go wrong are added to")
    parser.add_argument("--figures", type=Path, help="a file for what was tried and what came of it")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker)
        return 0
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    with good_indexes() as indexes:
        endless = takewhile(lambda _: time.monotonic() < end, cases(options.seed, indexes))
        for case, said in bad_cases(chain(corpus(), attacks(), endless), indexes, counts):
            print(f"{said}\n    {json.dumps(case)}", flush=True)
            if options.found is not None:
                with options.found.open("a") as file:
                    file.write(json.dumps(case) + "\n")
    print(f"seed {options.seed}, {counts.total()} cases: {dict(counts)}")
    if options.figures is not None:
        figures = {
            "seed": options.seed,
            "seconds": options.seconds,
            "cases": counts.total(),
            "outcomes": counts,
        }
        options.figures.write_text(json.dumps(figures))
    return int(any(kind not in FINE for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
