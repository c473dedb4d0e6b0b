"""Comparison of pcpq with each peer at equal recall, and in which respects peers are ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcpq.experiments.report.contestants import Result
from pcpq.experiments.report.model import figure
from pcpq.experiments.report.parts import Part, optional_rows
from pcpq.experiments.report.titles import LIBRARIES, library_of, method_title

OURS = LIBRARIES["pcpq"]
AIM = 0.95  # the recall at which bytes are compared, if it was measured
COMPARED = (0.8, 0.9, 0.95, 0.98, 0.99)  # recalls at which curves are compared
SAME = "no difference"


@dataclass(frozen=True)
class AtRecall:
    """Our speed divided by that of a peer at one recall; the interval is None where none was measured."""

    ours: str
    peer: str
    look: str
    recall: float
    ratio: float
    interval: tuple[float, float] | None = None
    our_recall: float | None = None
    peer_recall: float | None = None

    def verdict(self) -> str:
        """Return which of the two is faster; a difference within the interval is none."""
        low, high = self.interval or (self.ratio, self.ratio)
        if low <= 1 <= high:
            return SAME
        return self.ours if self.ratio > 1 else self.peer


def ratios_of_runs(file: Part, mode: str) -> list[AtRecall]:
    """Return the ratios that a result at equal recall states for one mode."""
    return [
        AtRecall(
            method_title(row.part("ours").text()),
            method_title(row.part("rival").text()),
            library_of(row.part("rival").text()),
            row.part("target").share(),
            row.part("ratio").positive(),
            None,
            row.part("recall").share(),
            row.part("rival_recall").share(),
        )
        for row in optional_rows(file, "pcpq_over_peer")
        if row.part("mode").text() == mode
    ]


def ratios_at(found: list[Result], recalls: tuple[float, ...] = COMPARED) -> list[AtRecall]:
    """Return the ratios of our curve to that of each peer, at the recalls that both reach."""
    curves: dict[str, list[Result]] = {}
    for one in found:
        curves.setdefault(one.look, []).append(one)
    ours = curves.pop(OURS, [])
    ratios = []
    for recall in recalls:
        mine = speed_at(ours, recall)
        for peer, points in curves.items():
            theirs = speed_at(points, recall)
            if mine is not None and theirs is not None:
                interval = (mine[0] / theirs[2], mine[2] / theirs[0])
                ratios.append(AtRecall(OURS, peer, peer, recall, mine[1] / theirs[1], interval))
    return ratios


def speed_at(points: list[Result], recall: float) -> tuple[float, float, float] | None:
    """Return lower end, median and upper end of the speed at a recall; None outside of the curve.

    Between the neighboring points, the logarithm of the speed is linear in the recall.
    """
    kept = [one for one in points if not any(other.outruns(one) for other in points)]
    below = max((one for one in kept if one.recall <= recall), key=lambda one: one.recall, default=None)
    above = min((one for one in kept if one.recall >= recall), key=lambda one: one.recall, default=None)
    if below is None or above is None:
        return None
    width = above.recall - below.recall
    share = (recall - below.recall) / width if width else 0.0

    def between(a: float, b: float) -> float:
        return math.exp((1 - share) * math.log(a) + share * math.log(b))

    low, high = ends(below), ends(above)
    return between(low[0], high[0]), between(below.speed, above.speed), between(low[1], high[1])


def ends(one: Result) -> tuple[float, float]:
    """Return the interval of a speed; the speed itself where none was measured."""
    return one.interval or (one.speed, one.speed)


def at_recall(found: list[Result]) -> tuple[float, list[Result]]:
    """Return a recall near 0.95, and the fastest result of each method that reaches it."""
    targets = sorted({one.target for one in found if one.target is not None})
    if targets:
        aim = min(targets, key=lambda target: abs(target - AIM))
        return aim, [one for one in found if one.target == aim]
    fastest: dict[str, Result] = {}
    for one in found:
        if one.recall >= AIM and (one.name not in fastest or one.speed > fastest[one.name].speed):
            fastest[one.name] = one
    return AIM, list(fastest.values())


def said_of_peers(aim: float, best: list[Result], ratios: list[AtRecall]) -> list[str]:
    """Return sentences about the peers that are faster or smaller than pcpq."""
    said = []
    faster = [one for one in ratios if one.verdict() not in (one.ours, SAME)]
    same = [one for one in ratios if one.verdict() == SAME]
    if faster:
        listed = ", ".join(f"{one.peer} at recall {one.recall:g} ({1 / one.ratio:.2f} times)" for one in faster)
        said.append(f"Faster than pcpq: {listed}.")
    elif ratios:
        said.append("No peer is faster than pcpq at the recalls compared below.")
    if same:
        listed = ", ".join(f"{one.peer} at recall {one.recall:g}" for one in same)
        said.append(f"No difference beyond the intervals: {listed}.")
    return said + smaller_peers(aim, best)


def smaller_peers(aim: float, best: list[Result]) -> list[str]:
    """Return a sentence about the peers with fewer bytes than pcpq at one recall; an empty list without any."""
    ours = min((one for one in best if one.look == OURS), key=lambda one: one.size, default=None)
    smaller = [] if ours is None else [one for one in best if one.look != OURS and one.size < ours.size]
    if ours is None or not smaller:
        return []
    listed = ", ".join(
        f"{one.name} ({figure(one.size, '.0f')} bytes per vector, {one.speed / ours.speed:.2f} of the speed)"
        for one in sorted(smaller, key=lambda one: one.size)
    )
    return [f"Smaller than pcpq ({figure(ours.size, '.0f')} bytes) at recall {aim:g}: {listed}."]
