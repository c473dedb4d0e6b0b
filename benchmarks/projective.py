"""Compare projective codes of six bits with PQ of as many bits, with codebooks shared or per list; one core.

    python benchmarks/projective.py --data FOLDER [--sets NAME ...] [--rows N]

Every index has lists of about 280 rows, as a default index of 300,000 vectors. Recall 10@R is the share of the
true ten among the best R by codes, all lists probed, over all queries: no choice is made on any. "Float" recall
is 10@10 of the same codes where estimates are floats, not sums of a table of bytes. All codes of a seed have
the same lists, so they are compared query by query. A search at recall 0.95 reranks kept vectors; its setting
is chosen with one half of the queries and timed with the other, codes alternating, seed 0. Times are CPU times.
A set that is measured again replaces its results in benchmarks/results/projective.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import Data, best_rows, data_folder, default_metric, load, save, summary
from peers_indexes import Pcpq
from peers_tuning import MODES, PATIENCE, Candidate, Queries, Setting, Sweep, race, shared_rows

from pcpq.experiments.environment import environment

RESULT = Path(__file__).parent / "results" / "projective.json"
SETS = ("glove", "lastfm48k", "npm", "minilm", "text256")
CODEBOOKS = ("shared", "per_list")
CODES: dict[str, dict[str, Any]] = {
    "PQ 3/64": {"method": "PQ", "section_size": 3, "n_centers": 64},  # the others are compared with it
    "QPCPQ 3/16/4": {"method": "QPCPQ", "section_size": 3, "n_centers": 16, "n_scales": 4},
    "QPCPQ 3/8/8": {"method": "QPCPQ", "section_size": 3, "n_centers": 8, "n_scales": 8},
    "PQ 2/16": {"method": "PQ", "section_size": 2, "n_centers": 16},
}
ROWS, ROWS_OF_A_LIST, SEEDS, DEPTHS = 50_000, 280, (0, 1, 2), (10, 20, 50)
TARGET, RERANKS, ROUNDS, TIMED = 0.95, (50, 25, 100, 200, 400, 800), 7, 250
QUANTILES = (1.96, 4.303)  # of 95 % intervals, over many queries and over three seeds


class Built:
    """An index of one code, one kind of codebooks and one seed, and the accuracy of its codes."""

    def __init__(self, data: Data, code: str, codebooks: str, seed: int) -> None:
        kind = {"quantizer": CODES[code], "codebooks": codebooks, "seed": seed}
        self.index = Pcpq(kind, round(len(data.base) / ROWS_OF_A_LIST))
        start = time.process_time()
        self.index.build(data.base, default_metric(data.name))
        self.seconds = time.process_time() - start
        self.trained = self.index.index._state.snapshot.trained
        self.recalls = {f"{depth}": by_query(self.found(data, depth), data.all_top) for depth in DEPTHS}
        rows = self.trained.working(data.base, 0)
        lists = self.trained.partition.assign(rows, 1)
        residuals = rows - self.trained.partition.centroids[lists]
        _, decoded, bias = self.trained.encode(residuals, rows, lists, 1)
        self.error = float(np.square(residuals - decoded).sum() / np.square(residuals).sum())
        best = best_estimates(data.all_queries, rows - residuals + decoded, bias)
        self.recalls["float"] = by_query(best, data.all_top)

    def found(self, data: Data, depth: int) -> np.ndarray:
        """Return the true neighbours among the best rows by codes: kept vectors order them, and ten remain."""
        self.index.configure(Setting(self.index.n_lists or 1, depth))
        return self.index.search(data.all_queries)

    def sizes(self) -> dict[str, float]:
        """Return bytes per vector: packed codes, codebooks, and codebooks as the scan reads them."""
        books = self.trained.codebooks
        models = {id(one): one.model_ for one in books.quantizers}.values()
        arrays = [part for model in models for part in (model.readout, model.scales)]
        of_scan = [part for part in books._tables if part is not None]
        stored, read = (sum(a.nbytes for a in some if a is not None) for some in (arrays, of_scan))
        count = self.index.count
        found = {"code": self.index.code_bytes() or 0.0, "codebooks": stored / count, "tables": read / count}
        return {name: round(size, 1) for name, size in found.items()}

    def own(self) -> float:
        """Return the share of lists with codebooks of their own; lists with few rows use the shared ones."""
        uses = Counter(map(id, self.trained.codebooks.quantizers))
        return round(sum(count == 1 for count in uses.values()) / len(self.trained.partition), 3)


def best_estimates(queries: np.ndarray, decoded: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Return the ten best rows by estimates in floats; the bias is weighted by the lengths of queries."""
    found = []
    for start in range(0, len(queries), 100):
        some = queries[start : start + 100]
        lengths = np.linalg.norm(some, axis=1, keepdims=True)
        found.append(best_rows(some @ decoded.T + lengths * (0.0 if bias is None else bias), 10))
    return np.concatenate(found)


def by_query(found: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Return the share of the true neighbours that were found, for every query."""
    return (found[:, :, None].astype(np.int64) == top[:, None, :]).any(1).mean(1)


def spread(values: list[float], digits: int = 4) -> dict[str, Any]:
    """Return the values of seeds, their mean and their standard deviation."""
    found = {"mean": np.mean(values), "deviation": np.std(values, ddof=1)}
    return {name: round(float(value), digits) for name, value in found.items()} | {
        "seeds": [round(value, digits) for value in values]
    }


def over(mine: list[np.ndarray], base: list[np.ndarray]) -> dict[str, Any]:
    """Return the mean difference of recall, query by query, and its interval over queries and seeds."""
    differences = np.array(mine) - np.array(base)
    means = (differences.mean(axis=0), differences.mean(axis=1))
    errors = [some.std(ddof=1) / len(some) ** 0.5 for some in means]
    middle, half = float(differences.mean()), float(np.hypot(*np.multiply(QUANTILES, errors)))
    return {"difference": round(middle, 4), "interval": [round(middle - half, 4), round(middle + half, 4)]}


def fastest(built: Built, data: Data) -> Candidate | None:
    """Return the setting that reaches the target in the least time, or None."""
    sweep, best = Sweep(built.index, built.seconds, Queries(data.tune, data.all_top[::2])), None
    for rerank in RERANKS:
        limit = PATIENCE * best.seconds["batch"] if best else np.inf
        found = sweep.crossing(rerank, TARGET, limit)
        if found is not None and (best is None or found.seconds["batch"] < best.seconds["batch"]):
            best = found
    return best


def searches(data: Data, first: dict[tuple[str, str], Built]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return setting, recall and time of a search, and the time over that of PQ 3/64."""
    chosen = {name: fastest(built, data) for name, built in first.items()}
    reached = {name: one for name, one in chosen.items() if one is not None}
    rows: dict[tuple[str, str], dict[str, Any]] = {name: {} for name in reached}
    for name, one in reached.items():
        one.index.configure(one.setting)
        recall = round(shared_rows(one.index.search(data.queries), data.top), 4)
        rows[name] = {"probes": one.setting.width, "rerank": one.setting.rerank, "recall": recall}
    for mode in MODES:
        times = race(reached, Queries(data.queries[:TIMED], data.top[:TIMED]), mode, ROUNDS)
        for name, seconds in times.items():
            rows[name][mode] = summary([1e6 * each / len(data.queries[:TIMED]) for each in seconds], 1)
            if (base := times.get((name[0], next(iter(CODES))))) is not None:
                rows[name][f"{mode}_over"] = summary([a / b for a, b in zip(seconds, base, strict=True)])
    return rows


def measure(data: Data) -> list[dict[str, Any]]:
    """Return the results of all codes on one set."""
    runs, names = [], [(codebooks, code) for codebooks in CODEBOOKS for code in CODES]
    built: dict[tuple[str, str], list[Built]] = {name: [] for name in names}
    for seed in SEEDS:
        for codebooks, code in names:
            built[codebooks, code].append(one := Built(data, code, codebooks, seed))
            recalls = {name: round(float(each.mean()), 4) for name, each in one.recalls.items()}
            print(f"  {code}, {codebooks}, seed {seed}: {one.seconds:.1f} s, {recalls}", flush=True)
    times = searches(data, {name: some[0] for name, some in built.items()})
    for name, some in built.items():
        base = built[name[0], next(iter(CODES))]
        parts = {
            at: spread([float(one.recalls[at].mean()) for one in some])
            | over([one.recalls[at] for one in some], [one.recalls[at] for one in base])
            for at in some[0].recalls
        }
        about = {"codebooks": name[0], "code": name[1], "bytes": some[0].sizes()}
        about["own_codebooks"] = some[0].own() if name[0] == "per_list" else 0.0
        rest = {"error": spread([one.error for one in some]), "build": spread([one.seconds for one in some], 2)}
        runs.append(about | {"recall": parts} | rest | {"search": times.get(name)})
    return runs


def main() -> None:
    """Measure sets, and write the results of each when it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"most rows of a set (default: {ROWS:,})")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    where = environment()
    for name in options.sets:
        data = load(data_folder(options.data), name, rows=options.rows)
        n, d = data.base.shape
        print(f"{name}: {n:,} x {d}", flush=True)
        about = {"metric": default_metric(name), "n": n, "d": d, "queries": len(data.all_queries)}
        about |= {"lists": round(n / ROWS_OF_A_LIST), "seeds": SEEDS, "rounds": ROUNDS, "target": TARGET}
        found = {"environment": where, **about, "runs": measure(data)}
        before = json.loads(RESULT.read_text())["sets"] if RESULT.exists() else {}
        merged = before | {name: found}
        save(RESULT, {"sets": {each: merged[each] for each in SETS if each in merged}})


if __name__ == "__main__":
    main()
