"""Seeded synthetic sets of low local dimension: few latent dimensions in many, as embeddings have.

    python benchmarks/synthetic.py latent512     print the local dimension of a set

A mixture of Gaussians in latent space goes through a fixed random network with two layers of tanh, and rows are
normalized. Sets are made when they are loaded and are not stored. Rows and queries are drawn block by block,
each block with a seed of its own: a part of the rows is the same whatever number of rows is asked for.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

QUERIES = 2000
BLOCK = 10_000
HIDDEN = 256
GAUSSIANS = 200
SPREAD = 1.0  # of the centres; a Gaussian has a standard deviation of 1 in every latent dimension
GAIN = 1.5  # of both layers: larger values fold the latent space more


@dataclass(frozen=True)
class Latent:
    """A set: rows and dimensions, and the latent dimensions that rows are made from."""

    rows: int
    d: int
    latent: int = 24
    seed: int = 0


SETS = {
    "latent512": Latent(150_000, 512),
    "latent768": Latent(150_000, 768),
    "latent512_1m": Latent(1_000_000, 512),
}


def make(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the base and the queries of a set, which are drawn from the same distribution; float32."""
    kind = SETS[name]
    return draw(kind, kind.rows, 0), draw(kind, QUERIES, 1)


def draw(kind: Latent, count: int, stream: int) -> np.ndarray:
    """Return `count` normalized rows of a stream of rows."""
    generator = np.random.default_rng((kind.seed, kind.d))
    centres = SPREAD * generator.standard_normal((GAUSSIANS, kind.latent))
    shares = generator.dirichlet(np.full(GAUSSIANS, 2.0))  # clusters of different sizes
    into = GAIN * generator.standard_normal((kind.latent, HIDDEN)) / kind.latent**0.5
    between = GAIN * generator.standard_normal((HIDDEN, kind.d)) / HIDDEN**0.5
    shift = GAIN * generator.standard_normal(HIDDEN)
    rows = np.empty((count, kind.d), np.float32)
    for number, start in enumerate(range(0, count, BLOCK)):
        block = np.random.default_rng((kind.seed, kind.d, stream, number))
        chosen = block.choice(GAUSSIANS, BLOCK, p=shares)
        latent = centres[chosen] + block.standard_normal((BLOCK, kind.latent))
        part = rows[start : start + BLOCK]
        latent = latent[: len(part)].astype(np.float32)
        hidden = np.tanh(latent @ into.astype(np.float32) + shift.astype(np.float32))
        np.tanh(hidden @ between.astype(np.float32), out=part)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def local_dimension(base: np.ndarray, queries: np.ndarray, k: int = 20) -> float:
    """Return the local dimension around queries by maximum likelihood (Levina and Bickel 2004).

    That of a query follows from the distances r of its k nearest rows: one over the mean of log(r_k / r_j) for
    j < k. Of queries, these reciprocals are averaged (MacKay and Ghahramani 2005), which has less bias.
    """
    squares = np.square(base, dtype=np.float64).sum(1)
    means = []
    for start in range(0, len(queries), 100):
        some = queries[start : start + 100]
        near = np.argpartition(squares.astype(np.float32) - 2 * (some @ base.T), k - 1, axis=1)[:, :k]
        # Distances by differences: those from products lose the digits of near rows.
        gaps = base[near].astype(np.float64) - some[:, None].astype(np.float64)
        logs = np.log(np.sort(np.maximum(np.square(gaps).sum(2), 1e-30), axis=1)) / 2
        means.append((logs[:, -1:] - logs[:, :-1]).sum(1) / (k - 2))
    return float(1 / np.concatenate(means).mean())


def main() -> None:
    """Print the local dimension of sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", choices=tuple(SETS))
    for name in parser.parse_args().sets:
        base, queries = make(name)
        print(
            f"{name}: {base.shape[0]} x {base.shape[1]}, local dimension {local_dimension(base, queries):.1f}"
        )


if __name__ == "__main__":
    main()
