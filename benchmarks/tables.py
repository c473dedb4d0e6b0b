"""Write the tables in README.md and docs from the committed results: `python benchmarks/tables.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. A test fails if one is out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markdown_tables import RESULTS, ROOT, markdown, ran_in
from paper_tables import TABLES as PAPER_TABLES

DESIGN = ROOT / "docs" / "design"
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "paper.md",
    ROOT / "docs" / "reliability.md",
    ROOT / "docs" / "scale.md",
    *(DESIGN / name for name in ("quantizers.md", "index.md", "performance.md", "storage.md")),
)
SETS = ("glove", "lastfm48k", "npm", "minilm")
MODES = {"batch": "batched", "single": "single query"}
# Names in the results of lists.py.
RANKINGS = {"center": "centroid", "unit center": "unit centroid", "center and spread": "centroid and spread"}


def committed(name: str) -> dict[str, Any]:
    """Return a committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text())  # type: ignore[no-any-return]


def result(name: str) -> dict[str, Any]:
    """Return a committed result of quantizers.py."""
    return committed(f"quantizers_{name}")


def ran(name: str) -> str:
    """Return the command of quantizers.py, and the machine it ran on."""
    return ran_in(result(name)["environment"])


def short(method: str) -> str:
    """Return QPCPQ(section_size=2, ...) as QPCPQ 2/16/16: section size, codewords, scales."""
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
    """Return our rows, and the peers' rows with euclidean lists or without lists."""
    found = result(name)
    return found["ours"] + [row for row in found["peers"] if row["lists"] != "inner product"]  # type: ignore[no-any-return]


def frontier() -> str:
    """Return the table of codes on the Pareto front of bytes and recall on GloVe."""
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
    table = markdown(("", "code", "bytes per vector", "10@10", "10@50"), lines)
    return table + "\n\n" + ran("glove")


def recalls(row: dict[str, Any]) -> str:
    """Return 10@10 over all queries, unless some were used in fit, and over the reported half."""
    whole = row["recall_10_at_10_all_queries"]
    return ("" if whole is None else f"{whole:.3f} / ") + f"{row['recall_10_at_10']:.3f}"


def six() -> str:
    """Return the table of all six methods for three section sizes on four sets."""
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
    return markdown(("method, section size/codewords/scales", *SETS), lines) + "\n\n" + ran("glove")


def rivals() -> str:
    """Return the table of RaBitQ and turbovec codes, with the best QPCPQ code of at most as many bytes."""
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
    return markdown(("set", "peer", "bytes", "10@10", "QPCPQ", "bytes", "10@10"), lines)


def collapse() -> str:
    """Return the table of Faiss with its default list assignment and with the euclidean one."""
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
    """Return the table of training options, one changed at a time."""
    found = result("training")["sets"]
    lines = []
    first = next(iter(found))
    for i, row in enumerate(found[first]):
        cells = [f"{found[name][i]['recall_10_at_10']:.3f}" for name in found]
        lines.append((f"`{row['method']}`", f"{row['training_loss']:.1f}", f"{row['error']:.4f}", *cells))
    head = ("quantizer", f"training loss, {first}", f"error, {first}", *(f"10@10, {name}" for name in found))
    return markdown(head, lines) + "\n\n" + ran("training")


def speed() -> str:
    """Return the table of fit and encode times compared with Faiss."""
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
    """Return the text about the memory needed to encode a file larger than memory."""
    found = result("memory")
    names = ("file_bytes", "physical_memory_bytes", "codes_bytes", "beyond_codes_bytes")
    lines = [[f"{found[name] / 1e9:.2f} GB" for name in names]]
    head = ("file", "physical memory", "codes", "anonymous memory beyond the codes, at most")
    return markdown(head, lines) + "\n\n" + ran("memory")


def kernels() -> str:
    """Return the table of scan times, alone and inside a search."""
    found = committed("kernels")
    lines = []
    for name, run in found["runs"].items():
        for mode, queries in (("batch", "four"), ("single", "one")):
            row = run[mode]
            stages = [row["microseconds"][stage] for stage in ("lists", "tables", "scan", "reranking")]
            numbers = (row["bare_ns_per_row"], row["full_ns_per_row"], row["full_over_bare"])
            lines.append((name, run["bytes_per_row"], queries, *numbers, run["recall"], *stages))
    head = (
        "code",
        "bytes per row",
        "queries",
        "bare, ns per row",
        "full, ns per row",
        "full / bare",
        "recall",
        "rank lists, µs",
        "lookup tables, µs",
        "scan, µs",
        "rerank, µs",
    )
    return markdown(head, lines) + "\n\n" + ran_in(found["environment"])


def wide() -> str:
    """Return the table of scan times of wide codes and of other forms of the same codes, by SIMD level."""
    found = committed("wide")
    levels = list(found["runs"][0]["levels"])
    lines = []
    for run in found["runs"]:
        times = [run["levels"][level][mode]["ns_per_row"] for level in levels for mode in MODES]
        recalls = [f"{run['recall'][at]:.3f}" for at in ("10", "20")]
        lines.append((run["code"], run["coding"], run["bytes_per_row"], *recalls, *times))
    head = ["code", "form", "bytes per row", "10@10", "10@20"]
    head += [f"{level}, {queries}, ns per row" for level in levels for queries in ("four", "one")]
    return markdown(head, lines) + "\n\n" + ran_in(found["environment"])


def default_code() -> str:
    """Return the table of the speed of six-bit codes relative to four-bit codes, by set and SIMD level."""
    files = [committed(name) for name in ("default_code", "default_code_long")]
    sets = {one["name"]: one for found in files for one in found["sets"]}
    columns = [("avx512", mode, target) for mode in MODES for target in (0.9, 0.95, 0.98)]
    columns += [(level, mode, 0.95) for level in ("avx2", "portable") for mode in MODES]
    lines = []
    for one in sets.values():
        runs = {(run["mode"], run["target"]): run["codes"] for run in one["runs"]}
        for code, index in list(one["indexes"].items())[1:]:
            cells = []
            for level, mode, target in columns:
                if (mode, target) not in runs:
                    cells.append("not reached")
                    continue
                ratio = runs[mode, target][code][level]["speed_over_four_bits"]
                cells.append("{median} ({interval[0]} to {interval[1]})".format(**ratio))
            sizes = [one["indexes"][some]["bytes_per_vector"] for some in (code, "PQ 2/16")]
            name = f"{code}, default" if index["default"] else code
            lines.append((one["name"], name, f"{sizes[0]:.0f} / {sizes[1]:.0f}", *cells))
    head = ["set", "code", "bytes per vector, this / PQ 2/16"]
    head += [f"{level}, {MODES[mode]}, {target}" for level, mode, target in columns]
    return "\n\n".join([markdown(head, lines), *(ran_in(found["environment"]) for found in files)])


def second_lists() -> str:
    """Return the table of the rows that a second list per vector leaves to scan, on samples."""
    found = committed("second_lists")
    lines = []
    for one in found["sets"]:
        cells = [f"{min(shares)} to {max(shares)}" for shares in one["shares"].values()]
        part = f"{one['choice_seconds'] / one['build_seconds']:.0%}"
        lines.append((one["name"], f"{one['n']:,}", *cells, one["choice_seconds"], part))
    head = ("set", "vectors", "share, rows as queries", "share, queries", "CPU seconds", "part of a build")
    return markdown(head, lines) + "\n\n" + ran_in(found["environment"])


def ablation(part: str) -> str:
    """Return the table of an index with a part of the search beside one without it."""
    found = committed(f"ablation_{part}")
    lines = []
    for one in found["sets"]:
        for run in one["runs"]:
            ways = [run[way] for way in ("without", "with")]
            low, high = run["speed"]["interval"]
            speed = f"{run['speed']['median']} ({low} to {high})"
            sizes, rows, times = (
                [way[key] for way in ways] for key in ("bytes_per_vector", "rows", "microseconds")
            )
            rows = [f"{n:,}" for n in rows]
            lines.append((one["name"], MODES[run["mode"]], run["target"], *sizes, *rows, *times, speed))
    columns = [f"{what}, {way}" for what in ("bytes", "rows", "µs") for way in ("without", "with")]
    head = ("set", "queries", "recall", *columns, "speed, with / without")
    return markdown(head, lines) + "\n\n" + ran_in(found["environment"])


def projective() -> str:
    """Return the table of projective codes beside PQ of as many bits, by kind of codebooks."""
    found = committed("projective")["sets"]
    lines = []
    for name, one in found.items():
        for run in one["runs"]:
            sizes, recalls, search = run["bytes"], run["recall"], run["search"]
            books = f"own in {run['own_codebooks']:.0%} of lists" if run["own_codebooks"] else "shared"
            both = sizes["code"] + sizes["codebooks"]
            line = [name, books, run["code"], sizes["code"], sizes["codebooks"], f"{both:.1f}", sizes["tables"]]
            for at in ("10", "20", "50", "float"):
                line.append(f"{recalls[at]['mean']:.3f} ± {recalls[at]['deviation']:.3f}")
            for at in ("10", "float"):
                low, high = recalls[at]["interval"]
                difference = f"{recalls[at]['difference']:+.3f} ({low:+.3f} to {high:+.3f})"
                line.append("" if run["code"] == "PQ 3/64" else difference)
            times = [interval(search[mode]) if search else "not reached" for mode in MODES]
            times.append(f"{search['recall']:.3f}" if search else "")
            lines.append((*line, f"{run['error']['mean']:.3f}", *times, f"{run['build']['mean']:.1f}"))
    head = ["set", "codebooks", "code", "code, bytes", "codebooks, bytes", "together", "codebooks in a search"]
    head += ["10@10", "10@20", "10@50", "10@10, float", "10@10 minus PQ 3/64", "float minus PQ 3/64", "error"]
    head += [*(f"{mode}, µs" for mode in MODES.values()), "its recall", "build, s"]
    ran = dict.fromkeys(ran_in(one["environment"]) for one in found.values())
    return markdown(head, lines) + "\n\n" + " ".join(ran)


def spill() -> str:
    """Return the table of rows that must be scanned with each vector in one list, and in two."""
    found = committed("spill")
    names = {None: "one", 0.0: "two, weight 0", 1.0: "two, weight 1", 2.0: "two, weight 2"}
    lines = []
    for one in found["sets"]:
        for row in one["results"]:
            cells = [
                f"{at['rows']:,} ({at['interval'][0]:,} to {at['interval'][1]:,})" for at in row["scanned"]
            ]
            lines.append((one["name"], f"{row['lists']:,}", names[row["weight"]], *cells))
    shares = [f"rows for {at['share']:.0%}" for at in found["sets"][0]["results"][0]["scanned"]]
    return (
        markdown(["set", "lists", "lists per vector", *shares], lines) + "\n\n" + ran_in(found["environment"])
    )


def growth() -> str:
    """Return the table of search time by number of vectors, at equal recall, without the largest."""
    found = committed("growth")
    lines = []
    for run in found["runs"][:-1]:
        times = [run[mode][name] for mode in MODES for name in ("microseconds", "rerank", "recall")]
        rest = (run["lists"], run["local_dimension"], run["bytes_per_vector"], run["build_seconds"])
        lines.append((f"{run['n']:,}", *rest, *times))
    head = ["vectors", "lists", "local dimension", "bytes per vector", "build, s"]
    for mode in MODES.values():
        head += [f"{mode}, µs", "rerank", "recall"]
    exponents = " and ".join(f"{found['growth'][mode]['exponent']} ({title})" for mode, title in MODES.items())
    text = f"\n\nTime grows as n to the power of {exponents}. "
    earlier = {run["n"]: run for run in committed("growth_before")["runs"]}
    now = {run["n"]: run for run in found["runs"]}
    shares = [
        (f"{n:,}", *(round(now[n][mode]["microseconds"] / run[mode]["microseconds"], 2) for mode in MODES))
        for n, run in earlier.items()
    ]
    beside = markdown(("vectors", *(f"{title}, now / before" for title in MODES.values())), shares)
    before = f"\n\nTimes relative to those before there were codes of six bits:\n\n{beside}"
    return markdown(head, lines) + text + ran_in(found["environment"]) + before


def largest() -> str:
    """Return the table of the largest number of vectors, with settings for equal recall on held-out queries."""
    found = committed("growth")
    run = found["runs"][-1]
    lines = [
        (title, *(run[mode][name] for name in ("microseconds", "rerank", "recall")))
        for mode, title in MODES.items()
    ]
    head = (f"{run['n']:,} vectors", "µs per query", "rerank", "recall")
    text = f"\n\nThe build took {run['build_seconds']} s. "
    return markdown(head, lines) + text + ran_in(found["environment"])


def lists() -> str:
    """Return the table of rows scanned for three recalls, by training and ranking of lists."""
    found = committed("lists")
    lines = []
    for name, one in found["sets"].items():
        for row in one["found"]:
            rows = [f"{row['recalls'][str(recall)]['rows']:,}" for recall in found["recalls"]]
            ranking = RANKINGS[row["ranking"]]
            lines.append((name, row["training"], ranking, row["fullness_of_a_rows_list"], *rows))
    recalls = (f"rows scanned for recall {recall}" for recall in found["recalls"])
    head = ("set", "training", "ranking", "fullness", *recalls)
    return markdown(head, lines) + "\n\n" + ran_in(found["environment"])


def choice(name: str) -> str:
    """Return a choice of defaults.py as text."""
    name = re.sub(r"method=(\w+), ([\w=, ]+)", lambda match: short(f"{match[1]}({match[2]})"), name)
    return name.replace("quantizer=", "").replace("(", "").replace(")", "")


def over_default(row: dict[str, Any]) -> str:
    """Return time and bytes of a choice as text."""
    if not row["reached"]:
        return "not reached"
    return f"{row['time_over_default']} ({row['bytes_per_vector']:.0f} B)"


def alone(row: dict[str, Any]) -> str:
    """Return recall, time and bytes of codes without kept vectors as text."""
    return f"{row['recall']:.3f}, {row['microseconds']} µs, {row['bytes_per_vector']:.0f} B"


def defaults() -> str:
    """Return the table of choices relative to the defaults, with recall where no vectors are kept."""
    sets = {name: committed(f"defaults_{name}") for name in SETS}
    parts = []
    for part, cell, head in (
        ("choices", over_default, f"time relative to the default, recall {sets['glove']['target']}"),
        ("codes_alone", alone, "keep=None, a tenth of the lists probed"),
    ):
        keys = sets["glove"][part]
        lines = [(choice(key), *(cell(sets[name][part][key]) for name in SETS)) for key in keys]
        parts.append(markdown((head, *SETS), lines))
    return "\n\n".join((*parts, ran_in(sets["glove"]["environment"])))


def peers() -> str:
    """Return the table of queries per second of all libraries on all measured sets, at equal recall."""
    parts = []
    for path in sorted(RESULTS.glob("peers_*.json")):
        found = json.loads(path.read_text())
        names = list(dict.fromkeys(name for run in found["runs"] for name in run["contestants"]))
        heads = [f"{MODES[run['mode']]}, {run['target']}" for run in found["runs"]]
        lines = []
        for contestant in names:
            rows = [run["contestants"].get(contestant) for run in found["runs"]]
            sizes = [row["bytes_per_vector"] for row in rows if row]
            cells = [f"{row['qps']:,.0f}" if row else "not reached" for row in rows]
            lines.append((choice(contestant), f"{min(sizes):.0f}-{max(sizes):.0f}", *cells))
        data = found["data"]
        about = f"{data['name']}: {data['n']:,} x {data['d']}, {data['metric']}"
        title = f"{about}; queries per second (`{path.name}`)."
        parts += [title, markdown(("", "bytes per vector", *heads), lines), ran_in(found["environment"])]
    if not parts:
        raise FileNotFoundError("no results of peers.py")
    return "\n\n".join(parts)


def glove_ratios() -> dict[tuple[bool, str, tuple[str, ...]], Path]:
    """Return the results of peers.py on GloVe by "codes only", metric and peers, without subsets of others."""
    results = {}
    for path in sorted(RESULTS.glob("peers_glove*.json")):
        found = json.loads(path.read_text())
        peers = tuple(dict.fromkeys(row["rival"] for row in found["pcpq_over_peer"]))
        results[path.stem.endswith("_codes"), found["data"]["metric"], peers] = path
    if not results:
        raise FileNotFoundError("no results of peers.py on GloVe")
    return {
        key: path
        for key, path in sorted(results.items())
        if not any(other[:2] == key[:2] and set(other[2]) > set(key[2]) for other in results)
    }


def ratios_of(found: dict[str, Any], peer: str) -> list[Any]:
    """Return the queries per second of pcpq divided by those of a peer, by run."""
    mine = [row for row in found["pcpq_over_peer"] if row["rival"] == peer]
    by_run = {(row["mode"], row["target"]): row["ratio"] for row in mine}
    return [by_run.get((run["mode"], run["target"]), "not reached") for run in found["runs"]]


def against() -> str:
    """Return the table of GloVe, cosine, kept vectors: queries per second of pcpq divided by each peer's."""
    results = glove_ratios().items()
    cosine = [(key[2], path) for key, path in results if key[:2] == (False, "cosine")]
    return over_peers(cosine)


def against_on(name: str) -> str:
    """Return the same table of another set."""
    paths = sorted(RESULTS.glob(f"peers_{name}_only*.json"))
    found = [json.loads(path.read_text())["pcpq_over_peer"] for path in paths]
    peers = [tuple(dict.fromkeys(row["rival"] for row in rows)) for rows in found]
    return over_peers(list(zip(peers, paths, strict=True)))


def over_peers(results: list[tuple[tuple[str, ...], Path]]) -> str:
    """Return the queries per second of pcpq divided by those of peers, in the results of peers.py."""
    lines, heads, names, dates = [], [""], [], set()
    for peers, path in results:
        found = json.loads(path.read_text())
        heads = [f"{MODES[run['mode']]}, {run['target']}" for run in found["runs"]]
        middle = next(run["contestants"] for run in found["runs"] if run["target"] == 0.95)
        for peer in peers:
            sizes = " / ".join(f"{middle[name]['bytes_per_vector']:.0f}" for name in ("pcpq", peer))
            ratios = ratios_of(found, peer)
            lines.append((peer, sizes, *(r if isinstance(r, str) else f"{r:.1f}x" for r in ratios)))
        names.append(f"`{path.name}`")
        dates.add("{cpu}, {simd}, {cpus} CPU, {date}".format(**found["environment"]))
    table = markdown(("peer", "bytes per vector, pcpq / peer", *heads), lines)
    return f"{table}\n\n{' and '.join(names)} in `benchmarks/results`; {'; '.join(sorted(dates))}."


def ratios() -> str:
    """Return the table of GloVe by metric and kept vectors: queries per second of pcpq over each peer's."""
    tables = []
    for (codes_only, metric, peers), path in glove_ratios().items():
        found = json.loads(path.read_text())
        kept = "codes only" if codes_only else "vectors kept"
        heads = (f"{MODES[run['mode']]}, {run['target']}" for run in found["runs"])
        lines = [(peer, *ratios_of(found, peer)) for peer in peers]
        table = markdown((f"{metric}, {kept}: pcpq / peer", *heads), lines)
        tables.append(table + "\n\n" + ran_in(found["environment"]))
    return "\n\n".join(tables)


def building() -> str:
    """Return the tables of build time compared with Faiss, and of memory."""
    found = committed("building")
    seconds = {name: sorted(all_)[len(all_) // 2] for name, all_ in found["time"]["seconds"].items()}
    ratios = found["time"]["faiss_over_pcpq"]
    times = markdown(
        ("train + add, two threads", "median, s", "relative to pcpq"),
        [(name, f"{value:.2f}", ratios.get(name, 1)) for name, value in seconds.items()],
    )
    sources = [(name, found["memory"][name]) for name in ("array", "memory map", "iterator")]
    sizes = markdown(
        ("built from", "input batch, MB", "index, MB", "peak, MB", "peak / (batch + index)"),
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
    """Return the table of times to open and change a stored index."""
    found = committed("storing")
    n, batch = found["data"]["n"], found["batch"]
    rows = [
        (f"open {n:,} vectors ({found['data']['bytes'] / 1e6:.0f} MB)", f"{found['open'] * 1e3:.1f} ms"),
        ("first search after opening", f"{found['first_search'] * 1e3:.1f} ms"),
        (f"encode {batch:,} vectors", f"{found['encode'] * 1e3:.1f} ms"),
        (f"add {batch:,} vectors", f"{found['add'] * 1e3:.1f} ms"),
        ("commit the added vectors", f"{found['commit'] * 1e3:.1f} ms, {found['bytes']:.0f} bytes per vector"),
        ("remove 100 vectors", f"{found['remove'] * 1e3:.2f} ms"),
        ("compact", f"{found['compact']:.1f} s"),
        ("commit after compacting", f"{found['commit_all']:.1f} s"),
        *((f"one query of a batch, {name}", f"{us} µs") for name, us in found["search_us"].items()),
    ]
    return f"{markdown(('operation', 'time'), rows)}\n\n{ran_in(found['environment'])}"


def writers() -> str:
    """Return the table of calls beside an addition in another thread."""
    found = committed("writers")
    seconds, data = found["seconds"], found["data"]

    def ms(name: str) -> str:
        low, high = seconds[name]["interval"]
        return f"{seconds[name]['median'] * 1e3:.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f})"

    rows = [
        (call, *(ms(f"{call}{of}") for of in (" alone, median", ", median", ", longest"))) for call in CALLS
    ]
    about = (
        f"{data['added']:,} vectors are added to {data['stored']:,} in {seconds['addition']['median']:.1f} s. "
        f"The first search, which measures recall, takes {ms('first search')}. Medians of {len(data['seeds'])} "
        "rounds with 95 % intervals."
    )
    head = ("call", "alone, median", "beside the addition, median", "longest")
    return f"{markdown(head, rows)}\n\n{about} {ran_in(found['environment'])}"


def interval(one: dict[str, Any], unit: str = "") -> str:
    """Return a median with its interval."""
    low, high = one["interval"]
    return f"{one['median']}{unit} ({low} to {high})"


def field_build() -> str:
    """Return the table of build times with and without a variable, idle and busy."""
    part = committed("field")["build"]
    rows = [
        (machine, *(interval(value) for value in found.values())) for machine, found in part["measured"].items()
    ]
    head = ("machine", *(name for name in part["measured"]["idle"]))
    return f"{markdown(head, rows)}\n\n{ran_in(part['environment'])}"


def field_search() -> str:
    """Return the table of default threads against one thread, by batch size, idle and busy."""
    part = committed("field")["search"]
    idle, busy = (part["measured"][machine] for machine in ("idle", "busy"))
    rows = [
        (f"{one['queries']:,}", interval(one["default over one"]), interval(other["default over one"]))
        for one, other in zip(idle, busy, strict=True)
    ]
    return f"{markdown(('queries', 'idle', 'busy'), rows)}\n\n{ran_in(part['environment'])}"


def field_changes() -> str:
    """Return the table of single queries on changed indexes."""
    part = committed("field")["changes"]
    rows = [
        (name, interval(found["µs"]), interval(found["over unchanged"]))
        for name, found in part["measured"].items()
    ]
    return f"{markdown(('index', 'µs', 'over unchanged'), rows)}\n\n{ran_in(part['environment'])}"


def field_where() -> str:
    """Return the table of searches with conditions."""
    part = committed("field")["where"]
    rows = [(name, interval(found)) for name, found in part["measured"].items()]
    return f"{markdown(('search', 'ms of CPU time'), rows)}\n\n{ran_in(part['environment'])}"


def unlike() -> str:
    """Return the table of recall by queries that are unlike the vectors."""
    found = committed("unlike")
    rows = [
        (
            row["set"],
            row["queries"],
            row["target"],
            f"{row['recall']:.3f} ± {row['standard_error']:.3f}",
            "" if row["told"] is None else f"{row['told']:.2f}",
            f"{1e6 * row['first_seconds'] / row['count']:.0f}",
            f"{1e6 * row['later_seconds'] / row['count']:.0f}",
        )
        for row in found["rows"]
        if row["k"] == 10 and row["target"] in (0.8, 0.95, 0.99)
    ]
    head = ("set", "queries", "target", "recall", "warning tells", "µs per query, first", "µs per query, later")
    counts = (
        f"Of {found['searches']} searches (k of 10 and 100, five targets), {found['low']} were more than"
        f" {found['allowed']} below their target; {found['low_without_warning']} of these without a warning."
        f" Of {found['warnings']} warnings, {found['false_alarms']} were false alarms (recall at most 0.01"
        " below the target)."
    )
    return f"{markdown(head, rows)}\n\n{counts}\n\n{ran_in(found['environment'])}"


def exact() -> str:
    """Return the table of exact search beside Faiss."""
    found = committed("exact")
    rows = [
        (
            row["set"],
            row["keep"],
            row["peer"],
            f"{row['queries']:,}",
            interval(row["pcpq_ms"]),
            interval(row["faiss_ms"]),
            interval(row["ratio"]),
        )
        for row in found["rows"]
    ]
    head = ("set", "kept as", "Faiss index", "queries", "pcpq, ms", "Faiss, ms", "Faiss over pcpq")
    return f"{markdown(head, rows)}\n\n{ran_in(found['environment'])}"


def torture() -> str:
    """Return the table of what `make torture` tested."""
    found = committed("torture")
    forged, counted = found["forged_indexes"], found["figures"]
    rows = [
        *((what, f"{number:,}", "no data lost, no wrong answer") for what, number in counted.items()),
        (
            "forged indexes with valid checksums, under sanitizers",
            f"{forged['cases']:,}",
            outcomes_text(forged["outcomes"]),
        ),
    ]
    return f"{markdown(('test', 'cases', 'outcome'), rows)}\n\n{ran_in(found['environment'])}"


def coverage() -> str:
    """Return the share of lines that tests run, of Python and C++."""
    found = committed("coverage")
    rows = []
    for language, root in (("python", "src/pcpq"), ("cpp", "cpp")):
        counts = found[language]
        total = [sum(column) for column in zip(*counts.values(), strict=True)]
        named = {f"**{root}**": total} | {f"{root}/{folder or '*'}": some for folder, some in counts.items()}
        rows += [
            (name, f"{lines:,}", f"{100 * covered / lines:.1f} %") for name, (covered, lines) in named.items()
        ]
    return f"{markdown(('folder', 'lines', 'run by tests'), rows)}\n\n{ran_in(found['environment'])}"


def outcomes_text(outcomes: dict[str, int]) -> str:
    """Return outcomes as text, the most frequent first."""
    return ", ".join(
        f"{number:,} {what}" for what, number in sorted(outcomes.items(), key=lambda item: -item[1])
    )


def tuning() -> str:
    """Return the table that shows whether target_recall is reached, and the cost of the measurement."""
    found = committed("tuning")
    lines = []
    for name, one in found["runs"].items():
        seconds = one["seconds"]
        for label, parts in (("as built", ["as built"]), ("tuned", ["tuned by even", "tuned by odd"])):
            both = [cell for part in parts for cell in one[part]]
            over = sorted(cell["recall"] - cell["target"] for cell in both)
            above = [cell for cell in both if not cell["not above"]]
            lines.append(
                (
                    f"{name}, {label}",
                    f"{sum(cell['not below'] for cell in both)} of {len(both)}",
                    f"{len(above)}, {sum(not cell['cheapest'] for cell in above)}",
                    f"{over[0]:+.3f}",
                    f"{over[len(over) // 2]:+.3f}",
                    f"{over[-1]:+.3f}",
                    f"{seconds['tuning']} s, {100 * seconds['share']:.1f} %" if label == "as built" else "",
                )
            )
    head = (
        "set",
        "not below",
        "above, with cheaper settings",
        "lowest recall minus target",
        "median",
        "highest",
        "measuring in a build",
    )
    about = (
        "k is 1, 10 and 100, targets are 0.80, 0.90, 0.95 and 0.98. *As built*: searched with vectors that "
        "were left out. *Tuned*: with one half of the user's queries, searched with the other, both ways. *Not "
        "below*: at most 0.01 below the target; *above*: more than 0.015 above it, of these where cheaper "
        "settings reach the target too; two standard errors of the measured recall are allowed on both sides."
    )
    return f"{markdown(head, lines)}\n\n{about} {ran_in(found['environment'])}"


CALLS = ("remove", "commit", "search")
TABLES: dict[str, Callable[[], str]] = {
    "storing": storing,
    "writers": writers,
    "field_build": field_build,
    "field_search": field_search,
    "field_changes": field_changes,
    "field_where": field_where,
    "unlike": unlike,
    "exact": exact,
    "torture": torture,
    "coverage": coverage,
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
    "against_text": lambda: against_on("text256"),
    "against_latent": lambda: against_on("latent512"),
    "ratios": ratios,
    "kernels": kernels,
    "wide": wide,
    "default_code": default_code,
    "ablation_probing": lambda: ablation("probing"),
    "ablation_code_dimensions": lambda: ablation("code_dimensions"),
    "projective": projective,
    "second_lists": second_lists,
    "spill": spill,
    "growth": growth,
    "largest": largest,
    "building": building,
    "tuning": tuning,
    **PAPER_TABLES,
}


def filled(page: str) -> str:
    """Return a page with all of its tables regenerated."""

    def fill(match: re.Match[str]) -> str:
        try:
            table = TABLES[match[1]]()
        except (FileNotFoundError, KeyError):  # a result is missing or incomplete
            table = "Not measured yet."
        return f"<!-- table: {match[1]} -->\n{table}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", fill, page, flags=re.DOTALL)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
