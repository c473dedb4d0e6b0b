import math
import os

from benchmark.algorithms.base import BaseANN
from benchmark.datasets import DATASETS

import pcpq

METRICS = {"euclidean": "euclidean", "ip": "dot", "angular": "cosine"}
# Vectors that are read at once.
BATCH = 65536


class PCPQ(BaseANN):
    """Build in one pass over the data set's file; search all queries at once with every processor.

    index_params: n_lists (twice the root of the number of vectors), keep ("int8"), or bytes_per_vector.
    query_args: probes and rerank, or target_recall.
    """

    def __init__(self, metric, index_params):
        if metric not in METRICS:
            raise NotImplementedError(f"pcpq has no metric {metric}")
        self.metric, self.params, self.arguments = METRICS[metric], dict(index_params), {}

    def track(self):
        return "T1"

    def index_name(self, dataset):
        settings = "_".join(f"{name}-{value}" for name, value in sorted(self.params.items()))
        return os.path.join("data", "indices", self.track(), "pcpq", f"{dataset}.{settings}.pcpq")

    def fit(self, dataset):
        ds = DATASETS[dataset]()
        options = {"n_lists": self.params.get("n_lists") or round(2 * math.sqrt(ds.nb))}
        if "bytes_per_vector" in self.params:
            options["bytes_per_vector"] = self.params["bytes_per_vector"]
        else:
            options["keep"] = self.params.get("keep", "int8")
        batches = ds.get_dataset_iterator(bs=BATCH)
        self.index = pcpq.build(batches, metric=self.metric, queries=self.known_queries(ds), **options)
        os.makedirs(os.path.dirname(self.index_name(dataset)), exist_ok=True)
        self.index.save(self.index_name(dataset))

    def known_queries(self, ds):
        """Queries of the kind that will be asked; None: they are like the vectors."""
        return None

    def load_index(self, dataset):
        if not os.path.isdir(self.index_name(dataset)):
            return False
        self.index = pcpq.open(self.index_name(dataset))
        return True

    def index_files_to_store(self, dataset):
        folder = self.index_name(dataset)
        return [folder, "", sorted(os.listdir(folder))]

    def set_query_arguments(self, query_args):
        self.arguments = dict(query_args)

    def query(self, X, k):
        self.res = self.index.search(X, k, **self.arguments).ids

    def range_query(self, X, radius):
        bound = {"max_distance" if self.metric == "euclidean" else "min_score": radius}
        self.res = self.index.search_range(X, probes=self.arguments.get("probes"), **bound)

    def get_additional(self):
        return {"bytes_per_vector": sum(self.index.stats()["bytes_per_vector"].values())}

    def done(self):
        self.index.close()

    def __str__(self):
        settings = self.params | self.arguments
        return f"pcpq({', '.join(f'{name}={value}' for name, value in settings.items())})"
