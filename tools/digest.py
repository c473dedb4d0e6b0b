"""Print digests of stored files and results; two revisions that print the same lines behave the same.

    python tools/digest.py > before.txt     # on one revision
    python tools/digest.py > after.txt      # on another, on the same machine
    diff before.txt after.txt

Eight indexes of the bundled word vectors cover metrics, quantizers, kept vectors, codebooks and kinds of ids.
Each is searched in every way, stored, opened, changed and compacted. Each stored array, the manifest without
its random names, and each result becomes one line, per SIMD level. Only public names and the stored format are
used. Training calls BLAS, whose rounding differs between machines: compare lines of one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors import safe_open

import pcpq
from pcpq import _core
from pcpq.datasets import load_words

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "dot default": {"metric": "dot"},
    "cosine QPCPQ no vectors": {"metric": "cosine", "quantizer": ("QPCPQ", {"section_size": 2}), "keep": None},
    "euclidean APQ int8": {"metric": "euclidean", "quantizer": ("APQ", {"section_size": 4}), "keep": "int8"},
    "dot QAPCPQ per list": {
        "metric": "dot",
        "quantizer": ("QAPCPQ", {"section_size": 4, "n_scales": 8}),
        "codebooks": "per_list",
        "keep": "float16",
        "n_lists": 20,
    },
    "cosine PCPQ rotated": {
        "metric": "cosine",
        "quantizer": ("PCPQ", {"section_size": 3}),
        "rotation": "random",
    },
    "euclidean no vectors": {"metric": "euclidean", "keep": None, "rotation": "learned"},
    "dot APCPQ float32 strings": {
        "metric": "dot",
        "quantizer": ("APCPQ", {"section_size": 5}),
        "keep": "float32",
        "ids": "str",
    },
    "cosine PQ 64 codewords strings": {
        "metric": "cosine",
        "quantizer": ("PQ", {"section_size": 4, "n_centers": 64}),
        "keep": "int16",
        "ids": "str",
    },
}
RANDOM_NAME = re.compile(r"[0-9a-f]{32}")


def digest(*arrays: Any) -> str:
    """Return one hash of the dtypes, shapes and bytes of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        array = np.asarray(array)
        if array.dtype == object:
            array = np.array([str(item) for item in array.ravel()]).reshape(array.shape)
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:24]


def stored(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield a line per stored array or table, and one of the manifest with its random names numbered."""
    names: dict[str, str] = {}

    def plain(text: str) -> str:
        return RANDOM_NAME.sub(lambda match: names.setdefault(match[0], f"name-{len(names)}"), text)

    manifest = json.loads((directory / "manifest.json").read_text())
    del manifest["check"]  # it covers the random names
    text = plain(json.dumps(manifest, indent=1))
    yield "manifest", digest(np.frombuffer(text.encode(), np.uint8))
    files = sorted(path for path in directory.iterdir() if RANDOM_NAME.search(path.name))
    for path in sorted(files, key=lambda path: plain(path.name)):
        if path.suffix == ".arrow":
            yield plain(path.name), hashlib.sha256(path.read_bytes()).hexdigest()[:24]
            continue
        with safe_open(path, framework="numpy") as tensors:
            for name in sorted(tensors.keys()):
                yield f"{plain(path.name)} {name}", digest(tensors.get_tensor(name))
            about = json.dumps(tensors.metadata(), sort_keys=True)
        yield f"{plain(path.name)} metadata", digest(np.frombuffer(about.encode(), np.uint8))


def answers(index: pcpq.Index, queries: Any, ids: Any, metric: str) -> Iterator[tuple[str, str]]:
    """Yield a line per way to search."""
    some, few = ids[::3], ids[5:40]
    ways: dict[str, dict[str, Any]] = {
        "default": {},
        "target_recall": {"target_recall": 0.8},
        "probes": {"probes": 3},
        "probes rerank": {"probes": 7, "rerank": 55, "k": 5},
        "k 1": {"k": 1, "probes": 1},
        "k 300": {"k": 300, "probes": 12},
        "one thread": {"threads": 1, "probes": 9},
        "filter": {"filter": some},
        "few allowed": {"filter": few, "k": 50},
        "bitmap": {"filter": pcpq.Bitmap(some), "exclude": pcpq.Bitmap(few)},
        "exclude": {"exclude": some, "probes": 8},
        "where": {"where": "length > 5 AND first < 'n'"},
        "where and filter": {"where": "length = 4", "filter": some, "probes": 10},
    }
    for name, options in ways.items():
        yield f"search {name}", digest(*index.search(queries, **options))
        one_by_one = [index.search(query, **options) for query in queries[:12]]
        yield f"single {name}", digest(*(part for result in one_by_one for part in result))
    for kind in (np.float64, np.float16):
        yield f"search {np.dtype(kind).name}", digest(*index.search(queries.astype(kind), probes=4))
    yield "huge queries", digest(*index.search(queries * np.float32(1e12), probes=4))
    yield "single huge query", digest(*index.search(queries[0] * np.float32(1e12), probes=4))
    last = index.search(queries, k=30, probes=5).scores[:, 20]
    bound = float(np.median(last))
    limit = {"max_distance": bound} if metric == "euclidean" else {"min_score": bound}
    yield "range", digest(*index.search_range(queries, **limit))
    yield "range filter", digest(*index.search_range(queries, probes=6, filter=some, **limit))
    explained = index.explain(queries[0], k=7)
    numbers = [value for value in explained.values() if type(value) is int]
    yield "explain", digest(np.array(numbers))
    yield "reconstruct", digest(index.reconstruct(few))
    yield "contains", digest(np.array([some_id in index for some_id in few]))
    yield "get", digest(*(np.array(column.to_pylist()) for column in index.get(few).columns))
    stats = {name: value for name, value in index.stats().items() if name != "seconds"}
    yield "stats", digest(np.frombuffer(json.dumps(stats, default=str).encode(), np.uint8))


def digests(name: str, words: Any, vectors: Any, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield all lines of one configuration."""
    settings = dict(CONFIGURATIONS[name])
    strings = settings.pop("ids", "int") == "str"
    if "quantizer" in settings:
        method, parameters = settings["quantizer"]
        settings["quantizer"] = getattr(pcpq, method)(**parameters)
    n = 6000
    ids = np.array(words[:n], object) if strings else np.arange(n) * 3 + 7
    table = pa.table({"length": [len(word) for word in words], "first": [word[:1] for word in words]})
    queries = vectors[-64:]

    def lines(stage: str, found: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for what, value in found:
            yield f"{stage}: {what}", value

    index = pcpq.build(vectors[:n], ids, attributes=table[:n], **settings)
    yield from lines("built", answers(index, queries, ids, settings["metric"]))
    path = directory / "index.pcpq"
    index.save(path)
    yield from lines("saved", stored(path))
    yield from lines("opened", answers(pcpq.open(path), queries, ids, settings["metric"]))
    with pcpq.open(path, mode="a") as index:
        index.remove(ids[:500])
        more = np.array(words[n : n + 700], object) if strings else np.arange(700) * 3 + 8
        index.add(vectors[n : n + 700], more, attributes=table[n : n + 700])
        index.upsert(vectors[8000:8100], ids[600:700], attributes=table[8000:8100])
        left = np.concatenate([ids[500:], more])
        yield from lines("changed", answers(index, queries, left, settings["metric"]))
        index.commit()
        yield from lines("committed", stored(path))
        index.compact()
        index.tune(queries) if settings.get("keep", "int16") is not None else None
        index.commit()
        yield from lines("compacted", stored(path))
        yield from lines("compacted", answers(index, queries, left, settings["metric"]))
        if settings.get("keep", "int16") is not None:
            index.refit().result()
            index.commit()
            yield from lines("refitted", stored(path))
            yield from lines("refitted", answers(index, queries, left, settings["metric"]))


def main() -> None:
    """Print one line per digest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    vectors, words = load_words()
    for level in _core.simd_levels():
        _core.set_simd_level(level)
        for name in CONFIGURATIONS:
            with tempfile.TemporaryDirectory() as directory:
                for what, value in digests(name, words, vectors, Path(directory)):
                    print(f"{level} | {name} | {what} | {value}", flush=True)


if __name__ == "__main__":
    main()
