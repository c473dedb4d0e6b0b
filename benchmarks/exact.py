"""Exact search (`search(..., exact=True)`) beside Faiss's flat indexes on the same vectors.

    python benchmarks/exact.py --data DIR

One core, CPU time, all in turns. float32 is compared with IndexFlatIP; float16 and int8 with
IndexScalarQuantizer of the same size. Faiss has no flat index of 16-bit integers, so int16 is compared with
IndexFlatIP, which reads twice as many bytes. The result is benchmarks/results/exact.json: medians over
rounds, with 95 % intervals by bootstrap.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from common import data_folder, save, shared_rows, summary

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
SETS = ("glove", "minilm")
KEEPS = ("float32", "int16", "float16", "int8")
BATCHES = (1, 4, 16, 100)
ROUNDS, K = 7, 10


def flat_index(keep: str, base: np.ndarray) -> Any:
    """Return Faiss's flat index of a precision."""
    kinds = {"float16": faiss.ScalarQuantizer.QT_fp16, "int8": faiss.ScalarQuantizer.QT_8bit}
    dimensions = base.shape[1]
    if keep in kinds:
        index = faiss.IndexScalarQuantizer(dimensions, kinds[keep], faiss.METRIC_INNER_PRODUCT)
        index.train(base)
    else:
        index = faiss.IndexFlatIP(dimensions)
    index.add(base)
    return index


def seconds_of(work: Callable[[], Any]) -> float:
    """Return seconds of CPU time of a call; a short one is repeated."""
    count, start = 0, time.process_time()
    while count == 0 or time.process_time() - start < 0.05:
        work()
        count += 1
    return (time.process_time() - start) / count


def main() -> None:
    """Measure all sets and precisions and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="the folder of data sets; default: PCPQ_DATA")
    folder = data_folder(parser.parse_args().data)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    faiss.omp_set_num_threads(1)
    rows = []
    for name in SETS:
        base, queries = (
            np.load(folder / f"{name}_{part}.npy").astype(np.float32) for part in ("base", "query")
        )
        base, queries = (some / np.linalg.norm(some, axis=1, keepdims=True) for some in (base, queries))
        for keep in KEEPS:
            index, peer = pcpq.build(base, metric="cosine", keep=keep, n_lists=64), flat_index(keep, base)
            found, theirs = index.search(queries, K, exact=True).ids, peer.search(queries, K)[1]
            for n in BATCHES:
                some = np.ascontiguousarray(queries[:n])
                rounds = []
                for number in range(ROUNDS):
                    one = {}
                    calls = {
                        "pcpq": lambda some=some, index=index: index.search(some, K, exact=True),
                        "faiss": lambda some=some, peer=peer: peer.search(some, K),
                    }
                    for library in list(calls)[:: 1 if number % 2 else -1]:
                        one[library] = seconds_of(calls[library]) / n * 1e3
                    rounds.append(one)
                row = {
                    "set": name,
                    "keep": keep,
                    "queries": n,
                    "peer": type(peer).__name__,
                    "pcpq_ms": summary([one["pcpq"] for one in rounds]),
                    "faiss_ms": summary([one["faiss"] for one in rounds]),
                    "ratio": summary([one["faiss"] / one["pcpq"] for one in rounds], 2),
                    "same_neighbours": round(shared_rows(found, theirs), 4),
                }
                rows.append(row)
                print(row, flush=True)
    save(
        RESULTS / "exact.json",
        {"environment": environment("faiss-cpu"), "rounds": ROUNDS, "k": K, "rows": rows},
    )


if __name__ == "__main__":
    main()
