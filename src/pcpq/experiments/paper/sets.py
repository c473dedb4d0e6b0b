"""Vectors for the experiments of the paper: HDF5 files of ann-benchmarks, NumPy files, the bundled words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pcpq.datasets import load_words
from pcpq.io.arrays import Float32Array

N_QUERIES = 1000
# The file of the paper first, then a substitute for it.
STANDINS = {"glove": ("glove-100-angular", "glove"), "lastfm": ("lastfm-64-dot", "lastfm48k")}
GLOVE_PAPER = "The paper's Glove-100 are 1.18 million vectors of words of Twitter; "
NOTES = {
    "glove-100-angular": "The paper's own set.",
    "lastfm-64-dot": "The paper's own set.",
    "glove": GLOVE_PAPER + "these are 340 thousand of words of Wikipedia and news (GloVe 6B).",
    "lastfm48k": (
        "The paper's Last.fm are 292 thousand tracks; these are 47 thousand, made by the same recipe. "
        "As in the paper's file, a 65th coordinate makes all tracks equally long; it is 0 in queries."
    ),
    "words": GLOVE_PAPER + "these are the 19,000 words that come with pcpq, other 1,000 are the queries.",
}


@dataclass(frozen=True)
class VectorSet:
    """Vectors and queries of an experiment."""

    name: str  # of the set in the paper, also for a substitute; otherwise its own
    source: str
    base: Float32Array  # (n, d)
    queries: Float32Array  # (n_queries, d)
    unit_norm: bool  # all vectors are scaled to length 1, because lengths have no meaning
    note: str  # difference from the set in the paper


def load_set(folder: Path | None, dataset: str | None) -> VectorSet:
    """Return the set of a file, a set in a folder by its name, or the bundled words if neither is given."""
    if dataset is not None and Path(dataset).suffix in (".hdf5", ".h5"):
        path = Path(dataset)
        return read_hdf5(
            path, next((name for name, files in STANDINS.items() if path.stem in files), path.stem)
        )
    if folder is None:
        if dataset not in (None, "words"):
            raise ValueError(f"dataset {dataset!r} is in a folder: which? Give --data FOLDER")
        return bundled_words()
    name = dataset or "glove"
    for stem in STANDINS.get(name, (name,)):
        if (folder / f"{stem}.hdf5").exists():
            return read_hdf5(folder / f"{stem}.hdf5", name)
        if (folder / f"{stem}_base.npy").exists():
            return read_numpy(folder, stem, name)
    tried = " or ".join(f"{stem}.hdf5, {stem}_base.npy" for stem in STANDINS.get(name, (name,)))
    raise FileNotFoundError(f"{folder} has no set {name!r}: looked for {tried}")


def read_hdf5(path: Path, name: str) -> VectorSet:
    """Return the set of a file of ann-benchmarks, with `train`, `test` and the attribute `distance`."""
    import h5py

    with h5py.File(path, "r") as file:
        for part in ("train", "test"):
            if part not in file:
                raise ValueError(f"{path} has no {part!r}; it has {', '.join(file) or 'nothing'}")
        distance = file.attrs.get("distance", "angular")
        distance = distance.decode() if isinstance(distance, bytes) else str(distance)
        if distance not in ("angular", "dot"):
            raise ValueError(f"{path} is of distance {distance!r}; inner products need 'angular' or 'dot'")
        base, queries = file["train"][:], file["test"][:N_QUERIES]
    note = NOTES.get(path.stem, "")
    return made_set(name, path.name, base, queries, unit_norm=distance == "angular", note=note)


def read_numpy(folder: Path, stem: str, name: str) -> VectorSet:
    """Return the set of NAME_base.npy and NAME_query.npy; word and text embeddings are scaled to length 1."""
    base = np.load(folder / f"{stem}_base.npy", allow_pickle=False)
    queries = np.load(folder / f"{stem}_query.npy", allow_pickle=False)[:N_QUERIES]
    unit_norm = stem in ("glove", "minilm")
    if name == "lastfm":
        base, queries = equally_long(base, queries)
    note = NOTES.get(stem, "") if name in STANDINS else ""
    return made_set(name, f"{stem}_base.npy", base, queries, unit_norm=unit_norm, note=note)


def bundled_words() -> VectorSet:
    """Return 19 of every 20 bundled words as vectors, the others as queries."""
    vectors, _words = load_words()
    is_query = np.arange(len(vectors)) % (len(vectors) // N_QUERIES) == 0
    return made_set(
        "words", "bundled", vectors[~is_query], vectors[is_query], unit_norm=True, note=NOTES["words"]
    )


def made_set(
    name: str, source: str, base: Float32Array, queries: Float32Array, *, unit_norm: bool, note: str
) -> VectorSet:
    """Return a set of float32 vectors, scaled to length 1 if unit_norm; raise a ValueError for invalid ones."""
    base, queries = (np.ascontiguousarray(rows, np.float32) for rows in (base, queries))
    if base.ndim != 2 or queries.ndim != 2 or base.shape[1] != queries.shape[1] or not len(base):
        raise ValueError(f"{source}: vectors of shape {base.shape} and queries of {queries.shape} do not match")
    for rows, what in ((base, "vectors"), (queries, "queries")):
        if not np.isfinite(rows).all():
            raise ValueError(f"{source}: {what} hold numbers that are not finite")
    if unit_norm:
        base, queries = unit_rows(base), unit_rows(queries)
    return VectorSet(name, source, base, queries, unit_norm, note)


def unit_rows(rows: Float32Array) -> Float32Array:
    """Return rows scaled to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Float32Array = rows / np.where(lengths > 0, lengths, np.float32(1))
    return unit


def equally_long(base: Float32Array, queries: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Append a coordinate that makes all rows equally long; it is 0 in queries, so products do not change."""
    squares = np.square(base, dtype=np.float64).sum(axis=1)
    extra = np.sqrt(squares.max() - squares)[:, None]
    return np.hstack([base, extra]), np.hstack([queries, np.zeros((len(queries), 1))])
