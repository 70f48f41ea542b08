import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw.errors import DataError
from fedjigsaw.kernels.kmeans import coordinate_order, kmeans, nearest_centers


def blobs(rng, k=4, n=200, d=3, spread=0.05):
    centers = rng.uniform(size=(k, d))
    return centers[rng.integers(k, size=n)] + spread * rng.normal(size=(n, d))


def sort_rows(a):
    return a[np.lexsort(a.T[::-1])]


@pytest.mark.usefixtures("backend")
class TestLaws:
    def test_agrees_with_scikit_learn(self, rng):
        X = blobs(rng, spread=0.01)
        ours = kmeans(X, 4, rng=rng, n_init=20, tol=0)
        theirs = KMeans(4, n_init=20, tol=0, random_state=0).fit(X)
        assert sort_rows(ours.centers) == pytest.approx(sort_rows(theirs.cluster_centers_))
        assert ours.inertia == pytest.approx(theirs.inertia_)

    def test_a_solution_is_consistent(self, rng):
        X = blobs(rng, spread=0.5)
        found = kmeans(X, 6, rng=rng, n_init=2, max_iter=3)
        for i, center in enumerate(found.centers):
            rows = X[found.labels == i]
            distances = np.linalg.norm(rows - center, axis=1)
            assert len(rows) == found.counts[i] > 0
            assert center == pytest.approx(rows.mean(axis=0))
            assert found.sse[i] == pytest.approx((distances**2).sum())
            assert found.extents[i] == pytest.approx(distances.max())
        assert found.inertia == pytest.approx(found.sse.sum())

    def test_same_stream_same_bits(self, rng):
        X = blobs(rng, spread=0.5)
        first, second = (kmeans(X, 5, rng=np.random.default_rng(4), n_init=1) for _ in range(2))
        assert first.centers.tobytes() == second.centers.tobytes()

    def test_a_weight_counts_as_copies_of_the_row(self, rng):
        X = blobs(rng, spread=0.01)
        weights = rng.integers(0, 4, size=len(X)).astype(float)
        weighted = kmeans(X, 4, rng=rng, weights=weights, n_init=10)
        repeated = kmeans(np.repeat(X, weights.astype(int), axis=0), 4, rng=rng, n_init=10)
        assert sort_rows(weighted.centers) == pytest.approx(sort_rows(repeated.centers))
        assert weighted.inertia == pytest.approx(repeated.inertia)
        assert (weighted.labels[weights == 0] == -1).all()
        assert weighted.counts.sum() == weights.sum()

    @pytest.mark.parametrize("distinct", [1, 2, 5])
    def test_never_more_centers_than_distinct_rows(self, rng, distinct):
        X = np.repeat(rng.normal(size=(distinct, 2)), 7, axis=0)
        found = kmeans(X, 8, rng=rng)
        assert sort_rows(found.centers) == pytest.approx(sort_rows(np.unique(X, axis=0)))
        assert found.inertia == pytest.approx(0, abs=1e-20)

    def test_distinct_rows_that_agree_in_the_first_column(self, rng):
        X = np.column_stack([np.zeros(6), np.arange(6.0)])
        assert len(kmeans(X, 6, rng=rng).centers) == 6

    @pytest.mark.parametrize("k", [1, 3])
    def test_one_row(self, rng, k):
        found = kmeans(np.array([[3.0, 4.0]]), k, rng=rng)
        assert found.centers.tolist() == [[3.0, 4.0]]
        assert (found.counts, found.sse, found.extents) == ([1], [0], [0])

    @pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
    def test_translation_of_rows_translates_the_centers(self, rng, offset):
        X = blobs(rng, spread=0.01)
        here = kmeans(X, 4, rng=np.random.default_rng(1), n_init=20)
        there = kmeans(X + offset, 4, rng=np.random.default_rng(1), n_init=20)
        assert sort_rows(there.centers) - offset == pytest.approx(sort_rows(here.centers), abs=1e-5)
        assert there.inertia == pytest.approx(here.inertia, rel=1e-3)

    @pytest.mark.slow
    def test_parameters_reach_the_search(self, rng):
        X = rng.uniform(size=(400, 2))

        def inertia(**options):
            found = [
                kmeans(X, 30, rng=np.random.default_rng(s), **{"n_init": 1, **options}).inertia
                for s in range(5)
            ]
            return np.mean(found)

        assert inertia(n_init=20) < inertia()
        assert inertia() < inertia(max_iter=1)
        assert inertia(tol=0) < inertia(tol=10)

    def test_weights_change_the_partition(self, rng):
        X = np.array([[0.0], [4.0], [10.0], [14.0], [20.0]])
        heavy = kmeans(X, 2, rng=rng, weights=np.array([100.0, 100, 1, 1, 1]), n_init=20)
        light = kmeans(X, 2, rng=rng, n_init=20)
        assert heavy.labels.tolist() == [0, 1, 1, 1, 1]
        assert light.labels.tolist() == [0, 0, 1, 1, 1]

    def test_centers_are_sorted_by_coordinates(self, rng):
        centers = kmeans(blobs(rng, k=6), 6, rng=rng).centers
        assert (centers == sort_rows(centers)).all()


@pytest.mark.parametrize(
    ("weights", "got"),
    [
        ([-1.0, 1.0], "values from -1 to 1"),
        ([0.0, 0.0], "values from 0 to 0"),
        ([np.nan, 1.0], "values from nan to nan"),
        ([np.inf, 1.0], "values from 1 to inf"),
        ([1.0], r"shape \(1,\)"),
    ],
)
def test_bad_weights(rng, weights, got):
    with pytest.raises(DataError, match=rf"weights of k-means must be finite.*; got {got}\."):
        kmeans(np.zeros((2, 1)), 1, rng=rng, weights=np.array(weights))


def test_nearest_centers_are_exact_far_from_the_origin():
    X = np.array([[1e9], [1e9 + 3]])
    labels, distances = nearest_centers(X, X + 1)
    assert labels.tolist() == [0, 1]
    assert distances.tolist() == [1.0, 1.0]


def test_nearest_centers_are_exact_for_centers_of_very_different_size():
    X = np.array([[0.0], [1e-3], [1e9]])
    assert nearest_centers(X, X)[0].tolist() == [0, 1, 2]


@pytest.mark.usefixtures("backend")
def test_start_from_given_centers():
    """Both are fixed points of Lloyd's iterations, the second a poor one, wherever the origin is."""
    X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    for shift in (0.0, 1e7):
        start = np.array([[0.5], [10.5], [20.5]]) + shift
        found = kmeans(X + shift, 3, rng=np.random.default_rng(0), init=start)
        assert np.allclose(found.centers, start)
        stuck = np.array([[0.0], [1.0], [15.5]]) + shift
        found = kmeans(X + shift, 3, rng=np.random.default_rng(0), init=stuck)
        assert np.allclose(found.centers, stuck)


@pytest.mark.parametrize("n_values", [1, 3, 10**9])
def test_coordinate_order_sorts_rows(rng, n_values):
    X = rng.integers(n_values, size=(30, 3)).astype(float)
    assert X[coordinate_order(X)].tolist() == sorted(X.tolist())
