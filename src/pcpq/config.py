"""The settings of an index."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any

from pcpq.quantizers import Quantizer, quantizer_from_json, quantizer_to_json, refuse_subclass
from pcpq.util.validation import one_of, whole_number

METRICS = ("dot", "cosine", "euclidean")
ROTATIONS = (None, "random", "learned")
CODEBOOKS = ("shared", "per_list")
KEEPS = (None, "int8", "int16", "float16", "float32")
MOST_LISTS = 1 << 24
MOST_DIMENSIONS = 1 << 24
LARGEST_SEED = (1 << 63) - 1


class _Default(str):
    """A default value that differs, by identity, from an equal value that the caller gives."""


DEFAULT_KEEP = _Default("int16")


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexConfig:
    """The settings of an index: immutable, checked, stored in the manifest, compared by value.

    Parameters
    ----------
    metric : "dot", "cosine" or "euclidean"
    quantizer : quantizer of the residuals, of which an unfitted copy is kept; None: chosen in training
    n_lists : number of inverted lists; None: twice the square root of the number of vectors
    rotation : rotation before vectors are cut into sections: None, "random" or "learned"
    codebooks : one quantizer, "shared" by all lists, or one for each list, "per_list"
    keep : precision of the vectors kept for reranking: None, "int8", "int16", "float16" or "float32"
    lists_per_vector : 1, or 2: each vector has a second code, in another list that is near to it; None: chosen
        in training
    code_dimensions : number of coordinates, along principal axes, that lists and codes are made of; None:
        chosen in training
    seed : seed of every random choice
    chosen : why `build` chose the quantizer and `keep` for a number of bytes per vector
    """

    metric: str
    n_lists: int | None = None
    rotation: str | None = None
    codebooks: str = "shared"
    keep: str | None = "int16"
    seed: int = 0
    chosen: str | None = None
    quantizer: Quantizer | None = None
    lists_per_vector: int | None = None
    code_dimensions: int | None = None

    def __post_init__(self) -> None:
        one_of("metric", self.metric, METRICS)
        one_of("rotation", self.rotation, ROTATIONS)
        one_of("codebooks", self.codebooks, CODEBOOKS)
        one_of("keep", self.keep, KEEPS)
        if self.n_lists is not None:
            object.__setattr__(self, "n_lists", whole_number("n_lists", self.n_lists, 1, MOST_LISTS))
        if self.lists_per_vector is not None:
            lists = whole_number("lists_per_vector", self.lists_per_vector, 1, 2)
            object.__setattr__(self, "lists_per_vector", lists)
        if self.lists_per_vector == 2 and self.keep is None:
            raise ValueError("lists_per_vector=2 needs kept vectors, but keep is None")
        if self.code_dimensions is not None:
            dimensions = whole_number("code_dimensions", self.code_dimensions, 1, MOST_DIMENSIONS)
            object.__setattr__(self, "code_dimensions", dimensions)
            if self.keep is None:
                raise ValueError(f"code_dimensions={dimensions} needs kept vectors, but keep is None")
        if self.chosen is not None and not isinstance(self.chosen, str):
            raise ValueError(f"chosen is {self.chosen!r}; expected a str or None")
        if self.quantizer is not None:
            refuse_subclass(self.quantizer)
            parameters = deepcopy(self.quantizer.get_params())
            object.__setattr__(self, "quantizer", type(self.quantizer)(**parameters))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, 0, LARGEST_SEED))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexConfig) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(repr(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        quantizer = None if self.quantizer is None else quantizer_to_json(self.quantizer)
        for name in ("lists_per_vector", "code_dimensions"):  # unknown to earlier releases
            if found[name] is None:
                del found[name]
        return found | {"quantizer": quantizer}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> IndexConfig:
        """Return the config that `to_json` wrote; raise a ValueError if it is not valid."""
        unknown = set(found) - {field.name for field in fields(cls)}
        if unknown or "metric" not in found:
            raise ValueError(
                f"settings are {sorted(found)}; expected {sorted(field.name for field in fields(cls))}"
            )
        quantizer = found.get("quantizer")
        return cls(**found | {"quantizer": None if quantizer is None else quantizer_from_json(quantizer)})
