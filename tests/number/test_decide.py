"""Data of every kind, in cells of five rows: how many clusters are found."""

import numpy as np
import pytest

from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.kmeans import Problem
from fedjigsaw.number.cells import COMPILED_CELLS, Cells, find_cells, n_cells, quantization_variance
from fedjigsaw.number.confidence import Doubt, KFindings, telling_columns
from fedjigsaw.number.decide import choose
from fedjigsaw.number.mixture import MIN_ROWS, from_labels
from fedjigsaw.number.search import agglomerate
from fedjigsaw.number.valleys import BELIEVED, valleys
from reproduction.experiments.sets import HARD_SETS


def cells_of(X, n_clients=5, seed=0):
    """Return the cells of clients that hold every n-th row, and their owners."""
    found = []
    for m in range(n_clients):
        rows = X[m::n_clients]
        problem = Problem(rows, n_cells(len(rows)), np.random.default_rng([seed, m]))
        found += find_cells([problem])
    owners = np.repeat(np.arange(n_clients), [len(s.counts) for s in found])
    arrays = (np.concatenate([getattr(s, n) for s in found]) for n in ("centers", "counts", "sse"))
    return *arrays, owners


def chosen(X, **options):
    centers, counts, sse, owners = cells_of(np.asarray(X, dtype=np.float64))
    return choose(centers, counts, sse, owners=owners, **options)


def confidence(choice, left_out=0.0):
    return KFindings.of(choice, np.arange(choice.k), left_out).confidence


def blobs(rng, centers, sizes, sd=1.0):
    centers = np.asarray(centers, dtype=np.float64)
    y = np.repeat(np.arange(len(centers)), sizes)
    return (
        centers[y]
        + rng.normal(size=(len(y), centers.shape[1])) * np.broadcast_to(sd, len(centers))[y, None]
    )


class TestClusters:
    def test_very_unequal_sizes(self, rng):
        X = blobs(rng, [[0, 0], [9, 0], [0, 9], [9, 9]], [4000, 400, 100, 40])
        choice = chosen(X)
        assert choice.k == 4
        assert confidence(choice) > 0.9
        counts = np.sort(choice.mixture.moments.counts)
        # some outer rows of the smallest belong to the background
        assert counts == pytest.approx([40, 100, 400, 4000], rel=0.1, abs=15)

    def test_elongated(self, rng):
        X = np.concatenate([rng.normal(size=(600, 2)) * [8, 1] + [0, y] for y in (0, 8, 16)])
        choice = chosen(X)
        assert choice.k == 3
        assert (KFindings.of(choice, np.arange(3), 0.0).elongation > 6).all()

    @pytest.mark.slow
    def test_more_than_any_start(self, rng):
        """The search starts with 100 centers, and doubles them."""
        grid = np.stack(np.meshgrid(np.arange(11), np.arange(11)), -1).reshape(-1, 2) * 8.0
        choice = chosen(blobs(rng, grid, [30] * 121))
        assert choice.k == 121
        assert choice.complete

    def test_along_a_line(self, rng):
        assert chosen(blobs(rng, [[0], [7], [14], [21], [28]], [300] * 5)).k == 5

    def test_many_columns(self, rng):
        assert chosen(blobs(rng, rng.normal(size=(6, 100)) * 2, [200] * 6)).k == 6

    def test_background(self, rng):
        X = blobs(rng, [[0, 0], [12, 0], [0, 12]], [500] * 3)
        choice = chosen(np.concatenate([X, rng.uniform(-9, 21, (100, 2))]))
        assert choice.k == 3
        background = KFindings.of(choice, np.arange(3), 0.0).background
        assert background == pytest.approx(100 / 1600, abs=0.02)


class TestNoStructure:
    @pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
    @pytest.mark.parametrize(
        "draw",
        [
            lambda rng: rng.uniform(size=(2000, 2)),
            lambda rng: rng.uniform(size=(2000, 1)),
            lambda rng: rng.normal(size=(2000, 1)),
            lambda rng: rng.normal(size=(2000, 5)),
            lambda rng: rng.exponential(size=(2000, 2)),
            lambda rng: rng.normal(size=(2000, 4)) * [1, 3, 10, 30],
        ],
    )
    def test_one_cluster(self, draw, seed):
        choice = chosen(draw(np.random.default_rng(seed)))
        assert choice.k == 1
        assert choice.valleys.depths == {}

    def test_categories_that_mean_nothing(self, rng):
        """Without the variance that hides steps, every combination is a cluster."""
        X = rng.integers(0, 2, (2000, 4)) * 1.0
        assert chosen(X, quantization=np.full(4, 1 / 6)).k == 1
        assert chosen(X).k > 4

    def test_identical_rows(self):
        assert chosen(np.ones((60, 2))).k == 1

    def test_clients_of_one_row(self, rng):
        """The work grows with the number of such clients, not with its third power."""
        X, n = rng.normal(size=(60, 4)), 60
        choice = choose(X, np.ones(n), np.zeros(n), owners=np.arange(n))
        assert choice.k == 1
        assert len(choice.curve) <= n / MIN_ROWS


class TestDoubt:
    def test_clusters_that_touch(self, rng):
        X = blobs(rng, [[0, 0], [9, 0], [9, 3.0]], [150] * 3)
        findings = KFindings.of(chosen(X), np.arange(chosen(X).k), 0.0)
        assert findings.confidence < 0.95

    def test_clusters_in_few_of_many_columns(self, rng):
        """Cells of five rows cannot show them; the columns can be told."""
        X = blobs(rng, [[-2, 0], [2, 0], [0, 2], [0, -2]], [600] * 4, sd=0.4)
        X = np.column_stack([X / X.std(axis=0), rng.normal(size=(2400, 18))])
        choice = chosen(X)
        findings = KFindings.of(choice, np.arange(choice.k), 0.0)
        assert findings.confidence < 0.5
        assert set(telling_columns(choice.cells)[0]) <= {0, 1}
        assert Doubt.COLUMNS in findings.doubts
        assert "columns seem to have clusters: 0, 1" in findings.advice()[-1]

    def test_rows_that_guards_left_out(self, rng):
        choice = chosen(blobs(rng, [[0, 0], [9, 0]], [500, 500]))
        sure, doubtful = (confidence(choice, n) for n in (0.0, 100.0))
        assert doubtful == pytest.approx(sure / 2)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["irrel01-5d", "b5-256d"])
    def test_pieces_with_valleys_are_no_clusters(self, name):
        """Columns of 0 and 1 divide clusters, and in many columns halves have valleys."""
        data = HARD_SETS[name]
        X = data.rows(1).X
        choice = chosen(X, quantization=quantization_variance(X))
        assert (choice.k, choice.finer) == (data.k, None)

    def test_the_largest_number_allowed(self, rng):
        X = blobs(rng, [[0, 0], [9, 0], [0, 9], [9, 9]], [300] * 4)
        limited = chosen(X, most=3)
        assert limited.k <= 3
        assert not limited.complete
        findings = KFindings.of(limited, np.arange(limited.k), 0.0)
        assert findings.confidence < 0.5
        assert "there may be more" in findings.sentence()
        assert chosen(X, most=4).complete


class TestLaws:
    def test_neither_order_nor_units_matter(self, rng):
        X = blobs(rng, [[0, 0], [9, 0], [0, 9]], [200] * 3)
        centers, counts, sse, owners = cells_of(X)
        first = choose(centers, counts, sse, owners=owners)
        order = rng.permutation(len(counts))
        again = choose(centers[order], counts[order], sse[order], owners=owners[order])
        assert (first.means == again.means).all()
        far = choose(1000 * centers + 5e4, counts, 1e6 * sse, owners=owners)
        assert far.k == first.k == 3
        assert far.means == pytest.approx(1000 * first.means + 5e4)

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", ["round", "any"])
    @pytest.mark.parametrize("apart", [0.0, 5.0])
    def test_columns_that_are_the_same_everywhere_do_not_matter(self, rng, apart, shape):
        """They counted in penalties and averages, and seemed to be the ones with clusters."""
        X = blobs(rng, [[0, 0, 0], [apart, 0, 0]], [500] * 2)
        alone = chosen(X, shape=shape)
        wide = chosen(
            np.column_stack([np.full(1000, 0.1), X, np.full((1000, 5), 7.3)]), shape=shape
        )
        assert alone.k == (2 if apart else 1)
        assert wide.k == alone.k
        assert wide.means[:, 1:4] == pytest.approx(alone.means, abs=1e-6)
        assert wide.means[:, [0, 4]] == pytest.approx(np.array([[0.1, 7.3]] * wide.k))
        assert confidence(wide) == pytest.approx(confidence(alone))
        of_wide, of_alone = (KFindings.of(c, np.arange(c.k), 0.0) for c in (wide, alone))
        assert of_wide.doubts == of_alone.doubts
        assert of_wide.elongation == pytest.approx(of_alone.elongation)

    def test_numbers_of_columns_are_those_of_the_data(self, rng):
        X = blobs(rng, [[-2, 0], [2, 0], [0, 2], [0, -2]], [600] * 4, sd=0.4)
        X = np.column_stack([np.ones((2400, 3)), rng.normal(size=(2400, 18)), X / X.std(axis=0)])
        assert set(telling_columns(chosen(X).cells)[0]) == {21, 22}

    def test_the_curve_has_the_choice(self, rng):
        choice = chosen(blobs(rng, [[0, 0], [9, 0], [0, 9]], [200] * 3))
        k, objective, index = choice.curve.T
        assert 3 in k
        assert index.max() == 0
        assert objective[k == 1] > objective[k == 3]
        assert choice.runner_up in k.tolist()
        assert choice.runner_up != 3

    def test_mergers_are_the_best_of_all_pairs(self, rng):
        """By brute force on six components."""
        X = rng.normal(size=(60, 2)) * 5
        cells = Cells(X, np.full(60, 20.0), np.full(60, 20.0))
        moments = from_labels(cells, np.arange(60) // 10).moments
        costs, merges = agglomerate(cells, moments)
        pairs = [(a, b) for a in range(6) for b in range(a + 1, 6)]
        totals = {}
        for a, b in pairs:
            labels = np.arange(60) // 10
            labels[labels == b] = a
            labels = np.unique(labels, return_inverse=True)[1]
            totals[a, b] = agglomerate(cells, from_labels(cells, labels).moments)[0][0]
        best = min(totals, key=totals.get)
        assert tuple(sorted(merges[0])) == best
        assert costs[1] == pytest.approx(totals[best])

    @pytest.mark.slow
    @pytest.mark.skipif(not installed(), reason="needs numba")
    @pytest.mark.parametrize("d", [2, 10])
    def test_compiled_code_chooses_the_same(self, rng, monkeypatch, d):
        X = np.concatenate([rng.normal(at, 1, (1500, d)) for at in (0, 5 / np.sqrt(d), 9)])
        given = cells_of(X)[:3]
        assert len(given[1]) > COMPILED_CELLS
        found = choose(*given)
        monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")
        plain = choose(*given)
        assert (found.k, found.way, found.criteria) == (plain.k, plain.way, plain.criteria)
        assert found.means == pytest.approx(plain.means, abs=1e-6)
        assert found.curve == pytest.approx(plain.curve, rel=1e-6, abs=1e-3)


class TestValleys:
    @pytest.mark.parametrize(("apart", "found"), [(6.0, True), (4.0, True), (1.5, False)])
    def test_two_gaussians(self, rng, apart, found):
        X = blobs(rng, [[0, 0], [apart, 0]], [800, 800])
        centers, counts, sse, _ = cells_of(X)
        cells = Cells(centers, counts, sse)
        middle = (apart / 2 - cells.middle[0]) / cells.scale
        hills = valleys(cells, from_labels(cells, (cells.points[:, 0] > middle) * 1))
        weakest = hills.depths[0, 1]
        assert (hills.n_groups() == 2) == (weakest >= BELIEVED) == found
        assert hills.closest == (0, 1)
        assert hills.separation() == pytest.approx(1 - np.exp(-(weakest**2) / 8))

    @pytest.mark.parametrize("seed", [*range(5), 35, 48])
    def test_halves_of_a_square_are_not_separate(self, seed):
        """In the last two of 50 squares, chance makes a valley of 2.7 standard errors."""
        X = np.random.default_rng(seed).uniform(size=(2000, 2))
        centers, counts, sse, _ = cells_of(X)
        cells = Cells(centers, counts, sse)
        halves = from_labels(cells, (cells.points[:, 0] > 0) * 1)
        assert valleys(cells, halves).n_groups() == 1


@pytest.mark.slow
@pytest.mark.parametrize(("n_wide", "dropped"), [(150, True), (900, False)])
def test_cells_between_clusters_are_dropped_unless_they_are_most(rng, n_wide, dropped):
    """Few wide cells around two narrow clusters are mixed; many are a cluster themselves."""
    narrow = [rng.normal(at, 0.3, (200, 2)) for at in ((-5, 0), (5, 0))]
    centers = np.concatenate([*narrow, rng.normal(0, 8, (n_wide, 2))])
    owners = np.arange(len(centers)) // 4
    choice = choose(centers, np.full(len(centers), 5.0), np.full(len(centers), 0.5), owners=owners)
    assert (choice.dropped > 0.1) == dropped
    assert (choice.dropped == 0) != dropped


def test_more_columns_than_cells(rng):
    """In columns that hardly differ between cells, the background must not fit better."""
    X = blobs(rng, rng.uniform(0, 10, (4, 400)), [75] * 4)
    choice = chosen(X)
    assert choice.k == 4
    assert choice.mixture.background < 30
