"""Vectors from columns of Parquet and Arrow files."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from vector_files import fixed_array, list_array, store_arrow

from pcpq.errors import FormatError
from pcpq.io.formats import (
    read_vectors,
    vector_file,
)

pytestmark = pytest.mark.quick


@pytest.fixture(params=["parquet", "arrow", "stream"])
def store_table(request, tmp_path):
    """Write a table; returns the path."""

    def write(columns):
        table = pyarrow.table(columns)
        path = tmp_path / f"set.{'parquet' if request.param == 'parquet' else 'arrow'}"
        if request.param == "parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            store_arrow(path, table, stream=request.param == "stream")
        return path

    return write


def test_columns_of_numbers_of_any_kind_are_vectors(vectors, store_table, small_batches):
    half = pyarrow.array(list(vectors.astype(np.float16)), pyarrow.list_(pyarrow.float16()))
    tensor = pyarrow.fixed_shape_tensor(pyarrow.float32(), (6,))
    columns = [list_array(vectors, kind) for kind in (pyarrow.float64(), pyarrow.uint8(), pyarrow.int64())]
    columns += [half, fixed_array(vectors), pyarrow.ExtensionArray.from_storage(tensor, fixed_array(vectors))]
    columns.append(pyarrow.array(vectors.tolist(), pyarrow.large_list(pyarrow.float32())))
    for column in columns:
        file = read_vectors(store_table({"embedding": column, "text": ["a"] * 300}))
        np.testing.assert_array_equal(file.array(), vectors)
        assert all(batch.dtype.char in "efd" and len(batch) <= 7 for batch in file.vectors)


def test_ids_are_integers_or_words(vectors, store_table):
    numbers, names = np.arange(300) * 3, [f"é{i}" for i in range(300)]
    path = store_table(
        {
            "id": pyarrow.array(numbers, pyarrow.uint32()),
            "name": names,
            "coded": pyarrow.array(names).dictionary_encode(),
            "large": pyarrow.array(names, pyarrow.large_string()),
            "v": fixed_array(vectors),
        }
    )
    ids = read_vectors(path).ids()
    assert ids.dtype == np.int64
    np.testing.assert_array_equal(ids, numbers)
    for column in ("name", "coded", "large"):
        assert read_vectors(path, id_column=column).ids() == names


def test_columns_that_do_not_fit_are_refused_by_name(vectors, store_table):
    ids = pyarrow.array([*range(299), None])
    path = store_table(
        {
            "a": list_array(vectors),
            "b": fixed_array(vectors),
            "c": ids,
            "d": np.ones(300),
            "u": pyarrow.array(np.arange(300, dtype=np.uint64) + 2**63),
        }
    )
    for column, id_column, said in (
        (None, None, r"may be 'a', 'b'; say which: column='a' \(command line: --column a\)"),
        ("x", None, "'x' occurs 0 times; there are 'a', 'b', 'c', 'd', 'u'"),
        ("c", None, "column 'c' is of type int64; expected lists of numbers"),
        ("a", "x", "'x' occurs 0 times; there are 'a', 'b', 'c', 'd', 'u'"),
        ("a", "d", "column 'd' is of type double; ids are integers or strings"),
    ):
        with pytest.raises(ValueError, match=rf"set\.\w+: .*{said}"):
            read_vectors(path, column=column, id_column=id_column)
    assert read_vectors(path, column="a").ids() is None
    for id_column, said in (("c", "column 'c' has 1 nulls"), ("u", "9223372036854775808")):
        with pytest.raises(FormatError, match=rf"set\.\w+: .*{said}"):
            read_vectors(path, column="b", id_column=id_column).ids()
    unnamed = read_vectors(store_table({"id": np.ones(300), "v": fixed_array(vectors)}))
    np.testing.assert_array_equal(unnamed.array(), vectors)
    with pytest.raises(FormatError, match="column 'id' is of type double; ids are integers or strings"):
        unnamed.ids()
    with pytest.raises(ValueError, match="vectors is none of 'n'"):
        read_vectors(store_table({"n": [1, 2]}))
    with pytest.raises(FormatError, match="0 rows"):
        read_vectors(store_table({"v": list_array(vectors[:0])}))


def test_vectors_of_different_lengths_or_none_are_refused(store_table):
    for rows, said in (
        ([[1.0, 2.0], [3.0]], "column 'v', rows from 0 on: "),
        ([[1.0, 2.0], None], "1 nulls"),
        ([[1.0, 2.0], [3.0, None]], "1 of them null"),
        ([[], []], "0 dimensions|0 values"),
    ):
        path = store_table({"v": pyarrow.array(rows, pyarrow.list_(pyarrow.float32()))})
        with pytest.raises(FormatError, match=rf"set\.\w+: .*({said})"):
            read_vectors(path).array()


def test_batches_of_different_lengths_are_refused(tmp_path):
    path = tmp_path / "set.parquet"
    rows = [[1.0, 2.0]] * 5 + [[1.0, 2.0, 3.0]] * 5
    table = pyarrow.table({"v": pyarrow.array(rows, pyarrow.list_(pyarrow.float32()))})
    store_arrow(tmp_path / "set.arrow", table)
    pyarrow.parquet.write_table(table, path)
    for step, name in ((10, "set.arrow"), (20, "set.parquet")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vector_file, "BATCH_ELEMENTS", step)
            with pytest.raises(FormatError, match=f"{name}.*(rows? (from )?5 on have 3|2 to 3|values in all)"):
                read_vectors(tmp_path / name).array()
