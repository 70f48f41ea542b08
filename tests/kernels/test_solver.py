import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fedjigsaw.kernels import solver
from fedjigsaw.kernels.solver import improve, solve, solve_each
from fedjigsaw.metrics import inertia


def weighted(rng, n=300, k=12, d=3):
    true = rng.uniform(0, 100, (k, d))
    X = true[rng.integers(k, size=n)] + rng.normal(0, 5, (n, d))
    return X, rng.integers(1, 30, n).astype(float)


def objective(X, w, k, seed=0, **options):
    return solve(X, w, k, rng=np.random.default_rng(seed), **options).inertia


class TestToys:
    def test_weights_attract_centers(self):
        """One heavy pair, two light ones far apart: three centers go where the weight is."""
        X = np.array([[0.0], [1.0], [50.0], [51.0], [100.0]])
        heavy = solve(X, np.array([1e6, 1e6, 1, 1, 1]), 3, rng=np.random.default_rng(0))
        assert heavy.centers[:2].ravel().tolist() == [0.0, 1.0]
        light = solve(X, np.ones(5), 3, rng=np.random.default_rng(0))
        assert light.centers.ravel().tolist() == [0.5, 50.5, 100.0]

    @pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 5), (4, 4), (4, 9), (5, 1)])
    def test_few_rows(self, n, k):
        X = np.arange(n, dtype=float)[:, None] ** 2
        found = solve(X, np.ones(n), k, rng=np.random.default_rng(0))
        assert len(found.centers) == min(n, k)
        if k >= n:
            assert found.centers.tolist() == X.tolist()

    def test_all_rows_equal(self):
        found = solve(np.ones((6, 2)), np.ones(6), 3, rng=np.random.default_rng(0))
        assert found.centers.tolist() == [[1.0, 1.0]]
        assert found.counts.tolist() == [6.0]


class TestLaws:
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=15, deadline=None)
    def test_labels_do_not_depend_on_the_order_of_the_rows(self, seed):
        rng = np.random.default_rng(seed)
        X, w = weighted(rng)
        order = rng.permutation(len(X))
        first = solve(X, w, 12, rng=np.random.default_rng(1))
        other = solve(X[order], w[order], 12, rng=np.random.default_rng(1))
        assert (other.labels == first.labels[order]).all()
        assert other.centers == pytest.approx(first.centers, rel=1e-12)

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=15, deadline=None)
    def test_a_weight_counts_as_copies_of_the_row(self, seed):
        rng = np.random.default_rng(seed)
        X, _ = weighted(rng, n=80, k=5)
        w = rng.integers(1, 5, len(X))
        once = solve(X, w.astype(float), 5, rng=np.random.default_rng(1))
        copies = np.repeat(X, w, axis=0)
        often = solve(copies, np.ones(len(copies)), 5, rng=np.random.default_rng(1))
        assert often.centers == pytest.approx(once.centers)
        assert often.counts == pytest.approx(once.counts)

    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6), power=st.integers(-20, 20), shift=st.floats(-1e4, 1e4))
    @settings(max_examples=15, deadline=None)
    def test_scaling_and_translation_do_not_matter(self, seed, power, shift):
        X, w = weighted(np.random.default_rng(seed))
        moved = 2.0**power * (X + shift)
        assert objective(moved, w, 12) == pytest.approx(4.0**power * objective(X, w, 12), rel=1e-3)

    @pytest.mark.parametrize("scale", [1e-99, 1e99])
    def test_very_small_and_very_large_numbers(self, rng, scale):
        X, w = weighted(rng, n=100, k=5)
        first, other = (solve(x, w, 5, rng=np.random.default_rng(0)) for x in (X, scale * X / 100))
        assert (other.labels == first.labels).all()

    def test_the_objective_is_proportional_to_the_weights(self, rng):
        X, w = weighted(rng)
        assert objective(X, 8 * w, 12) == pytest.approx(8 * objective(X, w, 12))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("k", "d", "n"), [(15, 2, 150), (40, 2, 800), (30, 16, 900), (20, 64, 400)]
    )
    def test_not_worse_than_ten_restarts(self, k, d, n):
        """On average over seeds; and at most 5% worse for any seed."""
        ratios = []
        for seed in range(6):
            X, w = weighted(np.random.default_rng(seed), n, k, d)
            ten = KMeans(k, n_init=10, random_state=seed).fit(X, sample_weight=w).inertia_
            ratios.append(objective(X, w, k, seed) / ten)
        assert np.mean(ratios) <= 1 + 1e-9
        assert max(ratios) <= 1.05


class TestEach:
    def test_every_number_of_clusters_down_to_one(self, rng):
        X, w = weighted(rng)
        found = list(solve_each(X, w, 15, rng=rng))
        assert [len(solution.centers) for solution in found] == list(range(15, 0, -1))
        objectives = [solution.inertia for solution in found]
        assert (np.diff(objectives) > 0).all()
        assert objectives[-1] == pytest.approx(
            w @ ((X - np.average(X, axis=0, weights=w)) ** 2).sum(axis=1)
        )

    def test_as_good_as_solving_for_each_number_alone(self, rng):
        X, w = weighted(rng, k=9)
        for solution in solve_each(X, w, 12, rng=rng):
            alone = objective(X, w, len(solution.centers))
            assert solution.inertia <= alone * 1.02

    def test_never_more_centers_than_distinct_rows(self):
        found = list(
            solve_each(np.array([[0.0], [0.0], [3.0]]), np.ones(3), 9, rng=np.random.default_rng(0))
        )
        assert [len(solution.centers) for solution in found] == [2, 1]


@pytest.mark.parametrize("power", [11, 13, 15, 150, 160])
def test_nearly_equal_rows_and_a_distant_one(power, rng):
    near = np.arange(1, 12)[:, None] * 10.0**-power
    found = solve(np.concatenate([[[1.0]], near]), np.ones(12), 4, rng=rng)
    assert found.labels[0] not in found.labels[1:]


class TestSamples:
    """Very many rows are clustered by way of samples; here, many are 2,000."""

    @pytest.fixture(autouse=True)
    def _few_are_many(self, monkeypatch):
        monkeypatch.setattr(solver, "SAMPLE", 500)
        monkeypatch.setattr(solver, "PER_CENTER", 50)

    def test_a_tiny_cluster_that_matters_is_found(self):
        """Two rows of 6,000: hardly in a sample, but dear where no center is near."""
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(at, 1e-3, (1500, 2)) for at in (0.0, 40.0, 80.0, 90.0)])
        X = np.concatenate([X, [[45.0, 40.0], [45.0, 40.001]]])
        found = solve(X, np.ones(len(X)), 5, rng=rng)
        assert found.inertia < 0.02
        assert sorted(found.counts)[0] == 2

    def test_the_order_of_the_rows_does_not_matter(self):
        X, w = weighted(np.random.default_rng(1), n=3000)
        order = np.random.default_rng(2).permutation(len(X))
        one = solve(X, w, 12, rng=np.random.default_rng(0))
        other = solve(X[order], w[order], 12, rng=np.random.default_rng(0))
        assert other.centers == pytest.approx(one.centers)
        assert other.labels.tolist() == one.labels[order].tolist()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kind",
        [
            "normal",
            "uniform",
            "heavy tails",
            "clusters",
            "far rows",
            "clusters of unequal sizes",
            "lattice",
            "surface",
        ],
    )
    def test_never_above_one_start_of_k_means(self, kind):
        rng = np.random.default_rng(3)
        sizes = 1 / np.arange(1, 21) ** 1.5
        X = {
            "normal": rng.normal(size=(5000, 8)),
            "uniform": rng.random((5000, 2)),
            "heavy tails": rng.standard_t(2, size=(5000, 3)),
            "clusters": rng.uniform(0, 20, (20, 4))[rng.integers(20, size=5000)]
            + rng.normal(size=(5000, 4)),
            "far rows": rng.standard_t(2, size=(5000, 16)),
            "clusters of unequal sizes": rng.uniform(0, 20, (20, 4))[
                rng.choice(20, size=5000, p=sizes / sizes.sum())
            ]
            + rng.normal(size=(5000, 4)),
            "lattice": rng.integers(0, 4, (5000, 6)) + rng.normal(0, 0.02, (5000, 6)),
            "surface": np.sin(rng.random((5000, 2)) @ rng.normal(0, 3, (2, 16))),
        }[kind]
        w = rng.uniform(1, 5, len(X))
        ours = solve(X, w, 20, rng=np.random.default_rng(0)).inertia
        theirs = [KMeans(20, n_init=1, random_state=s).fit(X, sample_weight=w) for s in range(4)]
        assert ours <= np.mean([one.inertia_ for one in theirs])


class TestPoorOptima:
    """Poor local optima of Lloyd's iterations."""

    @pytest.mark.parametrize(
        "start",
        [
            [-0.15, 0.1, 15],  # two share the cluster at 0, one lies between those at 10 and 20
            [5, 19.85, 20.1],
            [-0.05, 0.15, 15],
            [0.0, 15.0, 1e6],  # one has no rows
        ],
    )
    def test_one_fit_many_is_split_and_many_fit_one_merged(self, start):
        near = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
        X = np.concatenate([near, near + 10, near + 20])[:, None]
        given = np.array(start, dtype=float)[:, None]
        stuck, found = (improve(X, np.ones(15), given, n_tries=n) for n in (0, 20))
        assert inertia(X, stuck) > 50
        assert inertia(X, found) == pytest.approx(3 * (near**2).sum())
