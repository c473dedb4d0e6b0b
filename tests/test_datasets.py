import numpy as np

from pcpq.datasets import load_words


def test_the_bundled_words_are_whole_and_make_sense():
    vectors, words = load_words()
    assert vectors.shape == (20_000, 100)
    assert vectors.dtype == np.float32
    assert len(words) == len(set(words)) == 20_000
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = np.argsort(-(vectors @ vectors[words.index("king")]))[1:10]
    assert "queen" in {words[i] for i in nearest}
