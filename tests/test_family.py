import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

import pcpq
from pcpq.quantizers.family import Quantizer, _Anisotropic

METHODS = [pcpq.PQ, pcpq.APQ, pcpq.PCPQ, pcpq.APCPQ, pcpq.QPCPQ, pcpq.QAPCPQ]


def same_codes(a, b):
    return all(
        (x is None and y is None) or np.array_equal(x, y) for x, y in zip(a._fields(), b._fields(), strict=True)
    )


@pytest.mark.parametrize("method", METHODS)
def test_parameters_are_stored_untouched_until_fit(method):
    odd = object()
    quantizer = method(n_centers=odd, seed="not a seed", gain=3)
    assert quantizer.n_centers is odd
    assert quantizer.get_params()["seed"] == "not a seed"
    with pytest.raises(TypeError):
        method(4)


@pytest.mark.parametrize("method", METHODS)
def test_clone_and_set_params_work_as_in_scikit_learn(method, clustered_vectors):
    quantizer = method(section_size=3, n_centers=7, seed=5).fit(clustered_vectors)
    copy = clone(quantizer)
    assert copy.get_params() == quantizer.get_params()
    assert not hasattr(copy, "model_")
    assert copy.set_params(n_centers=4) is copy
    assert copy.fit(clustered_vectors).codewords_.shape == (8, 4, 3)
    with pytest.raises(ValueError, match=f"{method.__name__} has no parameter 'centres'; it has section_size"):
        copy.set_params(centres=3)


@pytest.mark.parametrize("method", METHODS)
def test_refitting_forgets_the_first_fit(method, clustered_vectors, generator):
    other = generator.normal(size=(200, 6))
    once = method(section_size=3).fit(clustered_vectors)
    twice = method(section_size=3).fit(other, queries=other).fit(clustered_vectors)
    assert np.array_equal(once.codewords_, twice.codewords_)
    assert same_codes(once.encode(clustered_vectors), twice.encode(clustered_vectors))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits_whatever_the_threads_and_level(
    method, clustered_vectors, simd_level
):
    one = method(section_size=3, threads=1).fit(clustered_vectors)
    four = method(section_size=3, threads=4).fit(clustered_vectors)
    assert np.array_equal(one.codewords_, four.codewords_)
    assert one.model_.bias_weight == four.model_.bias_weight
    assert same_codes(one.encode(clustered_vectors), four.encode(clustered_vectors))


def test_another_seed_gives_other_codewords(clustered_vectors):
    assert not np.array_equal(
        pcpq.PQ(seed=1).fit(clustered_vectors).codewords_, pcpq.PQ(seed=2).fit(clustered_vectors).codewords_
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_fitted_quantizer_survives_pickling(method, clustered_vectors):
    quantizer = method(section_size=3).fit(clustered_vectors)
    copy = pickle.loads(pickle.dumps(quantizer))
    assert same_codes(copy.encode(clustered_vectors), quantizer.encode(clustered_vectors))


@pytest.mark.parametrize("method", METHODS)
def test_using_it_before_fit_says_so(method):
    codes = pcpq.Codes(np.zeros((1, 2), np.uint8))
    for use in (
        lambda q: q.encode(np.ones((2, 4))),
        lambda q: q.decode(codes),
        lambda q: q.scores(np.ones((1, 4)), codes),
        lambda q: q.bits_per_vector,
        lambda q: q.scales_,
    ):
        with pytest.raises(pcpq.NotFittedError, match=f"this {method.__name__} is not fitted: call fit first"):
            use(method())


@pytest.mark.parametrize("method", METHODS)
def test_bad_input_is_refused_with_both_values(method, clustered_vectors):
    quantizer = method(section_size=4).fit(clustered_vectors)
    with pytest.raises(ValueError, match="vectors have 23 dimensions, the quantizer has 24"):
        quantizer.encode(clustered_vectors[:, :23])
    with pytest.raises(ValueError, match="queries have 23 dimensions, the quantizer has 24"):
        quantizer.scores(clustered_vectors[:1, :23], quantizer.encode(clustered_vectors[:2]))
    with pytest.raises(ValueError, match="queries have 23 dimensions, the quantizer has 24"):
        method(section_size=4).fit(clustered_vectors, queries=clustered_vectors[:, :23])
    with pytest.raises(ValueError, match=r"directions have shape \(2, 24\), vectors \(3, 24\)"):
        quantizer.encode(clustered_vectors[:3], directions=clustered_vectors[:2])
    with pytest.raises(ValueError, match=r"vectors are empty: shape \(0, 24\)"):
        quantizer.encode(clustered_vectors[:0])
    with pytest.raises(ValueError, match="dtype int64"):
        quantizer.fit(np.ones((3, 4), int))
    for value in (np.nan, np.inf):
        bad = clustered_vectors.copy()
        bad[9, 3] = value
        with pytest.raises(ValueError, match=rf"vectors\[9, 3\] is {value}"):
            method().fit(bad)
        with pytest.raises(ValueError, match=rf"directions\[9, 3\] is {value}"):
            method().fit(clustered_vectors, directions=bad)
        with pytest.raises(ValueError, match=rf"queries\[9, 3\] is {value}"):
            method().fit(clustered_vectors, queries=bad)
        with pytest.raises(ValueError, match=rf"vectors\[9, 3\] is {value}"):
            quantizer.encode(bad)
        with pytest.raises(ValueError, match=rf"queries\[9, 3\] is {value}"):
            quantizer.scores(bad, quantizer.encode(clustered_vectors[:2]))


def test_a_bad_row_of_a_training_sample_is_named_by_its_own_number(clustered_vectors):
    bad = clustered_vectors.copy()
    bad[100:, 3] = np.nan
    with pytest.raises(ValueError, match=r"vectors\[(\d+), 3\] is nan") as caught:
        pcpq.PQ(training_rows=50).fit(bad)
    assert int(str(caught.value).split("[")[1].split(",")[0]) >= 100


@pytest.mark.parametrize(
    ("quantizer", "bits"),
    [
        (pcpq.PQ(section_size=2), 12 * 4),
        (pcpq.PQ(section_size=2, n_centers=2), 12),
        (pcpq.PQ(section_size=2, n_centers=257), 12 * 9),
        (pcpq.PQ(section_size=5, norm_scale=True, n_scales=8), 5 * 4 + 3),
        (pcpq.PCPQ(section_size=2), 12 * (4 + 32)),
        (pcpq.QPCPQ(section_size=2, n_scales=8), 12 * 7),
        (pcpq.QPCPQ(section_size=2, n_scales=1), 12 * 4),
        (pcpq.QPCPQ(n_sections=7, n_centers=256, n_scales=256), 7 * 16),
        (pcpq.QPCPQ(section_size=2, scales_per="vector", n_scales=8), 12 * 5 + 3),
        (pcpq.QAPCPQ(section_size=3, n_scales=16), 8 * 8),
    ],
    ids=repr,
)
def test_bits_are_what_packed_codes_take(quantizer, bits, clustered_vectors):
    quantizer.set_params(gain=False, bias=False)
    assert quantizer.fit(clustered_vectors).bits_per_vector == bits
    quantizer.set_params(gain=True, bias=True)
    assert quantizer.fit(clustered_vectors, directions=clustered_vectors + 1).bits_per_vector == bits + 32


def test_the_paper_switch_follows_its_text(clustered_vectors):
    quantizer = pcpq.QAPCPQ(section_size=4, paper=True).fit(clustered_vectors)
    options = quantizer._options
    assert (options.assignment, options.refine, options.encoding) == ("distance", False, "section")
    assert quantizer.scales_.ndim == 1  # one set of scales for all sections
    lengths = np.linalg.norm(pcpq.QPCPQ(section_size=4, paper=True).fit(clustered_vectors).codewords_, axis=2)
    assert np.allclose(lengths, quantizer.unit_)  # singular vectors, not scaled by anything
    assert (quantizer.model_.gain, quantizer.model_.bias_weight) == (False, 0.0)
    explicit = pcpq.QAPCPQ(section_size=4, paper=True, refine=True).fit(clustered_vectors)
    assert explicit._options.refine  # what is said outright wins


def test_a_seventh_cell_takes_a_few_lines(clustered_vectors):
    @dataclass(kw_only=True, eq=False, repr=False)
    class SignedAPQ(_Anisotropic):
        """Anisotropic, one scale a vector: a sign a section."""

        n_scales: int = 1
        scales_per: str = "vector"
        scale: ClassVar[str] = "quantized"

    quantizer = SignedAPQ(section_size=4, gain=False, bias=False).fit(clustered_vectors)
    assert isinstance(quantizer, Quantizer)
    assert quantizer.bits_per_vector == 6 * 5
    assert quantizer.decode(quantizer.encode(clustered_vectors)).shape == clustered_vectors.shape


def test_the_name_shows_what_was_changed():
    assert repr(pcpq.QPCPQ(section_size=2, seed=3)) == "QPCPQ(section_size=2, seed=3)"


def test_codes_can_be_sliced_and_measured(clustered_vectors):
    quantizer = pcpq.QPCPQ(section_size=4, gain=True, bias=False).fit(clustered_vectors)
    codes = quantizer.encode(clustered_vectors)
    assert len(codes[10:20]) == 10
    assert np.array_equal(quantizer.decode(codes[10:20]), quantizer.decode(codes)[10:20])
    assert codes.nbytes == 3000 * (6 + 6 + 2)


@pytest.mark.parametrize("method", METHODS)
def test_vectors_of_any_array_kind_are_taken(method, clustered_vectors):
    quantizer = method().fit(clustered_vectors[:100].tolist())
    assert len(quantizer.encode(clustered_vectors[:3].tolist())) == 3
