"""Files that do not hold what was written, by accident or design: an error says so, or the answer is right."""

import faulthandler
import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from forging import file_of, forge, forge_manifest, load, set_entry
from test_storage import N_LISTS, QUERIES, TORTURE, VECTORS, another_process, files, small_index, words

import pcpq
from pcpq.store.manifest import MANIFEST, read_manifest
from pcpq.store.tensors import METADATA, FileEntry, checksum

N, N_SMALL = 60, 12
EVERY_BIT = 1 if TORTURE else 37
EVERY_LENGTH = 1 if TORTURE else 61
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
    return words(numbers) if variant == "words" else list(numbers)


@pytest.fixture(autouse=True)
def _no_hanging():
    faulthandler.dump_traceback_later(7200 if TORTURE else 240, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory of every variant: a segment with rows removed, and a small one, whose lists share blocks."""
    directory = tmp_path_factory.mktemp("made")
    for variant, parameters in VARIANTS.items():
        index, ids = small_index(**parameters), ids_of(variant)
        for some in (slice(0, N), slice(N, N + N_SMALL)):
            known = {"place": np.arange(N + N_SMALL)[some]} if variant == "numbers" else None
            index.add(VECTORS[some], ids[some], attributes=known)
        index.remove(ids[3:20:4])
        index.save(directory / variant)
        kinds = {name.split("-")[0] for name in files(directory / variant)}
        expected = {"live", "lock", "manifest.json", "segment", "trained"}
        assert kinds == expected | ({"attributes"} if variant == "numbers" else set())
    return directory


@pytest.fixture(params=list(VARIANTS))
def variant(request):
    return request.param


@pytest.fixture
def path(made, variant, tmp_path):
    """A copy to damage."""
    shutil.copytree(made / variant, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def numbers(made, tmp_path):
    """A copy of the simplest variant."""
    shutil.copytree(made / "numbers", tmp_path / "index")
    return tmp_path / "index"


def examine(path, ids):
    """All lists searched, all rows read, all ids looked up: what an index says, as bytes."""
    index = pcpq.open(path)
    there = [one for one in ids[::5] if one in index]
    found = index.search(QUERIES[:3], k=4, probes=N_LISTS, rerank=N + N_SMALL, threads=1)
    everyone = index.search(QUERIES[0], k=N + N_SMALL, probes=N_LISTS, rerank=N + N_SMALL)
    present = [one for one in everyone.ids.tolist() if one not in (-1, None)]
    return [
        repr(there),
        found.scores.tobytes(),
        repr(found.ids.tolist()),
        everyone.scores.tobytes(),
        repr(everyone.ids.tolist()),
        index.reconstruct(present).tobytes(),
        repr(index.get(present).to_pydict()) if index._state.snapshot.parts[0].segment.attributes else "",
    ]


def refused(path, ids):
    """True if a FormatError says so, whoever is the first to notice; False if all questions are answered."""
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


# Accidents


@pytest.mark.parametrize("variant", SOME, indirect=True)
@pytest.mark.parametrize("kind", ["manifest", "trained", "segment", "live", "attributes", "lock"])
def test_a_flipped_bit_is_noticed_or_does_not_matter(kind, variant, path):
    ids, noticed, flips, unnamed = ids_of(variant), 0, 0, []
    wanted = examine(path, ids)
    for file in sorted(path.glob(f"{kind}*")):
        content = file.read_bytes()
        descriptor = os.open(file, os.O_RDWR)
        for bit in range(0, 8 * len(content), EVERY_BIT):
            flips += 1
            os.pwrite(descriptor, bytes([content[bit // 8] ^ 1 << bit % 8]), bit // 8)
            try:
                assert examine(path, ids) == wanted, (file.name, bit)
            except pcpq.FormatError as error:
                noticed += 1
                unnamed += [(bit, str(error))] * (file.name not in str(error))
            finally:
                os.pwrite(descriptor, content[bit // 8 : bit // 8 + 1], bit // 8)
        os.close(descriptor)
    assert examine(path, ids) == wanted
    assert unnamed == []
    assert noticed == 0 if kind == "lock" else noticed >= 0.6 * flips


@pytest.mark.parametrize("variant", SOME, indirect=True)
@pytest.mark.parametrize("kind", ["manifest", "trained", "segment", "live", "attributes"])
def test_a_file_that_is_too_short_or_too_long_is_noticed(kind, variant, path):
    ids = ids_of(variant)
    wanted = examine(path, ids)
    for file in sorted(path.glob(f"{kind}*")):
        content = file.read_bytes()
        for length in range(0, len(content), EVERY_LENGTH):
            file.write_bytes(content[:length])
            with pytest.raises(pcpq.FormatError, match=file.name):
                examine(path, ids)
        for more in (b"\0", b"{}", content):  # not even the manifest may be followed by anything
            file.write_bytes(content + more)
            with pytest.raises(pcpq.FormatError, match=file.name):
                examine(path, ids)
        file.write_bytes(content)
    assert examine(path, ids) == wanted


def test_a_file_that_is_missing_is_named(variant, path):
    ids = ids_of(variant)
    for file in sorted(path.iterdir()):
        file.rename(path.parent / "elsewhere")
        if file.name == "lock":
            examine(path, ids)
        elif file.name == MANIFEST:
            with pytest.raises(FileNotFoundError, match="no manifest"):
                pcpq.open(path)
        else:
            with pytest.raises((pcpq.FormatError, FileNotFoundError), match=file.name):
                examine(path, ids)
        (path.parent / "elsewhere").rename(file)


def test_files_in_each_others_place_are_noticed(variant, path):
    names = [name for name in files(path) if name.endswith(".safetensors")]
    for first in names:
        for second in names:
            if first < second:
                one, other = (path / first).read_bytes(), (path / second).read_bytes()
                (path / first).write_bytes(other)
                (path / second).write_bytes(one)
                with pytest.raises(pcpq.FormatError, match=f"{first}|{second}"):
                    examine(path, ids_of(variant))
                (path / first).write_bytes(one)
                (path / second).write_bytes(other)


@pytest.mark.parametrize("what", ["link", "directory", "pipe", "nobody"])
def test_what_is_no_plain_file_is_neither_followed_nor_waited_for(what, numbers):
    for name in files(numbers):
        if name == "lock":
            continue
        file, real = numbers / name, numbers.parent / "real"
        file.rename(real)
        if what == "link":
            file.symlink_to(real)
        elif what == "directory":
            file.mkdir()
        elif what == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/nowhere/at/all")
        with pytest.raises(pcpq.FormatError, match=name):
            pcpq.open(numbers)
        file.rmdir() if what == "directory" else file.unlink()
        real.rename(file)
    pcpq.open(numbers)


def test_a_lock_that_leads_elsewhere_is_not_followed(numbers):
    (numbers / "lock").unlink()
    victim = numbers.parent / "victim"
    victim.write_text("mine")
    (numbers / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="lock"):
        pcpq.open(numbers, mode="a")
    assert victim.read_text() == "mine"
    assert len(pcpq.open(numbers)) > 0


def test_a_lock_full_of_nonsense_is_a_lock(numbers):
    for text in (b"", b"{", b"[1]", b'{"process": [], "host": 5}', b"\xff" * 10_000, b"[" * 4096):
        (numbers / "lock").write_bytes(text)
        with pcpq.open(numbers, mode="a"):
            (numbers / "lock").write_bytes(text)
            with pytest.raises(pcpq.LockedError):
                pcpq.open(numbers, mode="a")


# By design: checksums that are right


KINDS = ["trained", "first", "second", "live"]


def test_what_is_written_again_without_a_change_is_the_same(variant, path):
    ids = ids_of(variant)
    wanted = examine(path, ids)
    for kind in KINDS:
        forge(path, kind, lambda arrays: None, lambda header: None)
    assert examine(path, ids) == wanted
    assert not refused(path, ids)


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
    """Two arrays at one place, and a hole."""
    names = sorted((n for n in header if n != METADATA), key=lambda n: header[n]["data_offsets"])
    last, size = names[-1], None
    size = header[last]["data_offsets"][1] - header[last]["data_offsets"][0]
    header[last]["data_offsets"] = [0, size]


def twin(header):
    """Another name for bytes that have one."""
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


@pytest.mark.parametrize("kind", KINDS if TORTURE else ["first", "live"])
@pytest.mark.parametrize("edit", HEADERS.values(), ids=list(HEADERS))
def test_a_header_that_lies_is_refused(edit, kind, numbers):
    if edit is overlapping and kind == "live":
        pytest.skip("one array cannot overlap")
    forge(numbers, kind, edit_header=edit)
    assert refused(numbers, ids_of("numbers"))


@pytest.mark.parametrize("kind", KINDS if TORTURE else ["first", "live"])
@pytest.mark.parametrize("length", [0, 1, 2, "file", "more", 1 << 26, 1 << 32, 1 << 63, (1 << 64) - 1])
def test_a_header_of_an_impossible_length_is_refused(length, kind, numbers):
    file = file_of(numbers, kind)
    content = (numbers / file).read_bytes()
    length = {"file": len(content) - 8, "more": len(content) - 7}.get(length, length)
    forged = length.to_bytes(8, "little") + content[8:]
    set_entry(numbers, file, forged)
    assert refused(numbers, ids_of("numbers"))


@pytest.mark.parametrize("kind", KINDS if TORTURE else ["trained", "live"])
@pytest.mark.parametrize("content", [b"", b"1", b"1234567", bytes(8), bytes(1000), b"\x80\x04" * 50])
def test_a_file_of_nothing_is_refused(content, kind, numbers):
    set_entry(numbers, file_of(numbers, kind), content)
    assert refused(numbers, ids_of("numbers"))


# Arrays


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


def harm_of(made, path, kind, variant, name, edit, may_answer=True):
    """What goes wrong with an index of which a file was forged; nothing if it is refused, or may answer."""
    shutil.copytree(made / variant, path)
    with np.errstate(all="ignore"):
        forge(path, kind, edit)
    try:
        return [] if refused(path, ids_of(variant)) or may_answer else [f"{name}: answered"]
    except Exception as error:
        return [f"{name}: {error!r}"]
    finally:
        shutil.rmtree(path)


SHAPES = [longer, shorter, empty, deeper, flatter, wider, other_dtype]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_an_array_of_the_wrong_shape_is_refused(shape, kind, variant, made, tmp_path):
    if kind == "first" and not TORTURE and variant in ("scales", "lists"):
        pytest.skip("as the second; in the full form only")
    wrong = []
    for name, array in load(made / variant / file_of(made / variant, kind))[0].items():
        of_any_length = name == "text" or (name.endswith("vector_levels") and array.ndim == 1)
        if of_any_length and shape in (longer, shorter, flatter, wider):
            continue
        changed = shape(array)
        if changed.shape == array.shape and changed.dtype == array.dtype:
            continue

        def edit(arrays, name=name, changed=changed):
            arrays[name] = changed

        wrong += harm_of(made, tmp_path / name, kind, variant, name, edit, may_answer=False)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_that_is_missing_is_refused_or_not_needed(kind, variant, made, tmp_path):
    wrong, optional = [], {"gains", "biases", "matrix", "code_biases", "units"}
    optional |= {"text", "text_ends", "text_hashes", "code_scales"}
    optional |= {"scales", "vector_levels", "section_thresholds", "whitening"}
    for name in load(made / variant / file_of(made / variant, kind))[0]:
        may = name.rpartition(".")[2] in optional
        wrong += harm_of(
            made, tmp_path / name, kind, variant, name, lambda arrays, name=name: arrays.pop(name), may
        )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e-45, 0.0] if TORTURE else [np.nan, np.inf])
def test_floats_that_are_no_numbers_do_no_harm(value, kind, variant, made, tmp_path):
    wrong = []
    for name, array in load(made / variant / file_of(made / variant, kind))[0].items():
        for some in (slice(None), slice(0, 1)):
            if array.dtype.kind != "f":
                continue

            def edit(arrays, name=name, some=some):
                arrays[name].reshape(-1)[some] = value

            wrong += harm_of(made, tmp_path / f"{name}-{some.stop}", kind, variant, name, edit)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["zeros", "ones", "random"])
def test_whole_numbers_that_lie_do_no_harm(value, kind, variant, made, tmp_path):
    wrong = []
    for name, array in load(made / variant / file_of(made / variant, kind))[0].items():
        if array.dtype.kind not in "iu":
            continue
        path = tmp_path / name
        shutil.copytree(made / variant, path)

        def edit(arrays, name=name):
            found = arrays[name].reshape(-1).view(np.uint8)
            if value == "random":
                found[:] = np.random.default_rng(1).integers(256, size=len(found))
            else:
                found[:] = 0 if value == "zeros" else 255

        forge(path, kind, edit)
        try:
            refused(path, ids_of(variant))
        except Exception as error:
            wrong.append(f"{name}: {error!r}")
        shutil.rmtree(path)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["first", "second"])
@pytest.mark.parametrize(
    "counts",
    [
        lambda counts: counts[::-1] if counts[0] != counts[-1] else counts + np.uint32([1, 0, 0]),
        lambda counts: counts + np.uint32(1),
        lambda counts: np.full_like(counts, (1 << 32) - 1),
        lambda counts: np.zeros_like(counts),
        lambda counts: np.uint32([counts.sum() + 1, (1 << 32) - 1, 0]),  # the sum in 32 bits is right
        lambda counts: np.uint32([counts.sum(), 0, 0])[::-1],
    ],
)
def test_counts_that_do_not_match_codes_do_no_harm(counts, kind, variant, path):
    forge(path, kind, lambda arrays: arrays.update(counts=counts(arrays["counts"])))
    before = sum(load(path / file_of(path, "trained"))[0]["centers"].shape)
    told = refused(path, ids_of(variant))
    arrays = load(path / file_of(path, kind))[0]
    assert told or int(arrays["counts"].astype(np.int64).sum()) == len(arrays["ids"])
    assert before > 0


def test_a_segment_of_no_rows_is_refused(numbers):
    def edit(arrays):
        for name in arrays:
            if name not in ("counts", "sums", "list_checks"):
                arrays[name] = arrays[name][:0]
        arrays["counts"][:] = 0

    forge(numbers, "second", edit)
    manifest = read_manifest(numbers)
    loose = file_of(numbers, "second")
    parts = tuple(
        replace(part, count=0 if part.segment.file == loose else part.count) for part in manifest.parts
    )
    (numbers / MANIFEST).write_bytes(replace(manifest, parts=parts).text())
    assert refused(numbers, ids_of("numbers"))


def test_a_live_mask_that_names_rows_beyond_the_end_finds_none_of_them(variant, path):
    ids = ids_of(variant)
    wanted = examine(path, ids)
    blocks = load(path / file_of(path, "first"))[0]["counts"].astype(np.int64)
    ends = np.cumsum(-(-blocks // 32)) - 1

    def edit(arrays):
        for end, count in zip(ends, blocks, strict=True):
            if count % 32:
                arrays["words"][end] |= np.uint32((1 << 32) - (1 << int(count) % 32))

    forge(path, "live", edit)
    if not refused(path, ids):
        assert examine(path, ids) == wanted


@pytest.mark.parametrize("change", ["all", "none", "more", "fewer"])
def test_a_live_mask_that_does_not_match_its_count_is_refused(change, numbers):
    def edit(arrays):
        mask = arrays["words"]
        if change in ("all", "none"):
            mask[:] = (1 << 32) - 1 if change == "all" else 0
        elif change == "fewer":
            mask[0] &= mask[0] - 1
        else:
            missing = next(bit for bit in range(32) if not mask[0] >> bit & 1)
            mask[0] |= np.uint32(1 << missing)

    forge(numbers, "live", edit)
    assert refused(numbers, ids_of("numbers"))


# Words


@pytest.mark.parametrize("kind", ["first", "second"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda arrays: arrays.update(text_ends=arrays["text_ends"][::-1].copy()),
        lambda arrays: arrays["text_ends"].__setitem__(3, -1),
        lambda arrays: arrays["text_ends"].__setitem__(0, -(1 << 62)),
        lambda arrays: arrays["text_ends"].__setitem__(-1, 1 << 62),
        lambda arrays: arrays["text_ends"].__setitem__(-1, arrays["text_ends"][-1] - 1),
        lambda arrays: arrays["text_ends"].__setitem__(slice(None), 0),
        lambda arrays: arrays["text_ends"].__setitem__(2, arrays["text_ends"][5]),
        lambda arrays: arrays.update(text=arrays["text"][:-3]),
        lambda arrays: arrays.update(text=arrays["text"][:0]),
        lambda arrays: arrays.update(text=np.concatenate([arrays["text"]] * 2)),
        # Differences that wrap.
        lambda arrays: arrays["text_ends"].__setitem__(slice(1, 3), [(1 << 63) - 1, -(1 << 63)]),
    ],
)
def test_words_that_do_not_follow_each_other_are_refused(edit, kind, made, tmp_path):
    shutil.copytree(made / "words", tmp_path / "index")
    forge(tmp_path / "index", kind, edit)
    assert refused(tmp_path / "index", ids_of("words"))


@pytest.mark.parametrize("kind", ["first", "second"])
def test_words_that_are_no_text_are_refused(kind, made, tmp_path):
    shutil.copytree(made / "words", tmp_path / "index")
    forge(tmp_path / "index", kind, lambda arrays: arrays["text"].__setitem__(slice(None), 0xFF))
    assert refused(tmp_path / "index", ids_of("words"))


@pytest.mark.parametrize("kind", ["first", "second"])
def test_words_with_the_hashes_of_others_do_no_harm(kind, made, tmp_path):
    shutil.copytree(made / "words", tmp_path / "index")
    forge(tmp_path / "index", kind, lambda arrays: arrays["text_hashes"].__setitem__(slice(None), 5))
    refused(tmp_path / "index", ids_of("words"))


@pytest.mark.parametrize("kind", ["first", "second"])
def test_segments_with_and_without_words_are_not_one_index(kind, made, tmp_path):
    shutil.copytree(made / "words", tmp_path / "index")

    def edit(arrays):
        for name in ("text", "text_ends", "text_hashes"):
            del arrays[name]

    forge(tmp_path / "index", kind, edit)
    assert refused(tmp_path / "index", ids_of("words"))


# Metadata


ANYTHING = [None, -1, 0, 1 << 70, float("nan"), "x", []]
if TORTURE:
    ANYTHING += [True, 1e400, {}, [[]], [1, 2, 3], "", 1e-300, -1.5]


@pytest.mark.parametrize("variant", SOME, indirect=True)
@pytest.mark.parametrize("kind", ["trained", "first", "second"] if TORTURE else ["trained", "second"])
def test_metadata_of_the_wrong_kind_is_refused_or_does_no_harm(kind, variant, made, tmp_path):
    wrong = []
    about = load(made / variant / file_of(made / variant, kind))[2]
    for key in about:
        for number, value in enumerate(["missing", *ANYTHING]):
            path = tmp_path / f"{key}-{number}"
            shutil.copytree(made / variant, path)

            def edit(found, key=key, value=value):
                if value == "missing":
                    del found[key]
                else:
                    found[key] = value

            forge(path, kind, edit_about=edit)
            try:
                refused(path, ids_of(variant))
            except Exception as error:
                wrong.append(f"{key} = {value!r}: {error!r}")
            shutil.rmtree(path)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("variant", list(VARIANTS) if TORTURE else ["scales"], indirect=True)
def test_settings_of_codebooks_of_the_wrong_kind_are_refused_or_do_no_harm(variant, made, tmp_path):
    wrong = []
    book = load(made / variant / file_of(made / variant, "trained"))[2]["books"][0]
    for key in book:
        for number, value in enumerate(["missing", *ANYTHING]):
            path = tmp_path / f"{key}-{number}"
            shutil.copytree(made / variant, path)

            def edit(found, key=key, value=value):
                if value == "missing":
                    del found["books"][0][key]
                else:
                    found["books"][0][key] = value

            forge(path, "trained", edit_about=edit)
            try:
                refused(path, ids_of(variant))
            except Exception as error:
                wrong.append(f"{key} = {value!r}: {error!r}")
            shutil.rmtree(path)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["trained", "first", "second"])
@pytest.mark.parametrize("text", ["", "{", "null", "[]", "5", '{"checks": 5}', "{}", "[" * 10_000, "\ud800"])
def test_metadata_that_is_no_object_is_refused(text, kind, numbers):
    forge(numbers, kind, edit_about=lambda about: text or " ")
    assert refused(numbers, ids_of("numbers"))


def test_an_index_of_another_metric_than_its_lists_is_refused(numbers):
    forge(numbers, "trained", edit_about=lambda about: about.update(metric="manhattan"))
    assert refused(numbers, ids_of("numbers"))


# The manifest


def in_part(**changes):
    return lambda content: content["parts"][0].update(changes)


def in_entry(where, **changes):
    def edit(content):
        entries = {
            "trained": content["trained"],
            "segment": content["parts"][0]["segment"],
            "live": next(part["live"] for part in content["parts"] if part["live"]),
        }
        entries[where].update(changes)

    return edit


HEX = "0123456789abcdef" * 2
BAD_NAMES = [
    "../secret.safetensors",
    f"../segment-{HEX}.safetensors",
    f"/etc/segment-{HEX}.safetensors",
    "/etc/passwd",
    f"sub/segment-{HEX}.safetensors",
    f"segment-{HEX}.safetensors/../x",
    f"segment-{HEX}.safetensors\n",
    f"segment-{HEX}.safetensors\0",
    f"segment-{HEX.upper()}.safetensors",
    f"segment-{HEX[1:]}.safetensors",
    "manifest.json",
    "lock",
    "",
    ".",
    None,
    5,
    ["segment"],
]


@pytest.mark.parametrize("where", ["trained", "segment", "live"])
@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_manifest_names_only_files_of_its_own(name, where, numbers):
    (numbers.parent / f"segment-{HEX}.safetensors").write_bytes(b"elsewhere")
    name = name.replace("segment", where) if isinstance(name, str) else name
    forge_manifest(numbers, in_entry(where, file=name))
    with pytest.raises(pcpq.FormatError, match=r"is no name of a \w+ file"):
        pcpq.open(numbers)


def test_a_manifest_names_files_of_the_right_kind(numbers):
    named = {
        kind: file_of(numbers, {"segment": "first"}.get(kind, kind)) for kind in ("trained", "segment", "live")
    }
    original = (numbers / MANIFEST).read_bytes()
    for where in named:
        for kind, name in named.items():
            if kind != where:
                forge_manifest(numbers, in_entry(where, file=name))
                with pytest.raises(pcpq.FormatError, match="is no name of"):
                    pcpq.open(numbers)
                (numbers / MANIFEST).write_bytes(original)


WHOLE = [None, True, "1", -1, 1.0, 1.5, 1 << 62, 1 << 64, 10**400, [], {}, float("nan"), float("inf")]


@pytest.mark.parametrize("number", WHOLE, ids=repr)
@pytest.mark.parametrize("where", ["generation", "next_id", "count", "bytes", "check"])
def test_numbers_of_a_manifest_are_whole(where, number, numbers):
    edits = {
        "generation": lambda content: content.update(generation=number),
        "next_id": lambda content: content.update(next_id=number),
        "count": in_part(count=number),
        "bytes": in_entry("segment", bytes=number),
        "check": in_entry("segment", check=number),
    }
    try:
        forge_manifest(numbers, edits[where])
    except ValueError:
        pytest.skip("cannot even be written")
    if (where, number) == ("next_id", 1 << 62):
        assert len(pcpq.open(numbers)) > 0  # an id can be as large
        return
    with pytest.raises(pcpq.FormatError, match=r"manifest\.json"):
        pcpq.open(numbers)


def recall(**changes):
    """A curve that could be right, but for the number of lists and for changes."""
    curve = {
        "results": [1],
        "probes": [1, 999_999],
        "candidates": [1.0],
        "rows": [10.0, 100.0],
        "means": [[[0.5], [1.0]]],
        "errors": [[[0.1], [0.0]]],
        "queries": 9,
        "kind": "given",
    }
    return lambda content: content.update(recall=curve | changes)


MANIFESTS = {
    "recall in words": lambda content: content.update(recall="high"),
    "recall of nothing": lambda content: content.update(recall={}),
    "recall of other lists": recall(),
    "recall of no lists": recall(probes=[]),
    "more than all": recall(means=[[[0.5], [1.5]]]),
    "recall that is ragged": recall(means=[[[0.5], [1.0, 1.0]]]),
    "recall of numbers without end": recall(rows=[1.0, 10**400]),
    "no parts": lambda content: content.pop("parts") and None,
    "parts of words": lambda content: content.update(parts="abc"),
    "a part that is null": lambda content: content.update(parts=[None]),
    "parts in an object": lambda content: content.update(parts={"a": content["parts"][0]}),
    "a part without a segment": lambda content: content["parts"][0].pop("segment") and None,
    "a part without live": lambda content: content["parts"][0].pop("live", 0) and None,
    "counts that wrap": in_part(count=(1 << 62) - 1),
    "another count": lambda content: (
        [part.update(count=part["count"] - 1) for part in content["parts"]] and None
    ),
    "no rows": in_part(count=0),
    "terabytes": in_entry("segment", bytes=1 << 44),
    "terabytes of lists": in_entry("trained", bytes=1 << 44),
    "terabytes of removals": in_entry("live", bytes=1 << 44),
    "no bytes": in_entry("segment", bytes=0),
    "a part twice": lambda content: content["parts"].append(content["parts"][0]),
    "no settings": lambda content: content.pop("settings") and None,
    "settings in a list": lambda content: content.update(settings=[]),
    "unknown settings": lambda content: content["settings"].update(__class__="x"),
    "no metric": lambda content: content["settings"].pop("metric") and None,
    "unknown metric": lambda content: content["settings"].update(metric="manhattan"),
    "unknown keep": lambda content: content["settings"].update(keep=["int16"]),
    "lists in words": lambda content: content["settings"].update(n_lists="3"),
    "a seed of nothing": lambda content: content["settings"].update(seed=None),
    "a quantizer in words": lambda content: content["settings"].update(quantizer="PQ"),
    "an unknown quantizer": lambda content: content["settings"]["quantizer"].update(name="Quantizer"),
    "a quantizer of another module": lambda content: content["settings"]["quantizer"].update(name="os.system"),
    "unknown parameters": lambda content: content["settings"]["quantizer"]["parameters"].update(x=1),
    "centers in words": lambda content: content["settings"]["quantizer"]["parameters"].update(init=[["a"]]),
    "unknown kind": lambda content: content.update(kind="float"),
    "kind in a list": lambda content: content.update(kind=["int"]),
    "kind in an object": lambda content: content.update(kind={}),
    "ids are words, it says": lambda content: content.update(kind="str"),
    "no kind": lambda content: content.update(kind=None),
    "no trained": lambda content: content.update(trained=None),
    "trained in words": lambda content: content.update(trained="trained"),
}


@pytest.mark.parametrize("edit", MANIFESTS.values(), ids=list(MANIFESTS))
def test_a_manifest_that_lies_is_refused(edit, numbers):
    forge_manifest(numbers, edit)
    assert refused(numbers, ids_of("numbers"))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"pcpq"',
        b"{}",
        b"\xff\xfe\x00",
        b'{"format": "pcpq", "format": "pcpq", "version": 1}',
        b'{"format": "pcpq", "version": 1, "check": 5}',
        b'{"format": "pcpq", "version": 1}',
        b'{"format": "pcpq", "version": NaN}',
        b'{"format": "pcpq", "version": ' + b"1" * 5000 + b"}",
        b"[" * 2_000_000,
        b'{"a":' * 500_000,
        b'{"format": "pcpq", "version": 1, "settings": ' + b'{"a":' * 900 + b"1" + b"}" * 901,
        b"\x80\x04\x95",
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_manifest_of_anything_else_is_refused(text, numbers):
    (numbers / MANIFEST).write_bytes(text)
    for mode in ("r", "a"):
        with pytest.raises(pcpq.FormatError, match=r"manifest\.json"):
            pcpq.open(numbers, mode=mode)


def test_a_manifest_with_a_wrong_checksum_is_refused(numbers):
    content = json.loads((numbers / MANIFEST).read_text())
    for check in (
        content["check"] ^ 1,
        str(content["check"]),
        None,
        float(content["check"]) + 0.5,
        [content["check"]],
    ):
        (numbers / MANIFEST).write_text(json.dumps(content | {"check": check}))
        with pytest.raises(pcpq.FormatError, match="checksum"):
            pcpq.open(numbers)
    (numbers / MANIFEST).write_text(
        json.dumps(content, indent=5, sort_keys=True)
    )  # written otherwise, the same
    pcpq.open(numbers)


# Memory


LIMITED = """
import resource, sys, time
import numpy as np, pcpq
np.ones((50, 50)) @ np.ones((50, 50))
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + (300 << 20), size + (300 << 20)))
print("ready")
for line in sys.stdin:
    start = time.monotonic()
    try:
        index = pcpq.open(line[:-1])
        index.search(np.ones(8, np.float32))
        index.reconstruct([0])
        print("answered")
    except pcpq.FormatError:
        print("refused" if time.monotonic() - start < 5 else "slow")
    except BaseException as error:
        print(repr(error)[:300].replace("\\n", " "))
"""


def sized(**numbers):
    return lambda about: about.update(numbers)


def test_sizes_that_claim_terabytes_take_no_memory(made, tmp_path):
    def manifest_of(size):
        def forge_it(path):
            with open(path / MANIFEST, "ab") as file:
                file.write(b" " * size)

        return forge_it

    def sparse(path):
        """A file that is a terabyte long, and takes no room."""
        file = file_of(path, "first")
        os.truncate(path / file, 1 << 40)
        forge_manifest(
            path,
            lambda content: (
                [
                    part["segment"].update(bytes=1 << 40)
                    for part in content["parts"]
                    if part["segment"]["file"] == file
                ]
                and None
            ),
        )

    huge = 1 << 44
    cases = {
        "manifest of 100 MB": manifest_of(100 << 20),
        "sparse": sparse,
        "counts": lambda path: forge(path, "first", lambda a: a["counts"].__setitem__(slice(None), 0xFFFFFFFF)),
        "dimensions": lambda path: forge(path, "trained", edit_about=sized(dimensions=huge)),
        "sections": lambda path: forge(path, "trained", edit_about=sized(sections=[huge, huge])),
        "many sections": lambda path: forge(path, "trained", edit_about=sized(sections=[1 << 30, 1])),
        "rows a page": lambda path: forge(path, "first", edit_about=sized(rows_a_page=-1)),
        "no rows a page": lambda path: forge(path, "first", edit_about=sized(rows_a_page=0)),
        "bytes": lambda path: forge_manifest(path, in_entry("segment", bytes=huge)),
        "shape": lambda path: forge(path, "first", edit_header=HEADERS["terabytes"]),
        "nothing of enormous things": lambda path: forge(
            path, "first", edit_header=HEADERS["nothing of enormous things"]
        ),
        "header": lambda path: set_entry(
            path, file_of(path, "first"), (1 << 40).to_bytes(8, "little") + bytes(100), check=1
        ),
    }
    said = {}
    with another_process(LIMITED) as process:
        assert process.stdout.readline() == "ready\n"
        for number, (name, forge_it) in enumerate(cases.items()):
            path = tmp_path / str(number)
            shutil.copytree(made / "numbers", path)
            forge_it(path)
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            said[name] = process.stdout.readline().strip()
            shutil.rmtree(path)
    # An address space that is too small for a file is not the file's fault.
    assert said.pop("sparse") in ("refused", "OSError(12, 'Cannot allocate memory')")
    del cases["sparse"]
    assert said == dict.fromkeys(cases, "refused")


def test_a_manifest_just_small_enough_to_be_read_is_read(numbers):
    with open(numbers / MANIFEST, "ab") as file:
        file.write(b" " * (1 << 20))
    assert len(pcpq.open(numbers)) > 0


# Attributes


@pytest.mark.parametrize("which", [0, 1])
def test_tables_that_lie_do_no_harm(which, numbers):
    entry = read_manifest(numbers).parts[which].attributes
    content = (numbers / entry.file).read_bytes()
    lies = [b"", b"ARROW1", content[:-1], content[: len(content) // 2], content + content, bytes(len(content))]
    generator = np.random.default_rng(2)
    for _ in range(2000 if TORTURE else 60):
        lie = bytearray(content)
        for place in generator.integers(len(content), size=generator.integers(1, 4)):
            lie[place] ^= 1 << int(generator.integers(8))
        lies.append(bytes(lie))
    wrong = []
    for lie in lies:
        forged = FileEntry(entry.file, len(lie), checksum(np.frombuffer(lie, np.uint8)))
        (numbers / entry.file).write_bytes(lie)
        manifest = read_manifest(numbers)
        parts = list(manifest.parts)
        parts[which] = replace(parts[which], attributes=forged)
        (numbers / MANIFEST).write_bytes(replace(manifest, parts=tuple(parts)).text())
        try:
            assert refused(numbers, ids_of("numbers")) or len(lie) >= len(content), lie
        except Exception as error:
            wrong.append(repr(error))
    assert not wrong, "\n".join(wrong)


def test_a_table_of_other_rows_is_refused(numbers):
    manifest = read_manifest(numbers)
    first, second = manifest.parts
    for change in (replace(first, attributes=second.attributes), replace(first, attributes=None)):
        (numbers / MANIFEST).write_bytes(replace(manifest, parts=(change, second)).text())
        with np.errstate(all="ignore"):
            told = refused(numbers, ids_of("numbers"))
        assert told or change.attributes is None


# No pickle


def test_opening_an_index_imports_and_runs_nothing_from_its_files(numbers):
    """With pickle out of reach, everything works."""
    code = """
import sys
import numpy as np, pcpq
import pickle
def never(*arguments, **named):
    raise SystemExit("pickle")
pickle.loads = pickle.load = pickle.Unpickler = never
index = pcpq.open(sys.argv[1])
index.search(np.ones(8, np.float32))
with pcpq.open(sys.argv[1], mode="a") as writer:
    writer.remove([0])
    writer.compact()
    writer.commit()
print("done")
"""
    command = [sys.executable, "-c", code, str(numbers)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "done\n"


def test_no_module_of_storage_knows_pickle():
    directory = Path(pcpq.store.__file__).parent
    for module in directory.glob("*.py"):
        text = module.read_text()
        assert "pickle" not in text, module
        assert "marshal" not in text, module
        assert "np.load(" not in text, module
