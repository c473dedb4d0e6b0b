"""Arrays of other shapes and values than were written, with right checksums."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from array_shapes import SHAPES, flatter, longer, shorter, wider
from damage import KINDS, examine, harm_of, ids_of, refused
from forging import file_of, forge, load
from small_indexes import TORTURE

from pcpq.store.manifest import MANIFEST, read_manifest

pytestmark = [pytest.mark.kernels, pytest.mark.torture]

# Arrays


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
    second = file_of(numbers, "second")
    parts = tuple(
        replace(part, count=0 if part.segment.file == second else part.count) for part in manifest.parts
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
