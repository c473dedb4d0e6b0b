"""Tables from untrusted sources: given to `add`, or in files with right checksums."""

import numpy as np
import pyarrow as pa
import pytest
from arrow_columns import DEPTHS, Loud, N, in_list, loud_array, values_of_all_types
from small_indexes import TORTURE

import pcpq
from pcpq.search.where import matching
from pcpq.segment.attributes import Attributes
from pcpq.store.tables import read_attributes, write_attributes
from pcpq.store.tensors import FileEntry, checksum

pytestmark = pytest.mark.torture


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(6).normal(size=(N, 8)).astype(np.float32)


@pytest.fixture
def loud():
    pa.register_extension_type(Loud(pa.int64()))
    Loud.called.clear()
    yield Loud
    pa.unregister_extension_type("tests.loud")


def arrow_file(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def stored(directory, content, count):
    """Return the table that is read from a file with the right size and checksum."""
    (directory / "attributes-0.arrow").write_bytes(content)
    entry = FileEntry("attributes-0.arrow", len(content), checksum(np.frombuffer(content, np.uint8)))
    return read_attributes(directory, entry, count).table


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_extension_type_in_a_file_is_refused_before_its_code_runs(depth, loud, tmp_path):
    content = arrow_file(pa.table({"plain": range(N), "c": DEPTHS[depth](loud_array())}))
    with pytest.raises(pcpq.FormatError, match=r"attributes-0\.arrow: .*extension type"):
        stored(tmp_path, content, N)
    assert loud.called == []
    pa.ipc.open_file(content)
    assert loud.called != []  # as it would have been


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_extension_type_that_is_not_registered_is_refused_too(depth, tmp_path):
    content = arrow_file(pa.table({"plain": range(N), "c": DEPTHS[depth](loud_array())}))
    with pytest.raises(pcpq.FormatError, match="extension type"):
        stored(tmp_path, content, N)


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_extension_type_is_refused_by_add(depth, vectors):
    table = pa.table({"plain": range(N), "c": DEPTHS[depth](loud_array())})
    with pytest.raises(ValueError, match="'c'"):
        pcpq.build(vectors, metric="dot", attributes=table)


def test_metadata_in_a_struct_that_makes_an_extension_type_is_refused_by_add(vectors):
    inside = pa.field("x", pa.int64(), metadata={"ARROW:extension:name": "tests.loud"})
    column = pa.StructArray.from_arrays([pa.array(range(N))], fields=[inside])
    with pytest.raises(ValueError, match=r"'c' .* extension type"):
        pcpq.build(vectors, metric="dot", attributes=pa.table({"c": column}))


def test_metadata_of_columns_and_tables_is_left_behind(vectors, loud, tmp_path):
    told = {"ARROW:extension:name": "tests.loud", "ARROW:extension:metadata": ""}
    schema = pa.schema([pa.field("a", pa.int64(), False, told)], {"pandas": "{}"})
    index = pcpq.build(vectors, metric="dot", attributes=pa.table({"a": range(N)}, schema=schema))
    index.save(tmp_path / "index")
    found = pcpq.open(tmp_path / "index").get([3])
    assert found.equals(pa.table({"a": [3]}), check_metadata=True)
    assert loud.called == []


@pytest.mark.parametrize("part", ["footer", "first message"])
def test_an_extension_type_in_one_schema_only_is_refused(part, loud, tmp_path):
    content = arrow_file(pa.table({"c": loud_array()}))
    first, last = content.index(b"ARROW:extension:name"), content.rindex(b"ARROW:extension:name")
    assert first < len(content) // 2 < last
    gone = first if part == "footer" else last
    content = content[:gone] + b"BRROW" + content[gone + 5 :]
    for name in (b"ARROW:extension:metadata",):
        gone = content.index(name) if part == "footer" else content.rindex(name)
        content = content[:gone] + b"BRROW" + content[gone + 5 :]
    with pytest.raises(pcpq.FormatError, match="extension type"):
        stored(tmp_path, content, N)
    assert loud.called == []


def test_text_that_speaks_of_extension_types_is_only_text(vectors, tmp_path):
    words = ["ARROW:extension:name"] * N
    index = pcpq.build(vectors, metric="dot", attributes={"a": words, "b": pa.array(words).dictionary_encode()})
    index.save(tmp_path / "index")
    assert pcpq.open(tmp_path / "index").get([2]).to_pydict() == {"a": words[:1], "b": words[:1]}


def test_metadata_of_pandas_in_a_file_is_not_passed_on(tmp_path):
    table = pa.table({"a": range(N)}).replace_schema_metadata({"pandas": "{]", "x": "y"})
    assert stored(tmp_path, arrow_file(table), N).schema.metadata is None


REFUSED = {
    "float16", "string_view", "binary_view", "decimal256", "rounded decimal", "list_view", "large_list_view",
    "struct of nothing", "struct of A and a", "struct of a and a", "sparse union", "dense union", "runs",
    "list of views", "list of halves", "uuid",
}  # fmt: skip


@pytest.mark.parametrize("name", values_of_all_types())
def test_a_column_of_any_type_is_refused_or_works_to_the_end(name, vectors, tmp_path):
    column = values_of_all_types()[name]
    index = pcpq.Index(metric="dot", n_lists=1).fit(vectors)
    if name in REFUSED:
        with pytest.raises(ValueError, match=r"attributes .*'c'"):
            index.add(vectors, attributes=pa.table({"c": column}))
        return
    index.add(vectors, attributes=pa.table({"c": column}))
    index.add(vectors[:2], [100, 101])
    index.add(vectors[:2], [102, 103], attributes=pa.table({"c": column.slice(0, 2)}))
    index.save(tmp_path / "index")
    expected = [*values(column), None, None, *values(column.slice(0, 2))]
    ids = [*range(N), 100, 101, 102, 103]
    for again in (index, pcpq.open(tmp_path / "index")):
        assert values(again.get(ids)["c"]) == expected
        found = again.search(vectors[0], 12, where="c IS NOT NULL").ids
        assert sorted(found[found >= 0]) == [
            i for i, value in zip(ids, expected, strict=True) if value is not None
        ]
        found = again.search(vectors[0], 12, where="hash(c) = hash(c)", exclude=[3]).ids
        assert len(set(found[found >= 0])) == 11
    index.remove([1])
    index.compact()
    assert values(index.get([102])["c"]) == expected[-2:-1]


def values(column):
    """Return values as Python objects; nanoseconds as numbers, since Python has no type for them."""
    nanoseconds = pa.types.is_duration(column.type) and column.type.unit == "ns"
    return (column.cast(pa.int64()) if nanoseconds else column).to_pylist()


def test_types_in_each_other_are_limited(vectors, tmp_path):
    def nested(depth):
        column = pa.array(range(N))
        for level in range(depth - 1):
            column = in_list(column, pa.ListArray) if level % 2 else pa.StructArray.from_arrays([column], ["a"])
        return pa.table({"c": column})

    index = pcpq.build(vectors, metric="dot", attributes=nested(20))
    index.save(tmp_path / "index")
    pcpq.open(tmp_path / "index").search(vectors[0], where="c IS NOT NULL")
    for depth in (21, 60):
        with pytest.raises(ValueError, match=r"'c' .* nested more than 20"):
            pcpq.build(vectors, metric="dot", attributes=nested(depth))


@pytest.mark.parametrize("names", [["A", "a"], ["x", "Lang", "lANG"], ["a", "a"], ["\u00e4A", "\u00e4a"]])
def test_names_that_sql_does_not_tell_apart_are_refused(names, vectors, tmp_path):
    table = pa.Table.from_arrays([pa.array(range(N))] * len(names), names=names)
    with pytest.raises(ValueError, match=f"{names[-2]!r} and {names[-1]!r}"):
        pcpq.build(vectors, metric="dot", attributes=table)
    with pytest.raises(pcpq.FormatError, match=rf"attributes-0\.arrow: .*{names[-2]!r} and {names[-1]!r}"):
        stored(tmp_path, arrow_file(table), N)


def test_a_column_that_differs_by_case_from_one_that_is_there_is_refused(vectors):
    index = pcpq.build(vectors, metric="dot", attributes={"Lang": ["en"] * N})
    with pytest.raises(ValueError, match="'lang' and 'Lang'"):
        index.add(vectors, attributes={"lang": ["en"] * N})
    assert index.search(vectors[0], where="lang = 'en'").ids[0] >= 0
    assert len(index) == N


def test_files_that_differ_by_case_are_refused(vectors, tmp_path, monkeypatch):
    monkeypatch.setattr("pcpq.segment.attributes.problem_of_names", lambda names: None)
    index = pcpq.build(vectors, metric="dot", attributes={"Lang": ["en"] * N})
    index.add(vectors, attributes={"lang": ["en"] * N})
    index.save(tmp_path / "index")
    monkeypatch.undo()
    reader = pcpq.open(tmp_path / "index")
    for use in (lambda: reader.search(vectors[0], where="lang = 'en'"), lambda: reader.get([0, N])):
        with pytest.raises(pcpq.FormatError, match="'Lang' and 'lang'"):
            use()


@pytest.mark.parametrize("name", ["a\0b", "\0", "ARROW:extension:name"])
def test_a_name_that_would_be_misread_is_refused(name, vectors, tmp_path):
    with pytest.raises(ValueError, match=r"zero byte|key of extension types"):
        pcpq.build(vectors, metric="dot", attributes={name: range(N)})
    with pytest.raises(pcpq.FormatError, match=r"zero byte|extension type"):
        stored(tmp_path, arrow_file(pa.table({name: range(N)})), N)


def test_a_name_that_is_not_utf8_is_refused(vectors, tmp_path):
    content = arrow_file(pa.table({"\u00e4\u00e4\u00e4": range(N)})).replace(
        "\u00e4\u00e4\u00e4".encode(), b"\xff" * 6
    )
    with pytest.raises(pcpq.FormatError, match=r"attributes-0\.arrow"):
        stored(tmp_path, content, N)
    with pytest.raises(ValueError, match="utf-8"):
        pcpq.build(vectors, metric="dot", attributes=pa.ipc.open_file(content).read_all())


@pytest.mark.parametrize(
    "attributes",
    [
        {"a": [1 << 70] * N},
        {"a": [object()] * N},
        {"a": ["\ud800"] * N},
        {"\ud800": range(N)},
        {},
        {"a": [{1: 2}] * N},
    ],
)
def test_what_is_no_table_is_refused(attributes, vectors):
    with pytest.raises(ValueError, match="attributes"):
        pcpq.build(vectors, metric="dot", attributes=attributes)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ARROW1",
        b"ARROW1\0\0",
        b"ARROW1\0\0" + b"\0" * 4 + b"ARROW1",
        b"ARROW1\0\0" + b"\xff" * 40 + b"ARROW1",
        b"x" * 500,
    ],
)
def test_what_is_no_arrow_file_is_refused(content, tmp_path):
    with pytest.raises(pcpq.FormatError):
        stored(tmp_path, content, N)


def test_a_file_without_columns_or_rows_is_refused(tmp_path):
    for table in (pa.table({"a": range(N + 1)}), pa.table({"a": []}), pa.table({"a": range(N)}).select([])):
        with pytest.raises(pcpq.FormatError, match=r"attributes-0\.arrow"):
            stored(tmp_path, arrow_file(table), N)


def test_a_file_that_is_damaged_and_sealed_again_answers_or_is_refused(tmp_path):
    names = [
        "int64",
        "string",
        "large_string",
        "bool",
        "list_",
        "struct",
        "map",
        "dictionary of string",
        "timestamp us",
        "decimal128",
        "null",
    ]
    values = values_of_all_types()
    table = pa.table({name: values[name] for name in names})
    original = bytearray(arrow_file(table))
    generator = np.random.default_rng(9)
    refused = answered = 0
    footer = len(original) - 10 - int.from_bytes(original[-10:-6], "little")
    for number in range(20_000 if TORTURE else 400):
        content = bytearray(original)
        for _ in range(generator.integers(1, 4)):
            # Most of them where the schema is, or the places of buffers.
            place = int(
                generator.integers(footer, len(content)) if number % 2 else generator.integers(len(content))
            )
            content[place] = int(generator.choice([0, 1, 0x7F, 0x80, 0xFF, generator.integers(256)]))
        if number % 10 == 0:
            content = content[: int(generator.integers(len(content)))]
        try:
            found = stored(tmp_path, bytes(content), N)
        except pcpq.FormatError as error:
            refused += "attributes-0.arrow" in str(error)
            continue
        answered += 1
        found.take([3, 1]).to_pydict()
        if number % 20 == 0:
            name = found.column_names[0].replace('"', '""')
            matching(found.schema, f'"{name}" IS NOT NULL' if name else "true", None, found.select)
    assert answered > 20
    assert refused + answered == number + 1


def test_a_file_that_was_written_is_read(tmp_path):
    values = {name: column for name, column in values_of_all_types().items() if name not in REFUSED}
    table = pa.table(values)
    entry = write_attributes(tmp_path / "attributes-1.arrow", Attributes.of(table))
    assert read_attributes(tmp_path, entry, N).table.equals(table)
