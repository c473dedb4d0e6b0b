"""Indexes of Faiss to take over, and some that cannot be."""

import faiss
import numpy as np

N, D = 1200, 16
L2, IP = faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT


def made(key, vectors, metric=L2, ids=None):
    index = faiss.index_factory(D, key, metric)
    index.train(vectors)
    if ids is None:
        index.add(vectors)
    else:
        index.add_with_ids(vectors, ids)
    return index


class GpuIndexFlatL2(faiss.IndexFlatL2):
    """An index with the name of a class for GPUs."""


def shared_ids(vectors):
    index = faiss.IndexIDMap(faiss.IndexFlatL2(D))
    index.add_with_ids(vectors, np.arange(N) // 2)
    return index


def negative_ids(vectors):
    index = faiss.IndexIDMap(faiss.IndexFlatL2(D))
    index.add_with_ids(vectors, np.arange(N) - 5)
    return index


def binary(vectors):
    index = faiss.IndexBinaryFlat(64)
    index.add(np.zeros((3, 8), np.uint8))
    return index


def equal_vectors(vectors):
    return made("IVF4,FlatDedup", np.repeat(vectors[:300], 4, axis=0))
