"""The top of the page: one sentence and up to three large numbers, computed from the results on the page."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from pcpq.experiments.report.compare import AIM, OURS, SAME, AtRecall, at_recall, ratios_at, ratios_of_runs
from pcpq.experiments.report.contestants import Result, all_results, is_curves
from pcpq.experiments.report.looks import KNOWN
from pcpq.experiments.report.measures import PaperFile, method_name
from pcpq.experiments.report.parts import Part, optional_number, optional_rows, optional_text
from pcpq.experiments.report.peers import MODES, codes_only, title_of
from pcpq.experiments.report.titles import TIMES, date_of

RIVAL = "ScaNN"
PLAIN, SCALED = "PQ", "QPCPQ"
ALMOST_EQUAL = 1.02  # codes of whole bits and sections cannot all have exactly the same size


@dataclass(frozen=True)
class Large:
    """A large number: what it is, what limits it, and the files it comes from."""

    number: str
    label: str
    detail: str
    files: list[str]
    panel: str  # title of the section with all numbers


@dataclass(frozen=True)
class Pair:
    """Our result and that of a peer at equal recall on one data set in one mode."""

    title: str
    mode: str
    file: str
    speed: AtRecall  # ours over the peer's
    size: float

    @property
    def place(self) -> str:
        """Data set and mode as text."""
        return f"{self.title}, {MODES.get(self.mode, self.mode)}"


def headline(peers: list[Part], papers: list[PaperFile]) -> tuple[str, list[Large]]:
    """Return the sentence and the large numbers; results that are missing leave numbers out."""
    rival = usual_rival(peers)
    pairs = [] if rival is None else all_pairs(peers, rival)
    larges = []
    if rival is not None and pairs:
        larges += [speed_number(pairs, rival), size_number(peers, pairs, rival)]
    return sentence(peers), larges + error_number(papers)


def sentence(peers: list[Part]) -> str:
    """Return the sentence: in how many comparisons pcpq is faster, and which peers are faster in others."""
    newest: dict[tuple[str, str], list[AtRecall]] = {}
    for file in by_age(peers):
        for look, some in ratios_in(file).items():
            newest[title_of(file), look] = some
    ratios = [one for some in newest.values() for one in some]
    if not ratios:
        return "Recall, speed and bytes of pcpq and of others, and the experiments of the paper it implements."
    places = {name: place for place, name in enumerate(KNOWN)}
    names = sorted({one.look for one in ratios}, key=lambda name: (places.get(name, len(places)), name))
    verdicts = Counter(one.look if one.verdict() == one.peer else one.verdict() for one in ratios)
    wins = sum(one.verdict() == one.ours for one in ratios)
    share = f"all {len(ratios)}" if wins == len(ratios) else f"{wins} of {len(ratios)}"
    sets = counted(len({file.part("data").part("name").text() for file in peers}), "data set")
    said = [f"At equal recall, pcpq is faster than {listed(names)} in {share} comparisons on {sets}"]
    said += [f"{name} is faster in {verdicts[name]}" for name in names if verdicts[name]]
    said += [f"{verdicts[SAME]} show no difference"] if verdicts[SAME] else []
    return "; ".join(said) + "."


def by_age(peers: list[Part]) -> list[Part]:
    """Return results in the order in which each replaces those before: curves last, then by date."""
    return sorted(peers, key=lambda file: (is_curves(file), date_of(file), len(all_results(file))))


def ratios_in(file: Part) -> dict[str, list[AtRecall]]:
    """Return the comparisons of a result in all modes by peer."""
    results = all_results(file)
    found: dict[str, list[AtRecall]] = {}
    for mode in dict.fromkeys(one.mode for one in results):
        mine = [one for one in results if one.mode == mode]
        for ratio in ratios_at(mine) if is_curves(file) else ratios_of_runs(file, mode):
            found.setdefault(ratio.look, []).append(ratio)
    return found


def listed(names: list[str]) -> str:
    """Return names as a list in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def usual_rival(peers: list[Part]) -> str | None:
    """Return ScaNN if it was measured, otherwise the peer in most results; None without peers."""
    looks = Counter(look for file in peers for look in {one.look for one in all_results(file)} - {OURS})
    if RIVAL in looks:
        return RIVAL
    return max(sorted(looks), key=lambda look: looks[look]) if looks else None


def all_pairs(peers: list[Part], rival: str) -> list[Pair]:
    """Return the comparisons with a peer, one per data set and mode: of a curve, else of the newest result."""
    files: dict[str, Part] = {}
    for file in by_age(peers):
        if not codes_only(file) and any(one.look == rival for one in all_results(file)):
            files[title_of(file)] = file
    found = []
    for title, file in files.items():
        results = all_results(file)
        for mode in dict.fromkeys(one.mode for one in results):
            mine = [one for one in results if one.mode == mode]
            ratios = ratios_at(mine, (AIM,)) if is_curves(file) else ratios_of_runs(file, mode)
            ratio = next((one for one in ratios if one.look == rival and one.recall == AIM), None)
            sizes = {one.look: one.size for one in at_recall(mine)[1]}
            if ratio is not None and {OURS, rival} <= set(sizes):
                found.append(Pair(title, mode, file.file, ratio, sizes[OURS] / sizes[rival]))
    return found


def speed_number(pairs: list[Pair], rival: str) -> Large:
    """Return how many times as many queries per second pcpq answers; 1 where there is no difference."""
    clear = [pair for pair in pairs if pair.speed.verdict() != SAME] or pairs
    low, high = (choose(clear, key=lambda pair: pair.speed.ratio) for choose in (min, max))
    lowest, highest = (f"{pair.speed.ratio:.2f} on {pair.place}" for pair in (low, high))
    detail = f"{lowest}; {highest}. One core, settings tuned for both."
    same = [pair.place for pair in pairs if pair.speed.verdict() == SAME]
    if same:
        detail += f" Within the interval of the rounds, so no difference: {'; '.join(same)}."
    return Large(
        span(min(low.speed.ratio, 1.0) if same else low.speed.ratio, high.speed.ratio, ".1f", TIMES),
        f"the queries per second of {rival} at recall {AIM:g}",
        detail,
        files_of(pairs),
        "Speed, recall and bytes",
    )


def size_number(peers: list[Part], pairs: list[Pair], rival: str) -> Large:
    """Return the size of an index of pcpq as a share of that of the rival, and the peer that is smallest."""
    low, high = (choose(pair.size for pair in pairs) for choose in (min, max))
    used = [file for file in peers if file.file in {pair.file for pair in pairs}]
    smallest = min(
        (found for file in used for found in smaller(file)), key=lambda found: found[0], default=None
    )
    detail = "The whole index, each at its fastest setting for that recall."
    if smallest is not None:
        share, one, ours, title = smallest
        detail += (
            f" The smallest peer is {one.name}: {100 * share:.0f} % of the bytes of pcpq on {title}, at "
            f"{one.speed / ours.speed:.2f} of the speed."
        )
    return Large(
        span(100 * low, 100 * high, ".0f", " %"),
        f"of the bytes per vector of {rival}",
        detail,
        files_of(pairs),
        "Speed, recall and bytes",
    )


def smaller(file: Part) -> list[tuple[float, Result, Result, str]]:
    """Return the peers with fewer bytes than pcpq at the compared recall, with their share of the bytes."""
    best = at_recall([one for one in all_results(file) if one.mode == "batch"])[1]
    ours = next((one for one in best if one.look == OURS), None)
    if ours is None:
        return []
    peers = (one for one in best if one.look != OURS and one.size < ours.size)
    return [(one.size / ours.size, one, ours, title_of(file)) for one in peers]


def error_number(papers: list[PaperFile]) -> list[Large]:
    """Return how much less the paper's quantizer errs than the plain one; an empty list without results."""
    found = [(file, reduction) for file in papers if (reduction := less_error(file)) is not None]
    if not found:
        return []
    values = [100 * reduction for _, (reduction, _) in found]
    within = [file.label for file, (reduction, half) in found if reduction <= half]
    runs = counted(len(found), "run")
    detail = f"Q-PCPQ beside PQ with the same codewords, in {runs}; its scales make codes longer."
    if within:
        detail += f" No difference beyond the interval: {'; '.join(within)}."
    equal = [one for file, _ in found if (one := errors_at_equal_bits(file)) is not None]
    if equal:
        better = sum(plain < scaled for plain, scaled in equal)
        detail += f" At equal bits, PQ with more codewords or sections errs less in {better} of {len(equal)}."
    return [
        Large(
            span(min(values), max(values), ".0f", " %"),
            "less error of the top inner product by the scales of the paper",
            detail,
            [file.root.file for file, _ in found],
            "The paper's experiments",
        )
    ]


def less_error(file: PaperFile) -> tuple[float, float] | None:
    """Return the share by which the error of the scaled code is less, and half of its 95 % interval."""
    errors: dict[str, tuple[float, float]] = {}
    for row in file.root.part("methods").rows():
        part = row.maybe("errors")
        values = [] if part is None else [one.number() for one in part.rows()]
        if len(values) > 1:
            mean = sum(values) / len(values)
            variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
            errors[method_name(row)] = mean, math.sqrt(variance / len(values))
    plain, scaled = errors.get(PLAIN), errors.get(SCALED)
    if plain is None or scaled is None or plain[0] <= 0 or scaled[0] <= 0:
        return None
    ratio = scaled[0] / plain[0]
    return 1 - ratio, 1.96 * ratio * math.hypot(plain[1] / plain[0], scaled[1] / scaled[0])


def errors_at_equal_bits(file: PaperFile) -> tuple[float, float] | None:
    """Return the least error of plain codes of equal size, and the error of the scaled code; None without."""
    rows = [
        (method_name(row), row.part("code_bits").positive(), error)
        for row in optional_rows(file.root, "equal_bits")
        if optional_text(row, "codebooks") == "per_list" and row.maybe("code_bits") is not None
        if (error := optional_number(row, "relative_error")) is not None
    ]
    scaled = next(((bits, error) for name, bits, error in rows if name == SCALED), None)
    if scaled is None:
        return None
    equal = [error for name, bits, error in rows if name == PLAIN and bits <= ALMOST_EQUAL * scaled[0]]
    longest = max((bits for name, bits, _ in rows if name == PLAIN), default=0)
    return (min(equal), scaled[1]) if equal and longest >= scaled[0] / ALMOST_EQUAL else None


def span(low: float, high: float, form: str, unit: str) -> str:
    """Return a range as text; one number if both ends are written alike."""
    ends = list(dict.fromkeys((format(low, form), format(high, form))))
    return "\N{EN DASH}".join(ends) + unit


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def files_of(pairs: list[Pair]) -> list[str]:
    """Return the files of comparisons, each once."""
    return list(dict.fromkeys(pair.file for pair in pairs))
