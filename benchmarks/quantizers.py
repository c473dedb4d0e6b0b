"""Compare accuracy and speed of the quantizers with Faiss and turbovec.

    python benchmarks/quantizers.py accuracy --data FOLDER   recall per byte, all lists, without reranking
    python benchmarks/quantizers.py speed --data FOLDER      fit + encode beside Faiss IndexPQ 50x8; threads
    python benchmarks/quantizers.py memory --data FOLDER     encode a file larger than memory
    python benchmarks/quantizers.py training --data FOLDER   the effect of each training option

Results go to benchmarks/results/quantizers_*.json. Nothing is tuned on the reported queries: gain and bias are
chosen on training rows, or on the other half of the queries if a query sample is passed to fit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import Data, Lists, best_rows, data_folder, load, make_lists, save, shared_rows

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
TRAINING_ROWS = 100_000


def training_sample(data: Data) -> np.ndarray:
    """Return the training rows, which are the same for all methods."""
    return np.sort(np.random.default_rng(1).permutation(len(data.base))[:TRAINING_ROWS])


ANCHORED: dict[str, Any] = {"gain": True, "bias": "anchor"}


def grid() -> Iterator[pcpq.Quantizer]:
    """Yield all six methods for section sizes 2, 3 and 4, and QPCPQ in the sizes of its rivals."""
    for size in (2, 3, 4):
        for method in (pcpq.PQ, pcpq.APQ, pcpq.PCPQ, pcpq.APCPQ):
            yield method(section_size=size, **ANCHORED)
        for method in (pcpq.QPCPQ, pcpq.QAPCPQ):
            for n_scales in (8, 16):
                yield method(section_size=size, n_scales=n_scales, **ANCHORED)
    for size in (2, 4):  # as many codewords as QPCPQ with 16 codewords and 16 scales
        yield pcpq.PQ(section_size=size, n_centers=256, **ANCHORED)
    for size, n_centers, n_scales in ((2, 8, 2), (2, 16, 2), (2, 16, 4), (3, 16, 4), (3, 32, 4), (2, 32, 8)):
        yield pcpq.QPCPQ(section_size=size, n_centers=n_centers, n_scales=n_scales, **ANCHORED)
    yield from five({"gain": True, "bias": True})


def five(corrections: dict[str, Any]) -> Iterator[pcpq.Quantizer]:
    """Yield five codes with the given corrections, which are measured in more than one way."""
    yield pcpq.PQ(section_size=2, **corrections)
    for size, n_scales in ((2, 8), (2, 16), (3, 8), (4, 8)):
        yield pcpq.QPCPQ(section_size=size, n_scales=n_scales, **corrections)


def best_estimates(
    quantizer: pcpq.Quantizer, codes: pcpq.Codes, decoded: np.ndarray, lists: Lists, queries: np.ndarray
) -> np.ndarray:
    """Return the (n_queries, 100) rows of the best estimates: inner products with centroids plus residuals.

    Computed by BLAS over decoded vectors; a test checks that `scores` returns the same by lookup tables.
    """
    if codes.gains is not None:
        decoded = decoded * codes.gains.astype(np.float32)[:, None]
    found = []
    for start in range(0, len(queries), 50):
        some = queries[start : start + 50]
        scores = some @ decoded.T
        anchors = (some @ lists.centroids.T)[:, lists.assigned]
        scores += anchors
        if codes.biases is not None and quantizer.model_.anchored:
            scores += anchors * codes.biases.astype(np.float32)
        elif codes.biases is not None:
            lengths = np.linalg.norm(some, axis=1, keepdims=True) * np.float32(quantizer.unit_)
            scores += lengths * codes.biases.astype(np.float32)
        found.append(ordered_rows(scores, 100))
    return np.concatenate(found)


def measure(
    data: Data, lists: Lists, quantizer: pcpq.Quantizer, queries: np.ndarray | None = None
) -> dict[str, Any]:
    """Fit on residuals (and a sample of queries), encode all rows, and search all queries."""
    residuals, rows = lists.residuals(data.base), training_sample(data)
    start = time.perf_counter()
    quantizer.fit(residuals[rows], directions=data.base[rows], queries=queries)
    fitted = time.perf_counter()
    codes = quantizer.encode(residuals, directions=data.base)
    encoded = time.perf_counter()
    decoded = quantizer.decode(codes)
    error = residuals - decoded
    found = best_estimates(quantizer, codes, decoded, lists, data.all_queries)
    return {
        "method": repr(quantizer),
        "lists": "euclidean",
        "query_sample": queries is not None,
        "bytes": quantizer.bits_per_vector / 8,
        "found": found[1::2],
        # Without a query sample no query was used for training, so all of them can be reported.
        "recall_10_at_10_all_queries": None
        if queries is not None
        else round(shared_rows(found[:, :10], data.all_top), 4),
        "error": float(np.mean(np.square(error)) / np.mean(np.square(residuals))),
        "bias_weight": round(quantizer.model_.bias_weight, 3),
        "fit_seconds": round(fitted - start, 2),
        "encode_seconds": round(encoded - fitted, 2),
    }


def ordered_rows(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the k best columns of every row, best first."""
    top = best_rows(scores, k)
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)


def with_recall(data: Data, row: dict[str, Any]) -> dict[str, Any]:
    """Replace the found rows by the shares of the true ten among the first 10, 50 and 100."""
    found = row.pop("found")
    for depth in (10, 50, 100):
        row[f"recall_10_at_{depth}"] = round(shared_rows(found[:, :depth], data.top), 4)
    print(
        f"{data.name:10s} {row['bytes']:6.1f} B  10@10 {row['recall_10_at_10']:.3f}  ",
        f"{row['method']}  ({row['lists']} lists)",
        flush=True,
    )
    return row


def accuracy(folder: Path, names: list[str], only: str | None) -> None:
    """Measure recall per byte, one JSON per data set; with `only` ours or peers the other rows are kept."""
    from peers_accuracy import faiss_rows, turbovec_rows

    for name in names:
        data, path = load(folder, name), RESULTS / f"quantizers_{name}.json"
        n_lists = max(1, round(len(data.base) / 1000))
        shape = {"name": name, "n": len(data.base), "d": data.base.shape[1], "lists": n_lists}
        new: dict[str, Any] = {}
        if only != "peers":
            lists = make_lists(data.base, n_lists)
            ours = [with_recall(data, measure(data, lists, quantizer)) for quantizer in grid()]
            ours += [
                with_recall(data, measure(data, lists, quantizer, data.tune)) for quantizer in five(ANCHORED)
            ]
            new |= {"environment": environment(), "ours": ours}
        if only != "ours":
            peers = [with_recall(data, row) for row in faiss_rows(data, n_lists)]
            peers += [with_recall(data, row) for row in turbovec_rows(data)]
            new |= {"peers_environment": environment("faiss-cpu", "turbovec"), "peers": peers}
        found = json.loads(path.read_text()) if path.exists() else {}
        found |= {"data": shape | {"queries": len(data.queries)}, **new}
        if "ours" in found and "peers" in found:
            found["verdicts"] = verdicts(found["ours"], found["peers"])
        save(path, found)


def verdicts(ours: list[dict[str, Any]], peers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the best QPCPQ (fitted without queries) of no more bytes for each RaBitQ and turbovec row."""
    ours = [row for row in ours if row["method"].startswith("QPCPQ") and not row["query_sample"]]
    answers = []
    for rival in peers:
        if "RaBitQ" not in rival["method"] and "turbovec" not in rival["method"]:
            continue
        smaller = [row for row in ours if row["bytes"] <= rival["bytes"]]
        best = max(smaller, key=lambda row: row["recall_10_at_10"], default=None)
        answers.append(
            {
                "rival": f"{rival['method']}, {rival['lists']} lists",
                "rival_bytes": rival["bytes"],
                "rival_recall": rival["recall_10_at_10"],
                "ours": best and best["method"],
                "bytes": best and best["bytes"],
                "recall": best and best["recall_10_at_10"],
                "wins": best is not None and best["recall_10_at_10"] > rival["recall_10_at_10"],
            }
        )
    return answers


def speed(folder: Path, rounds: int) -> None:
    """Measure fit + encode of QPCPQ 2/16/16 and train + add of Faiss IndexPQ 50x8.

    Both alternate; the best of several rounds counts.
    """
    import faiss

    data = load(folder, "glove")
    lists = make_lists(data.base, round(len(data.base) / 1000))
    residuals, rows = lists.residuals(data.base), training_sample(data)
    sample, towards = residuals[rows], data.base[rows]
    times: dict[str, list[float]] = {}

    def clock(label: str, start: float) -> None:
        times.setdefault(label, []).append(time.perf_counter() - start)

    for _ in range(rounds):
        for threads in (1, 2):
            pin(threads)
            faiss.omp_set_num_threads(threads)
            start = time.perf_counter()
            quantizer = pcpq.QPCPQ(section_size=2, n_scales=16, gain=True, bias=True, threads=threads)
            quantizer.fit(sample, directions=towards)
            clock(f"pcpq fit, {threads} threads", start)
            start = time.perf_counter()
            quantizer.encode(residuals, directions=data.base)
            clock(f"pcpq encode, {threads} threads", start)
            index = faiss.IndexPQ(residuals.shape[1], 50, 8)
            start = time.perf_counter()
            index.train(sample)
            clock(f"faiss train, {threads} threads", start)
            start = time.perf_counter()
            index.add(residuals)
            clock(f"faiss add, {threads} threads", start)
    best = {label: round(min(values), 3) for label, values in times.items()}
    ratios = {}
    for threads in (1, 2):
        ours = best[f"pcpq fit, {threads} threads"] + best[f"pcpq encode, {threads} threads"]
        theirs = best[f"faiss train, {threads} threads"] + best[f"faiss add, {threads} threads"]
        ratios[f"faiss / pcpq, {threads} threads"] = round(theirs / ours, 2)
    ratios["encode, 2 threads over 1"] = round(
        best["pcpq encode, 1 threads"] / best["pcpq encode, 2 threads"], 2
    )
    shape = {"name": "glove", "n": len(data.base), "training_rows": len(rows)}
    result = {
        "environment": environment("faiss-cpu"),
        "data": shape,
        "rounds": rounds,
        "best_seconds": best,
        "ratios": ratios,
    }
    print(best, ratios)
    save(RESULTS / "quantizers_speed.json", result)


def pin(threads: int) -> None:
    """Pin the process to the first CPUs."""
    os.sched_setaffinity(0, sorted(ALL_CPUS)[:threads])


ALL_CPUS = os.sched_getaffinity(0)


def anonymous_memory() -> int:
    """Return the bytes of anonymous memory of this process, which no file backs."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")
    )
    return int(line.split()[1]) * 1024


def memory(folder: Path, gigabytes: float) -> None:
    """Encode a memory-mapped file larger than memory, and measure the anonymous memory."""
    data = load(folder, "glove")
    n = int(gigabytes * 1e9) // (4 * data.base.shape[1])
    quantizer = pcpq.QPCPQ(section_size=2, n_scales=16).fit(data.base)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
        path = Path(scratch) / "large.npy"
        large = np.lib.format.open_memmap(path, "w+", np.float32, (n, data.base.shape[1]))
        for start in range(0, n, len(data.base)):
            # Rotate coordinates by one more position per block, so that all blocks differ.
            block = np.roll(data.base, start // len(data.base), axis=1)
            large[start : start + len(block)] = block[: n - start]
        large.flush()
        del large, data
        before, peak, done = anonymous_memory(), 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.005):
                peak = max(peak, anonymous_memory())

        watcher = threading.Thread(target=watch)
        watcher.start()
        start_time = time.perf_counter()
        codes = quantizer.encode(np.load(path, mmap_mode="r"))
        seconds = time.perf_counter() - start_time
        done.set()
        watcher.join()
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    result = {
        "environment": environment(),
        "file_bytes": n * 4 * 100,
        "physical_memory_bytes": physical,
        "codes_bytes": codes.nbytes,
        "peak_anonymous_bytes_over_start": peak - before,
        "beyond_codes_bytes": peak - before - codes.nbytes,
        "seconds": round(seconds, 1),
    }
    print(result)
    save(RESULTS / "quantizers_memory.json", result)


def training(folder: Path, names: list[str]) -> None:
    """Measure training options, one changed at a time, and the joint step of anisotropic methods."""
    sets = {}
    for name in names:
        data = load(folder, name)
        lists = make_lists(data.base, max(1, round(len(data.base) / 1000)))
        rows = []
        for quantizer in training_choices():
            row = with_recall(data, measure(data, lists, quantizer))
            row["training_loss"] = float(sum(losses[-1] for losses in quantizer.losses_))
            row["rounds"] = int(np.median([len(losses) - 1 for losses in quantizer.losses_]))
            rows.append(row)
        sets[name] = rows
    save(RESULTS / "quantizers_training.json", {"environment": environment(), "sets": sets})


def training_choices() -> Iterator[pcpq.Quantizer]:
    """Yield the options from which the defaults of the quantizers were chosen."""
    plain: dict[str, Any] = {"section_size": 4, "gain": False, "bias": False}
    for init in ("k-means++", "random", "symmetric"):
        yield pcpq.QPCPQ(**plain, n_scales=8, init=init)
    # Codeword and scale of an anisotropic cluster: one step each, or both until convergence.
    for method in (pcpq.APCPQ, pcpq.QAPCPQ):
        for assignment in ("loss", "distance"):
            for refine in (False, True):
                yield method(**plain, assignment=assignment, refine=refine, encoding="section")
        yield method(**plain, encoding="whole")
    for assignment in ("loss", "distance"):
        yield pcpq.APQ(**plain, assignment=assignment, encoding="section")
    yield pcpq.APQ(**plain, encoding="whole")
    # Gain, bias, scales, and the exact method of the paper.
    for method in (pcpq.PQ, pcpq.QPCPQ):
        for gain, bias in itertools.product((False, True), (False, True, "anchor")):
            yield method(section_size=4, gain=gain, bias=bias)
    for method in (pcpq.PQ, pcpq.QPCPQ, pcpq.APQ, pcpq.QAPCPQ):
        yield method(section_size=4, paper=True)
    for shared in (False, True):
        for refine in (False, True):
            yield pcpq.QPCPQ(**plain, n_scales=8, shared_scales=shared, refine=refine)
    yield pcpq.QPCPQ(**plain, n_scales=8, scales_per="vector")
    yield pcpq.PQ(**plain, norm_scale=True, n_scales=8)
    yield pcpq.APQ(**plain, norm_scale=True, n_scales=8)


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("accuracy", "speed", "memory", "training"))
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", default=["glove", "lastfm48k", "npm", "minilm"])
    parser.add_argument(
        "--only", choices=("ours", "peers"), help="accuracy: measure these, keep the others' rows"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=30.0)
    options = parser.parse_args()
    folder = data_folder(options.data)
    if options.what == "accuracy":
        accuracy(folder, options.sets, options.only)
    elif options.what == "speed":
        speed(folder, options.rounds)
    elif options.what == "memory":
        memory(folder, options.gigabytes)
    else:
        training(folder, options.sets)


if __name__ == "__main__":
    main()
