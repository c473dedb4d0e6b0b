"""Training of an index after choosing, by measurement, what its settings leave open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pcpq.config import IndexConfig
from pcpq.io.arrays import FloatArray
from pcpq.io.streams import Sample
from pcpq.segment.trained import Trained
from pcpq.segment.training import train
from pcpq.tuning.projection import projection_for
from pcpq.tuning.second_lists import lists_per_vector


def train_on(
    config: IndexConfig,
    sample: Sample,
    n: int | None,
    queries: FloatArray | None,
    generator: np.random.Generator,
    threads: int | None,
) -> Trained:
    """Train the lists and codebooks of n vectors on a sample, after choosing what the config leaves open."""
    projection = projection_for(config, sample, n, queries, threads)
    chosen = lists_per_vector(config, sample, n, queries, projection, threads)
    return train(replace(config, lists_per_vector=chosen), sample, n, projection, generator, threads)
