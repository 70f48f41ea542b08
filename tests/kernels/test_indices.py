import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import calinski_harabasz_score, mutual_info_score

from fedjigsaw.kernels.indices import calinski_harabasz, margins, mutual_information
from fedjigsaw.kernels.kmeans import kmeans


class TestCalinskiHarabasz:
    def test_agrees_with_scikit_learn(self, rng):
        X = rng.normal(size=(60, 3))
        found = [kmeans(X, k, rng=rng) for k in (1, 2, 3, 4)]
        index = calinski_harabasz(np.arange(1, 5), np.array([f.inertia for f in found]), 60, 3)
        theirs = [calinski_harabasz_score(X, f.labels) for f in found[1:]]
        assert index[1:] == pytest.approx(theirs)
        assert index[0] == -np.inf

    def test_does_not_grow_with_k_on_a_line(self):
        """Evenly spaced rows on a line: the objective is 1 / k^2, and two clusters stay best."""
        ks = np.arange(1, 40)
        assert calinski_harabasz(ks, 1.0 / ks**2, 1e6, 1).argmax() == 1
        assert calinski_harabasz(ks, 1.0 / ks**2, 1e6, 2).argmax() == 38

    def test_is_infinite_where_every_row_lies_at_its_center(self):
        index = calinski_harabasz(np.array([1, 2, 3]), np.array([4.0, 1.0, 0.0]), 3, 2)
        assert index.tolist() == [-np.inf, 3.0, np.inf]


class TestMargins:
    def test_by_hand(self):
        assert margins(np.array([[0.0], [3.0]]), np.array([4.0, 0.0])) == pytest.approx([0.2, 1.0])

    def test_of_a_single_cluster(self):
        assert margins(np.array([[7.0]]), np.array([2.0])).tolist() == [1.0]


class TestMutualInformation:
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=25, deadline=None)
    def test_agrees_with_scikit_learn(self, seed):
        table = np.random.default_rng(seed).integers(0, 6, (4, 5))
        table[0, 0] += 1
        theirs = mutual_info_score(None, None, contingency=table) / np.log(2)
        assert mutual_information(table.astype(float)) == pytest.approx(theirs, abs=1e-9)

    def test_does_not_depend_on_the_scale_of_the_counts(self, rng):
        """Estimated counts are fractions, and may be less than one."""
        table = rng.uniform(size=(4, 5))
        assert mutual_information(table) == pytest.approx(mutual_information(1e9 * table))
        assert mutual_information(table) > 0.01

    @given(
        st.lists(st.integers(0, 50), min_size=1, max_size=6),
        st.lists(st.integers(1, 50), min_size=1, max_size=6),
    )
    def test_of_independent_rows_and_columns_is_zero(self, rows, columns):
        rows = [1, *rows]
        found = mutual_information(np.outer(rows, columns) / 7)
        assert 0 <= found < 1e-12
