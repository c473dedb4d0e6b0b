"""What else is known of vectors: an Arrow table beside each segment, and SQL conditions on it (DuckDB)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pcpq.foreign import as_array

if TYPE_CHECKING:
    import pyarrow

ROW = "__pcpq_row"
NEEDED = "attributes need pyarrow and duckdb: pip install 'pcpq[attributes]'"
# A condition may look at its columns and at nothing else: no files, no network, no variables of the program.
CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


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
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise ValueError(f"attributes are no table: {error}") from error
    if len(table) != count:
        raise ValueError(f"attributes have {len(table)} rows for {count} vectors; expected one a vector")
    names = table.column_names
    if len(set(names)) < len(names) or ROW in names:
        raise ValueError(f"attributes have columns {names}; names must differ, and none may be {ROW}")
    return table


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


def matching(table: pyarrow.Table, where: str) -> NDArray[np.int64]:
    """The rows for which an SQL condition holds, ascending."""
    pa = arrow()
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(NEEDED) from error
    if not isinstance(where, str):
        raise ValueError(f"where is {where!r}; expected an SQL condition")
    numbered = table.append_column(ROW, pa.array(np.arange(len(table))))
    with duckdb.connect(":memory:") as connection:
        for name, value in CLOSED.items():
            connection.execute(f"SET {name}={value}")
        connection.execute("SET lock_configuration=true")
        try:
            # One expression, not text that is pasted into a statement.
            condition = duckdb.SQLExpression(where)
            found = connection.from_arrow(numbered).filter(condition).select(ROW).fetchnumpy()[ROW]
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"where is {where!r}: {reason}; the columns are {', '.join(table.column_names)}"
            ) from error
    return np.sort(np.asarray(found, np.int64))
