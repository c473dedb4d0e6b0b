"""How many rows a second list per vector saves on a sample, which is what pcpq.build decides by.

    python benchmarks/second_lists.py --data FOLDER [--sets glove text256 latent512]

For every set three samples, once with queries of the set and once with other rows as queries. A set of fewer
than 100,000 vectors is too small for build to ask. Results go to benchmarks/results/second_lists.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import synthetic
from common import data_folder, default_metric, load, save

import pcpq
from pcpq.experiments.environment import environment
from pcpq.io.streams import Sample
from pcpq.tuning.second_lists import QUERIES, rows_share, sample_rows

RESULTS = Path(__file__).parent / "results"
SETS = ("glove", "text256", "npm", "minilm", "lastfm48k", "latent512")
SEEDS = (0, 1, 2)


def main() -> None:
    """Measure all sets and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", default=SETS)
    options = parser.parse_args()
    found = []
    for name in options.sets:
        metric = default_metric(name)
        data = load(None if name in synthetic.SETS else data_folder(options.data), name, metric)
        sample = Sample(data.base)
        shares: dict[str, list[float]] = {"rows": [], "queries": []}
        start = time.process_time()
        for seed in SEEDS:
            for asked, queries in (("rows", None), ("queries", data.all_queries[:QUERIES])):
                generator = np.random.default_rng([seed, 2])
                share = rows_share(metric, sample, sample_rows(sample), queries, generator, None)
                shares[asked].append(round(share, 3))
        seconds = (time.process_time() - start) / (2 * len(SEEDS))
        start = time.process_time()
        pcpq.build(data.base, metric=metric, lists_per_vector=1)
        build = time.process_time() - start
        found.append(
            {
                "name": name,
                "n": len(data.base),
                "d": data.base.shape[1],
                "shares": shares,
                "choice_seconds": round(seconds, 2),
                "build_seconds": round(build, 2),
            }
        )
        print(found[-1], flush=True)
    result = {"environment": environment(), "seeds": list(SEEDS), "clock": "CPU time", "sets": found}
    save(RESULTS / "second_lists.json", result)


if __name__ == "__main__":
    main()
