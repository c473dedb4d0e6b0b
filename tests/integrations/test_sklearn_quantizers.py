"""Quantizers as scikit-learn's transformers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import pcpq
from pcpq.integrations.sklearn import QuantizerTransformer
from pcpq.quantizers import METHODS

QUANTIZERS = [method() for method in METHODS.values()]
OTHER_QUANTIZERS = [
    pcpq.PQ(section_size=2, norm_scale=True),
    pcpq.PQ(n_sections=5, n_centers=300),
    pcpq.QPCPQ(scales_per="vector", n_scales=8),
    pcpq.QAPCPQ(section_size=3, n_centers=7, n_scales=5),
]


@pytest.mark.parametrize("quantizer", QUANTIZERS + OTHER_QUANTIZERS, ids=str)
def test_a_transformer_gives_what_its_quantizer_gives(quantizer, words):
    X = words[:600, :24]
    given = quantizer.get_params()
    transformer = QuantizerTransformer(quantizer).fit(X)
    expected = clone(quantizer).fit(X)
    assert np.array_equal(transformer.transform(X), expected.decode(expected.encode(X)))
    assert transformer.quantizer_.bits_per_vector == expected.bits_per_vector
    assert not hasattr(quantizer, "model_")
    assert quantizer.get_params() == given


@pytest.mark.parametrize("quantizer", QUANTIZERS + OTHER_QUANTIZERS, ids=str)
def test_codes_are_turned_back_into_the_same_vectors(quantizer, words):
    X = words[:600, :24]
    transformer = QuantizerTransformer(quantizer).fit(X)
    vectors = transformer.transform(X)
    codes = transformer.set_params(output="codes").transform(X)
    exact = quantizer.scale == "exact"
    assert codes.dtype == (np.float32 if exact else np.uint16 if quantizer.n_centers > 256 else np.uint8)
    assert codes.shape == (600, len(transformer.get_feature_names_out()))
    for form in (codes, codes.astype(np.float64), codes.tolist()):
        assert np.array_equal(transformer.inverse_transform(form), vectors)


def test_vectors_are_their_own_inverse(words):
    transformer = QuantizerTransformer().fit(words[:200])
    vectors = transformer.transform(words[:200])
    assert np.array_equal(transformer.inverse_transform(vectors), vectors)


def test_names_of_codes_tell_centers_from_scales(words):
    X = words[:200, :8]
    transformer = QuantizerTransformer(pcpq.QPCPQ(section_size=4), output="codes").fit(X)
    assert transformer.get_feature_names_out().tolist() == ["center0", "center1", "scale0", "scale1"]
    transformer = QuantizerTransformer(pcpq.PQ(section_size=4), output="codes").fit(X)
    assert transformer.get_feature_names_out().tolist() == ["center0", "center1"]


def test_data_frames_keep_their_columns(words):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(words[:100, :4], columns=list("abcd"))
    transformer = QuantizerTransformer().set_output(transform="pandas")
    vectors = transformer.fit_transform(frame)
    assert vectors.columns.tolist() == ["a", "b", "c", "d"]
    codes = transformer.set_params(output="codes").transform(frame)
    assert codes.columns.tolist() == ["center0", "scale0"]
    assert np.array_equal(transformer.inverse_transform(codes), vectors)


@pytest.mark.parametrize(
    ("given", "returned"),
    [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int32", "float64")],
)
def test_vectors_come_back_in_their_own_precision(given, returned):
    X = np.arange(60).reshape(20, 3).astype(given)
    assert QuantizerTransformer().fit_transform(X).dtype == returned


def test_parameters_of_a_quantizer_can_be_searched():
    X, y = load_digits(return_X_y=True)
    pipeline = make_pipeline(QuantizerTransformer(pcpq.PQ(section_size=8)), KNeighborsClassifier())
    grid = {"quantizertransformer__quantizer__n_centers": [2, 32]}
    found = GridSearchCV(pipeline, grid, cv=2).fit(X[:500], y[:500])
    assert found.best_params_ == {"quantizertransformer__quantizer__n_centers": 32}
    assert found.best_score_ > 0.85
    assert pipeline[0].quantizer.n_centers == 16


def test_transformers_show_their_quantizers():
    transformer = QuantizerTransformer(pcpq.PQ(n_centers=8), output="codes")
    assert repr(transformer) == "QuantizerTransformer(output='codes', quantizer=PQ(n_centers=8))"
    assert "PQ(n_centers=8)" in transformer._repr_html_()


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (QuantizerTransformer(output="bytes"), ValueError, "output is 'bytes'; expected one of 'vectors'"),
        (QuantizerTransformer("PQ"), TypeError, "quantizer is 'PQ'; expected one of pcpq's, PQ, APQ"),
        (QuantizerTransformer(pcpq.PQ(section_size=9)), ValueError, "section_size is 9"),
        (QuantizerTransformer(pcpq.PQ(n_centers=1)), ValueError, "n_centers is 1"),
    ],
)
def test_bad_quantizers_are_named(estimator, error, message):
    with pytest.raises(error, match=message):
        estimator.fit(np.eye(4))


@pytest.mark.parametrize(
    ("quantizer", "codes", "message"),
    [
        (pcpq.PQ(), [[1, 2, 3]], "codes have 3 columns; the quantizer's have 2"),
        (pcpq.PQ(), [[1, -1]], "codes hold -1; expected whole numbers from 0 to 255"),
        (pcpq.PQ(), [[1, 256]], "codes hold 256"),
        (pcpq.PQ(), [[1, 0.5]], "codes hold 0.5"),
        (pcpq.PQ(), [[1, 200]], "a code names a codeword that is not there"),
        (pcpq.QPCPQ(), [[1, 2, 3, 200]], "a code names a scale that is not there"),
    ],
)
def test_bad_codes_are_named(quantizer, codes, message):
    transformer = QuantizerTransformer(quantizer, output="codes").fit(np.random.default_rng(0).random((50, 8)))
    with pytest.raises(ValueError, match=message):
        transformer.inverse_transform(codes)


def test_vectors_of_another_size_have_no_inverse(words):
    transformer = QuantizerTransformer().fit(words[:50])
    with pytest.raises(ValueError, match="X has 3 features, the quantizer has 100 dimensions"):
        transformer.inverse_transform(np.ones((2, 3)))
    with pytest.raises(NotFittedError):
        QuantizerTransformer().inverse_transform(words[:2])
