"""Vectors as arrays, tensors, frames and columns of other libraries."""

import numpy as np
import pytest


class Capsule:
    """An array that supports DLPack only."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class ElsewhereCapsule(Capsule):
    """An array that says it is on a GPU."""

    def __dlpack_device__(self):
        return (2, 0)


def library(name):
    return pytest.importorskip(name)


def fixed_lists(rows):
    arrow = library("pyarrow")
    return arrow.FixedSizeListArray.from_arrays(arrow.array(rows.reshape(-1)), rows.shape[1])


def pandas_lists(rows):
    pandas = library("pandas")
    kind = pandas.ArrowDtype(fixed_lists(rows).type)
    return pandas.Series(pandas.array(rows.tolist(), dtype=kind))


def polars_columns(rows):
    polars = library("polars")
    return polars.DataFrame({f"x{place}": rows[:, place] for place in range(rows.shape[1])})


FORMS = {
    "torch": lambda rows: library("torch").from_numpy(rows.copy()),
    "torch that learns": lambda rows: library("torch").from_numpy(rows.copy()).requires_grad_(),
    "torch bfloat16": lambda rows: library("torch").from_numpy(rows.copy()).bfloat16(),
    "torch float64": lambda rows: library("torch").from_numpy(rows.copy()).double(),
    "torch in columns": lambda rows: library("torch").from_numpy(rows.T.copy()).T,
    "DLPack": Capsule,
    "bfloat16 of ml_dtypes": lambda rows: rows.astype(library("ml_dtypes").bfloat16),
    "objects": lambda rows: np.fromiter(rows, object, len(rows)),
    "pandas frame": lambda rows: library("pandas").DataFrame(rows),
    "pandas frame of two precisions": lambda rows: library("pandas").DataFrame(rows).astype({2: "float64"}),
    "pandas frame that may lack values": lambda rows: library("pandas").DataFrame(rows).astype("Float32"),
    "pandas column of arrays": lambda rows: library("pandas").Series(list(rows), index=range(7, 7 + len(rows))),
    "pandas column of lists": lambda rows: library("pandas").Series(rows.tolist()),
    "pandas column of Arrow": pandas_lists,
    "pandas column in a frame": lambda rows: library("pandas").DataFrame(
        {"n": range(len(rows)), "e": list(rows)}
    ),
    "pandas Arrow in a frame": lambda rows: library("pandas").DataFrame({"a": "b", "e": pandas_lists(rows)}),
    "polars frame": polars_columns,
    "polars array": lambda rows: library("polars").Series(rows),
    "polars array in two parts": lambda rows: library("polars").concat(
        [library("polars").Series(rows[:100]), library("polars").Series(rows[100:])], rechunk=False
    ),
    "polars lists": lambda rows: library("polars").Series(rows.tolist()),
    "polars array in a frame": lambda rows: library("polars").DataFrame(
        {"n": range(len(rows)), "e": library("polars").Series(rows)}
    ),
    "polars lists in a frame": lambda rows: library("polars").DataFrame(
        {"w": ["a"] * len(rows), "e": rows.tolist()}
    ),
    "Arrow lists": fixed_lists,
    "Arrow lists of any length": lambda rows: library("pyarrow").array(rows.tolist()),
    "Arrow column in two parts": lambda rows: library("pyarrow").chunked_array(
        [fixed_lists(rows[:100]), fixed_lists(rows[100:])]
    ),
    "Arrow table": lambda rows: library("pyarrow").table({"n": range(len(rows)), "e": fixed_lists(rows)}),
    "Arrow tensor": lambda rows: library("pyarrow").Tensor.from_numpy(rows),
    "Arrow tensors": lambda rows: library("pyarrow").FixedShapeTensorArray.from_numpy_ndarray(rows),
}


SINGLE = {
    "torch": lambda row: library("torch").from_numpy(row.copy()).requires_grad_(),
    "torch bfloat16": lambda row: library("torch").from_numpy(row.copy()).bfloat16(),
    "DLPack": Capsule,
    "pandas": lambda row: library("pandas").Series(row),
    "polars": lambda row: library("polars").Series(row),
    "Arrow": lambda row: library("pyarrow").array(row),
}
