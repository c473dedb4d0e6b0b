"""The settings of an index: frozen, compared by value, and given by name."""

import numpy as np
import pytest

import pcpq


def test_a_config_does_not_change_with_the_quantizer_it_was_made_from():
    init = np.zeros((4, 16, 2), np.float32)
    quantizer = pcpq.PQ(section_size=2, init=init)
    config = pcpq.IndexConfig(metric="dot", quantizer=quantizer)
    same, before = pcpq.IndexConfig(metric="dot", quantizer=quantizer), config.to_json()
    quantizer.set_params(section_size=4)
    init += 1
    assert config.to_json() == before
    assert (config, hash(config)) == (same, hash(same))
    assert config != pcpq.IndexConfig(metric="dot", quantizer=quantizer)


def test_an_index_keeps_an_unfitted_copy_of_its_quantizer():
    vectors = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    quantizer = pcpq.PQ(section_size=2).fit(vectors)
    index = pcpq.Index(metric="dot", quantizer=quantizer)
    assert index.quantizer.get_params() == quantizer.get_params()
    assert index.quantizer is not quantizer
    assert not hasattr(index.quantizer, "model_")
    index.fit(vectors)
    assert not hasattr(index.quantizer, "model_")


@pytest.mark.parametrize("name", ["chosen", "n_listss"])
def test_build_refuses_names_that_it_does_not_know(name):
    with pytest.raises(TypeError, match=name):
        pcpq.build(np.eye(4, dtype=np.float32), metric="dot", **{name: "made up"})


@pytest.mark.parametrize("keep", ["int16", "int8", None])
def test_a_budget_refuses_every_given_precision(keep):
    with pytest.raises(ValueError, match="bytes_per_vector is 100, and keep is given too"):
        pcpq.build(np.eye(4, dtype=np.float32), metric="dot", bytes_per_vector=100, keep=keep)


def test_the_default_precision_is_a_plain_str():
    index = pcpq.build(np.eye(4, dtype=np.float32), metric="dot")
    assert index.keep == "int16"
    assert type(index.keep) is str
