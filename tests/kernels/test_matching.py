from itertools import permutations

import numpy as np
import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.kernels.matching import match, pairwise_distances


def test_matching_is_optimal(rng):
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    rows, partners = match(a, b)
    best = min(((a - b[list(p)]) ** 2).sum() for p in permutations(range(5)))
    assert ((a[rows] - b[partners]) ** 2).sum() == pytest.approx(best)


def test_all_rows_of_the_smaller_set_are_matched(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(6, 3))
    assert len(match(a, b)[0]) == len(match(b, a)[0]) == 2


def test_distances_keep_their_digits_far_from_the_origin():
    assert pairwise_distances(np.array([[1e9]]), np.array([[1e9 + 1]]))[0, 0] == 1


@pytest.mark.parametrize(
    ("b", "words"),
    [([[1.0]], "different numbers of columns: 2 and 1"), ([1.0, 2.0], "must be 2-D arrays")],
)
def test_shapes_must_agree(b, words):
    with pytest.raises(DataError, match=words):
        pairwise_distances([[1.0, 2.0]], b)
