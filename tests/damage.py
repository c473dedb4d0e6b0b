"""Indexes to damage, what is done to their files, and whether the damage is refused."""

import json
import pickle
import shutil
import warnings

import numpy as np
from forging import forge
from small_indexes import N_LISTS, QUERIES, TORTURE, string_ids

import pcpq
from pcpq.store.tensors import METADATA

N, N_SMALL = 60, 12
VARIANTS = {
    "numbers": {"keep": "int16"},
    "words": {"keep": None, "quantizer": pcpq.QPCPQ(section_size=2, max_iterations=2)},
    "scales": {
        "keep": "float16",
        "metric": "euclidean",
        "rotation": "random",
        "quantizer": pcpq.QPCPQ(section_size=4, n_centers=20, scales_per="vector", max_iterations=2),
    },
    "lists": {
        "keep": "int8",
        "codebooks": "per_list",
        "quantizer": pcpq.PCPQ(section_size=2, n_centers=4, max_iterations=2),
    },
}
# What takes long with all variants takes some, unless all were asked for.
SOME = list(VARIANTS) if TORTURE else ["numbers", "words"]


def ids_of(variant):
    numbers = range(N + N_SMALL)
    return string_ids(numbers) if variant == "words" else list(numbers)


def examine(path, ids):
    """Search all lists, read all rows, look up all ids; return the answers as bytes."""
    index = pcpq.open(path)
    there = [one for one in ids[::5] if one in index]
    found = index.search(QUERIES[:3], k=4, probes=N_LISTS, rerank=N + N_SMALL, threads=1)
    all_rows = index.search(QUERIES[0], k=N + N_SMALL, probes=N_LISTS, rerank=N + N_SMALL)
    present = [one for one in all_rows.ids.tolist() if one not in (-1, None)]
    return [
        repr(there),
        found.scores.tobytes(),
        repr(found.ids.tolist()),
        all_rows.scores.tobytes(),
        repr(all_rows.ids.tolist()),
        index.reconstruct(present).tobytes(),
        repr(index.get(present).to_pydict()) if index._state.snapshot.parts[0].segment.attributes else "",
    ]


def refused(path, ids):
    """Return True if any call raises a FormatError that names the file; False if all calls return."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of numbers that are none
        try:
            index = pcpq.open(path)
            for one in (*ids[::9], "missing" if isinstance(ids[0], str) else 10**9):
                _ = one in index
            for query in (QUERIES, QUERIES[0]):
                index.search(query, k=9, threads=1)
                index.search(query, k=3, probes=1, rerank=5, threads=1)
            index.search(QUERIES, k=5, filter=ids[:30])
            index.search(QUERIES, k=5, exclude=ids[:30])
            bound = "max_distance" if index.metric == "euclidean" else "min_score"
            index.search_range(QUERIES, **{bound: 0.5})
            index.reconstruct([one for one in ids if one in index])
            if index._state.snapshot.parts[0].segment.attributes:
                index.get([one for one in ids if one in index])
            index.stats()
            twin = pickle.loads(pickle.dumps(index))
            twin.compact()
            twin.search(QUERIES, k=9, threads=1)
        except pcpq.FormatError as error:
            return "/" in str(error) or "\\" in str(error)
    return False


KINDS = ["trained", "first", "second", "live"]


def first_of(header, largest=True):
    """The name of an array in a header."""
    names = [name for name in header if name != METADATA and not name.startswith("padding.")]
    return max(names, key=lambda name: header[name]["data_offsets"][1] - header[name]["data_offsets"][0])


def with_field(field, value):
    def edit(header):
        entry = header[first_of(header)]
        entry[field] = value(entry) if callable(value) else value

    return edit


def without_field(field):
    return lambda header: header[first_of(header)].pop(field) and None


def overlapping(header):
    """Put two arrays at one place, which leaves a hole."""
    names = sorted((n for n in header if n != METADATA), key=lambda n: header[n]["data_offsets"])
    last, size = names[-1], None
    size = header[last]["data_offsets"][1] - header[last]["data_offsets"][0]
    header[last]["data_offsets"] = [0, size]


def twin(header):
    """Give the bytes of an array a second name."""
    header["twin"] = dict(header[first_of(header)])


def hole(header):
    del header[first_of(header)]


def shifted(by):
    return with_field("data_offsets", lambda entry: [place + by for place in entry["data_offsets"]])


def twice(header):
    name = first_of(header)
    text = json.dumps(header)
    return (text[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}}}").encode()


HEADERS = {
    "overlapping": overlapping,
    "twin": twin,
    "hole": hole,
    "negative shape": with_field("shape", lambda entry: [-length for length in entry["shape"]]),
    "two negative lengths": with_field("shape", lambda entry: [-1, -np.prod(entry["shape"]).item()]),
    "enormous shape": with_field("shape", [1 << 62]),
    "enormous product": with_field("shape", [1 << 40, 1 << 40]),
    "product that wraps to the right size": with_field("shape", lambda entry: [*entry["shape"], (1 << 64) + 1]),
    "product that wraps to nothing": with_field("shape", [1 << 32, 1 << 32]),
    "nothing of enormous things": lambda header: header.update(
        nothing={"dtype": "U8", "shape": [0, 1 << 47, 1 << 47], "data_offsets": [0, 0]}
    ),
    "a hundred axes": lambda header: header.update(
        nothing={"dtype": "U8", "shape": [1] * 99 + [0], "data_offsets": [0, 0]}
    ),
    "shape of floats": with_field("shape", lambda entry: [float(length) for length in entry["shape"]]),
    "shape of words": with_field("shape", "abc"),
    "shape of truths": with_field("shape", [True]),
    "no shape": without_field("shape"),
    "null shape": with_field("shape", None),
    "beyond the file": shifted(1 << 20),
    "far beyond the file": shifted(1 << 62),
    "before the file": shifted(-64),
    "a byte too far": shifted(1),
    "terabytes": lambda header: header.update(
        huge={"dtype": "U8", "shape": [1 << 44], "data_offsets": [0, 1 << 44]}
    ),
    "backwards": with_field("data_offsets", lambda entry: entry["data_offsets"][::-1]),
    "float offsets": with_field(
        "data_offsets", lambda entry: [float(place) for place in entry["data_offsets"]]
    ),
    "word offsets": with_field("data_offsets", ["0", "64"]),
    "null offsets": with_field("data_offsets", [None, None]),
    "infinite offsets": with_field("data_offsets", [float("inf"), float("inf")]),
    "offsets that are no numbers": with_field("data_offsets", [float("nan"), float("nan")]),
    "three offsets": with_field("data_offsets", [0, 64, 128]),
    "one offset": with_field("data_offsets", 0),
    "no offsets": without_field("data_offsets"),
    "unknown dtype": with_field("dtype", "BF16"),
    "nonsense dtype": with_field("dtype", ["F32"]),
    "no dtype": without_field("dtype"),
    "other dtype of the same size": with_field(
        "dtype",
        lambda entry: {"F32": "I32", "I64": "F64", "U8": "I8", "U32": "F32", "I16": "F16"}[entry["dtype"]],
    ),
    "entry that is a number": lambda header: header.update({first_of(header): 5}),
    "entry that is null": lambda header: header.update({first_of(header): None}),
    "entry that is a list": lambda header: header.update({first_of(header): []}),
    "a name twice": twice,
    "no arrays": lambda header: [header.pop(name) for name in list(header) if name != METADATA] and None,
    "no metadata": lambda header: header.pop(METADATA) and None,
    "metadata that is a list": lambda header: header.update({METADATA: ["pcpq"]}),
    "metadata that is a number": lambda header: header.update({METADATA: 7}),
    "metadata that is null": lambda header: header.update({METADATA: None}),
    "metadata that is empty": lambda header: header.update({METADATA: {}}),
    "metadata of numbers": lambda header: header.update({METADATA: {"pcpq": 1, "check": {}}}),
    "metadata that is no JSON": lambda header: header.update({METADATA: {"pcpq": "{", "check": "x"}}),
    "metadata that is a word": lambda header: header.update({METADATA: {"pcpq": '"x"', "check": ""}}),
    "metadata that is nested": lambda header: header.update({METADATA: {"pcpq": "[" * 100_000, "check": ""}}),
    "no object": lambda header: b"[1, 2, 3]",
    "no JSON": lambda header: b"{" + b"x" * 100,
    "no UTF-8": lambda header: b'{"\xff\xfe": 1}',
    "deep nesting": lambda header: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep lists": lambda header: b"[" * 1_000_000,
    "a number of a million digits": lambda header: b'{"a": ' + b"9" * 1_000_000 + b"}",
}


def harm_of(made, path, kind, variant, name, edit, may_answer=True):
    """Return what goes wrong with an index that has a forged file; nothing if it is refused, or may answer."""
    shutil.copytree(made / variant, path)
    with np.errstate(all="ignore"):
        forge(path, kind, edit)
    try:
        return [] if refused(path, ids_of(variant)) or may_answer else [f"{name}: answered"]
    except Exception as error:
        return [f"{name}: {error!r}"]
    finally:
        shutil.rmtree(path)


def in_entry(where, **changes):
    def edit(content):
        entries = {
            "trained": content["trained"],
            "segment": content["parts"][0]["segment"],
            "live": next(part["live"] for part in content["parts"] if part["live"]),
        }
        entries[where].update(changes)

    return edit
