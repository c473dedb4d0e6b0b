"""The word vectors that come with pcpq, in the files that each project reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.datasets import load_words

Floats = NDArray[Any]
# Neighbours that a file tells of each query, and queries that a learner may see.
KNOWN, LEARN = 100, 200


def split_words(rows: int, queries: int) -> tuple[Floats, Floats]:
    """So many vectors, and others to ask for; the same every time."""
    vectors, _ = load_words()
    if rows + queries > len(vectors):
        raise ValueError(
            f"{rows} vectors and {queries} queries are more than the {len(vectors)} words there are"
        )
    order = np.random.default_rng(0).permutation(len(vectors))
    return vectors[order[:rows]], vectors[order[rows : rows + queries]]


def distances(queries: Floats, rows: Floats, distance: str) -> Floats:
    """(n_queries, n), smaller is nearer, as ann-benchmarks and VIBE count them."""
    if distance == "euclidean":
        squares = (queries**2).sum(1)[:, None] - 2.0 * queries @ rows.T + (rows**2).sum(1)
        return np.sqrt(np.maximum(squares, 0.0))
    products = queries @ rows.T
    if distance == "ip":
        return -products
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(rows, axis=1)
    return 1.0 - products / (1.0 if distance == "normalized" else lengths)


def nearest(queries: Floats, rows: Floats, distance: str, count: int) -> tuple[Floats, Floats]:
    """(n_queries, count) the nearest rows, and how near they are."""
    near = distances(queries.astype(np.float64), rows.astype(np.float64), distance)
    order = np.argsort(near, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(near, order, axis=1)


def write_hdf5(path: Path, distance: str, rows: int, queries: int) -> None:
    """A file as ann-benchmarks and VIBE have them; the last two sets are VIBE's alone."""
    import h5py

    train, test = split_words(rows, queries + LEARN)
    if distance == "normalized":
        train, test = (some / np.linalg.norm(some, axis=1, keepdims=True) for some in (train, test))
    test, learn = test[:queries], test[queries:]
    neighbors, near = nearest(test, train, distance, min(KNOWN, rows))
    with h5py.File(path, "w") as file:
        file.attrs.update({"distance": distance, "point_type": "float", "dimension": train.shape[1]})
        file["train"], file["test"] = train, test
        file["neighbors"], file["distances"] = neighbors.astype(np.int32), near.astype(np.float32)
        file["learn"] = learn
        file["learn_neighbors"] = nearest(learn, train, distance, min(KNOWN, rows))[0].astype(np.uint32)


def write_bin(path: Path, rows: Floats) -> None:
    """big-ann's format: two numbers, then all values."""
    with path.open("wb") as file:
        np.array(rows.shape, np.uint32).tofile(file)
        rows.tofile(file)


def read_bin(path: Path, dtype: str) -> Floats:
    """Mapped."""
    count, dimensions = np.fromfile(path, np.uint32, count=2).tolist()
    return np.memmap(path, dtype, "r", 8, (count, dimensions))


@dataclass
class WordSet:
    """What big-ann's classes of data sets offer to adapters, for files in a folder."""

    folder: Path
    dtype: str  # float32 or uint8
    metric: str  # euclidean, ip or angular
    kind: str  # knn, range or knn_filtered
    nb: int
    nq: int
    d: int = 100

    @classmethod
    def written(cls, folder: Path, dtype: str, metric: str, kind: str, rows: int, queries: int) -> WordSet:
        """New files; what uint8 holds is rounded, so the truth is that of the file."""
        base, asked = split_words(rows, queries + LEARN)
        if dtype == "uint8":
            least, most = base.min(), base.max()
            base, asked = (
                np.clip(np.round((part - least) / (most - least) * 255), 0, 255).astype(np.uint8)
                for part in (base, asked)
            )
        made = cls(folder, dtype, metric, kind, rows, queries)
        write_bin(made.path("base"), base)
        write_bin(made.path("queries"), asked[:queries])
        write_bin(made.path("learn"), asked[queries:])
        return made

    def path(self, part: str) -> Path:
        """Of one of its files."""
        return self.folder / f"{part}.{'fbin' if self.dtype == 'float32' else 'u8bin'}"

    def distance(self) -> str:
        """As adapters are told."""
        return self.metric

    def search_type(self) -> str:
        """As runners are told."""
        return self.kind

    def short_name(self) -> str:
        """For names of files."""
        return f"{type(self).__name__}-{self.nb}"

    def get_dataset_fn(self) -> str:
        """The file of all vectors."""
        return str(self.path("base"))

    def get_data_in_range(self, start: int, end: int) -> Floats:
        """Some vectors, as the file has them."""
        return read_bin(self.path("base"), self.dtype)[start:end]

    def get_dataset_iterator(self, bs: int = 512, split: tuple[int, int] = (1, 0)) -> Iterator[Floats]:
        """All vectors as float32, or those of one of several shards."""
        parts, place = split
        for start in range(self.nb * place // parts, end := self.nb * (place + 1) // parts, bs):
            yield np.ascontiguousarray(self.get_data_in_range(start, min(start + bs, end)), np.float32)

    def get_dataset(self) -> Floats:
        """All vectors at once."""
        return next(self.get_dataset_iterator(bs=self.nb))

    def get_queries(self) -> Floats:
        """All queries."""
        return np.ascontiguousarray(read_bin(self.path("queries"), self.dtype), np.float32)

    def get_query_train(self, maxn: int = 10**6) -> Floats:
        """Other queries, to learn from."""
        return np.ascontiguousarray(read_bin(self.path("learn"), self.dtype)[:maxn], np.float32)

    def get_dataset_metadata(self) -> Any:
        """Words of each vector, a sparse (n, 6) matrix: its number modulo two, and modulo four."""
        return self._words(np.arange(self.nb))

    def get_queries_metadata(self) -> Any:
        """Words that each query asks for: one or both of those of some vector."""
        return self._words(np.arange(self.nq), alone=np.arange(self.nq) % 3 == 0)

    def _words(self, numbers: NDArray[Any], alone: NDArray[Any] | None = None) -> Any:
        from scipy.sparse import csr_matrix

        rows, columns = np.concatenate([numbers, numbers]), np.concatenate([numbers % 2, 2 + numbers % 4])
        if alone is not None:
            there = np.concatenate([np.ones(len(numbers), bool), ~alone])
            rows, columns = rows[there], columns[there]
        return csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(numbers), 6))

    def default_count(self) -> float:
        """Neighbours, or for a range the squared distance within which a query has some 20."""
        if self.kind != "range":
            return 10
        near = distances(self.get_queries(), self.get_dataset(), "euclidean") ** 2
        return float(np.quantile(near, 20 / self.nb))

    def allowed(self) -> NDArray[np.bool_]:
        """(n_queries, n) which vectors may be found."""
        if self.kind != "knn_filtered":
            return np.ones((self.nq, self.nb), bool)
        asked, there = self.get_queries_metadata(), self.get_dataset_metadata()
        wanted = np.asarray(asked.sum(axis=1)).ravel()
        return np.asarray((asked @ there.T).toarray() == wanted[:, None])

    def near(self) -> Floats:
        """(n_queries, n) distances to compare results by."""
        name = {"euclidean": "euclidean", "ip": "ip", "angular": "angular"}[self.metric]
        return distances(self.get_queries().astype(np.float64), self.get_dataset().astype(np.float64), name)
