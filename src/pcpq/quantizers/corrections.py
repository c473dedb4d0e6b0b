"""Choice of gain and bias: stored only if they improve the recall of held-out queries enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.quantizers.codes import Model
from pcpq.quantizers.encoder import corrections, decode_working, row_norms, search_codes
from pcpq.quantizers.options import Options
from pcpq.util.batches import slices

N_QUERIES = 500
NEIGHBOURS = 10
# True neighbours per query that are compared: estimates are too accurate for a row of a lower rank to be
# chosen.
DEPTH = 400
# Weights of the bias, in units of the mean cosine between queries and their neighbours.
BIAS_STEPS = np.arange(1, 13) / 8
# Least improvement of recall for a gain or a bias: its two bytes spent on codes would bring as much.
WORTH = 0.005
FEWEST_ROWS = 50
# Queries that are compared with all rows at once.
QUERIES_TOGETHER = 10


def choose_corrections(
    options: Options,
    model: Model,
    points: Float32Array,
    directions: Float32Array,
    queries: Float32Array | None,
    generator: np.random.Generator,
) -> tuple[bool, float]:
    """Return whether to store gains, and the weight of the bias (0: none).

    Rows and queries are padded, in working units. Without queries some rows of `directions` are used instead; a
    row is then not counted as its own neighbour.
    """
    if options.bias == "anchor":  # exact for queries along the anchor: nothing to choose
        return options.gain is not False, 1.0
    gains = [False, True] if options.gain == "auto" else [bool(options.gain)]
    may_bias = options.bias is True or options.bias == "auto"
    if gains == [False] and not may_bias:
        return False, 0.0
    if gains == [True] and not may_bias:
        return True, 0.0
    query_rows = directions if queries is None else queries
    if len(points) < FEWEST_ROWS or not query_rows.any():
        return options.gain is True, 0.75 if options.bias is True else 0.0
    trial = Trial(model, points, directions, queries, generator, options)
    steps = (
        BIAS_STEPS if options.bias is True else np.concatenate([[0.0], BIAS_STEPS]) if may_bias else np.zeros(1)
    )
    worth = {}
    for gain in gains:
        recalls = np.array([trial.recall(gain, step * trial.cosine) for step in steps])
        if may_bias:
            # The curve is flat at its top and the sample is small: a cubic fit of all points is more reliable.
            recalls = np.polyval(np.polyfit(steps, recalls, 3), steps)
        for step, recall in zip(steps, recalls, strict=True):
            worth[gain, float(step) * trial.cosine] = recall - WORTH * (int(gain) + int(step > 0))
    return max(worth, key=lambda choice: worth[choice])


class Trial:
    """True neighbours of some queries, and the terms of their estimated scores."""

    def __init__(
        self,
        model: Model,
        points: Float32Array,
        directions: Float32Array,
        queries: Float32Array | None,
        generator: np.random.Generator,
        options: Options,
    ) -> None:
        query_rows = directions if queries is None else queries
        lengths = row_norms(query_rows)
        chosen = np.sort(generator.permutation(np.flatnonzero(lengths > 0))[:N_QUERIES])
        unit_queries = query_rows[chosen] / lengths[chosen, None]
        self.neighbours = min(NEIGHBOURS, max(1, len(points) // 10))
        nearest, self.exact = nearest_rows(unit_queries, directions, chosen if queries is None else None)

        used, place = np.unique(nearest), nearest
        if 2 * len(used) < len(points):  # otherwise encoding all rows is cheaper than copying these
            place = np.searchsorted(used, nearest)
            points, directions = points[used], directions[used]
        decoded = decode_working(model, *search_codes(options, model, points, directions))
        self.true_part = pair_products(unit_queries, points, place)  # <q, r>
        self.decoded_part = pair_products(unit_queries, decoded, place)  # <q, r^>
        self.points, self.directions, self.decoded, self.place = points, directions, decoded, place
        norms = row_norms(directions)[place[:, : self.neighbours]]
        top = self.exact[:, : self.neighbours]
        self.cosine = float(
            np.clip(np.divide(top, norms, out=np.zeros_like(top), where=norms > 0).mean(), 0.0, 1.0)
        )

    def recall(self, gain: bool, bias_weight: float) -> float:
        """Return the share of the true nearest rows among as many rows of best estimate."""
        gains, biases = corrections(self.points, self.directions, self.decoded, gain, bias_weight)
        estimate = self.exact - self.true_part
        estimate += gains.astype(np.float32)[self.place] * self.decoded_part
        estimate += biases.astype(np.float32)[self.place]
        best = np.argpartition(-estimate, self.neighbours - 1, axis=1)[:, : self.neighbours]
        return float((best < self.neighbours).mean())


def nearest_rows(
    queries: Float32Array, rows: Float32Array, own: NDArray[np.intp] | None
) -> tuple[NDArray[np.intp], Float32Array]:
    """Return the DEPTH best rows per query by inner product, best first, and the products.

    `own` is the row of each query, which is left out; None if queries are not rows.
    """
    depth = min(DEPTH, len(rows) - (own is not None))
    nearest = np.empty((len(queries), depth), np.intp)
    exact = np.empty((len(queries), depth), np.float32)
    for part in slices(len(queries), QUERIES_TOGETHER):
        products = queries[part] @ rows.T
        if own is not None:
            products[np.arange(len(products)), own[part]] = -np.inf
        top = np.argpartition(-products, depth - 1, axis=1)[:, :depth]
        found = np.take_along_axis(products, top, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        nearest[part] = np.take_along_axis(top, order, axis=1)
        exact[part] = np.take_along_axis(found, order, axis=1)
    return nearest, exact


def pair_products(queries: Float32Array, rows: Float32Array, place: NDArray[Any]) -> Float32Array:
    """Return the (n_queries, depth) inner products of every query with the rows at its places."""
    return np.stack([rows[places] @ query for query, places in zip(queries, place, strict=True)])
