"""Write the tables in README.md and docs from the committed results: `python benchmarks/tables.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. A test fails when one is out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from markdown_tables import RESULTS, ROOT, markdown, ran_in
from paper_tables import TABLES as PAPER_TABLES

DESIGN = ROOT / "docs" / "design"
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "paper.md",
    ROOT / "docs" / "reliability.md",
    *(DESIGN / name for name in ("quantizers.md", "index.md", "performance.md", "storage.md")),
)
SETS = ("glove", "lastfm48k", "npm", "minilm")


def committed(name: str) -> dict[str, Any]:
    """A committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text())  # type: ignore[no-any-return]


def result(name: str) -> dict[str, Any]:
    """A committed result of quantizers.py."""
    return committed(f"quantizers_{name}")


def ran(name: str) -> str:
    """The command of quantizers.py, and what it ran on."""
    return ran_in(result(name)["environment"])


def short(method: str) -> str:
    """QPCPQ(section_size=2, ...) as QPCPQ 2/16/16: section size, centers, scales."""
    name, _, inside = method.partition("(")
    if not inside:
        return method
    given = dict(part.split("=") for part in inside.rstrip(")").split(", ") if part)
    parts = [given.get("section_size", "4"), given.get("n_centers", "16")]
    if name.startswith("Q"):
        parts.append(given.get("n_scales", "16"))
    along_vector = ", bias along x" if given.get("bias") == "True" else ""
    return f"{name} {'/'.join(parts)}{along_vector}"


def all_rows(name: str) -> list[dict[str, Any]]:
    """Ours and the peers' with euclidean lists or none."""
    found = result(name)
    return found["ours"] + [row for row in found["peers"] if row["lists"] != "inner product"]  # type: ignore[no-any-return]


def frontier() -> str:
    """GloVe: every code that no smaller one beats, ours and theirs."""
    rows = all_rows("glove")
    kinds: tuple[tuple[str, Callable[[str], bool], bool], ...] = (
        ("pcpq QPCPQ, query sample", lambda m: m.startswith("QPCPQ"), True),
        ("pcpq QPCPQ", lambda m: m.startswith("QPCPQ"), False),
        ("pcpq PQ, query sample", lambda m: m.startswith("PQ"), True),
        ("pcpq PQ", lambda m: m.startswith("PQ"), False),
        ("Faiss IVF PQ, OPQ", lambda m: "Faiss IVF" in m and "RaBitQ" not in m, False),
        ("Faiss IVF RaBitQ", lambda m: "RaBitQ" in m, False),
        ("turbovec", lambda m: "turbovec" in m, False),
    )
    lines = []
    for label, belongs, sampled in kinds:
        best = 0.0
        mine = [row for row in rows if belongs(row["method"]) and row.get("query_sample", False) is sampled]
        for row in sorted(mine, key=lambda row: (row["bytes"], -row["recall_10_at_10"])):
            if row["recall_10_at_10"] > best:
                best = row["recall_10_at_10"]
                code = short(row["method"]).removeprefix("Faiss IVF ").removeprefix("turbovec ")
                lines.append(
                    (label, code, f"{row['bytes']:.1f}", f"{best:.3f}", f"{row['recall_10_at_50']:.3f}")
                )
    table = markdown(("", "code", "bytes a vector", "10@10", "10@50"), lines)
    return table + "\n\n" + ran("glove")


def recalls(row: dict[str, Any]) -> str:
    """10@10 over all queries, if that is fair, and over the reported half."""
    whole = row["recall_10_at_10_all_queries"]
    return ("" if whole is None else f"{whole:.3f} / ") + f"{row['recall_10_at_10']:.3f}"


def six() -> str:
    """All six methods for three section sizes on the four sets, over all queries and over the reported half."""
    lines = []
    for sampled in (False, True):
        sets = {
            name: {short(row["method"]): row for row in result(name)["ours"] if row["query_sample"] is sampled}
            for name in SETS
        }
        for label in sets["glove"]:
            if re.fullmatch(r"Q?A?(PC)?PQ [234]/16(/8|/16)?(, bias along x)?", label):
                rows = [sets[name][label] for name in SETS]
                cells = [f"{row['bytes']:.0f} B {recalls(row)}" for row in rows]
                lines.append((label + (", query sample" if sampled else ""), *cells))
    return markdown(("method, section size/centers/scales", *SETS), lines) + "\n\n" + ran("glove")


def rivals() -> str:
    """Each RaBitQ and turbovec code beside the best QPCPQ of no more bytes."""
    lines = []
    for name in SETS:
        for row in result(name)["verdicts"]:
            if "inner product" in row["rival"]:
                continue
            rival = row["rival"].replace(", none lists", "").replace(", euclidean lists", "")
            ours: tuple[Any, ...] = ("none", "", "")
            if row["ours"] is not None:
                ours = (short(row["ours"]), f"{row['bytes']:.1f}", row["recall"])
            lines.append((name, rival, f"{row['rival_bytes']:.1f}", row["rival_recall"], *ours))
    return markdown(("set", "rival", "bytes", "10@10", "QPCPQ", "bytes", "10@10"), lines)


def collapse() -> str:
    """Faiss with its default list assignment and with the euclidean one."""
    lines = []
    for name in SETS:
        rows = result(name)["peers"]
        methods = [r["method"] for r in rows if r["lists"] == "inner product" and "rotation" not in r["method"]]
        for method in methods:
            both = {r["lists"]: r for r in rows if r["method"] == method}
            recalls = [f"{both[lists]['recall_10_at_10']:.3f}" for lists in ("inner product", "euclidean")]
            lines.append((name, method, f"{both['euclidean']['bytes']:.0f}", *recalls))
    return markdown(("set", "code", "bytes", "10@10, inner-product lists", "10@10, euclidean lists"), lines)


def training() -> str:
    """One training choice at a time."""
    found = result("training")["sets"]
    lines = []
    first = next(iter(found))
    for i, row in enumerate(found[first]):
        cells = [f"{found[name][i]['recall_10_at_10']:.3f}" for name in found]
        lines.append((f"`{row['method']}`", f"{row['training_loss']:.1f}", f"{row['error']:.4f}", *cells))
    head = ("quantizer", f"training loss, {first}", f"error, {first}", *(f"10@10, {name}" for name in found))
    return markdown(head, lines) + "\n\n" + ran("training")


def speed() -> str:
    """Fit and encode against Faiss."""
    found = result("speed")
    best = found["best_seconds"]
    steps = ("pcpq fit", "pcpq encode", "faiss train", "faiss add")
    lines = []
    for threads in (1, 2):
        seconds = [f"{best[f'{step}, {threads} threads']:.2f}" for step in steps]
        lines.append((threads, *seconds, found["ratios"][f"faiss / pcpq, {threads} threads"]))
    head = ("threads", "pcpq fit", "pcpq encode", "Faiss train", "Faiss add", "Faiss / pcpq")
    gain = found["ratios"]["encode, 2 threads over 1"]
    return (
        markdown(head, lines)
        + f"\n\nEncoding with 2 threads is {gain} times as fast as with 1. "
        + ran("speed")
    )


def memory() -> str:
    """A file larger than memory."""
    found = result("memory")
    names = ("file_bytes", "physical_memory_bytes", "codes_bytes", "beyond_codes_bytes")
    lines = [[f"{found[name] / 1e9:.2f} GB" for name in names]]
    head = ("file", "physical memory", "codes", "anonymous memory beyond the codes, at most")
    return markdown(head, lines) + "\n\n" + ran("memory")


def kernels() -> str:
    """The scan by itself and inside a search."""
    found = committed("kernels")
    lines = []
    for name, run in found["runs"].items():
        for mode, queries in (("batch", "four at once"), ("single", "one")):
            row = run[mode]
            stages = [row["microseconds"][stage] for stage in ("lists", "tables", "scan", "judging")]
            numbers = (row["bare_ns_a_row"], row["full_ns_a_row"], row["full_over_bare"])
            lines.append((name, run["bytes_a_row"], queries, *numbers, run["recall"], *stages))
    head = (
        "code",
        "bytes",
        "queries",
        "bare, ns a row",
        "full, ns a row",
        "full / bare",
        "recall",
        "lists, us",
    )
    return markdown((*head, "tables", "scan", "judging"), lines) + "\n\n" + ran_in(found["environment"])


def growth() -> str:
    """Time by the number of vectors, at equal recall."""
    found = committed("growth")
    lines = []
    for run in found["runs"]:
        times = [(run[mode]["microseconds"], run[mode]["recall"]) for mode in ("batch", "single")]
        rest = (run["lists"], run["local_dimension"], run["bytes_a_vector"], run["build_seconds"])
        lines.append((f"{run['n']:,}", *rest, *(number for pair in times for number in pair)))
    head = ("vectors", "lists", "local dimension", "bytes a vector", "build, s", "all at once, us", "recall")
    exponents = " and ".join(f"{found['growth'][mode]['exponent']} ({mode})" for mode in ("batch", "single"))
    text = f"\n\nTime grows as n to the power of {exponents}. "
    return markdown((*head, "one a call, us", "recall"), lines) + text + ran_in(found["environment"])


def lists() -> str:
    """Rows scanned for three recalls, by how lists are trained and ranked."""
    found = committed("lists")
    lines = []
    for name, one in found["sets"].items():
        for row in one["found"]:
            rows = [f"{row['recalls'][str(recall)]['rows']:,}" for recall in found["recalls"]]
            lines.append((name, row["training"], row["ranking"], row["fullness_of_a_rows_list"], *rows))
    head = ("set", "training", "ranking", "fullness", *(f"rows for {recall}" for recall in found["recalls"]))
    return markdown(head, lines) + "\n\n" + ran_in(found["environment"])


def choice(name: str) -> str:
    """A choice of defaults.py in words."""
    name = re.sub(r"method=(\w+), ([\w=, ]+)", lambda match: short(f"{match[1]}({match[2]})"), name)
    return name.replace("quantizer=", "").replace("(", "").replace(")", "")


def over_default(row: dict[str, Any]) -> str:
    """Time and bytes of a choice."""
    if not row["reached"]:
        return "not reached"
    return f"{row['time_over_default']} ({row['bytes_a_vector']:.0f} B)"


def alone(row: dict[str, Any]) -> str:
    """Recall, time and bytes of codes by themselves."""
    return f"{row['recall']:.3f}, {row['microseconds']} us, {row['bytes_a_vector']:.0f} B"


def defaults() -> str:
    """Time and bytes of every choice over those of the defaults; recall where nothing is kept."""
    sets = {name: committed(f"defaults_{name}") for name in SETS}
    parts = []
    for part, cell, head in (
        ("choices", over_default, f"time over the default's, recall {sets['glove']['target']}"),
        ("codes_alone", alone, "nothing kept, a tenth of the lists"),
    ):
        keys = sets["glove"][part]
        lines = [(choice(key), *(cell(sets[name][part][key]) for name in SETS)) for key in keys]
        parts.append(markdown((head, *SETS), lines))
    return "\n\n".join((*parts, ran_in(sets["glove"]["environment"])))


def peers() -> str:
    """Queries a second of everyone on every set that was measured, at the recalls asked for."""
    parts = []
    for path in sorted(RESULTS.glob("peers_*.json")):
        name = path.stem.removeprefix("peers_")
        found = json.loads(path.read_text())
        names = list(dict.fromkeys(who for run in found["runs"] for who in run["contestants"]))
        heads = [f"{run['mode']} {run['target']}" for run in found["runs"]]
        lines = []
        for who in names:
            rows = [run["contestants"].get(who) for run in found["runs"]]
            sizes = [row["bytes_a_vector"] for row in rows if row]
            cells = [f"{row['qps']:,.0f}" if row else "not reached" for row in rows]
            lines.append((choice(who), f"{min(sizes):.0f}-{max(sizes):.0f}", *cells))
        data = found["data"]
        title = f"{name}: {data['n']:,} x {data['d']}, {data['metric']}; queries a second."
        parts += [title, markdown(("", "bytes a vector", *heads), lines), ran_in(found["environment"])]
    if not parts:
        raise FileNotFoundError("no results of peers.py")
    return "\n\n".join(parts)


def against() -> str:
    """GloVe: our queries a second over those of every peer, by metric; vectors kept, then codes only."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("peers_glove*.json"))}
    if not results:
        raise FileNotFoundError("no results of peers.py on GloVe")
    tables = {}
    for name, found in results.items():
        kept = "codes only" if name.endswith("_codes") else "vectors kept"
        rivals = dict.fromkeys(row["rival"] for row in found["pcpq_over_peer"])
        lines = []
        for rival in rivals:
            mine = [row for row in found["pcpq_over_peer"] if row["rival"] == rival]
            by_run = {(row["mode"], row["target"]): row["ratio"] for row in mine}
            wanted = [(run["mode"], run["target"]) for run in found["runs"]]
            lines.append((rival, *(by_run.get(key, "not reached") for key in wanted)))
        modes = {"batch": "all at once", "single": "one a call"}
        heads = (f"{modes[run['mode']]}, {run['target']}" for run in found["runs"])
        kind = (kept == "codes only", found["data"]["metric"])
        table = markdown((f"{found['data']['metric']}, {kept}: pcpq over", *heads), lines)
        tables[kind, tuple(rivals)] = table + "\n\n" + ran_in(found["environment"])
    # A run beside some of the rivals of another one adds nothing.
    best = [key for key in tables if not any(k[0] == key[0] and set(k[1]) > set(key[1]) for k in tables)]
    return "\n\n".join(tables[key] for key in sorted(best))


def building() -> str:
    """Time beside Faiss, and memory."""
    found = committed("building")
    seconds = {name: sorted(all_)[len(all_) // 2] for name, all_ in found["time"]["seconds"].items()}
    ratios = found["time"]["faiss_over_pcpq"]
    times = markdown(
        ("train + add, two threads", "median, s", "over pcpq"),
        [(name, f"{value:.2f}", ratios.get(name, 1)) for name, value in seconds.items()],
    )
    sources = [(name, found["memory"][name]) for name in ("array", "memory map", "iterator")]
    sizes = markdown(
        ("built from", "input batch, MB", "index, MB", "peak, MB", "peak over both"),
        [
            (
                name,
                *(round(row[part] / 1e6) for part in ("batch", "index", "peak")),
                row["peak_over_batch_and_index"],
            )
            for name, row in sources
        ],
    )
    stopped = f"Ctrl-C ends a build within {found['interrupt']['longest']} s."
    return f"{times}\n\n{sizes}\n\n{stopped} {ran_in(found['time']['environment'])}"


def storing() -> str:
    """A stored index: opening it, changing it."""
    found = committed("storing")
    n, batch = found["data"]["n"], found["batch"]
    rows = [
        (f"open {n:,} vectors ({found['data']['bytes'] / 1e6:.0f} MB)", f"{found['open'] * 1e3:.1f} ms"),
        ("the first search after it", f"{found['first_search'] * 1e3:.1f} ms"),
        (f"encode {batch:,} vectors", f"{found['encode'] * 1e3:.1f} ms"),
        (f"add {batch:,} vectors", f"{found['add'] * 1e3:.1f} ms"),
        ("commit them", f"{found['commit'] * 1e3:.1f} ms, {found['bytes']:.0f} bytes a vector"),
        ("remove 100 vectors", f"{found['remove'] * 1e3:.2f} ms"),
        ("compact", f"{found['compact']:.1f} s"),
        ("commit all of it", f"{found['commit_all']:.1f} s"),
        *((f"a query of a batch, {name}", f"{us} us") for name, us in found["search_us"].items()),
    ]
    return f"{markdown(('', ''), rows)}\n\n{ran_in(found['environment'])}"


def torture() -> str:
    """What `make torture` tried."""
    found = committed("torture")
    forged, counted = found["forged_indexes"], found["figures"]
    rows = [
        *((what, f"{number:,}", "nothing lost, nothing wrong") for what, number in counted.items()),
        (
            "forged indexes with right checksums, under sanitizers",
            f"{forged['cases']:,}",
            told(forged["outcomes"]),
        ),
    ]
    return f"{markdown(('what', 'times', 'outcome'), rows)}\n\n{ran_in(found['environment'])}"


def told(outcomes: dict[str, int]) -> str:
    """How cases ended, most of them first."""
    return ", ".join(
        f"{number:,} {what}" for what, number in sorted(outcomes.items(), key=lambda item: -item[1])
    )


def tuning() -> str:
    """Whether target_recall holds, and what knowing it costs."""
    found = committed("tuning")
    lines = []
    for name, one in found["runs"].items():
        both = [cell for half in ("even", "odd") for cell in one[f"tuned by {half}"]]
        over = [cell["recall"] - cell["target"] for cell in both]
        seconds = one["seconds"]
        lines.append(
            (
                name,
                f"{sum(cell['kept'] for cell in both)} of {len(both)}",
                f"{min(over):+.4f}",
                f"{sorted(over)[len(over) // 2]:+.4f}",
                seconds["build"],
                seconds["tuning"],
                f"{100 * seconds['share']:.1f} %",
            )
        )
    head = ("set", "promises kept", "least over target", "median", "build, s", "measuring, s", "share")
    about = "k from 1 to 100, targets from 0.80 to 0.99, tuned by one half of the queries, asked the other"
    kept = "Kept: at most 0.01, or two standard errors of the recall found, under the target"
    return f"{markdown(head, lines)}\n\n{about}; glove as built. {kept}. {ran_in(found['environment'])}"


TABLES: dict[str, Callable[[], str]] = {
    "storing": storing,
    "torture": torture,
    "frontier": frontier,
    "six": six,
    "rivals": rivals,
    "collapse": collapse,
    "training": training,
    "speed": speed,
    "memory": memory,
    "lists": lists,
    "defaults": defaults,
    "peers": peers,
    "against": against,
    "kernels": kernels,
    "growth": growth,
    "building": building,
    "tuning": tuning,
    **PAPER_TABLES,
}


def filled(page: str) -> str:
    """A page with every table made anew."""

    def fill(match: re.Match[str]) -> str:
        try:
            table = TABLES[match[1]]()
        except (FileNotFoundError, KeyError):  # a result that is not there, or only in part
            table = "Not measured yet."
        return f"<!-- table: {match[1]} -->\n{table}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", fill, page, flags=re.DOTALL)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
