"""Arrays of other shapes and types than a given one."""

import numpy as np


def longer(array):
    return np.concatenate([array, array[:1]])


def shorter(array):
    return array[:-1]


def empty(array):
    return array[:0]


def deeper(array):
    return array[None]


def flatter(array):
    return np.concatenate([array.reshape(-1), array.reshape(-1)[:1]])


def wider(array):
    return np.concatenate([array, array[..., :1]], axis=-1)


def other_dtype(array):
    return array.astype(np.float64 if array.dtype != np.float64 else np.int64)


SHAPES = [longer, shorter, empty, deeper, flatter, wider, other_dtype]
