"""Cases: an index and edits of its files, drawn from a seed, and how an edit is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from forging import file_of, forge, forge_manifest, load, set_entry
from good_indexes import LISTS, VARIANTS, Indexes

from pcpq import _core
from pcpq.store.manifest import read_manifest

Case = dict[str, Any]
Edit = dict[str, Any]
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
    """Yield cases without end."""
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
    """Yield cases with extreme floats in arrays that lists and thresholds are chosen by."""
    some = ("plain", "scaled", "wide", "unpacked", "own plain")
    arrays, values = ("centers", "spreads", "offsets"), (np.nan, np.inf, 3e38)
    for coding, n_lists, array, value in product(some, LISTS, arrays, values):
        edit = {"kind": "trained", "array": array, "how": "set", "value": value, "places": None}
        if n_lists == 16:
            edit["places"] = [0, 5]
        level = _core.simd_levels()[0]
        yield {"variant": f"{coding}, {n_lists} lists", "level": level, "unchecked": True, "edits": [edit]}


def draw(generator: np.random.Generator, path: Path) -> Edit:
    """Return a random edit."""

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
    """Return places in a flat array; None: all of it."""
    count = int(generator.choice([0, 1, 1, 2, 8, 40]))
    return [int(place) for place in generator.integers(max(size, 1), size=count)] if count else None


def keys_in(content: Any, pick: Any) -> list[Any]:
    """Return the path of keys to a value in JSON."""
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
    """Return an array in another shape or type."""
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
