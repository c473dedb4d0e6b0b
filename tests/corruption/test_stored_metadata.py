"""Metadata of files that lies although its checksum is right."""

import shutil

import pytest
from damage import SOME, VARIANTS, ids_of, refused
from forging import file_of, forge, load
from small_indexes import TORTURE

pytestmark = [pytest.mark.kernels, pytest.mark.torture]

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
