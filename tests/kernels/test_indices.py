import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from fedjigsaw.kernels.indices import margins, mutual_information


class TestMargins:
    def test_by_hand(self):
        assert margins(np.array([[0.0], [3.0]]), np.array([4.0, 0.0])) == pytest.approx([0.2, 1.0])

    def test_of_a_single_cluster(self):
        assert margins(np.array([[7.0]]), np.array([2.0])).tolist() == [1.0]


class TestMutualInformation:
    def test_no_rows(self):
        assert mutual_information(np.zeros((2, 3))) == 0

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
