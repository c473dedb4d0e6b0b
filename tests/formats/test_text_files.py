"""Vectors from lines of JSON and from text."""

import gzip

import numpy as np
import pytest
from vector_files import lines, words

from pcpq.errors import FormatError
from pcpq.io.formats import (
    files,
    read_vectors,
)

pytestmark = pytest.mark.quick

# JSON lines


def test_lines_of_json_have_a_vector_and_perhaps_an_id(vectors, tmp_path, small_batches):
    path = tmp_path / "set.jsonl.gz"
    names = [f"ü {i}" for i in range(300)]
    path.write_bytes(gzip.compress(("\ufeff" + lines(vectors, id=range(300), name=names) + "\n\n").encode()))
    file = read_vectors(path)
    np.testing.assert_array_equal(file.array(), vectors)
    np.testing.assert_array_equal(file.ids(), np.arange(300))
    assert file.ids().dtype == np.int64
    assert read_vectors(path, id_column="name").ids() == names


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"vector": [1, 2]', "is not JSON"),
        ("[1, 2]", r"is \[1, 2\]; expected an object"),
        ("{}", "field 'vector' is None"),
        ('{"vector": [1]}', "has 1 dimensions, the first vector has 2"),
        ('{"vector": [1, "2"]}', "expected a list of numbers"),
        ('{"vector": [1, true]}', "expected a list of numbers"),
        ('{"vector": [1, null]}', "expected a list of numbers"),
        ('{"vector": [1, [2]]}', "expected a list of numbers"),
        ('{"vector": "12"}', "field 'vector' is '12'"),
        ('{"vector": [1, 1' + "0" * 400 + "]}", "too large"),
        ('{"vector": [1, 1' + "0" * 9000 + "]}", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"vector": [1, 2], "a": "\udcff"}', "is not JSON"),
    ],
)
def test_lines_that_are_wrong_are_refused_by_number(line, said, tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_bytes(('{"vector": [1, 2]}\n\n' + line).encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError, match=rf"set\.jsonl, line 3: .*{said}"):
        read_vectors(path).array()


def test_fields_that_do_not_fit_are_refused_by_name(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text('{"a": [1, 2], "b": [3], "c": "x", "d": []}\n')
    for column, id_column, said in (
        (None, None, r"may be 'a', 'b'; say which: column='a' \(command line: --column a\)"),
        ("x", None, "'x' occurs 0 times"),
        ("c", None, "field 'c' is 'x'; expected a list"),
        ("d", None, r"field 'd' is \[\]"),
        ("a", "x", "'x' occurs 0 times"),
    ):
        with pytest.raises(ValueError, match=rf"set\.jsonl: .*{said}"):
            read_vectors(path, column=column, id_column=id_column)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("1", '"b"', "is 'b'; expected ids that are all integers"),
        ('"a"', "2", "is 2; expected ids that are all strings"),
        ("1", "true", "is True"),
        ("1", "1.5", "is 1.5"),
        ("1", "9223372036854775808", "is 9223372036854775808"),
        ("1", "null", "is None"),
    ],
)
def test_ids_of_lines_are_of_one_kind(first, second, said, tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text("".join(f'{{"id": {value}, "vector": [1]}}\n' for value in (first, second)))
    with pytest.raises(FormatError, match=rf"line 2: field 'id' {said}"):
        read_vectors(path).ids()


def test_a_line_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_LINE", 1000)
    for name in ("bomb.jsonl.gz", "bomb.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"a 1 2\n" + b"1" * 100_000))
        with pytest.raises(FormatError, match=rf"{name}, line (1: is not JSON|2: has more than 1000 bytes)"):
            read_vectors(tmp_path / name).array()


# Words


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("suffix", [".txt", ".vec", ".txt.gz"])
def test_text_has_a_word_and_its_numbers_a_line(header, suffix, vectors, tmp_path, small_batches):
    path = tmp_path / f"words{suffix}"
    content = words(vectors, header).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    file = read_vectors(path)
    assert (file.rows, file.dimensions) == (300 if header else None, 6)
    assert file.ids() == [f"word{i}" for i in range(300)]
    np.testing.assert_array_equal(file.array(), vectors)


@pytest.mark.parametrize("header", ["", "\n6 2\n"])
def test_words_may_have_blanks_in_them_and_lines_at_their_end(header, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(header + "at name@x.org 1 2\n. . . 3 4 \n5 5 6\r\n\n\u00a0 7\t8\nnan 9 1e1\n-1 -2 inf")
    file = read_vectors(path)
    assert file.ids() == ["at name@x.org", ". . .", "5", "\u00a0", "nan", "-1"]
    np.testing.assert_array_equal(file.array(), [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [-2, np.inf]])


def test_a_header_of_one_dimension_is_no_word(tmp_path):
    (tmp_path / "words.txt").write_text("2 1\na 5\n7 1\n")
    assert read_vectors(tmp_path / "words.txt").ids() == ["a", "7"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("word 1", "has 2 fields; expected a word and 2 numbers"),
        ("1 2", "has 2 fields; expected a word and 2 numbers"),
        ("word 1 2 3", "has 4 fields; expected a word and 2 numbers"),
        ("word 1 x", "could not convert"),
        ("word", "has 1 fields"),
    ],
)
def test_lines_of_text_that_are_wrong_are_refused_by_number(line, said, tmp_path):
    for header in ("", "2 2\n"):
        (tmp_path / "words.vec").write_text(f"{header}the 0.5 1\n{line}\n")
        with pytest.raises(FormatError, match=rf"words\.vec, line {3 if header else 2}: .*{said}"):
            read_vectors(tmp_path / "words.vec").array()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("3 2\na 1 2\nb 3 4\n", "says it has 3 vectors, but has only 2"),
        ("1 2\na 1 2\nb 3 4\n", "says it has 1 vectors, but has more"),
        ("1000000000 2\na 1 2\n", "says it has 1000000000 vectors; 19 bytes hold at most 4"),
        ("0 2\na 1 2\n", "says it has 0 vectors"),
        ("2 0\na 1 2\n", "0 dimensions"),
        ("2 99999999999\na 1 2\n", "99999999999 dimensions"),
        ("1" * 5000 + " 2\na 1 2\n", "cannot be read"),
        ("no numbers\n", "line 1: ends in no number"),
        (" \n\n", "no lines"),
    ],
)
def test_text_that_says_one_thing_and_has_another_is_refused(content, said, tmp_path):
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(FormatError, match=rf"words\.txt.*{said}"):
        read_vectors(tmp_path / "words.txt").array()


def test_words_that_are_not_utf8_are_refused_by_line(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"a 1 2\n\xff\xfe 3 4\n")
    file = read_vectors(tmp_path / "words.txt")
    assert file.array().shape == (2, 2)
    with pytest.raises(FormatError, match="line 2: the word is not UTF-8"):
        file.ids()
