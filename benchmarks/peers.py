"""Compare search speed at equal recall with other libraries; one thread, one core.

    python benchmarks/peers.py --data FOLDER                        kept vectors: recall 0.90, 0.95, 0.98
    python benchmarks/peers.py --data FOLDER --mode codes           codes only compared with RaBitQ: recall 0.85
    python benchmarks/peers.py --data FOLDER --curve                curves of 14 points, recall 0.5 to 0.998
    python benchmarks/peers.py --data FOLDER --only faiss scann     some of the contestants
    python benchmarks/peers.py --sets latent512                     a set that is made, which needs no folder
    python benchmarks/peers.py --data FOLDER --sets glove --choices benchmarks/results/peers_glove.json
    python benchmarks/peers.py --data FOLDER --sets glove --rows 20000 --rounds 2     a quick try

Kind, number of lists and search setting of each contestant are chosen on one half of the queries and reported
on the other. There the width (lists to probe, nodes to visit) is adjusted to just reach the target, with rerank
in proportion, then as small as possible: the halves differ in recall, and times are compared at equal recall.
Then all contestants run in alternation, with all queries in one batch ("batch") and with single queries
("single"), by CPU time; a turn is the best of three. Results go to benchmarks/results/peers_*.json, those of
--curve to curves_*.json; --rows or another metric is part of the name. Fewer than three rounds are a try with
fewer kinds, numbers of lists and settings, and the name contains "try".

Contestants are Faiss (PQ fast scan, RaBitQ in lists and in HNSW), ScaNN, hnswlib, usearch, RaBitQLib (lists,
and SymphonyQG as "symphony") and LoRANN. turbovec sits out: it only scans all codes, without lists, graph or
reranking, so that no setting trades speed for recall; quantizers.py compares its codes.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import synthetic
from common import Data, data_folder, default_metric, load, save, shared_rows
from peers_base import K, Setting
from peers_curves import Curves, found_in, report_curves, trace
from peers_indexes import Entry, codes_entries, entries, names
from peers_tuning import MODES, Candidate, Queries, Sweep, Tuner, race

from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
TARGETS = {"kept": [0.90, 0.95, 0.98], "codes": [0.85]}
BATCH = 1000
SEED = 0  # of every build of pcpq, and of the bootstrap of intervals
LIST_FACTORS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)  # times the square root of the number of rows
TRY_FACTORS = (0.5, 1.0)

Chosen = dict[str, dict[tuple[str, float], Candidate]]  # by contestant, then by mode and target


def hold_peers_to_one_thread() -> None:
    """Set what peers read when they are imported, at first use. NumPy is loaded: pcpq runs as users run it."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def tune_all(
    data: Data,
    metric: str,
    chosen_entries: list[Entry],
    targets: list[float],
    counts: list[int],
    thorough: bool,
    earlier: list[dict[str, Any]],
    curves: Curves | None = None,
) -> tuple[Chosen, dict[str, Any]]:
    """Return the settings of every contestant, and the reasons why contestants are absent or miss targets.

    Peers in the runs of an earlier result keep the settings that were chosen there. The settings of curves are
    added to `curves`, if given.
    """
    known = {name for run in earlier for name in run["contestants"] if not name.startswith("pcpq")}
    tuning = Queries(data.tune, data.all_top[::2])
    chosen: Chosen = {}
    absent: dict[str, Any] = {}
    for entry in chosen_entries:
        if (reason := entry.missing()) is not None:
            print(f"{entry.name} sits out: {reason}", flush=True)
            absent[entry.name] = reason
            continue
        print(f"tuning {entry.name}", flush=True)
        tuner = Tuner(entry, data.base, metric, tuning)
        if entry.name in known:
            chosen[entry.name] = tuner.chosen_before(earlier)
        else:
            chosen[entry.name] = tuner.choose(targets, counts, thorough)
        missed = [target for target in targets if ("batch", target) not in chosen[entry.name]]
        if missed:
            absent[entry.name] = {"not reached": missed, "best recall": round(tuner.best_recall(), 4)}
        if curves is not None:
            for mode, points in trace(tuner, chosen[entry.name]).items():
                curves[mode][entry.name] = points
    return chosen, absent


def settled(runner: Candidate, queries: Queries, target: float) -> Candidate:
    """Return the candidate with the smallest width that reaches the target on these queries.

    `rerank` is first kept in proportion to the width, then made as small as the target allows, because one list
    more or less can change recall by a few thousandths.
    """
    sweep, tuned = Sweep(runner.index, runner.build_seconds, queries), runner.setting

    def in_proportion(width: int) -> Setting:
        rerank = tuned.rerank and max(K, round(tuned.rerank * width / tuned.width))
        return Setting(width, rerank)

    found = sweep.smallest(in_proportion, tuned.width, target, np.inf)
    if found is None:
        return runner
    return replace(sweep.trimmed(found.setting, target) or found, recall=runner.recall)


def report(
    mode: str, target: float, runners: dict[str, Candidate], queries: Queries, rounds: int
) -> dict[str, Any]:
    """Return time and recall of all contestants on the reported queries, for one target in one mode."""
    rows = {}
    tuned = {name: runner.setting for name, runner in runners.items()}
    runners = {name: settled(runner, queries, target) for name, runner in runners.items()}
    times = race(runners, queries, mode, rounds)
    for name, runner in runners.items():
        index = runner.index
        index.configure(runner.setting)
        found = found_in(index, queries.vectors, mode)
        median = float(np.median(times[name]))
        code = index.code_bytes()
        rows[name] = {
            **runner.summary(),
            "tuned": asdict(tuned[name]),
            "recall": round(shared_rows(found, queries.top), 4),
            "median_seconds": round(median, 6),
            "best_seconds": round(min(times[name]), 6),
            "qps": round(len(queries.vectors) / median, 1),
            "bytes_per_vector": round(index.bytes_per_vector(), 1),
            "code_bytes": code and round(code, 2),
        }
        print(
            f"{mode:6s} {target:.2f} {name:34s} {rows[name]['qps']:9.0f} QPS  recall {rows[name]['recall']:.4f}"
            f" (tuned {runner.recall:.4f})  lists {index.n_lists}  width {runner.setting.width}"
            f"  rerank {runner.setting.rerank}  {rows[name]['bytes_per_vector']:.0f} B",
            flush=True,
        )
    return {"mode": mode, "target": target, "queries": len(queries.vectors), "contestants": rows}


def verdicts(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the QPS of pcpq divided by that of each rival.

    With codes only, the fastest index of pcpq with at most as many bytes is compared.
    """
    answers = []
    for run in runs:
        ours = {name: row for name, row in run["contestants"].items() if name.startswith("pcpq")}
        codes_only = any(name != "pcpq" for name in ours)
        for rival, row in run["contestants"].items():
            if rival in ours:
                continue
            fitting = {
                name: mine
                for name, mine in ours.items()
                if not codes_only or mine["bytes_per_vector"] <= row["bytes_per_vector"]
            }
            if not fitting:
                continue
            best = max(fitting, key=lambda name: fitting[name]["qps"])
            ratio = round(fitting[best]["qps"] / row["qps"], 3)
            answers.append(
                {
                    "mode": run["mode"],
                    "target": run["target"],
                    "ours": best,
                    "rival": rival,
                    "recall": fitting[best]["recall"],
                    "rival_recall": row["recall"],
                    "ratio": ratio,
                }
            )
            print(f"{run['mode']:6s} {run['target']:.2f} {best} / {rival}: {ratio:.2f}")
    return answers


def compare(name: str, options: argparse.Namespace) -> None:
    """Compare all contestants on one data set."""
    metric = options.metric or default_metric(name)
    folder = None if name in synthetic.SETS else data_folder(options.data)
    data = load(folder, name, metric, options.rows)
    count, d = data.base.shape
    is_try = options.rounds < 3
    factors = TRY_FACTORS if is_try else LIST_FACTORS
    counts = options.lists or [max(1, round(factor * count**0.5)) for factor in factors]
    targets = options.targets or TARGETS[options.mode]
    ours = json.loads(options.pcpq) if options.pcpq else None
    all_entries = (codes_entries if options.mode == "codes" else entries)(metric, ours)
    some = [entry for entry in all_entries if not options.only or entry.name.split()[0] in options.only]
    kinds = json.loads(options.kinds) if options.kinds else {}
    some = [replace(entry, kinds=kinds.get(entry.name, entry.kinds)) for entry in some]
    if is_try:
        # The first and the last kind: they differ in how lists are trained, which matters most on some sets.
        some = [Entry(entry.name, entry.make, entry.kinds[:: max(1, len(entry.kinds) - 1)]) for entry in some]
    print(f"{name}: {count} x {d}, {metric}, lists {counts}", flush=True)
    earlier = [json.loads(Path(file).read_text()) for file in options.choices]
    earlier_runs = [run for result in earlier for run in result["runs"]]
    curves: Curves | None = {mode: {} for mode in MODES} if options.curve else None
    chosen, absent = tune_all(data, metric, some, targets, counts, not is_try, earlier_runs, curves)
    reported = Queries(data.queries[:BATCH], data.top[:BATCH])
    packages = {entry.make.package for entry in some if entry.missing() is None} - {"pcpq"}
    result = {
        "environment": environment(*sorted(packages)),
        "data": {"name": name, "metric": metric, "n": count, "d": d, "tuning_queries": len(data.tune)},
        "threads": 1,
        "clock": "CPU time",
        "rounds": options.rounds,
        "try": is_try,
        "list_counts": counts,
        "choices_of": [result["environment"] for result in earlier],
        "absent": absent,
    }
    if curves is None:
        result |= compare_at_targets(chosen, targets, reported, options.rounds)
    else:
        result |= {"seed": SEED, "curves": report_curves(curves, reported, options.rounds)}
    save(RESULTS / f"{file_name(name, metric, options)}.json", result)


def compare_at_targets(chosen: Chosen, targets: list[float], reported: Queries, rounds: int) -> dict[str, Any]:
    """Return the runs of every mode and target, and who is how many times as fast."""
    runs = []
    for mode in MODES:
        for target in targets:
            runners = {key: best[mode, target] for key, best in chosen.items() if (mode, target) in best}
            runs.append(report(mode, target, runners, reported, rounds))
    ratios = verdicts(runs)
    return {
        "runs": runs,
        "pcpq_over_peer": ratios,
        "peer_wins": [ratio for ratio in ratios if ratio["ratio"] < 1],
    }


def file_name(name: str, metric: str, options: argparse.Namespace) -> str:
    """Return the name of the result, which contains all options that are not defaults."""
    parts = ["curves" if options.curve else "peers", name]
    parts += [metric] if metric != default_metric(name) else []
    parts += [f"{options.rows}rows"] if options.rows else []
    parts += ["only", *sorted(options.only)] if options.only else []
    parts += ["try"] if options.rounds < 3 else []
    parts += ["codes"] if options.mode == "codes" else []
    return "_".join(parts)


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", default=["glove", "minilm", "npm", "lastfm48k"])
    parser.add_argument("--metric", choices=("cosine", "dot", "euclidean"), help="default: by data set")
    parser.add_argument("--mode", choices=("kept", "codes"), default="kept")
    parser.add_argument("--curve", action="store_true", help="measure whole curves of recall and speed")
    parser.add_argument("--only", nargs="+", choices=names())
    parser.add_argument(
        "--targets", nargs="+", type=float, help="recalls (default: 0.90 0.95 0.98; codes 0.85)"
    )
    parser.add_argument("--lists", nargs="+", type=int, help="list counts to choose from")
    parser.add_argument("--rows", type=int, help="only so many rows of the base")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--choices", nargs="+", default=[], help="earlier results of a set: their peers are not tuned again"
    )
    parser.add_argument(
        "--pcpq",
        help="JSON list of options of pcpq.build to choose from, as in "
        '[{"keep": "int16", "quantizer": {"method": "PQ", "section_size": 2}}]',
    )
    parser.add_argument(
        "--kinds",
        help="JSON object: for some contestants the only kinds to choose from, as in "
        '{"symphony": [{"degree": 32, "ef_construction": 200, "lifted": false}]}',
    )
    options = parser.parse_args()
    hold_peers_to_one_thread()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in options.sets:
        compare(name, options)


if __name__ == "__main__":
    main()
