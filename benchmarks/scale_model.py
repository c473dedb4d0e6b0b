"""Model the cost of 10 million to 10 billion vectors from measured constants, and check a prediction.

    python benchmarks/scale_model.py measure --data FOLDER      measure stages of builds and searches by size
    python benchmarks/scale_model.py predict                    predict the cost of 3,000,000 vectors
    python benchmarks/scale_model.py check --data FOLDER        measure it, and compare with the prediction
    python benchmarks/scale_model.py tables                     write the tables of docs/scale.md

All work is done by one core. The time of a stage is a constant times its work: training rounds x sample x lists
x dimensions, assigning vectors x lists x dimensions, encoding vectors x dimensions, and so on. A search ranks
lists, computes lookup tables, scans rows and reranks candidates. The numbers of rows and candidates needed for
a recall, and the cost of each as the index outgrows the caches, grow with a power of the number of vectors.
`predict` does not overwrite an existing prediction; `check` needs one. With --rows the names of results contain
the sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, default_metric, load, save
from growth import grown
from markdown_tables import markdown, ran_in

from pcpq.building import learn
from pcpq.experiments.environment import environment
from pcpq.index import Index, state_of
from pcpq.io.streams import Stream
from pcpq.ivf.kmeans import HALF_ROUNDS, NEAR_LISTS, NEAR_ROUNDS, ROUNDS
from pcpq.search.plan import plan_search
from pcpq.search.queries import prepare_queries
from pcpq.search.request import SearchRequest
from pcpq.search.searchable import ScanTrace
from pcpq.segment.encoded_rows import EncodedRowsBuilder
from pcpq.segment.training import ROWS_PER_LIST, default_lists
from pcpq.store.store import Store
from pcpq.tuning.budget import DESIGNS
from pcpq.tuning.ground_truth import QUERIES, ExactAnswers
from pcpq.tuning.measure import measure

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
SIZES = (30_000, 100_000, 300_000, 1_000_000, 2_000_000)
CHECKED = 3_000_000
LARGE = (10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000)
TARGET = 0.95
ROUNDS_OF_QUERIES = 7
# For the tables: cores and memory of a node, and bytes per second of its disk.
NODE_CORES, NODE_BYTES, DISK = 16, 128 << 30, 1e9
MOST_ROWS = (1 << 31) - 1  # per directory
STAGES = ("rank lists", "tables", "scan", "rerank", "rest")
# Number of the largest sizes, whose indexes do not fit into caches.
SIZES_BEYOND_CACHE = 3

Run = dict[str, Any]


def features(n: int, d: int) -> dict[str, dict[str, float]]:
    """Return the work of every stage for n vectors of d dimensions, in billions."""
    lists = default_lists(n)
    sample = min(n, max(65_536, ROWS_PER_LIST * lists))
    full = sample * lists * d * (HALF_ROUNDS / 2 + ROUNDS)
    near = sample * NEAR_LISTS * d * NEAR_ROUNDS
    giga = 1e-9
    return {
        "train": {
            "products": giga * (full + near),
            "rows": giga * sample * d * (HALF_ROUNDS + ROUNDS + NEAR_ROUNDS),
            "one": 1.0,  # codebooks are trained on a fixed number of rows
        },
        "encode": {"products": giga * n * lists * d, "rows": giga * n * d},
        "exact": {"products": giga * n * min(QUERIES, max(150, n // 500)) * d},
        "pack": {"rows": giga * n * d},
        "measure": {"rows": giga * n * min(QUERIES, max(150, n // 500)), "lists": giga * QUERIES * lists * d},
        "save": {"rows": giga * n * d},
    }


def search_work(run: Run) -> dict[str, float]:
    """Return the work of every stage of a search, in thousands."""
    return {
        "rank lists": 1e-3 * default_lists(run["n"]) * run["d"],
        "tables": 1.0,
        "scan": 1e-3 * run["rows_scanned"],
        "rerank": 1e-3 * run["reranked"],
        "rest": 1.0,
    }


def staged(vectors: np.ndarray, queries: np.ndarray, metric: str) -> Run:
    """Return seconds of every stage of a build on one thread, bytes, and microseconds per query."""
    times: dict[str, float] = dict.fromkeys(("train", "encode", "exact", "pack", "measure", "save"), 0.0)
    clock = time.perf_counter

    def timed(stage: str, start: float) -> float:
        times[stage] += clock() - start
        return clock()

    stream, start = Stream(vectors), clock()
    index, tuning_queries = learn(stream, metric, None, None, 1, {})
    start = timed("train", start)
    state = index._fitted()
    trained = state.snapshot.trained
    exact, builder = ExactAnswers(trained, tuning_queries), EncodedRowsBuilder(len(vectors))
    for batch in stream.batches(trained.dimensions, 1):
        start = clock()
        exact.observe(batch, builder.count)
        start = timed("exact", start)
        builder.append(*trained.rows(batch, builder.count, 1))
        timed("encode", start)
    start = clock()
    state.insert(trained, *builder.finish(), None, None, False, 1)
    start = timed("pack", start)
    state.set_recall_curve(measure(state.snapshot, tuning_queries, exact.truth(), 1), trained)
    start = timed("measure", start)
    folder = tempfile.mkdtemp()
    try:
        store = Store.create(Path(folder) / "index")
        store.commit(lambda: state.contents, index.config)
        store.close()
        timed("save", start)
        size = sum(path.stat().st_size for path in (Path(folder) / "index").iterdir())
    finally:
        shutil.rmtree(folder)
    built = {"n": len(vectors), "d": vectors.shape[1], "seconds": times, "bytes": size}
    return built | query_costs(index, queries)


def query_costs(index: Index, queries: np.ndarray) -> dict[str, Any]:
    """Return microseconds per query of every stage, batched and single, and rows and candidates per query."""
    snapshot = state_of(index).snapshot
    assert snapshot.recall is not None
    choice = snapshot.recall.choose(10, TARGET)
    rows = prepare_queries(snapshot.trained, queries).rows
    plan = plan_search(snapshot, SearchRequest(k=10, probes=choice.probes, rerank=choice.rerank, threads=1))
    found: dict[str, Any] = {"probes": choice.probes, "rerank": choice.rerank}
    for kind, groups in (("batch_us", [queries]), ("single_us", list(queries[:300]))):
        parts = [rows] if kind == "batch_us" else [rows[i : i + 1] for i in range(len(groups))]
        count, times = sum(map(len, parts)), []
        for _ in range(ROUNDS_OF_QUERIES):
            stages, start = np.zeros(5), time.perf_counter()
            for some in groups:
                index.search(some, 10, probes=plan.probes, rerank=plan.rerank, threads=1)
            total = time.perf_counter() - start
            for part in parts:
                work = np.zeros((len(part), 3), np.int64)
                snapshot.scan(part, plan, ScanTrace(work, stages[:4]))
                if kind == "batch_us":
                    found["rows_scanned"], found["reranked"] = (float(work[:, i].mean()) for i in (1, 2))
            stages[4] = max(
                1e-7 * count, total - stages[:4].sum()
            )  # the two clocks are read at different times
            times.append(stages)
        middle = 1e6 * np.median(times, axis=0) / count
        found[kind] = dict(zip(STAGES, middle.tolist(), strict=True))
    return found


def least_squares(rows: list[dict[str, float]], values: list[float]) -> dict[str, float]:
    """Return non-negative constants that fit values as sums of features, with the least relative error."""
    from scipy.optimize import nnls

    names = list(rows[0])
    weights = 1.0 / np.array(values)
    found, _ = nnls(
        np.array([[row[name] for name in names] for row in rows]) * weights[:, None], np.ones(len(values))
    )
    return dict(zip(names, found.tolist(), strict=True))


def power(sizes: list[float], values: list[float]) -> dict[str, float]:
    """Return factor and exponent of values = factor * sizes ** exponent."""
    exponent, offset = np.polyfit(np.log(sizes), np.log(values), 1)
    return {"factor": math.exp(offset), "exponent": float(exponent)}


def raised(found: dict[str, float], n: int) -> float:
    """Return the value of a power law at n."""
    return float(found["factor"] * n ** found["exponent"])


def constants_of(runs: list[Run]) -> dict[str, Any]:
    """Return the constants of the model, fitted to all runs."""
    sizes = [float(run["n"]) for run in runs]
    found: dict[str, Any] = {
        stage: least_squares(
            [features(run["n"], run["d"])[stage] for run in runs], [run["seconds"][stage] for run in runs]
        )
        for stage in runs[0]["seconds"]
    }
    for what in ("rows_scanned", "reranked"):
        found[what] = power(sizes, [run[what] for run in runs])
    last = runs[-SIZES_BEYOND_CACHE:]
    for kind in ("batch_us", "single_us"):
        found[kind] = {
            stage: power(
                sizes[-SIZES_BEYOND_CACHE:], [run[kind][stage] / search_work(run)[stage] for run in last]
            )
            for stage in STAGES
        }
    return found


def predicted(constants: dict[str, Any], n: int, d: int) -> Run:
    """Return the numbers of a run as predicted by the model."""
    by_stage = features(n, d)
    seconds = {
        stage: sum(constants[stage][name] * value for name, value in by_stage[stage].items())
        for stage in ("train", "encode", "exact", "pack", "measure", "save")
    }
    found: Run = {"n": n, "d": d, "seconds": seconds, "build_seconds": total_of(seconds)}
    for what in ("rows_scanned", "reranked"):
        found[what] = raised(constants[what], n)
    work = search_work(found)
    for kind in ("batch_us", "single_us"):
        found[kind] = {stage: work[stage] * raised(constants[kind][stage], n) for stage in STAGES}
    found["bytes"] = bytes_per_vector(constants, n) * n
    return found


def bytes_per_vector(constants: dict[str, Any], n: int) -> float:
    """Return the measured bytes per vector at the largest size, corrected for n by the model of the budget."""
    measured_at, measured, d = constants["bytes_at"]
    design = DESIGNS[0]
    return float(measured + design.bytes_per_vector(d, n) - design.bytes_per_vector(d, measured_at))


def compared(prediction: Run, measurement: Run) -> dict[str, float]:
    """Return predicted values divided by measured values."""
    total = sum(measurement["seconds"].values())
    found = {"build": prediction["build_seconds"] / total, "bytes": prediction["bytes"] / measurement["bytes"]}
    found |= {
        kind: total_of(prediction[kind]) / total_of(measurement[kind]) for kind in ("batch_us", "single_us")
    }
    return {name: round(value, 3) for name, value in found.items()}


def total_of(stages: dict[str, float]) -> float:
    """Return the sum over all stages."""
    return sum(stages.values())


def read(name: str) -> dict[str, Any]:
    """Return a result, or exit with a message if it does not exist."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        sys.exit(f"{path.name} does not exist: run the step that writes it first")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def large(constants: dict[str, Any], n: int, d: int) -> list[str]:
    """Return a row of the table: bytes, directories, nodes, hours and latency."""
    run = predicted(constants, n, d)
    total, directories = run["bytes"], -(-n // MOST_ROWS)
    nodes = max(1, math.ceil(total / (0.75 * NODE_BYTES)))
    cores = nodes * NODE_CORES
    seconds = run["seconds"]
    parallel = seconds["encode"] + seconds["exact"] + seconds["pack"]
    # Rows are written, read and written again; training and measuring run in one process on one node.
    moved = 3 * total / (nodes * DISK)
    alone = (seconds["train"] + seconds["measure"]) / NODE_CORES
    hours = (parallel / cores + moved + alone) / 3600
    alone_us = total_of(run["single_us"])
    # Scan and rerank are distributed over nodes; every node does the rest.
    spread = run["single_us"]["scan"] + run["single_us"]["rerank"]
    latency = alone_us - spread + spread / nodes
    return [
        f"{n:,}",
        f"{total / n:.0f}",
        f"{total / 1e9:,.0f} GB",
        f"{default_lists(n):,}",
        str(directories),
        str(nodes),
        f"{run['build_seconds'] / 3600:,.1f}",
        f"{hours:,.1f}",
        f"{run['rows_scanned']:,.0f}",
        f"{alone_us / 1000:.2f}",
        f"{latency / 1000:.2f}",
    ]


def large_table(found: dict[str, Any]) -> str:
    """Return the table of 10 million to 10 billion vectors."""
    heads = [
        "vectors",
        "bytes per vector",
        "index",
        "lists",
        "directories",
        "nodes",
        "core hours",
        "build, hours",
    ]
    heads += ["rows per query", "one core, ms", "all nodes, ms"]
    rows = [large(found["constants"], n, found["runs"][0]["d"]) for n in LARGE]
    return f"{markdown(heads, rows)}\n\n{ran_in(found['environment'])}"


def check_table(found: dict[str, Any]) -> str:
    """Return the table of predicted and measured values."""
    prediction, measurement, ratios = found["prediction"], found["run"], found["predicted_over_measured"]
    measured, expected = (
        {"build": total_of(run["seconds"]), "bytes": run["bytes"]} for run in (measurement, prediction)
    )
    for kind in ("batch_us", "single_us"):
        measured[kind], expected[kind] = total_of(measurement[kind]), total_of(prediction[kind])
    units = {
        "build": "build, s",
        "bytes": "bytes",
        "batch_us": "batched, µs per query",
        "single_us": "single query, µs",
    }
    rows = [
        [units[name], f"{expected[name]:,.0f}", f"{measured[name]:,.0f}", ratio]
        for name, ratio in ratios.items()
    ]
    heads = [f"{measurement['n']:,} vectors", "predicted", "measured", "predicted / measured"]
    return f"{markdown(heads, rows)}\n\n{ran_in(found['environment'])}"


def filled(page: str, names: dict[str, str]) -> str:
    """Return the page with its tables regenerated, where results exist."""
    for mark, name, table in (("large", "constants", large_table), ("check", "check", check_table)):
        if (RESULTS / f"{names[name]}.json").exists():
            text = f"<!-- scale: {mark} -->\n{table(read(names[name]))}\n<!-- end -->"
            page = re.sub(
                rf"<!-- scale: {mark} -->\n.*?<!-- end -->", lambda _, text=text: text, page, flags=re.DOTALL
            )
    return page


def main() -> None:
    """Run one of the four steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "predict", "check", "tables"))
    parser.add_argument("--data")
    parser.add_argument("--set", default="glove")
    parser.add_argument("--rows", type=int, nargs="+", help="other sizes; the last is that which is predicted")
    options = parser.parse_args()
    *sizes, checked = options.rows or (*SIZES, CHECKED)
    suffix = "_" + "_".join(map(str, options.rows)) if options.rows else ""
    names = {what: f"scale_{what}{suffix}" for what in ("constants", "prediction", "check")}
    if options.what == "tables":
        page = DOCS / "scale.md"
        page.write_text(filled(page.read_text(), names))
        return
    if options.what == "predict":
        if (RESULTS / f"{names['prediction']}.json").exists():
            sys.exit("a prediction exists already and is not overwritten")
        found = read(names["constants"])
        prediction = predicted(found["constants"], checked, found["runs"][0]["d"])
        save(RESULTS / f"{names['prediction']}.json", {"environment": environment(), "prediction": prediction})
        return
    prediction = read(names["prediction"])["prediction"] if options.what == "check" else None
    data, generator = load(data_folder(options.data), options.set), np.random.default_rng(0)
    metric, runs = default_metric(options.set), []
    for n in [checked] if prediction else sizes:
        runs.append(staged(grown(data.base, n, generator), data.tune, metric))
        print(json.dumps(runs[-1]))
    if prediction:
        ratios = compared(prediction, runs[0])
        result = {
            "environment": environment(),
            "prediction": prediction,
            "run": runs[0],
            "predicted_over_measured": ratios,
        }
        save(RESULTS / f"{names['check']}.json", result)
        return
    constants = constants_of(runs)
    constants["bytes_at"] = [runs[-1]["n"], runs[-1]["bytes"] / runs[-1]["n"], runs[-1]["d"]]
    result = {"environment": environment(), "runs": runs, "constants": constants}
    save(RESULTS / f"{names['constants']}.json", result)


if __name__ == "__main__":
    main()
