"""Measured recall by number of probes and candidates, and the choice of settings for a target recall."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.ivf.probing import MOST_TIMES, Probing
from pcpq.search.recall_check import RecallCheck
from pcpq.util.lazy import lazy

Table = NDArray[np.float64]

# Up to this number all vectors are reranked: an approximation would save nothing.
FEW = 2000
# Target recall of searches that do not set one.
USUAL_TARGET = 0.95
# Values of k and candidates per result at which recall is measured; it is interpolated between them.
RESULTS = (1, 3, 10, 30, 100)
CANDIDATES = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0, 23.0, 32.0, 64.0, 128.0)
MOST_CANDIDATES = 1000
# Ratio of successive numbers of probes that are measured.
PROBES_STEP = 1.25
# Cost of one more list and of reranking one more candidate, in rows scanned.
LIST_COST = 8.0
RERANK_COST = 60.0
# Standard errors of a lower confidence bound. Two of them gave 0.02 more recall than was asked for, at a cost.
SURE = 0.25
# What the bound may be below the target, if the measured recall is not, rather than one more list.
SLACK = 0.005
# If one more list gives this much more than the target, fewer lists may miss the target by SLACK.
STEP = 0.015
# Safety factor of extrapolated probes and candidates, for more results than were measured.
GUESSED = 2.0
# Limits of what a file may say of margins and temperatures.
LARGEST_MARGIN, LARGEST_TEMPERATURE = 1e9, 1e18
# If a target is out of reach, recall that may be given up for cheaper settings.
NEARLY = 0.005


def check_target(target_recall: float | None, probes: int | None) -> None:
    """Raise a ValueError if target_recall is out of range or is given together with probes."""
    if target_recall is None:
        return
    number = isinstance(target_recall, (int, float, np.number)) and not isinstance(target_recall, bool)
    if not number or not 0 < target_recall <= 1:
        hint = "; probes=1 is the fastest search" if number and target_recall == 0 else ""
        raise ValueError(
            f"target_recall is {target_recall!r}; expected a number above 0 and at most 1, such as 0.95{hint}"
        )
    if probes is not None:
        raise ValueError(f"target_recall is {target_recall} and probes is {probes}; give one of them")


class Choice(NamedTuple):
    """Search settings: lists to probe, candidates to rerank, and the expected recall."""

    probes: int
    rerank: int
    recall: float


@dataclass(frozen=True, eq=False)
class RecallCurve:
    """Measured recall, for K values of k, P values of probes and R numbers of candidates per result."""

    results: tuple[int, ...]  # (K,)
    probes: tuple[int, ...]  # (P,)  the last is all lists
    candidates: tuple[float, ...]  # (R,)  per result; at most MOST_CANDIDATES in all
    rows: tuple[float, ...]  # (P,)  rows scanned per query
    means: Table  # (K, P, R)
    errors: Table  # (K, P, R)  standard errors of the means
    queries: int
    kind: str  # "held out" from the vectors, or "given" by the user
    # (P,)  with which queries probe so many lists on average (ivf/probing.py); None: every query probes so many
    margins: tuple[float, ...] | None = None
    temperature: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without lazy attributes."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def same_as(self, other: RecallCurve | None) -> bool:
        """Return whether another curve has the same values."""
        return other is not None and (other is self or self.to_json() == other.to_json())

    @lazy
    def check(self) -> RecallCheck:
        """The check of recall by the queries of users."""
        return RecallCheck(self.results[-1])

    @lazy
    def sure(self) -> Table:
        """The (K, P, R) lower bounds of recall by Wilson's interval, which is wide even if nothing was missed.

        Results of one query are correlated, so the sample counts as the number of independent results that
        would have the measured standard error.
        """
        many = self.queries * np.array(self.results, np.float64)[:, None, None]
        variance = self.means * (1 - self.means)
        counted = np.clip(variance / np.maximum(self.errors, 1e-9) ** 2, self.queries, many)
        share = SURE**2 / counted
        below = SURE * np.sqrt(variance / counted + share / (4 * counted))
        bound: Table = (self.means + share / 2 - below) / (1 + share)
        return np.maximum(bound, 0.0)

    def probing(self, probes: int) -> Probing:
        """Return how queries choose their lists, if they are to probe a number of lists on average."""
        if self.margins is None or probes >= self.probes[-1]:
            return Probing.exactly(probes)
        margin = float(np.interp(np.log(probes), np.log(self.probes), self.margins))
        return Probing(probes, MOST_TIMES * probes, self.temperature, margin)

    def choose(
        self, k: int, target: float, *, share: float = 1.0, rerank: int | None = None, strict: bool = True
    ) -> Choice:
        """Return the cheapest settings that reach a recall with confidence.

        Where one list more exceeds it by far, one list less may be a little below it. If no settings reach the
        recall, those that reached it in the measurement, or came nearest, are returned. For k beyond
        the measured values the settings are extrapolated.

        Parameters
        ----------
        k : number of results
        target : recall, from 0 to 1
        share : share of the vectors that a filter allows; the k best of these are about the k / share best of
            all
        rerank : number of candidates; None: chosen
        strict : False: if the target is out of reach, settle for cheaper settings with nearly the best recall
        """
        wide = max(k / max(share, 1e-9), 1.0)
        means, sure = (rising_table(self._at(table, wide)) for table in (self.means, self.sure))
        columns = range(len(self.candidates)) if rerank is None else [self._column(rerank / k)]
        if target > sure[:, list(columns)].max():
            sure = means
            reachable = float(means[:, list(columns)].max())
            target = min(target, reachable if strict else max(0.0, reachable - NEARLY))
        options, places = [], np.arange(len(self.probes))
        for column in columns:
            place = place_of(sure[:, column], target)
            if place is None:
                continue
            probes = int(np.ceil(np.exp(np.interp(place, places, np.log(self.probes))) - 1e-9))
            fewer = max(probes - 1, 1)
            least, most = (self._at_probes(means[:, column], each) for each in (fewer, probes))
            enough = least >= target and self._at_probes(sure[:, column], fewer) >= target - SLACK
            if enough or (least >= target - SLACK and most > target + STEP):
                probes = fewer
            rows = float(np.interp(probes, self.probes, self.rows))
            count = candidates_for(k, self.candidates[column]) if rerank is None else rerank
            expected = self._at_probes(means[:, column], probes)
            options.append((rows + LIST_COST * probes + RERANK_COST * count, probes, count, expected))
        _cost, probes, count, expected = min(options)
        if wide > self.results[-1]:
            probes = max(int(np.ceil(GUESSED * probes * wide / self.results[-1])), self.probes[-1] // 20)
            count = max(count, int(GUESSED * k)) if rerank is None else rerank
        probes = min(probes, self.probes[-1])
        return Choice(probes, count, min(expected, 1.0))

    def reach(self, k: int, *, share: float = 1.0, rerank: int | None = None) -> float:
        """Return the best recall that any settings have, with a number of candidates if it is given."""
        means = rising_table(self._at(self.means, max(k / max(share, 1e-9), 1.0)))
        return float(means[:, -1 if rerank is None else self._column(rerank / k)].max())

    def _at_probes(self, values: Table, probes: int) -> float:
        """Return a value for a number of probes, interpolated between the measured numbers."""
        return float(np.interp(np.log(probes), np.log(self.probes), values))

    def _at(self, table: Table, k: float) -> Table:
        """Return a (P, R) table interpolated between the measured numbers of results."""
        place = np.interp(np.log(k), np.log(self.results), np.arange(len(self.results)))
        low = int(np.floor(place))
        high = min(low + 1, len(self.results) - 1)
        between: Table = table[low] + (place - low) * (table[high] - table[low])
        return between

    def _column(self, each: float) -> int:
        """Return the column of the largest measured number of candidates per result that is at most `each`."""
        return max(int(np.searchsorted(self.candidates, each, side="right")) - 1, 0)

    def to_json(self) -> dict[str, Any]:
        """Return the curve as JSON values."""
        tables = {"means": self.means, "errors": self.errors}
        weights: dict[str, Any] = {}
        if self.margins is not None:
            weights = {"temperature": self.temperature, "margins": list(self.margins)}
        return {
            "results": list(self.results),
            "probes": list(self.probes),
            "candidates": list(self.candidates),
            "rows": list(self.rows),
            **{name: table.tolist() for name, table in tables.items()},
            "queries": self.queries,
            "kind": self.kind,
            **weights,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RecallCurve:
        """Return the curve that `to_json` wrote; raise a ValueError if it is not valid."""
        results, probes = (rising(name, values[name]) for name in ("results", "probes"))
        candidates = tuple(float(each) for each in values["candidates"])
        if not candidates or not all(
            a < b for a, b in zip((0.0, *candidates), (*candidates, np.inf), strict=True)
        ):
            raise ValueError(f"candidates do not rise: {candidates!r}")
        shape = (len(results), len(probes), len(candidates))
        rows = np.array(values["rows"], np.float64)
        means, errors = (np.array(values[name], np.float64) for name in ("means", "errors"))
        if rows.shape != shape[1:2] or means.shape != shape or errors.shape != shape:
            raise ValueError(
                f"recall of shape {means.shape}, {errors.shape} and rows {rows.shape}; not {shape}"
            )
        if not (within(means, 1.0) and within(errors, 1.0) and within(rows, 1e18)):
            raise ValueError("recall, its errors or rows are out of range")
        if values["kind"] not in KINDS or type(values["queries"]) is not int or values["queries"] < 1:
            raise ValueError(f"recall of {values['queries']!r} queries, {values['kind']!r}")
        margins = None if values.get("margins") is None else falling(values["margins"], len(probes))
        return cls(
            results,
            probes,
            candidates,
            tuple(rows.tolist()),
            means,
            errors,
            values["queries"],
            values["kind"],
            margins,
            temperature_of(values.get("temperature", 0.0)),
        )


KINDS = ("held out", "given")


def candidates_for(k: float, each: float) -> int:
    """Return the number of candidates for k results; at most MOST_CANDIDATES, unless k exceeds RESULTS."""
    most = MOST_CANDIDATES * max(k / RESULTS[-1], 1.0)
    return int(np.ceil(min(k * each, most)))


def rising_table(table: Table) -> Table:
    """Return a table that never falls with more probes or candidates: each value is the largest up to it."""
    rising: Table = np.maximum.accumulate(np.maximum.accumulate(table, axis=0), axis=1)
    return rising


def place_of(values: Table, target: float) -> float | None:
    """Return the interpolated position where rising values first reach a target; None if they never do."""
    at = int(np.searchsorted(values, target - 1e-12))
    if at == len(values):
        return None
    if at == 0:
        return 0.0
    below, above = values[at - 1], values[at]
    return float(at - 1 + (target - below) / (above - below))


def rising(name: str, numbers: Any) -> tuple[int, ...]:
    """Return numbers as a tuple; raise a ValueError unless they are positive integers in ascending order."""
    numbers = list(numbers)
    if not numbers or any(type(number) is not int or not 0 < number < 1 << 40 for number in numbers):
        raise ValueError(f"{name} are {numbers!r}; expected positive whole numbers")
    if any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(f"{name} do not rise: {numbers!r}")
    return tuple(numbers)


def falling(margins: list[Any], count: int) -> tuple[float, ...]:
    """Return margins as a tuple; raise a ValueError unless they are `count` falling numbers up to 0."""
    known = all(type(each) is float and abs(each) <= LARGEST_MARGIN for each in margins)
    if not known or len(margins) != count or any(b > a for a, b in pairwise((0.0, *margins))):
        raise ValueError(f"margins are {margins!r}; expected {count} numbers up to 0 that do not rise")
    return tuple(margins)


def temperature_of(value: Any) -> float:
    """Return a temperature; raise a ValueError if it is not one."""
    if type(value) is not float or not 0 <= value <= LARGEST_TEMPERATURE:
        raise ValueError(f"temperature is {value!r}; expected a number from 0 to {LARGEST_TEMPERATURE}")
    return value


def within(table: Table, most: float) -> bool:
    """Return whether all values are from 0 to `most`."""
    return bool(((table >= 0) & (table <= most)).all())


def probes_to_measure(n_lists: int) -> tuple[int, ...]:
    """Return the numbers of probes to measure: 1, 2, 3, 4, 5, 6, 7, 9, 12, ... up to all lists."""
    steps = int(np.ceil(np.log(max(n_lists, 1)) / np.log(PROBES_STEP)))
    numbers = {min(n_lists, round(PROBES_STEP**step)) for step in range(steps + 1)}
    return tuple(sorted(numbers | {n_lists}))
