import numpy as np
import pytest

import pcpq


@pytest.mark.parametrize(
    ("quantizer", "text"),
    [
        (pcpq.PQ(n_centers=1), "n_centers is 1; expected a whole number from 2 to 65536"),
        (pcpq.PQ(n_centers=65537), "n_centers is 65537; expected a whole number from 2 to 65536"),
        (pcpq.QPCPQ(n_centers=257), "n_centers is 257; expected a whole number from 2 to 256"),
        (pcpq.PCPQ(n_centers=16.0), "n_centers is 16.0; expected a whole number"),
        (pcpq.QPCPQ(n_scales=0), "n_scales is 0; expected a whole number from 1 to 256"),
        (pcpq.QPCPQ(n_scales=257), "n_scales is 257; expected a whole number from 1 to 256"),
        (pcpq.PQ(norm_scale=True, n_scales=257), "n_scales is 257"),
        (pcpq.APQ(threshold=-0.1), "threshold is -0.1; expected a number from 0"),
        (pcpq.APQ(threshold=float("nan")), "threshold is nan"),
        (pcpq.APQ(assignment="guess"), "assignment is 'guess'; expected one of 'loss', 'distance'"),
        (pcpq.APQ(encoding="half"), "encoding is 'half'; expected one of 'whole', 'section'"),
        (pcpq.PQ(init="kmeans"), "init is 'kmeans'; expected one of 'k-means.*', 'random', 'symmetric'"),
        (pcpq.PQ(gain="yes"), "gain is 'yes'; expected one of True, False, 'auto'"),
        (pcpq.PQ(bias=2), "bias is 2; expected one of True, False, 'auto', 'anchor'"),
        (pcpq.PQ(refine="maybe"), "refine is 'maybe'"),
        (pcpq.PQ(paper="yes"), "paper is 'yes'; expected one of True, False"),
        (pcpq.PQ(norm_scale=3), "norm_scale is 3"),
        (pcpq.QPCPQ(scales_per="point"), "scales_per is 'point'; expected one of 'section', 'vector'"),
        (pcpq.QPCPQ(shared_scales="no"), "shared_scales is 'no'"),
        (
            pcpq.QAPCPQ(scales_per="vector", encoding="whole"),
            "encoding='whole' needs scales_per='section', not 'vector'",
        ),
        (pcpq.PQ(max_iterations=-1), "max_iterations is -1"),
        (pcpq.PQ(training_rows=0), "training_rows is 0"),
        (pcpq.PQ(seed=-1), "seed is -1"),
        (pcpq.PQ(seed=1.5), "seed is 1.5"),
        (pcpq.PQ(threads=0), "threads is 0; expected a whole number from 1"),
        (pcpq.PQ(section_size=2, n_sections=3), "section_size=2 and n_sections=3: give one of the two"),
    ],
    ids=repr,
)
def test_a_bad_parameter_is_named_with_what_is_expected(quantizer, text, clustered_vectors):
    with pytest.raises(ValueError, match=text):
        quantizer.fit(clustered_vectors)


def test_numpy_integers_are_whole_numbers(clustered_vectors):
    assert pcpq.PQ(n_centers=np.int64(4), seed=np.uint8(3)).fit(clustered_vectors).codewords_.shape == (6, 4, 4)


def test_a_seed_of_none_is_a_new_one_each_time(clustered_vectors):
    first, second = (pcpq.PQ(seed=None).fit(clustered_vectors) for _ in range(2))
    assert not np.array_equal(first.codewords_, second.codewords_)
