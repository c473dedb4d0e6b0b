"""Columns of all types of Arrow, and of an extension type at every depth of nesting."""

import datetime
import decimal
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

N = 8  # rows of every column


class Loud(pa.ExtensionType):
    """An extension type whose reader tells that it was called."""

    called: ClassVar[list] = []

    def __init__(self, storage):
        super().__init__(storage, "tests.loud")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        cls.called.append(str(storage))
        return cls(storage)


def loud_array():
    return pa.ExtensionArray.from_storage(Loud(pa.int64()), pa.array(range(N)))


STEPS = pa.array(range(N + 1), pa.int32())


def in_list(values, kind):
    offsets = pa.array(range(N + 1), pa.int64() if kind is pa.LargeListArray else pa.int32())
    return kind.from_arrays(offsets, values)


DEPTHS = {
    "column": lambda a: a,
    "struct": lambda a: pa.StructArray.from_arrays([a], ["x"]),
    "list": lambda a: in_list(a, pa.ListArray),
    "large list": lambda a: in_list(a, pa.LargeListArray),
    "fixed list": lambda a: pa.FixedSizeListArray.from_arrays(a, 1),
    "list view": lambda a: pa.ListViewArray.from_arrays(STEPS[:N], pa.array([1] * N, pa.int32()), a),
    "map of values": lambda a: pa.MapArray.from_arrays(STEPS, pa.array(range(N)), a),
    "map of keys": lambda a: pa.MapArray.from_arrays(STEPS, a, pa.array(range(N))),
    "dictionary": lambda a: pa.DictionaryArray.from_arrays(STEPS[:N], a),
    "dense union": lambda a: pa.UnionArray.from_dense(pa.array([0] * N, pa.int8()), STEPS[:N], [a]),
    "sparse union": lambda a: pa.UnionArray.from_sparse(pa.array([0] * N, pa.int8()), [a]),
    "runs": lambda a: pa.RunEndEncodedArray.from_arrays(STEPS[1:], a),
    "struct in list in struct": lambda a: pa.StructArray.from_arrays(
        [in_list(pa.StructArray.from_arrays([a], ["x"]), pa.ListArray)], ["y"]
    ),
}  # fmt: skip


def values_of_all_types():
    some = [1, None, 3, 4, 5, 6, 7, 8]
    day = datetime.datetime(2020, 1, 2, 3, 4, 5)
    whole = {
        f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)
    }
    found = {name: pa.array(some, kind) for name, kind in whole.items()}
    found |= {name: pa.array(some, getattr(pa, name)()) for name in ("float16", "float32", "float64")}
    found["bool"], found["null"] = pa.array([True, None] * 4), pa.nulls(N)
    for name in ("string", "large_string", "string_view"):
        found[name] = pa.array(["a", None, "long enough to be elsewhere", ""] * 2, getattr(pa, name)())
    for name in ("binary", "large_binary", "binary_view"):
        found[name] = pa.array([b"a", None, b"long enough to be elsewhere", b"\xff"] * 2, getattr(pa, name)())
    found["fixed binary"] = pa.array([b"abcd", None] * 4, pa.binary(4))
    for unit in ("s", "ms", "us", "ns"):
        found[f"timestamp {unit}"] = pa.array([day, None] * 4, pa.timestamp(unit))
        found[f"zoned {unit}"] = pa.array([day, None] * 4, pa.timestamp(unit, "Asia/Tokyo"))
        found[f"duration {unit}"] = pa.array(some, pa.int64()).cast(pa.duration(unit))
    found["date32"], found["date64"] = (
        pa.array([day.date(), None] * 4, kind) for kind in (pa.date32(), pa.date64())
    )
    times = {
        "time s": pa.time32("s"),
        "time ms": pa.time32("ms"),
        "time us": pa.time64("us"),
        "time ns": pa.time64("ns"),
    }
    found |= {name: pa.array([day.time(), None] * 4, kind) for name, kind in times.items()}
    found["interval"] = pa.array([(1, 2, 3), None] * 4, pa.month_day_nano_interval())
    price = [decimal.Decimal("1.25"), None] * 4
    found |= {f"decimal{bits}": pa.array(price, getattr(pa, f"decimal{bits}")(8, 2)) for bits in (128, 256)}
    found |= {
        f"decimal{b}": pa.array(price, getattr(pa, f"decimal{b}")(8, 2))
        for b in (32, 64)
        if hasattr(pa, f"decimal{b}")
    }
    found["rounded decimal"] = pa.array([None] * N, pa.decimal128(10, -2))
    found |= {
        f"dictionary of {name}": found[name].dictionary_encode() for name in ("string", "int64", "timestamp us")
    }
    lists = [[1, 2], None, [], [3]] * 2
    for name in ("list_", "large_list", "list_view", "large_list_view"):
        if hasattr(pa, name):
            found[name] = pa.array(lists, getattr(pa, name)(pa.int64()))
    found["fixed list"] = pa.array([[1, 2], None] * 4, pa.list_(pa.int64(), 2))
    found["struct"] = pa.array([{"a": 1, "b": "x"}, None] * 4)
    found["struct of nothing"] = pa.array([{}] * N, pa.struct([]))
    found["struct of A and a"] = pa.StructArray.from_arrays([pa.array(range(N))] * 2, ["A", "a"])
    found["struct of a and a"] = pa.StructArray.from_arrays([pa.array(range(N))] * 2, ["a", "a"])
    found["map"] = pa.array([[("a", 1)], None] * 4, pa.map_(pa.string(), pa.int64()))
    found["sparse union"] = DEPTHS["sparse union"](pa.array(range(N)))
    found["dense union"] = DEPTHS["dense union"](pa.array(range(N)))
    found["runs"] = pc.run_end_encode(pa.array([1, 1, 2, 2, 3, 3, 4, 4]))
    found["list of dictionaries"] = pa.array(
        [["a"], None] * 4, pa.list_(pa.dictionary(pa.int32(), pa.string()))
    )
    found["fixed list of dictionaries"] = pa.FixedSizeListArray.from_arrays(found["dictionary of string"], 1)
    found["list of structs"] = pa.array([[{"a": 1}], None] * 4)
    found["list of views"] = pa.array([["a"], None] * 4, pa.list_(pa.string_view()))
    found["list of halves"] = pa.array([[1.0], None] * 4, pa.list_(pa.float16()))
    found["list of nulls"] = pa.array([[None], None] * 4, pa.list_(pa.null()))
    if hasattr(pa, "uuid"):
        found["uuid"] = pa.array([b"a" * 16, None] * 4, pa.uuid())
    return found
