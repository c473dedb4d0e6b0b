"""Measure the scan of wide codes against the other forms of the same codes, on every SIMD level; one thread.

    python benchmarks/wide.py --data FOLDER

One list of 8,192 rows of GloVe, whose codes fit into the L2 cache, k = 1: hardly any candidates. Times are
measured by the native code, best of many rounds, all codes and levels alternating. Recall is 10@R: the share of
the true ten among the best R by codes. Results go to benchmarks/results/wide.json.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, load, save, shared_rows
from kernels import Run

import pcpq
from pcpq import _core
from pcpq.experiments.environment import environment
from pcpq.segment.codebooks import Codebooks
from pcpq.store.state import State

RESULTS = Path(__file__).parent / "results"
ROWS, QUERIES, SINGLE, ROUNDS = 8192, 16, 4, 150
QUANTIZERS = {
    "PQ 2/16": (lambda: pcpq.PQ(section_size=2), (False,)),
    "PQ 3/64": (lambda: pcpq.PQ(section_size=3, n_centers=64), (True, False)),
    "QPCPQ 3/16/4": (lambda: pcpq.QPCPQ(section_size=3, n_scales=4), (True, False)),
}


def with_codes(fitted: pcpq.Index, rows: np.ndarray, wide: bool) -> pcpq.Index:
    """Return an index of the same training whose codes are wide or not."""
    trained = fitted._state.snapshot.trained
    index = pcpq.Index.from_config(fitted.config)
    index._state = State(replace(trained, codebooks=Codebooks(trained.codebooks.quantizers, wide)))
    index.add(rows)
    return index


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    data = load(data_folder(parser.parse_args().data), "glove", rows=ROWS)
    runs: list[dict[str, Any]] = []
    measured: list[dict[str, Run]] = []
    for name, (quantizer, forms) in QUANTIZERS.items():
        fitted = pcpq.Index(metric="cosine", quantizer=quantizer(), n_lists=1).fit(data.base)
        for wide in forms:
            index = with_codes(fitted, data.base, wide)
            queries = data.queries[:QUERIES]
            answers = {rerank: index.search(data.queries, k=10, probes=1, rerank=rerank) for rerank in (10, 20)}
            runs.append(
                {
                    "code": name,
                    "coding": index._state.snapshot.trained.codebooks.coding,
                    "bytes_per_row": round(index.stats()["bytes_per_vector"]["codes"], 1),
                    "recall": {at: round(shared_rows(found.ids, data.top), 4) for at, found in answers.items()},
                }
            )
            measured.append({level: Run(index, queries, 1, 1, 1) for level in _core.simd_levels()})
    for _ in range(ROUNDS):
        for level in _core.simd_levels():
            _core.set_simd_level(level)
            for some in measured:
                some[level].batch()
                some[level].single(SINGLE)
    _core.set_simd_level("auto")
    for found, some in zip(runs, measured, strict=True):
        found["levels"] = {
            level: {
                mode: {
                    "tables_microseconds": round(float(1e6 * run.best[mode][1]), 2),
                    "ns_per_row": round(float(1e9 * run.best[mode][2] / ROWS), 3),
                }
                for mode in ("batch", "single")
            }
            for level, run in some.items()
        }
        print(found, flush=True)
    save(RESULTS / "wide.json", {"environment": environment(), "threads": 1, "rounds": ROUNDS, "runs": runs})


if __name__ == "__main__":
    main()
