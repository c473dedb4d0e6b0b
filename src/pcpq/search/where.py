"""SQL conditions on attributes, evaluated by DuckDB within limits. What they may say is in condition.py."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from pcpq.search.condition import columns_of, listed, refusal
from pcpq.segment.attributes import NEEDED, arrow, large

if TYPE_CHECKING:
    import pyarrow

# No files, no network, no extensions, no variables of the program; the same answer in every time zone.
CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "enable_progress_bar": "false",
    "TimeZone": "'UTC'",
    "lock_configuration": "true",
}
# DuckDB does not start with less memory.
LEAST_MEMORY = 16 << 20
# Parsers give up on deeper conditions, some of them after a long time.
MOST_DEPTH = 1000
# DuckDB's limit of memory leaves out text in the making: that of 2,048 rows, or of a batch if it is shorter.
BATCH_BYTES = 1 << 20
# Longer conditions are not tried without rows, which finds constants that are wrong: that takes as long again.
MOST_TRIED = 10_000
# Seconds between two looks at whether a condition is done or must stop, and after which nothing waits for it.
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
) -> NDArray[np.int64]:
    """The places of rows for which a condition holds, ascending.

    `rows_of` gives the rows that may be looked at, and of these some columns: a condition sees nothing else.
    """
    duckdb, limits = duck(), checked_limits(limits)
    refuse_text(where, limits)
    evaluation, known = Evaluation(duckdb, where, limits), without_dictionaries(schema)
    with evaluation:
        columns, held = evaluation.run(lambda connection: bind(duckdb, connection, where, known))
        table = rows_of(columns)
        plain = table.cast(without_dictionaries(table.schema))
        return evaluation.run(lambda connection: evaluate(duckdb, connection, held, where, plain))


def without_dictionaries(schema: pyarrow.Schema) -> pyarrow.Schema:
    """With values in their place: a dictionary may hold words of other rows, and DuckDB misreads some."""
    return large(schema) if any("dictionary<" in str(kind) for kind in schema.types) else schema


def checked_limits(limits: Any) -> WhereLimits:
    """The usual ones for None, a ValueError for what is none."""
    if limits is None:
        return WhereLimits()
    if not isinstance(limits, WhereLimits):
        raise ValueError(f"where_limits is {limits!r}; expected pcpq.WhereLimits")
    return limits


def duck() -> Any:
    """duckdb, or an ImportError that says how to get it."""
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return duckdb


def refuse_text(where: Any, limits: WhereLimits) -> None:
    """A ValueError for what a parser should not even see."""
    if not isinstance(where, str):
        raise ValueError(f"where is {where!r}; expected an SQL condition")
    if len(where) > limits.length:
        raise ValueError(f"where has {len(where):,} letters; where_limits allows a length of {limits.length:,}")
    try:
        where.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"where is {where!r}: half a surrogate pair at letter {error.start}") from error
    if sum(map(where.count, "([{")) > MOST_DEPTH:
        steps = ((letter in "([{") - (letter in ")]}") for letter in where)
        if max(accumulate(steps)) > MOST_DEPTH:
            raise refusal(where, f"brackets are nested more than {MOST_DEPTH} deep")


class Evaluation:
    """A database of its own, used in a thread that can be given up: not every function can be interrupted."""

    def __init__(self, duckdb: Any, where: str, limits: WhereLimits) -> None:
        self._duckdb, self._where, self._limits = duckdb, where, limits
        self._left = limits.seconds
        self._connection: Any = None
        self._working = self._given_up = False

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None and not self._working:
            self._connection.close()

    def run(self, work: Callable[[Any], Found]) -> Found:
        """Do something with the connection until it is done, time is up, or Ctrl-C comes."""
        outcome: list[Any] = []
        done = threading.Event()

        def act() -> None:
            try:
                if self._connection is None:
                    self._connection = connected(self._duckdb, self._limits)
                outcome.append((work(self._connection), None))
            except BaseException as error:  # to be raised where it is waited for
                outcome.append((None, error))
            finally:
                self._working = False
                if self._given_up and self._connection is not None:
                    self._connection.close()
                done.set()

        self._working = True
        end = time.monotonic() + self._left
        try:
            # Not a daemon: Python would end with it in DuckDB's hands, and crash.
            threading.Thread(target=act, name="pcpq-where").start()
            while not done.wait(min(PAUSE, max(end - time.monotonic(), 0))):
                if time.monotonic() >= end:
                    seconds = f"the {self._limits.seconds:g} seconds of where_limits"
                    raise TimeoutError(str(refusal(self._where, f"not done after {seconds}")))
        except BaseException:
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
        """Interrupt what runs, and wait a little for it to end."""
        self._given_up = True
        # Again and again: DuckDB forgets an interruption when something new begins.
        stopper = threading.Thread(target=self._interrupt, args=(done,), name="pcpq-where-stop")
        stopper.start()
        stopper.join(GRACE)

    def _interrupt(self, done: threading.Event) -> None:
        while not done.wait(PAUSE):
            if self._connection is not None:
                with suppress(self._duckdb.Error):  # closed just now
                    self._connection.interrupt()


def connected(duckdb: Any, limits: WhereLimits) -> Any:
    """A database in memory, closed off, which writes nothing to disk."""
    size = {"memory_limit": f"{limits.memory}B", "threads": str(limits.threads)}
    connection = duckdb.connect(
        ":memory:", config=size | {"temp_directory": "", "max_temp_directory_size": "0B"}
    )
    for name, value in CLOSED.items():
        connection.execute(f"SET {name}={value}")
    return connection


def bind(duckdb: Any, connection: Any, where: str, schema: pyarrow.Schema) -> tuple[list[str], Any]:
    """The columns that a condition looks at, and its expression; a ValueError if it is none on these columns.

    There are no rows here, so what DuckDB says of a condition tells nothing of them.
    """
    pa = arrow()
    try:
        # One expression, not text that is pasted into a statement.
        held = duckdb.SQLExpression(where)
        columns = columns_of(connection, where, schema.names)
        empty = pa.schema([schema.field(name) for name in columns]).empty_table()
        none = connection.from_arrow(empty).filter(held)
        if len(where) <= MOST_TRIED:
            none.fetchall()
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise refusal(where, f"{reason}; the columns are {listed(schema.names)}") from error
    return columns, held


def evaluate(duckdb: Any, connection: Any, held: Any, where: str, table: pyarrow.Table) -> NDArray[np.int64]:
    """Where a condition holds; DuckDB's own errors quote rows, so they are not passed on."""
    # No name that a condition or a table could have.
    pa, row = arrow(), f"row {uuid4().hex}"
    numbered = table.append_column(row, pa.array(np.arange(len(table))))
    try:
        found = connection.from_arrow(in_batches(numbered)).filter(held)
        return np.sort(np.asarray(found.select(duckdb.ColumnExpression(row)).fetchnumpy()[row], np.int64))
    except duckdb.OutOfMemoryException:
        raise
    except Exception as error:
        problem = type(error).__name__
    raise refusal(where, f"the condition failed on a row ({problem})")


def in_batches(table: pyarrow.Table) -> pyarrow.Table:
    """In so short pieces that what is computed of one stays small."""
    rows = max(1, BATCH_BYTES * len(table) // max(table.nbytes, 1))
    if rows >= 2048 or len(table) <= rows:
        return table
    return arrow().Table.from_batches(table.to_batches(max_chunksize=rows), schema=table.schema)
