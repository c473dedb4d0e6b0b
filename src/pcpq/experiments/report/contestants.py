"""Results of the peers benchmark: at a few recalls, or whole curves."""

from __future__ import annotations

from dataclasses import dataclass

from pcpq.experiments.report.parts import Part
from pcpq.experiments.report.titles import library_of, method_title


@dataclass(frozen=True)
class Result:
    """Recall, speed and bytes of one method with one setting in one mode."""

    name: str
    look: str
    mode: str
    target: float | None  # None: a point of a curve
    recall: float
    speed: float
    interval: tuple[float, float] | None  # of the speed
    size: float
    part: Part

    @property
    def level(self) -> float:
        """Recall for comparisons: methods that were adjusted to the same target are equal in it."""
        return self.recall if self.target is None else self.target

    def beats(self, other: Result) -> bool:
        """Return whether this is at least as good in recall, speed and bytes, and better in one of them."""
        mine = (self.level, self.speed, -self.size)
        theirs = (other.level, other.speed, -other.size)
        return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))

    def outruns(self, other: Result) -> bool:
        """Return whether this is at least as good in recall and speed, and better in one of them."""
        mine, theirs = (self.recall, self.speed), (other.recall, other.speed)
        return mine != theirs and mine[0] >= theirs[0] and mine[1] >= theirs[1]


def is_peers(part: Part) -> bool:
    """Return whether a file is a result of the peers benchmark, of either form."""
    return is_curves(part) or has_contestants(part.value.get("runs"))


def is_curves(part: Part) -> bool:
    """Return whether a file is a result with whole curves."""
    return has_contestants(part.value.get("curves"))


def has_contestants(runs: object) -> bool:
    """Return whether a value is a list of runs."""
    return isinstance(runs, list) and any(isinstance(run, dict) and "contestants" in run for run in runs)


def all_results(file: Part) -> list[Result]:
    """Return the results of all methods in all runs of a file."""
    if is_curves(file):
        return [one for run in file.part("curves").rows() for one in curve_results(run)]
    return [one for run in file.part("runs").rows() for one in run_results(run)]


def run_results(run: Part) -> list[Result]:
    """Return the results of all methods at one recall."""
    mode, target = run.part("mode").text(), run.part("target").share()
    return [result(name, mode, target, row) for name, row in run.part("contestants").fields().items()]


def curve_results(run: Part) -> list[Result]:
    """Return the points of the curves of all methods, with rising recall."""
    mode = run.part("mode").text()
    found = []
    for name, rows in run.part("contestants").fields().items():
        points = [result(name, mode, None, row) for row in rows.rows()]
        found += sorted(points, key=lambda one: (one.recall, -one.speed))
    return found


def result(name: str, mode: str, target: float | None, row: Part) -> Result:
    """Return one result from its entry in the file."""
    ends = None if (part := row.maybe("qps_interval")) is None else [end.positive() for end in part.rows()]
    if ends is not None and len(ends) != 2:
        raise row.part("qps_interval").wrong("two numbers")
    return Result(
        method_title(name),
        library_of(name),
        mode,
        target,
        row.part("recall").share(),
        row.part("qps").positive(),
        None if ends is None else (ends[0], ends[1]),
        row.part("bytes_per_vector").positive(),
        row,
    )


def on_frontier(one: Result, found: list[Result]) -> bool:
    """Return whether no other result beats this one."""
    return not any(other.beats(one) for other in found)
