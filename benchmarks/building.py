"""Measure builds: time compared with Faiss, memory, and the reaction to Ctrl-C.

    python benchmarks/building.py --data FOLDER
    python benchmarks/building.py --data FOLDER --only memory interrupt

time       GloVe on two threads: train + add of pcpq and of Faiss IVF PQ50x4fsr + refine, alternating
memory     the peak memory of a process that builds from an array, a memory map or an iterator of batches, above
           its memory before, divided by the size of the input batch and the finished index
interrupt  seconds from Ctrl-C to the KeyboardInterrupt, at moments spread over a build
Results go to benchmarks/results/building.json.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, load, save

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
PARTS = ("time", "memory", "interrupt")
LISTS = 1200
THREADS = 2
ROUNDS = 5
BATCH_ROWS = 20_000
INTERRUPTS = 8


def build_ours(base: np.ndarray) -> None:
    """Build an index with pcpq."""
    pcpq.build(base, metric="cosine", n_lists=LISTS, threads=THREADS)


def build_faiss(base: np.ndarray, refine: str) -> None:
    """Build an index with Faiss: fast scan with 4 bits per section of 2 dimensions, and refinement."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    factory = f"IVF{LISTS},PQ{base.shape[1] // 2}x4fsr,{refine}"
    index = faiss.index_factory(base.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    index.train(base)
    index.add(base)


def times(base: np.ndarray, rounds: int) -> dict[str, Any]:
    """Return the seconds of every round, with alternating builders."""
    builders = {
        "pcpq": lambda: build_ours(base),
        "faiss, refine float32": lambda: build_faiss(base, "RFlat"),
        "faiss, refine float16": lambda: build_faiss(base, "Refine(SQfp16)"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in builders}
    for _ in range(rounds):
        for name, build in builders.items():
            start = time.perf_counter()
            build()
            seconds[name].append(round(time.perf_counter() - start, 3))
            print(f"{name}: {seconds[name][-1]:.2f} s", flush=True)
    medians = {name: float(np.median(all_)) for name, all_ in seconds.items()}
    ratios = {name: round(medians[name] / medians["pcpq"], 3) for name in medians if name != "pcpq"}
    return {"lists": LISTS, "threads": THREADS, "seconds": seconds, "faiss_over_pcpq": ratios}


MEMORY_PROBE = """
import json, sys, threading, time
import numpy as np, pcpq

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

path, source, lists, batch_rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
pcpq.build(np.random.default_rng(0).normal(size=(2000, 8)), metric="dot")  # so that all code is loaded
before, peak = status("RssAnon"), [0]

def watch():
    while True:
        peak[0] = max(peak[0], status("RssAnon"))
        time.sleep(0.002)

threading.Thread(target=watch, daemon=True).start()
mapped = np.load(path, mmap_mode="r")
batch = mapped.nbytes if source == "array" else batch_rows * mapped.shape[1] * 4
vectors = {
    "array": lambda: np.array(mapped),
    "memory map": lambda: mapped,
    "iterator": lambda: (np.array(mapped[i : i + batch_rows]) for i in range(0, len(mapped), batch_rows)),
}[source]()
index = pcpq.build(vectors, metric="cosine", n_lists=lists, threads=2)
size = sum(index.stats()["bytes_per_vector"].values()) * len(index)
print(json.dumps({"batch": batch, "index": int(size), "peak": peak[0] - before}))
"""


def memory(path: Path) -> dict[str, Any]:
    """Return bytes of the input batch and the index, the additional peak memory, and their ratio."""
    answers = {}
    for source in ("array", "memory map", "iterator"):
        command = [sys.executable, "-c", MEMORY_PROBE, str(path), source, str(LISTS), str(BATCH_ROWS)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        found["peak_over_batch_and_index"] = round(found["peak"] / (found["batch"] + found["index"]), 3)
        answers[source] = found
        print(source, found, flush=True)
    return answers


INTERRUPT_PROBE = """
import signal, sys, time
import numpy as np, pcpq
vectors = np.load(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # off where a shell started it in its background
print("ready", flush=True)
try:
    pcpq.build(vectors, metric="cosine", n_lists=int(sys.argv[2]), threads=2)
    print("finished", flush=True)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""


def interrupts(path: Path) -> dict[str, Any]:
    """Return the seconds until a build stops after Ctrl-C, at moments spread over the build."""
    start = time.perf_counter()
    build_ours(np.load(path))
    whole = time.perf_counter() - start
    waited = []
    for moment in np.linspace(0.05, 0.9, INTERRUPTS) * whole:
        command = [sys.executable, "-c", INTERRUPT_PROBE, str(path), str(LISTS)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moment)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        answer = process.communicate()[0].strip()
        if answer != "finished":
            waited.append(round(float(answer) - sent, 3))
        print(f"after {moment:.1f} s: {waited[-1:]}", flush=True)
    return {"build_seconds": round(whole, 2), "seconds": waited, "longest": max(waited)}


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    base = load(data_folder(options.data), "glove").base
    file = RESULTS / "building.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        np.save(path, base)
        if "time" in options.only:
            result["time"] = {"environment": environment("faiss-cpu"), **times(base, options.rounds)}
        if "memory" in options.only:
            result["memory"] = {"environment": environment(), **memory(path)}
        if "interrupt" in options.only:
            result["interrupt"] = {"environment": environment(), **interrupts(path)}
    save(file, result)


if __name__ == "__main__":
    main()
