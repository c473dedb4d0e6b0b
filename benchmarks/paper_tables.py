"""Tables of the experiments of the paper, from the results of `pcpq paper`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from markdown_tables import RESULTS, markdown, ran_in

from pcpq.experiments.paper.extensions import present_label
from pcpq.experiments.paper.protocols import PROTOCOLS

SETS = ("glove", "lastfm")


def results(name: str | None = None) -> list[dict[str, Any]]:
    """Return the results of `pcpq paper` on a data set, 4 bits first."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("paper_*bit.json"))]
    if not found:
        raise FileNotFoundError("no results of pcpq paper")
    chosen = [one for one in found if name in (None, one["data"]["name"])]
    return sorted(chosen, key=lambda one: (one["settings"]["bits"], one["data"]["name"]))


def titled(result: dict[str, Any]) -> str:
    """Return the data set and the bits of a result as text."""
    return f"{result['data']['name']}, {result['settings']['bits']} bits"


def recall(row: dict[str, Any], result: dict[str, Any], protocol: str, at: int) -> float:
    """Return Recall1@N."""
    return float(row["recall"][protocol][result["recall_at"].index(at)])


def beside(value: float, published: float | None) -> str:
    """Return our value, with the value of the paper if there is one."""
    return f"{value:.3f}" + ("" if published is None else f" ({published:.3f})")


def paper_data() -> str:
    """Return the table of data sets, settings and times."""
    lines = []
    for one in results():
        settings, data, seconds = one["settings"], one["data"], one["seconds"]
        lines.append(
            (
                titled(one),
                f"{data['n']:,} x {data['d']}",
                settings["lists"],
                settings["sections"],
                settings["centers"],
                settings["probes"],
                f"{seconds['lists'] + seconds['six methods']:.0f}",
            )
        )
    head = ("run", "vectors", "lists", "sections", "codewords", "lists probed", "lists and six methods, s")
    notes = {one["data"]["name"]: one["data"]["note"] for one in results()}
    list_of_notes = "\n".join(f"- {name}: {note}" for name, note in notes.items())
    commands = "\n\n".join(ran_in(one["environment"]) for one in results())
    return f"{markdown(head, lines)}\n\n{list_of_notes}\n\n{commands}"


def paper_errors() -> str:
    """Return the table of errors: ours (the paper's)."""
    runs = results()
    lines = []
    for place, first in enumerate(runs[0]["methods"]):
        cells = []
        for one in runs:
            row = one["methods"][place]
            published = row["published"] or {}
            cells.append(beside(row["relative_error"], published.get("relative_error")))
        lines.append((first["paper_name"], *cells))
    return markdown(("relative error", *map(titled, runs)), lines)


def paper_recall() -> str:
    """Return the tables of recall under each protocol: ours (the paper's)."""
    runs, parts = results(), []
    for protocol, title in PROTOCOLS.items():
        lines = []
        for place, first in enumerate(runs[0]["methods"]):
            cells = []
            for one in runs:
                row = one["methods"][place]
                published = row["published"] or {}
                cells += [
                    beside(recall(row, one, protocol, at), published.get(f"recall_1_at_{at}")) for at in (1, 10)
                ]
            lines.append((first["paper_name"], *cells))
        heads = [f"{titled(one)}, 1@{at}" for one in runs for at in (1, 10)]
        parts.append(markdown((title, *heads), lines))
    return "\n\n".join(parts)


def paper_probes() -> str:
    """Return the table of Recall1@10 of codes by number of probes."""
    parts = []
    for one in results():
        swept = one["probes"]["swept"]
        shown = [i for i, probes in enumerate(swept) if i % 2 == 0 or probes == swept[-1]]
        lines = [("ceiling", *(f"{one['probes']['ceiling'][i]:.3f}" for i in shown))]
        lines += [
            (row["paper_name"], *(f"{row['recall_at_10_by_probes'][i]:.3f}" for i in shown))
            for row in one["methods"]
        ]
        parts.append(markdown((f"{titled(one)}: lists probed", *(swept[i] for i in shown)), lines))
    return "\n\n".join(parts)


def paper_sizes() -> str:
    """Return the table of loss, size and time of the six methods."""
    parts = []
    for one in results():
        lines = [
            (
                row["paper_name"],
                beside(row["residual_error"], (row["published"] or {}).get("reconstruction_error")),
                f"{row['reconstruction_error']:.3f}",
                row["code_bits"],
                f"{row['codebook_bits']:.0f}",
                f"{row['build_seconds']:.1f}",
                f"{row['query_microseconds']:,.0f}",
            )
            for row in one["methods"]
        ]
        head = (
            titled(one),
            "error of residuals",
            "error of vectors",
            "code, bits",
            "codebooks, bits per vector",
            "build, s",
            "query over all lists, µs",
        )
        parts.append(markdown(head, lines))
    return "\n\n".join(parts)


def measured(row: dict[str, Any], one: dict[str, Any]) -> tuple[str, ...]:
    """Return the numbers of one row of an extension."""
    bits = f"{row['code_bits']} + {row['codebook_bits']:.1f}"
    recalls = (recall(row, one, "all", 1), recall(row, one, "all", 10), recall(row, one, "reranked", 10))
    return (bits, f"{row['relative_error']:.3f}", *(f"{value:.3f}" for value in recalls))


NUMBERS = ("bits + codebook bits", "relative error", "1@1", "1@10", "1@10 re-ranked")


def extension(part: str, labels: tuple[str, ...], head: tuple[str, ...]) -> str:
    """Return one table per result that has this part."""
    tables = []
    for one in results():
        lines = [
            (*(shown_label(row[label]) for label in labels), *measured(row, one)) for row in one.get(part, [])
        ]
        if lines:
            tables.append(markdown((f"{titled(one)}: {head[0]}", *head[1:], *NUMBERS), lines))
    return "\n\n".join(tables)


def shown_label(text: str) -> str:
    """Return a label as it is shown: `per_list` as "per list", centers as codewords."""
    return present_label(text).replace("_", " ")


def paper_equal_bits() -> str:
    """Return the table of codes with and without scales, at equal bits."""
    return extension("equal_bits", ("method", "label", "codebooks"), ("method", "code", "codebooks"))


def paper_ablation() -> str:
    """Return the table of additions, one after the other."""
    return extension("ablation", ("family", "codebooks", "step"), ("method", "codebooks", "step"))


def paper_joint() -> str:
    """Return the table about the conjecture of the authors."""
    tables = extension("joint", ("label",), ("method",))
    lines = []
    for one in results():
        single = one.get("single_clusters")
        if single:
            numbers = [
                f"{100 * single[f'{size}_excess_{how}']:.3f} %"
                for how in ("one_step_each", "together")
                for size in ("mean", "largest")
            ]
            lines.append((titled(one), single["clusters"], single["starts"], *numbers))
    head = (
        "single clusters",
        "clusters",
        "starts",
        "one step each: mean",
        "largest",
        "together: mean",
        "largest",
    )
    return f"{tables}\n\n{markdown(head, lines)}"


def paper_operations() -> str:
    """Return Table 1 with counted operations and measured times."""
    tables = []
    for one in results():
        lines = [operation(row) for row in one.get("operations", [])]
        head = (titled(one), "vectors", "codewords", "formula", "counted", "time, µs", "index, bits")
        tables.append(markdown(head, lines))
    return "\n\n".join(tables)


def operation(row: dict[str, Any]) -> Iterable[str]:
    """Return one row of Table 1."""
    numbers = (f"{row[name]:,}" for name in ("formula", "counted", "microseconds", "index_bits"))
    return (shown_label(row["label"]), f"{row['vectors']:,}", row["centers"], *numbers)


TABLES = {
    "paper_data": paper_data,
    "paper_errors": paper_errors,
    "paper_recall": paper_recall,
    "paper_probes": paper_probes,
    "paper_sizes": paper_sizes,
    "paper_equal_bits": paper_equal_bits,
    "paper_ablation": paper_ablation,
    "paper_joint": paper_joint,
    "paper_operations": paper_operations,
}
