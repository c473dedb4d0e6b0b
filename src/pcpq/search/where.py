"""SQL conditions on attributes, evaluated by DuckDB within limits; condition.py has the allowed SQL."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pcpq.search.condition import Comparison, ConditionColumns, columns_of, listed, refusal
from pcpq.segment.attributes import NEEDED, arrow, large
from pcpq.util.threads import helpers

if TYPE_CHECKING:
    import pyarrow

# No files, network, extensions or variables of the program; the same result in every time zone.
CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "enable_progress_bar": "false",
    "TimeZone": "'UTC'",
    "lock_configuration": "true",
}
# Least memory with which DuckDB starts.
LEAST_MEMORY = 16 << 20
# Deepest nesting of brackets: parsers fail on deeper conditions, some only after a long time.
MOST_DEPTH = 1000
# Bytes per batch. DuckDB's memory limit does not count strings of a vector being computed, which has 2,048 rows
# or one batch if that is shorter.
BATCH_BYTES = 1 << 20
# Most constants that Arrow compares columns with, for one condition.
MOST_COMPARED = 64
# Integers up to this size are floating-point numbers too.
LARGEST_WHOLE = {"float": 1 << 24, "double": 1 << 53}
# Types of expressions that are true, false or NULL.
CONDITION_TYPES = ("BOOLEAN", '"NULL"')
# Connections that wait for the next condition: to open a database takes longer than most conditions.
MOST_IDLE = 4
# Seconds between checks whether a condition is done or must stop, and to wait for an interrupted one.
PAUSE, GRACE = 0.05, 1.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class WhereLimits:
    """Limits for the evaluation of an SQL condition. A condition that exceeds one is stopped with an error.

    Parameters
    ----------
    seconds : time that DuckDB may work on it
    memory : bytes, as DuckDB counts them
    threads : number of threads of DuckDB
    length : largest number of characters of the condition
    """

    seconds: float = 10.0
    memory: int = 1 << 30
    threads: int = 1
    length: int = 1 << 22

    def __post_init__(self) -> None:
        number = isinstance(self.seconds, (int, float)) and not isinstance(self.seconds, bool)
        if not number or math.isnan(self.seconds) or self.seconds <= 0:
            raise ValueError(f"seconds is {self.seconds!r}; expected more than 0")
        for name, least in (("memory", LEAST_MEMORY), ("threads", 1), ("length", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} is {value!r}; expected a whole number of at least {least}")


def matching(
    schema: pyarrow.Schema,
    where: str,
    limits: WhereLimits | None,
    rows_of: Callable[[list[str]], pyarrow.Table],
) -> NDArray[np.bool_]:
    """Return for every row whether a condition holds.

    `rows_of` returns the rows that the condition may read, with only the columns in its argument and without
    dictionaries that a caller has made.
    """
    duckdb, limits = duck(), check_condition(where, limits)
    evaluation, known = Evaluation(duckdb, where, limits), without_dictionaries(schema)
    with evaluation:
        columns, expression = evaluation.run(lambda connection: bind(duckdb, connection, where, known))
        table = rows_of(columns.used)
        here, complete = compared_rows(table, columns.required)
        if here is not None and complete and columns.complete:
            return here
        if here is None or 2 * np.count_nonzero(here) > len(here):
            return evaluation.run(lambda connection: evaluate(duckdb, connection, expression, where, table))
        some = np.flatnonzero(here)
        left = table.take(some)
        here[some] = evaluation.run(lambda connection: evaluate(duckdb, connection, expression, where, left))
        return here


def compared_rows(table: pyarrow.Table, comparisons: list[Comparison]) -> tuple[NDArray[np.bool_] | None, bool]:
    """Return the rows where comparisons are true, None if none could be made, and whether all could be made.

    DuckDB reads all columns anew for every condition, which takes longer than a few comparisons by Arrow. If
    there are many, all are left to DuckDB, whose time and memory are limited.
    """
    if sum(len(one.values) for one in comparisons) > MOST_COMPARED:
        return None, False
    made = [true_in(table[one.column], one) for one in comparisons]
    known = [one for one in made if one is not None]
    everywhere: NDArray[np.bool_] | None = np.logical_and.reduce(known) if known else None
    return everywhere, len(known) == len(made)


def true_in(column: pyarrow.ChunkedArray, comparison: Comparison) -> NDArray[np.bool_] | None:
    """Return (n,) whether a comparison is true; None if Arrow compares values of this type in another way."""
    found = [np.empty(0, bool)]
    for values in column.chunks:
        kind = values.type.value_type if arrow().types.is_dictionary(values.type) else values.type
        constants = [constant_for(kind, one) for one in comparison.values]
        if None in constants or (kind is not values.type and comparison.operator != "="):
            return None
        each = [compare(values, comparison.operator, one) for one in constants]
        found.append(np.logical_or.reduce(each))
    return np.concatenate(found)


def constant_for(kind: pyarrow.DataType, constant: str | int | float) -> pyarrow.Scalar | None:
    """Return a constant as a value of a type; None if it is no such value, or SQL may compare it otherwise."""
    pa = arrow()
    if isinstance(constant, str):
        return pa.scalar(constant, kind) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
    if pa.types.is_integer(kind) and isinstance(constant, int):
        limits = np.iinfo(kind.to_pandas_dtype())
        return pa.scalar(constant, kind) if limits.min <= constant <= limits.max else None
    if isinstance(constant, int):
        return pa.scalar(float(constant), kind) if abs(constant) <= LARGEST_WHOLE.get(str(kind), -1) else None
    return pa.scalar(constant, kind) if pa.types.is_float64(kind) else None


def compare(values: pyarrow.Array, operator: str, constant: pyarrow.Scalar) -> NDArray[np.bool_]:
    """Return (n,) whether values, or those that dictionary codes stand for, compare as told; null does not.

    For SQL, NaN is the largest number: x > 1 is what x <= 1 is not.
    """
    from pyarrow import compute

    pa = arrow()
    if pa.types.is_dictionary(values.type):
        code = values.dictionary.index(constant).as_py()  # -1 if there is none
        same: NDArray[np.bool_] = np.asarray(values.indices.fill_null(-2)) == code
        return same
    if operator == "^@":
        found = compute.starts_with(values, pattern=constant.as_py())
    else:
        functions = {"=": "equal", "<": "less", ">=": "less", "<=": "less_equal", ">": "less_equal"}
        found = getattr(compute, functions[operator])(values, constant)
    if operator in (">", ">="):
        found = compute.invert(found)
    return np.asarray(found.fill_null(False).cast(pa.uint8())).view(np.bool_)


def check_condition(where: Any, limits: Any) -> WhereLimits:
    """Return the limits of a condition; raise a ValueError for a condition that must not reach the parser."""
    checked = checked_limits(limits)
    refuse_text(where, checked)
    return checked


def without_dictionaries(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return the schema with plain types instead of dictionaries.

    A dictionary may hold values of other rows, and DuckDB reads some dictionaries wrongly.
    """
    return large(schema) if any("dictionary<" in str(kind) for kind in schema.types) else schema


def checked_limits(limits: Any) -> WhereLimits:
    """Return the limits, the default ones for None; raise a ValueError for any other type."""
    if limits is None:
        return WhereLimits()
    if not isinstance(limits, WhereLimits):
        raise ValueError(f"where_limits is {limits!r}; expected pcpq.WhereLimits")
    return limits


def duck() -> Any:
    """Return the duckdb module; raise an ImportError that says how to install it."""
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return duckdb


def refuse_text(where: Any, limits: WhereLimits) -> None:
    """Raise a ValueError for a condition that must not reach the parser."""
    if not isinstance(where, str):
        raise ValueError(f"where is {where!r}; expected an SQL condition")
    if len(where) > limits.length:
        raise ValueError(
            f"where has {len(where):,} characters; where_limits allows a length of {limits.length:,}"
        )
    try:
        where.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"where is {where!r}: half a surrogate pair at character {error.start}") from error
    if sum(map(where.count, "([{")) > MOST_DEPTH:
        steps = ((character in "([{") - (character in ")]}") for character in where)
        if max(accumulate(steps)) > MOST_DEPTH:
            raise refusal(where, f"brackets are nested more than {MOST_DEPTH} deep")


class Evaluation:
    """A private database in a thread that can be abandoned, since not every function can be interrupted."""

    def __init__(self, duckdb: Any, where: str, limits: WhereLimits) -> None:
        self._duckdb, self._where, self._limits = duckdb, where, limits
        self._left = limits.seconds
        self._connection: Any = None
        self._working = self._given_up = False

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._connection is None or self._working:
            return
        if kind is None:
            idle.put(self._limits, self._connection)
        else:
            self._connection.close()

    def run(self, work: Callable[[Any], Found]) -> Found:
        """Return the result of `work` on the connection; stop it at the time limit or on Ctrl-C."""
        outcome: list[Any] = []
        done, first = threading.Event(), threading.Lock()

        def act() -> None:
            if not first.acquire(blocking=False):  # a thread that could not be started may have been asked
                return
            try:
                if self._connection is None:
                    self._connection = idle.take(self._limits) or connected(self._duckdb, self._limits)
                outcome.append((work(self._connection), None))
            except BaseException as error:  # raised again in the waiting thread
                outcome.append((None, error))
            finally:
                self._working = False
                if self._given_up and self._connection is not None:
                    self._connection.close()
                done.set()

        self._working = True
        end = time.monotonic() + self._left
        try:
            # A thread that is kept: in a new one, DuckDB first has to get memory. Python waits for it at exit,
            # because it would crash if it exited while DuckDB runs.
            if not helpers.start(act, 1):
                act()  # in a handler that interrupted the start of a thread, or at a limit of threads
            while not done.wait(min(PAUSE, max(end - time.monotonic(), 0))):
                if time.monotonic() >= end:
                    seconds = f"the {self._limits.seconds:g} seconds of where_limits"
                    raise TimeoutError(str(refusal(self._where, f"not done after {seconds}")))
        except BaseException:
            if first.acquire(blocking=False):  # the work has not begun, and will not
                self._working = False
            else:
                self._stop(done)
            raise
        self._left = end - time.monotonic()
        result, error = outcome[0]
        if isinstance(error, self._duckdb.OutOfMemoryException):
            raise refusal(self._where, f"needs more than the {self._limits.memory:,} bytes of where_limits")
        if error is not None:
            raise error
        found: Found = result
        return found

    def _stop(self, done: threading.Event) -> None:
        """Interrupt the work and wait up to GRACE seconds for its end."""
        self._given_up = True
        # Repeatedly: DuckDB drops an interrupt when a new statement begins.
        stopper = threading.Thread(target=self._interrupt, args=(done,), name="pcpq-where-stop")
        stopper.start()
        stopper.join(GRACE)

    def _interrupt(self, done: threading.Event) -> None:
        while not done.wait(PAUSE):
            if self._connection is not None:
                with suppress(self._duckdb.Error):  # the connection was just closed
                    self._connection.interrupt()


class IdleConnections:
    """Connections that evaluated a condition without an error and wait for the next one."""

    def __init__(self) -> None:
        self._found: deque[tuple[tuple[int, int], Any]] = deque()

    def take(self, limits: WhereLimits) -> Any:
        """Return a connection with these limits; None if there is none."""
        for pair in list(self._found):
            if pair[0] == (limits.memory, limits.threads):
                with suppress(ValueError):  # another thread was faster
                    self._found.remove(pair)
                    return pair[1]
        return None

    def put(self, limits: WhereLimits, connection: Any) -> None:
        """Keep a connection, and close the oldest if there are too many."""
        self._found.append(((limits.memory, limits.threads), connection))
        while len(self._found) > MOST_IDLE:
            with suppress(IndexError):  # another thread was faster
                self._found.popleft()[1].close()

    def after_fork(self) -> None:
        """Forget connections whose threads a child process does not have."""
        forgotten.extend(self._found)
        self._found = deque()


idle = IdleConnections()
forgotten: list[Any] = []  # not closed: closing would wait for threads of the parent process
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=idle.after_fork)


def connected(duckdb: Any, limits: WhereLimits) -> Any:
    """Return a connection to an in-memory database without access to files, network or extensions."""
    size = {"memory_limit": f"{limits.memory}B", "threads": str(limits.threads)}
    connection = duckdb.connect(
        ":memory:", config=size | {"temp_directory": "", "max_temp_directory_size": "0B"}
    )
    for name, value in CLOSED.items():
        connection.execute(f"SET {name}={value}")
    return connection


def bind(duckdb: Any, connection: Any, where: str, schema: pyarrow.Schema) -> tuple[ConditionColumns, Any]:
    """Return the columns that a condition reads, and its expression; raise a ValueError if it is not valid."""
    with refusing(duckdb, where, schema):
        # A parsed expression; the text is never inserted into a statement.
        expression = duckdb.SQLExpression(where)
        return columns_of(connection, where, schema.names), expression


class NotACondition(ValueError):
    """The type of a condition is not BOOLEAN."""


@contextmanager
def refusing(duckdb: Any, where: str, schema: pyarrow.Schema) -> Iterator[None]:
    """Raise a ValueError with the text of DuckDB's error, which has read no rows."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise refusal(where, f"{reason}; the columns are {listed(schema.names)}") from error


def evaluate(
    duckdb: Any, connection: Any, expression: Any, where: str, table: pyarrow.Table
) -> NDArray[np.bool_]:
    """Return for every row whether a condition holds.

    The text of an error is passed on only if the condition fails without rows too: it quotes values of rows.
    """
    try:
        return held(duckdb, connection, expression, where, table)
    except (duckdb.OutOfMemoryException, NotACondition):
        raise
    except Exception as error:
        problem = type(error).__name__
    with refusing(duckdb, where, table.schema):
        held(duckdb, connection, expression, where, table.schema.empty_table())
    raise refusal(where, f"the condition failed on a row ({problem})")


def held(duckdb: Any, connection: Any, expression: Any, where: str, table: pyarrow.Table) -> NDArray[np.bool_]:
    """Return whether the expression is true for each row of a table; it is not for NULL.

    Numbers and strings are refused: as in SQL, a number would hold wherever it is not 0.
    """
    found = connection.from_arrow(in_batches(table)).project(expression.alias("holds"))
    kind = str(found.types[0])
    if kind not in CONDITION_TYPES:
        raise NotACondition(refusal(where, f"it is a {kind}, not true or false: compare it with a value"))
    return np.ma.filled(found.fetchnumpy()["holds"], False).astype(bool)


def in_batches(table: pyarrow.Table) -> pyarrow.Table:
    """Return the table in batches so short that the values computed from one stay small."""
    rows = max(1, BATCH_BYTES * len(table) // max(table.nbytes, 1))
    if rows >= 2048 or len(table) <= rows:
        return table
    return arrow().Table.from_batches(table.to_batches(max_chunksize=rows), schema=table.schema)
