"""Results of benchmarks that were never run, good and hostile."""

import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"
AT = (1, 2, 5, 10, 20, 50, 100)
ENVIRONMENT = {"command": "python made_up.py", "date": "2026-01-02", "cpu": "Abacus", "cpus": 2, "simd": "avx2"}


def contestant(recall, qps, size):
    return {
        "kind": {"lists": "euclidean", "quantizer": {"method": "QPCPQ"}},
        "lists": 100,
        "width": 7,
        "rerank": None,
        "recall": recall,
        "qps": qps,
        "bytes_per_vector": size,
        "code_bytes": None,
        "build_seconds": 1.5,
    }


def peers(name="glove", speed=1.0):
    """A result of the peers benchmark: pcpq beats `slow` in everything, `small` takes the fewest bytes."""
    runs = []
    for mode, factor in (("batch", 2.0), ("single", 1.0)):
        for target, drop in ((0.9, 1.0), (0.95, 0.6), (0.98, 0.3)):
            rate = 1000 * speed * factor * drop
            runs.append(
                {
                    "mode": mode,
                    "target": target,
                    "contestants": {
                        "pcpq": contestant(target + 0.001, 9.5 * rate, 160),
                        "slow": contestant(target + 0.001, rate, 480),
                        "small": contestant(target, 2 * rate, 90),
                    },
                }
            )
    ratio = {"mode": "batch", "target": 0.9, "ours": "pcpq", "rival": "slow", "recall": 0.901}
    return {
        "environment": ENVIRONMENT,
        "data": {"name": name, "metric": "cosine", "n": 1000, "d": 20},
        "threads": 1,
        "try": False,
        "absent": {"lazy": {"not reached": [0.98], "best recall": 0.7}},
        "runs": runs,
        "pcpq_over_peer": [{**ratio, "rival_recall": 0.9, "ratio": 9.5}],
    }


def curves(name="glove", rival="scann", speed=1.0, spread=0.01):
    """A result with curves of 14 points: pcpq has `speed` times the speed of the rival at every recall."""
    recalls = np.round(1 - np.geomspace(0.4, 0.002, 14), 4).tolist()

    def points(factor):
        rates = [factor * 10_000 * (1.05 - recall) for recall in recalls]
        return [
            contestant(recall, rate, 160 * factor)
            | {"qps_interval": [rate * (1 - spread), rate * (1 + spread)]}
            for recall, rate in zip(recalls, rates, strict=True)
        ]

    result = {name: part for name, part in peers(name).items() if name not in {"runs", "pcpq_over_peer"}}
    modes = [
        {"mode": mode, "queries": 100, "contestants": {"pcpq": points(speed), rival: points(1.0)}}
        for mode in ("batch", "single")
    ]
    return result | {"curves": modes}


def codes(name="glove"):
    """A result of the quantizer benchmark."""
    sizes = [(29.0, 0.68), (54.0, 0.9), (100.0, 0.85), (9.0, 0.2)]
    return {
        "data": {"name": name, "n": 1000, "d": 20, "lists": 10, "queries": 50},
        "environment": ENVIRONMENT,
        "ours": [
            {"method": f"QPCPQ(section_size={size:.0f})", "lists": "euclidean", "query_sample": False}
            | {"bytes": size, "recall_10_at_10": recall, "fit_seconds": None if size == 29 else size}
            for size, recall in sizes
        ],
        "peers": [{"method": "Faiss IVF PQ25x8", "lists": "euclidean", "bytes": 25.0, "recall_10_at_10": 0.6}],
    }


def measures(quality):
    recall = [round(1 - (1 - quality) / at, 4) for at in AT]
    return {
        "relative_error": round(0.3 * (1 - quality), 4),
        "reconstruction_error": 0.1,
        "residual_error": 0.2,
        "code_bits": 100,
        "codebook_bits": 50.5,
        "build_seconds": 1.0,
        "query_microseconds": 12.5,
        "recall": {"all": recall, "probed": recall, "reranked": recall},
    }


def paper(name="glove", bits=4):
    """A result of `pcpq paper`."""
    generator = np.random.default_rng(0)
    methods = []
    for i, method in enumerate(("PQ", "QPCPQ", "PCPQ", "APQ", "QAPCPQ", "APCPQ")):
        methods.append(
            {
                "method": method,
                "paper_name": f"{method} of the paper",
                **measures(0.5 + 0.05 * i),
                "errors": np.sort(np.abs(generator.normal(size=100))).tolist(),
                "recall_at_10_by_probes": [0.5, 0.6, 0.7, 0.8],
                "published": {"relative_error": 0.2861, "recall_1_at_1": 0.4482, "recall_1_at_10": 0.8253},
            }
        )
    return {
        "kind": "paper",
        "environment": ENVIRONMENT,
        "data": {"name": name, "n": 1000, "d": 20, "unit_norm": True, "queries": 100, "note": "Made up."},
        "settings": {"bits": bits, "centers": 16, "probes": 2, "threads": 2},
        "seconds": {"lists": 0.5},
        "recall_at": list(AT),
        "methods": methods,
        "probes": {
            "swept": [1, 2, 4, 8],
            "ceiling": [0.6, 0.7, 0.8, 1.0],
            "chosen": 2,
            "published_plateau": 0.947,
        },
        "equal_bits": [{"label": "128 centers", "method": "PQ", "codebooks": "shared", **measures(0.6)}],
        "ablation": [
            {"family": "PQ", "step": step, "codebooks": "per_list", **measures(0.6 + 0.1 * i)}
            for i, step in enumerate(("the paper", "+ gain", "+ bias"))
        ],
        "operations": [
            {"label": "PQ, 16 centers", "vectors": 1000, "centers": "16^25", "formula": 51600, "counted": 51600}
        ],
        "joint": [{"label": "APCPQ, together", **measures(0.7), "training_loss": 123.0}],
    }


def save(folder, **results):
    """The folder with these results in it, one file each."""
    for name, result in results.items():
        (folder / f"{name}.json").write_text(json.dumps(result))
    return folder


def put(result, path, value):
    """Set a value deep in a result; "runs.0.target" is the way there."""
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in way:
        result = result[step]
    if value is DELETED:
        del result[last]
    else:
        result[last] = value


DELETED = object()


def hostile(value, key=""):
    """A result in which every text that is free, and every name of a contestant, is hostile."""
    if isinstance(value, dict):
        free = key in {"contestants", "absent", "kind", "settings", "environment", "seconds"}
        return {
            name + (HOSTILE if free and name != "bits" else ""): hostile(inner, name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return value + HOSTILE if isinstance(value, str) and (key, value) != ("kind", "paper") else value


def hostile_results():
    """All kinds."""
    one = paper()
    del one["settings"]["threads"]
    return {
        "paper": hostile(one),
        "peers": hostile(peers()),
        "curves": hostile(curves("npm")),
        "quantizers": hostile(codes()),
    }
