"""Conditions evaluated on a table."""

import numpy as np

from pcpq.search.where import WhereLimits, matching, without_dictionaries

N = 3000


def held(table, where, **limits):
    def some(columns):
        found = table.select(columns)
        return found.cast(without_dictionaries(found.schema))

    return np.flatnonzero(matching(table.schema, where, WhereLimits(**limits), some)).tolist()
