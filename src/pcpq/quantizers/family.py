"""The six quantizers, which differ only in the loss and in the kind of scale.

| loss        | alpha = 1 | alpha exact | alpha one of s |
|-------------|-----------|-------------|----------------|
| isotropic   | PQ        | PCPQ        | QPCPQ          |
| anisotropic | APQ       | APCPQ       | QAPCPQ         |
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import NotFittedError
from pcpq.io.arrays import Float32Array, as_vectors, check_rows_match, typical_unit, working_rows
from pcpq.io.foreign_arrays import as_array
from pcpq.quantizers import encoder, scorer
from pcpq.quantizers.codes import Codes, Model
from pcpq.quantizers.corrections import choose_corrections
from pcpq.quantizers.options import Options, settle
from pcpq.quantizers.sections import make_layout, query_whitening
from pcpq.quantizers.trainer import train
from pcpq.util.threads import one_blas_thread

AnyQuantizer = TypeVar("AnyQuantizer", bound="Quantizer")


@dataclass(kw_only=True, eq=False, repr=False)
class Quantizer:
    """Base class of the six quantizers.

    Parameters are stored as given and checked by `fit`, as in scikit-learn. A vector is split into m sections
    of D coordinates. Each section is approximated by a scale times one of k codewords.

    Parameters
    ----------
    section_size : coordinates per section, D (4 if n_sections is not given either); the last section is padded
        with zeros
    n_sections : number of sections, m, of nearly equal size; instead of section_size
    n_centers : number of codewords per section, k, from 2 to 256 (PQ and APQ: to 65,536)
    init : first codewords: "k-means++", "random", "symmetric" (sign-symmetric k-means++), or an (m, k, D) array
    refine : refine codes, codewords and scales jointly after clustering
    gain : store a factor per vector (2 bytes) that makes the estimate exact for queries along the encoded
        vector. "auto": if it improves recall on a sample
    bias : store a term per vector (2 bytes) that makes the estimate exact for queries along `directions`.
        "auto": if it improves recall on a sample. "anchor": exact for queries along the anchor, which is
        directions - vectors, the part that was subtracted; the most accurate, but `scores` then needs the
        anchors
    paper : follow the paper exactly in every parameter that is "auto"
    max_iterations : largest number of clustering rounds
    training_rows : number of rows, drawn at random, that `fit` uses; None: 65,536, or 40 per codeword if that
        is more
    seed : seed of all random choices; None: a new one each time
    threads : number of threads; None: all CPUs of the process. Results do not depend on it
    """

    section_size: int | None = None
    n_sections: int | None = None
    n_centers: int = 16
    init: str | NDArray[Any] = "auto"
    refine: bool | str = "auto"
    gain: bool | str = "auto"
    bias: bool | str = "auto"
    paper: bool = False
    max_iterations: int = 25
    training_rows: int | None = None
    seed: int | None = 0
    threads: int | None = None

    anisotropic: ClassVar[bool]
    scale: ClassVar[str]

    # Learned by fit.
    model_: Model = field(init=False)
    losses_: list[NDArray[np.float64]] = field(init=False)  # loss of every section after every round
    n_features_in_: int = field(init=False)
    _options: Options = field(init=False)

    @one_blas_thread
    def fit(self: AnyQuantizer, vectors: Any, directions: Any = None, queries: Any = None) -> AnyQuantizer:
        """Train codewords and scales.

        Parameters
        ----------
        vectors : (n, d) floats, what will be quantized (residuals, if there are lists)
        directions : (n, d) floats, the original vectors, row by row, if `vectors` are residuals; None:
            `vectors`
        queries : (n_queries, d) floats, a sample of queries; errors are then weighted by these queries (eq. 1
            of the paper), and gain and bias are chosen with them

        Returns the quantizer itself.
        """
        vectors = as_vectors(vectors)
        if directions is not None:
            directions = as_vectors(directions, "directions")
            check_rows_match(vectors, directions)
        options = self._settle()
        layout = make_layout(vectors.shape[1], self.section_size, self.n_sections)
        generator = np.random.default_rng(options.seed)
        sample = np.arange(len(vectors))
        if len(vectors) > options.training_rows:
            sample = np.sort(generator.permutation(len(vectors))[: options.training_rows])
            vectors = vectors[sample]
            directions = None if directions is None else directions[sample]
        unit = typical_unit(vectors, "vectors", sample)
        points = layout.pad(working_rows(vectors, unit, "vectors"))
        towards = points
        if directions is not None:
            typical_unit(directions, "directions", sample)
            towards = layout.pad(working_rows(directions, unit, "directions"))
        working_queries, whitening = None, None
        if queries is not None:
            queries = as_vectors(queries, "queries", vectors.shape[1])
            working_queries = working_rows(queries, typical_unit(queries, "queries"), "queries")
            whitening = query_whitening(working_queries, layout)
            working_queries = layout.pad(working_queries)
        trained = train(options, layout, unit, points, towards, whitening)
        gain, weight = choose_corrections(options, trained.model, points, towards, working_queries, generator)
        anchored = options.bias == "anchor"
        self.model_ = replace(trained.model, gain=gain, bias_weight=weight, anchored=anchored)
        self.losses_ = trained.losses
        self.n_features_in_ = vectors.shape[1]
        self._options = options
        return self

    def encode(self, vectors: Any, directions: Any = None) -> Codes:
        """Encode vectors. Memory-mapped arrays are read in batches.

        Parameters
        ----------
        vectors : (n, d) floats
        directions : (n, d) floats, the original vectors, if `vectors` are residuals; None: `vectors`

        Returns
        -------
        codes : the Codes of the n vectors
        """
        model = self._fitted()
        vectors = as_vectors(vectors, dimensions=model.layout.dimensions)
        if directions is not None:
            directions = as_vectors(directions, "directions", model.layout.dimensions)
            check_rows_match(vectors, directions)
        return encoder.encode(self._options, model, vectors, directions, self.threads)

    def decode(self, codes: Codes) -> Float32Array:
        """Return the (n, d) float32 vectors that codes represent. Gain and bias are used by `scores` only."""
        model = self._fitted()
        self._check_codes(codes)
        decoded = encoder.decode_working(model, codes.codes, codes.scales)
        decoded *= np.float32(model.unit)
        return model.layout.unpad(decoded)

    @one_blas_thread
    def scores(self, queries: Any, codes: Codes, anchors: Any = None) -> Float32Array:
        """Estimate inner products of queries and encoded vectors by lookup tables.

        Parameters
        ----------
        queries : (n_queries, d) or (d,) floats
        codes : the Codes of n vectors
        anchors : (n, d) or (d,) floats, what was subtracted from the vectors before encoding; scores are then
            those of the original vectors. Required with bias="anchor"

        Returns
        -------
        scores : (n_queries, n) float32, or (n,) for a single query
        """
        model = self._fitted()
        self._check_codes(codes)
        if anchors is None and model.anchored:
            raise ValueError(
                "with bias='anchor' the bias is a share of the anchor's score: scores needs anchors"
            )
        queries = as_array(queries, "queries")
        single = queries.ndim == 1
        rows = as_vectors(queries[None] if single else queries, "queries", model.layout.dimensions)
        unit = typical_unit(rows, "queries")
        padded = model.layout.pad(working_rows(rows, unit, "queries"))
        scores = scorer.scores(model, padded, codes, self.threads)
        scores *= np.float32(unit)
        if anchors is not None:
            anchors = as_vectors(np.atleast_2d(anchors), "anchors", model.layout.dimensions)
            if len(anchors) not in (1, len(codes)):
                raise ValueError(f"{len(anchors)} anchors do not match {len(codes)} codes")
            scores += scorer.anchor_scores(model, rows, anchors, codes)
        return scores[0] if single else scores

    @property
    def bits_per_vector(self) -> int:
        """Bits per vector when packed: indices of codewords and scales, gain and bias."""
        model, options = self._fitted(), self._options
        m = model.layout.n_sections
        bits = m * index_bits(model.readout.shape[1])
        bits += {
            "none": 0,
            "exact": 32 * m,
            "quantized": m * index_bits(options.n_scales),
            "vector": index_bits(options.n_scales),
            "norm": index_bits(options.n_scales),
        }[options.scale]
        return bits + 16 * model.gain + 16 * (model.bias_weight > 0)

    @property
    def centers_(self) -> Float32Array:
        """The former name of `codewords_`."""
        warnings.warn("centers_ is now codewords_", DeprecationWarning, stacklevel=2)
        return self.codewords_

    @property
    def codewords_(self) -> Float32Array:
        """The (m, k, D) codewords of all sections, in the unit of the vectors."""
        model = self._fitted()
        return np.multiply(model.readout[:, : model.codewords.shape[1]], model.unit, dtype=np.float32)

    @property
    def scales_(self) -> Float32Array | None:
        """Scales, ascending: (m, s), or (s,) if sections share them; norms if norm_scale is True."""
        model = self._fitted()
        if self._options.scale == "norm" and model.vector_levels is not None:
            return np.multiply(model.vector_levels, model.unit, dtype=np.float32)
        if model.vector_levels is not None or model.scales is None:
            return model.vector_levels
        return model.scales[0] if self._options.shared_scales else model.scales

    @property
    def unit_(self) -> float:
        """Unit of lengths, a power of two; biases are stored in this unit."""
        return self._fitted().unit

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters as they were given; `deep` is ignored."""
        return {parameter.name: getattr(self, parameter.name) for parameter in fields(self) if parameter.init}

    def set_params(self: AnyQuantizer, **parameters: Any) -> AnyQuantizer:
        """Change parameters. They take effect at the next `fit` (`threads` at once). Returns the quantizer."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{parameter.name}={getattr(self, parameter.name)!r}"
            for parameter in fields(self)
            if parameter.init and not _same(getattr(self, parameter.name), parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _settle(self) -> Options:
        return settle(self.anisotropic, self.scale, self.get_params())

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit first")
        return self.model_

    def _check_codes(self, codes: Codes) -> None:
        model = self._fitted()
        m = model.layout.n_sections
        if codes.codes.ndim != 2 or codes.codes.shape[1] != m:
            raise ValueError(f"codes have shape {codes.codes.shape}; the quantizer has {m} sections")
        if codes.codes.dtype != model.code_dtype:
            raise ValueError(
                f"codes have dtype {codes.codes.dtype}; the quantizer's have {model.code_dtype.__name__}"
            )
        expected = encoder.scale_columns(self._options, m)
        if (codes.scales is None) != (expected == 0):
            raise ValueError(
                f"codes {'lack' if codes.scales is None else 'hold'} scales; "
                f"{type(self).__name__} has {expected} per vector"
            )
        if codes.scales is not None and codes.scales.shape != (len(codes), expected):
            raise ValueError(f"scales have shape {codes.scales.shape}; expected {(len(codes), expected)}")
        for name, values in (("gains", codes.gains), ("biases", codes.biases)):
            if values is not None and values.shape != (len(codes),):
                raise ValueError(f"{name} have shape {values.shape}; expected {(len(codes),)}")
        if model.vector_levels is not None and codes.scales is not None and len(codes):
            highest = int(codes.scales.max())
            if highest >= len(model.vector_levels):
                raise ValueError(f"a code names scale {highest}; the quantizer has {len(model.vector_levels)}")


def options_of(quantizer: Quantizer) -> Options:
    """Return the checked parameters of a quantizer, with every "auto" that needs no data replaced."""
    return quantizer._settle()


def restore_fitted(quantizer: Quantizer, model: Model) -> Quantizer:
    """Set the model of a quantizer as `fit` does, without the history of losses, and return the quantizer."""
    quantizer.model_, quantizer.losses_ = model, []
    quantizer.n_features_in_ = model.layout.dimensions
    quantizer._options = quantizer._settle()
    return quantizer


def index_bits(values: int) -> int:
    """Return the number of bits of an index into `values` values."""
    return (values - 1).bit_length()


def _same(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, np.ndarray) and bool(value == default))


@dataclass(kw_only=True, eq=False, repr=False)
class _Anisotropic(Quantizer):
    """Base class of quantizers with the anisotropic loss, which weights the error along the vector more.

    Parameters
    ----------
    threshold : queries with an inner product <q, x> below it, in units of the mean norm, are ignored by the
        loss
    assignment : "loss": codeword of least loss; "distance": nearest codeword, as in the paper
    encoding : "whole": weight the error of the whole vector along `directions`, improving one section at a
        time; "section": weight each section along itself, as in the paper
    """

    threshold: float = 0.2
    assignment: str = "auto"
    encoding: str = "auto"

    anisotropic: ClassVar[bool] = True


@dataclass(kw_only=True, eq=False, repr=False)
class _Isotropic(Quantizer):
    """Base class of quantizers with the isotropic loss."""

    anisotropic: ClassVar[bool] = False


@dataclass(kw_only=True, eq=False, repr=False)
class _Unscaled(Quantizer):
    """Base class of quantizers without scales, optionally with a quantized norm per vector.

    The norm is a baseline in a footnote of the paper.

    Parameters
    ----------
    norm_scale : normalise vectors to length 1 and store a quantized norm
    n_scales : number of values of the norm, 1 to 256
    """

    norm_scale: bool = False
    n_scales: int = 256

    scale: ClassVar[str] = "none"


@dataclass(kw_only=True, eq=False, repr=False)
class _ExactlyScaled(Quantizer):
    """Base class of quantizers with an exact scale per section."""

    scale: ClassVar[str] = "exact"


@dataclass(kw_only=True, eq=False, repr=False)
class _QuantizedScale(Quantizer):
    """Base class of quantizers with a scale per section that is one of s values.

    Parameters
    ----------
    n_scales : number of scales, s, 1 to 256
    scales_per : "section": one scale per section; "vector": one scale per vector and one sign per section
    shared_scales : True: one set of scales for all sections, as in the paper; False: one set per section
    """

    n_scales: int = 16
    scales_per: str = "section"
    shared_scales: bool | str = "auto"

    scale: ClassVar[str] = "quantized"


@dataclass(kw_only=True, eq=False, repr=False)
class PQ(_Unscaled, _Isotropic):
    """Product quantization: k-means in every section, no scales."""


@dataclass(kw_only=True, eq=False, repr=False)
class APQ(_Unscaled, _Anisotropic):
    """Anisotropic product quantization without scales, which the paper calls ScaNN."""


@dataclass(kw_only=True, eq=False, repr=False)
class PCPQ(_ExactlyScaled, _Isotropic):
    """Projective clustering with an exact float32 scale per section; a reference for quantized scales."""


@dataclass(kw_only=True, eq=False, repr=False)
class APCPQ(_ExactlyScaled, _Anisotropic):
    """Anisotropic projective clustering with an exact float32 scale per section."""


@dataclass(kw_only=True, eq=False, repr=False)
class QPCPQ(_QuantizedScale, _Isotropic):
    """Projective clustering with quantized scales: the method of the paper, and the most accurate per byte."""


@dataclass(kw_only=True, eq=False, repr=False)
class QAPCPQ(_QuantizedScale, _Anisotropic):
    """Anisotropic projective clustering with quantized scales."""
