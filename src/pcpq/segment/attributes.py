"""Attributes of vectors: an Arrow table per segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pcpq.io.foreign_arrays import as_array

if TYPE_CHECKING:
    import pyarrow

NEEDED = "attributes need pyarrow and duckdb: pip install 'pcpq[attributes]'"
# Key in the bytes of a schema that makes a column an extension type, for which readers may run code.
EXTENSION = b"ARROW:extension"
# Strings become a dictionary for conditions if there are so many rows per value, at first among a few rows.
ROWS_PER_VALUE = 16
ROWS_COUNTED = 4096
# Largest nesting depth of types: Arrow files allow 64 levels, and a list takes two of them.
MOST_DEPTH = 20


class Attributes:
    """The attributes of a segment: one row per vector, in ascending order of integer ids, read on demand."""

    def __init__(self, read: Callable[[], pyarrow.Table]) -> None:
        self._read, self._table = read, None
        self._read_once: set[str] = set()  # columns that one condition has read
        self._coded: dict[str, pyarrow.ChunkedArray] = {}

    @classmethod
    def of(cls, table: pyarrow.Table) -> Attributes:
        """Return the attributes in a table that is in memory."""
        return cls(lambda: table)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle: the table itself."""
        return {"table": self.table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore attributes from a pickled table."""
        vars(self).update(vars(Attributes.of(state["table"])))

    @property
    def table(self) -> pyarrow.Table:
        """The table, read at the first use."""
        if self._table is None:
            self._table = self._read()
        return self._table

    def for_conditions(self, columns: list[str]) -> pyarrow.Table:
        """Return some columns for a condition on all rows: strings with few values as dictionaries.

        DuckDB compares the values of a dictionary once instead of row by row. A column is encoded when a second
        condition reads it.
        """
        table = self.table.select(columns)
        for place, name in enumerate(columns):
            if name in self._read_once and name not in self._coded:
                self._coded[name] = with_few_values_coded(table[name])
            self._read_once.add(name)
            if name in self._coded:
                table = table.set_column(place, name, self._coded[name])
        return table

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return int(self.table.nbytes)


def with_few_values_coded(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return a column of strings with few values as dictionary codes, any other column as it is."""
    pa = arrow()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    some = column.slice(0, ROWS_COUNTED)
    if len(some.unique()) > len(some) // ROWS_PER_VALUE:
        return column
    coded = column.combine_chunks().dictionary_encode()
    if len(coded.dictionary) > len(column) // ROWS_PER_VALUE:
        return column
    return pa.chunked_array([coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded])


def arrow() -> Any:
    """Return the pyarrow module; raise an ImportError that says how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return pyarrow


def as_table(attributes: Any, count: int | None) -> pyarrow.Table:
    """Return a table, record batch, data frame or dict of columns as a table of `count` rows, any if None.

    Raises a ValueError if it cannot be one, has another number of rows, or cannot be stored.
    """
    pa = arrow()
    if isinstance(attributes, pa.RecordBatch):
        table = pa.Table.from_batches([attributes])
    elif isinstance(attributes, pa.Table):
        table = attributes
    else:
        try:
            table = table_of(attributes)
        except (TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
            raise ValueError(f"attributes cannot be converted to a table: {error}") from error
    if count is not None and len(table) != count:
        raise ValueError(f"attributes have {len(table)} rows for {count} vectors; expected one per vector")
    table = storable(table)
    try:
        table.validate(full=True)  # tables read from files are validated in the same way
    except pa.ArrowException as error:
        raise ValueError(f"attributes hold values that their types do not allow: {error}") from error
    return table


def storable(table: pyarrow.Table) -> pyarrow.Table:
    """Return the table without metadata, with nulls allowed, since rows without attributes are null.

    Raises a ValueError for columns that cannot be stored or that conditions cannot use.
    """
    pa = arrow()
    plain = pa.Table.from_arrays(table.columns, names=table.column_names)
    if plain.num_columns == 0:
        raise ValueError("attributes have no columns")
    if problem := problem_of_names(plain.column_names):
        raise ValueError(f"attributes have columns {problem}")
    for field in plain.schema:
        problem = problem_of_type(field.type)
        if problem is None and EXTENSION in pa.schema([field]).serialize().to_pybytes():
            problem = f"is of the type {field.type}, with metadata that makes it an extension type"
        if problem:
            raise ValueError(f"attributes have a column {field.name!r} that {problem}")
    return plain


def problem_of_names(names: Sequence[str]) -> str | None:
    """Return what is wrong with column names (equal in SQL, or not allowed); None if nothing is."""
    seen: dict[str, str] = {}
    for name in names:
        if "\0" in name:
            return f"of which one has a zero byte in its name: {name!r}"
        if EXTENSION in name.encode():
            return f"of which one contains Arrow's key of extension types: {name!r}"
        if folded(name) in seen:
            return f"{seen[folded(name)]!r} and {name!r}, which are the same name in SQL"
        seen[folded(name)] = name
    return None


def folded(name: str) -> str:
    """Return a name in lower case as DuckDB compares names: ASCII letters only."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def problem_of_type(kind: Any, depth: int = 1) -> str | None:
    """Return why a type cannot be stored; None if it can."""
    types = arrow().types
    if depth > MOST_DEPTH:
        return f"has types nested more than {MOST_DEPTH} deep"
    if types.is_dictionary(kind):
        return problem_of_type(kind.value_type, depth + 1)
    if types.is_map(kind):
        return problem_of_type(kind.key_type, depth + 1) or problem_of_type(kind.item_type, depth + 1)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return problem_of_type(kind.value_type, depth + 1)
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        if not fields:
            return "has a struct without fields"
        problem = problem_of_names([field.name for field in fields])
        if problem:
            return f"has a struct with fields {problem}"
        return next(filter(None, (problem_of_type(field.type, depth + 1) for field in fields)), None)
    return None if is_plain(kind) else f"is, or holds, {kind}, which conditions cannot use"


def is_plain(kind: Any) -> bool:
    """Return whether a type that is not nested is supported by DuckDB and by Arrow's `take`."""
    types = arrow().types
    if types.is_decimal(kind):
        return not types.is_decimal256(kind) and 0 <= kind.scale <= kind.precision
    floats = types.is_float32(kind) or types.is_float64(kind)
    strings = types.is_string(kind) or types.is_large_string(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    simple = types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind)
    return bool(simple or floats or strings or binary or types.is_temporal(kind))


def table_of(attributes: Any) -> pyarrow.Table:
    """Return a pandas or polars data frame, or a dict of columns (arrays or tensors), as a table.

    The index of a pandas data frame is left out.
    """
    pa = arrow()
    if hasattr(attributes, "iloc") and hasattr(attributes, "columns"):
        return pa.Table.from_pandas(attributes, preserve_index=False).replace_schema_metadata(None)
    if hasattr(attributes, "to_arrow"):
        # Not by Arrow's C interface: it yields string views, which Arrow's `take` does not support.
        attributes = attributes.to_arrow()
    if isinstance(attributes, dict):
        tensors = {name: column for name, column in attributes.items() if hasattr(column, "detach")}
        attributes = attributes | {name: as_array(column, name) for name, column in tensors.items()}
    return pa.table(attributes)


def large(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return a schema with the large types of strings, binary and lists, and without dictionaries.

    Libraries choose different types for the same values; these are the common ones.
    """
    pa = arrow()
    larger = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}

    def larger_type(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return larger_type(kind.value_type)
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(larger_type(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(larger_type(kind.key_type), larger_type(kind.item_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(larger_type(kind.value_type), kind.list_size)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.large_list(larger_type(kind.value_type))
        return larger.get(kind, kind)

    return pa.schema([pa.field(field.name, larger_type(field.type)) for field in schema])


def same_rows(tables: Sequence[tuple[pyarrow.Table | None, int]]) -> pyarrow.Table:
    """Return tables concatenated; columns that a table lacks are null there.

    Each item is a table, or None, and its number of rows.
    """
    pa = arrow()
    schemas = [table.schema for table, _ in tables if table is not None]
    try:
        schema = pa.unify_schemas(schemas)
    except pa.ArrowException as error:
        try:
            schema = pa.unify_schemas([large(schema) for schema in schemas])
        except pa.ArrowException:
            raise ValueError(f"attributes differ from those of the index: {error}") from error
    if problem := problem_of_names(schema.names):
        raise ValueError(f"attributes differ from those of the index: there are columns {problem}")

    def fill(table: pyarrow.Table | None, count: int) -> pyarrow.Table:
        present = set() if table is None else set(table.column_names)
        columns = [
            table[field.name].cast(field.type)
            if table is not None and field.name in present
            else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    return pa.concat_tables([fill(table, count) for table, count in tables])


def overlaid(old: pyarrow.Table | None, new: pyarrow.Table | None) -> Attributes | None:
    """Return attributes with the columns of both tables, of the new one where both have a column."""
    if old is None or new is None:
        table = old if new is None else new
        return None if table is None else Attributes.of(table)
    for name, column in zip(new.column_names, new.columns, strict=True):
        place = old.schema.get_field_index(name)
        old = old.append_column(name, column) if place < 0 else old.set_column(place, name, column)
    return Attributes.of(old)
