from benchmark.algorithms.pcpq_t1 import PCPQ
from neurips23.ood.base import BaseOODANN


class PCPQOOD(PCPQ, BaseOODANN):
    """Queries that are not like the vectors: what searches find is measured with some of them.

    index_params: those of PCPQ, and known_queries, how many of the data set's sample to measure with.
    """

    def track(self):
        return "ood"

    def known_queries(self, ds):
        count = self.params.get("known_queries", 0)
        return ds.get_query_train(count) if count else None
