"""What else is known of vectors: an Arrow table beside each segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pcpq.io.foreign_arrays import as_array

if TYPE_CHECKING:
    import pyarrow

NEEDED = "attributes need pyarrow and duckdb: pip install 'pcpq[attributes]'"
# In the bytes of a schema, what makes a column one of an extension type, for which readers may run code.
EXTENSION = b"ARROW:extension"
# How deep types may lie in each other: Arrow's files end at 64, and a list is two of these.
MOST_DEPTH = 20


class Attributes:
    """A row for every vector of a segment, that of the lowest number first; read when it is wanted."""

    def __init__(self, read: Callable[[], pyarrow.Table]) -> None:
        self._read, self._table = read, None

    @classmethod
    def of(cls, table: pyarrow.Table) -> Attributes:
        """A table in memory."""
        return cls(lambda: table)

    def __getstate__(self) -> dict[str, Any]:
        """As a table, for pickles."""
        return {"table": self.table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In memory."""
        self._table = table = state["table"]
        self._read = lambda: table

    @property
    def table(self) -> pyarrow.Table:
        """The table itself."""
        if self._table is None:
            self._table = self._read()
        return self._table

    @property
    def nbytes(self) -> int:
        """Of all columns."""
        return int(self.table.nbytes)


def arrow() -> Any:
    """pyarrow, or an ImportError that says how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return pyarrow


def as_table(attributes: Any, count: int) -> pyarrow.Table:
    """A table, record batch, data frame or dict of columns as a table of so many rows, or a ValueError."""
    pa = arrow()
    if isinstance(attributes, pa.RecordBatch):
        table = pa.Table.from_batches([attributes])
    elif isinstance(attributes, pa.Table):
        table = attributes
    else:
        try:
            table = table_of(attributes)
        except (TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
            raise ValueError(f"attributes are no table: {error}") from error
    if len(table) != count:
        raise ValueError(f"attributes have {len(table)} rows for {count} vectors; expected one a vector")
    table = storable(table)
    try:
        table.validate(full=True)  # as it will be when it is read from a file
    except pa.ArrowException as error:
        raise ValueError(f"attributes hold values that their types do not allow: {error}") from error
    return table


def storable(table: pyarrow.Table) -> pyarrow.Table:
    """Without metadata, and with nulls allowed, which rows without attributes have.

    A ValueError for columns that could not be stored, read again and looked at by conditions.
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
    """Names that conditions could not tell apart, or that SQL cannot have."""
    before: dict[str, str] = {}
    for name in names:
        if "\0" in name:
            return f"of which one has a zero byte in its name: {name!r}"
        if EXTENSION in name.encode():
            return f"of which one is named as Arrow marks extension types: {name!r}"
        if folded(name) in before:
            return f"{before[folded(name)]!r} and {name!r}, which are the same name in SQL"
        before[folded(name)] = name
    return None


def folded(name: str) -> str:
    """In small letters as DuckDB has them, which are those of ASCII."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def problem_of_type(kind: Any, depth: int = 1) -> str | None:
    """Why a type cannot be kept; None if it can."""
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
    return None if is_plain(kind) else f"is, or holds, {kind}, which conditions cannot look at"


def is_plain(kind: Any) -> bool:
    """Whether Arrow can take rows of a type that is not made of others, and DuckDB knows it."""
    types = arrow().types
    if types.is_decimal(kind):
        return not types.is_decimal256(kind) and 0 <= kind.scale <= kind.precision
    floats = types.is_float32(kind) or types.is_float64(kind)
    texts = types.is_string(kind) or types.is_large_string(kind)
    some_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    simple = types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind)
    return bool(simple or floats or texts or some_bytes or types.is_temporal(kind))


def table_of(attributes: Any) -> pyarrow.Table:
    """A frame of pandas, without its index, which is no attribute; one of polars; columns, even tensors."""
    pa = arrow()
    if hasattr(attributes, "iloc") and hasattr(attributes, "columns"):
        return pa.Table.from_pandas(attributes, preserve_index=False).replace_schema_metadata(None)
    if hasattr(attributes, "to_arrow"):
        # Not by Arrow's own protocol: that gives views of text, of which Arrow cannot take rows.
        attributes = attributes.to_arrow()
    if isinstance(attributes, dict):
        tensors = {name: column for name, column in attributes.items() if hasattr(column, "detach")}
        attributes = attributes | {name: as_array(column, name) for name, column in tensors.items()}
    return pa.table(attributes)


def large(schema: pyarrow.Schema) -> pyarrow.Schema:
    """With the large types of text, bytes and lists, and without dictionaries: libraries choose differently."""
    pa = arrow()
    larger = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}

    def other(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return other(kind.value_type)
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(other(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(other(kind.key_type), other(kind.item_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(other(kind.value_type), kind.list_size)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.large_list(other(kind.value_type))
        return larger.get(kind, kind)

    return pa.schema([pa.field(field.name, other(field.type)) for field in schema])


def same_rows(tables: Sequence[tuple[pyarrow.Table | None, int]]) -> pyarrow.Table:
    """Tables, or None and a number of rows, one after the other: what one lacks is null there."""
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
        there = set() if table is None else set(table.column_names)
        columns = [
            table[field.name].cast(field.type)
            if table is not None and field.name in there
            else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    return pa.concat_tables([fill(table, count) for table, count in tables])
