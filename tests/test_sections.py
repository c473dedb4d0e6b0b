import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcpq.quantizers.sections import make_layout, query_whitening, whiten

pytestmark = pytest.mark.portable


@given(st.integers(1, 200), st.data())
def test_every_coordinate_has_its_own_place_whatever_the_sections(dimensions, data):
    by_size = data.draw(st.booleans())
    number = data.draw(st.integers(1, dimensions))
    layout = make_layout(dimensions, number if by_size else None, None if by_size else number)
    assert len(np.unique(layout.columns)) == dimensions
    assert layout.columns.max() < layout.padded
    filled = np.bincount(layout.columns // layout.section_size, minlength=layout.n_sections)
    assert filled.min() >= 1  # no section is all padding
    assert layout.n_sections == (-(-dimensions // number) if by_size else number)


def test_65_coordinates_make_16_sections_of_at_most_5_as_in_the_paper():
    layout = make_layout(65, None, 16)
    counts = np.bincount(layout.columns // layout.section_size)
    assert (layout.section_size, sorted(counts)) == (5, [4] * 15 + [5])


def test_padding_is_zero_and_comes_off_again(generator):
    rows = generator.normal(size=(6, 7)).astype(np.float32)
    layout = make_layout(7, 3, None)
    padded = layout.pad(rows)
    assert padded.shape == (6, 9)
    assert np.array_equal(padded[:, 7:], np.zeros((6, 2)))
    assert np.array_equal(layout.unpad(padded), rows)


@pytest.mark.parametrize(
    ("size", "count", "text"),
    [
        (0, None, "section_size is 0; expected 1 to the vectors' dimensions, 8"),
        (9, None, "section_size is 9; expected 1 to the vectors' dimensions, 8"),
        (None, 0, "n_sections is 0"),
        (None, 9, "n_sections is 9; expected 1 to the vectors' dimensions, 8"),
        (2, 4, "section_size=2 and n_sections=4: give one of the two"),
    ],
)
def test_impossible_sections_are_refused(size, count, text):
    with pytest.raises(ValueError, match=text):
        make_layout(8, size, count)


def test_whitened_errors_weigh_as_the_queries_see_them(generator):
    layout = make_layout(6, 3, None)
    queries = (generator.normal(size=(500, 6)) * [5, 1, 1, 0.5, 2, 1]).astype(np.float32)
    whitening, inverse = query_whitening(queries, layout)
    errors = generator.normal(size=(4, 6)).astype(np.float32)
    whitened = whiten(errors, whitening).reshape(4, 2, 3)
    for j in range(2):
        part = slice(3 * j, 3 * j + 3)
        seen = np.mean((errors[:, part] @ queries[:, part].T) ** 2, axis=1)
        lengths = np.sum(whitened[:, j] ** 2, axis=1)
        assert np.allclose(seen / lengths, (seen / lengths)[0], rtol=1e-4)
    assert np.allclose(whiten(whiten(errors, whitening), inverse), errors, atol=1e-5)


def test_queries_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="queries are all zero"):
        query_whitening(np.zeros((3, 4), np.float32), make_layout(4, 2, None))
