import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedjigsaw.kernels.compiled import installed
from fedjigsaw.number.cells import Cells
from fedjigsaw.number.mixture import (
    fit,
    from_labels,
    log_densities,
)


def cells_of(X, labels):
    """Return the cells of rows, computed row by row."""
    found = [X[labels == i] for i in np.unique(labels)]
    centers = np.array([rows.mean(axis=0) for rows in found])
    counts = np.array([float(len(rows)) for rows in found])
    sse = np.array([((rows - rows.mean(axis=0)) ** 2).sum() for rows in found])
    return centers, counts, sse


@pytest.fixture
def blobs(rng):
    """Two clusters in three columns, one round and one long, as cells of five rows."""
    X = np.concatenate(
        [rng.normal(size=(500, 3)), rng.normal(size=(500, 3)) * [9, 1, 1] + [0, 20, 0]]
    )
    return X, np.repeat(np.arange(200), 5)


class TestMoments:
    def test_those_of_the_rows(self, blobs):
        """Between cells, scatter is exact; within them, it counts as round."""
        X, labels = blobs
        cells = Cells(*cells_of(X, labels))
        moments = from_labels(cells, np.repeat([0, 1], 100)).moments
        for j, rows in enumerate((X[:500], X[500:])):
            scaled = (rows - cells.middle) / cells.scale
            assert moments.counts[j] == 500
            assert moments.means[j] == pytest.approx(scaled.mean(axis=0))
            scatter = 500 * np.cov(scaled.T, bias=True)
            assert moments.traces[j] == pytest.approx(np.trace(scatter))
            assert np.trace(moments.scatters[j]) == pytest.approx(np.trace(scatter))

    def test_grain_widens_every_component(self, blobs):
        X, labels = blobs
        plain, coarse = (Cells(*cells_of(X, labels), g) for g in (None, np.array([0, 2.0, 0])))
        a, b = (from_labels(c, np.zeros(200, dtype=np.int64)).moments for c in (plain, coarse))
        assert b.traces[0] - a.traces[0] == pytest.approx(1000 * 2.0 / plain.scale**2)
        assert b.scatters[0, 1, 1] - a.scatters[0, 1, 1] == pytest.approx(2000 / plain.scale**2)


def covariance(cells, mixture, j):
    shapes, basis = mixture.shapes, cells.basis
    inverse = np.eye(cells.n_columns) - basis @ shapes.pulls[j] @ basis.T
    return np.linalg.inv(inverse / shapes.variances[j])


class TestShapes:
    def test_as_many_free_axes_as_pay(self, blobs):
        X, _ = blobs
        cells = Cells(X, np.ones(1000), np.zeros(1000))
        mixture = from_labels(cells, np.repeat([0, 1], 500))
        assert mixture.shapes.n_free.tolist() == [0, 1]
        long = np.sqrt(mixture.shapes.longest[1] / mixture.shapes.variances[1])
        assert long == pytest.approx(9, rel=0.1)

    @pytest.mark.parametrize("d", [1, 2, 5, 30])
    def test_determinant_and_trace(self, rng, d):
        X = rng.normal(size=(2000, d)) * np.geomspace(1, 9, d)
        cells = Cells(X, np.ones(2000), np.zeros(2000))
        mixture = from_labels(cells, np.arange(2000) % 2)
        for j in range(2):
            dense = covariance(cells, mixture, j)
            assert mixture.shapes.log_dets[j] == pytest.approx(np.linalg.slogdet(dense)[1])
            inverse = np.trace(np.linalg.inv(dense))
            assert mixture.shapes.inverse_traces[j] == pytest.approx(inverse)

    @pytest.mark.parametrize("d", [1, 3, 30])
    def test_densities_are_scipys(self, rng, d):
        X = rng.normal(size=(600, d)) * np.geomspace(1, 20, d)
        cells = Cells(X, np.ones(600), np.zeros(600))
        mixture = from_labels(cells, np.arange(600) % 2)
        ours = log_densities(cells, mixture)
        for j in range(2):
            mean, dense = mixture.moments.means[j], covariance(cells, mixture, j)
            theirs = multivariate_normal(mean, (dense + dense.T) / 2).logpdf(cells.points)
            assert ours[:, j] == pytest.approx(theirs, rel=1e-6, abs=1e-6)

    def test_a_cell_has_the_mean_density_of_its_rows(self, rng):
        """Exact for a round component: the cell's own scatter is added."""
        X = rng.normal(size=(400, 2))
        rows = Cells(X, np.ones(400), np.zeros(400))
        mixture = from_labels(rows, np.zeros(400, dtype=np.int64))
        assert mixture.shapes.n_free.tolist() == [0]
        cells = Cells(*cells_of(X, np.repeat(np.arange(80), 5)))
        mean = log_densities(rows, mixture)[:, 0].reshape(80, 5).mean(axis=1)
        assert log_densities(cells, mixture)[:, 0] == pytest.approx(mean, rel=1e-6)


class TestFit:
    def test_no_step_loses(self, blobs):
        X, labels = blobs
        cells = Cells(*cells_of(X, labels))
        start = from_labels(cells, np.arange(200) % 4, background=10.0)
        bics = [fit(cells, start, max_iter=n).bic for n in range(1, 12)]
        # the BIC follows the likelihood, since the number of free axes settles
        assert (np.diff(bics[3:]) < 1e-6).all()

    def test_two_clusters_from_a_poor_start(self, blobs):
        X, labels = blobs
        cells = Cells(*cells_of(X, labels))
        found = fit(cells, from_labels(cells, (np.arange(200) > 120) * 1), max_iter=50)
        means = np.sort(found.moments.means[:, 1] * cells.scale + cells.middle[1])
        assert means == pytest.approx([0, 20], abs=0.2)
        assert found.shares.shape == (200, 3)
        assert found.shares.sum(axis=1) == pytest.approx(np.ones(200))

    def test_background_takes_what_fits_nowhere(self, rng):
        noise = rng.uniform(-50, 50, (100, 2))
        X = np.concatenate([rng.normal(size=(900, 2)), noise])
        cells = Cells(X, np.ones(1000), np.zeros(1000))
        found = fit(cells, from_labels(cells, np.zeros(1000, dtype=np.int64), 10.0), max_iter=60)
        assert found.background == pytest.approx(100, abs=12)
        assert (found.owners[900:] == 1).mean() > 0.9

    def test_a_component_without_rows_goes(self, blobs):
        X, labels = blobs
        cells = Cells(*cells_of(X, labels))
        start = from_labels(cells, np.where(np.arange(200) == 0, 2, np.repeat([0, 1], 100)))
        assert len(fit(cells, start)) == 2


@pytest.mark.skipif(not installed(), reason="needs numba")
class TestCompiled:
    """Compiled code does what NumPy does."""

    @pytest.fixture(params=[(1, False), (2, False), (2, True), (12, True), (25, True)])
    def both(self, request, rng):
        """The same cells for NumPy and for compiled code, and labels of two thirds of them."""
        d, grained = request.param
        centers = rng.normal(size=(6, d)) * 9 / np.sqrt(d)
        labels = rng.integers(6, size=700)
        points = centers[labels] + rng.normal(size=(700, d)) * np.append(3.0, np.ones(d - 1))
        grain = rng.random(d) if grained else None
        received = points, rng.integers(1, 9, 700) * 1.0, rng.random(700), grain
        plain, fast = Cells(*received), Cells(*received)
        vars(plain)["fast"] = False
        assert fast.fast
        return plain, fast, np.where(rng.random(700) < 1 / 3, -1, labels)

    def test_moments_and_shapes(self, both):
        plain, fast, labels = both
        start, same = (from_labels(cells, labels) for cells in (plain, fast))
        for part in ("moments", "shapes"):
            expected, found = vars(getattr(start, part)), vars(getattr(same, part))
            assert set(found) == set(expected)
            for name, values in expected.items():
                assert found[name] == pytest.approx(values, rel=1e-9, abs=1e-9), name
        assert start.shapes.n_free.any() or plain.n_columns == 1

    def test_em(self, both):
        plain, fast, labels = both
        start, same = (from_labels(cells, labels, 20.0) for cells in (plain, fast))
        expected, found = fit(plain, start), fit(fast, same)
        assert found.bic == pytest.approx(expected.bic, rel=1e-9)
        assert found.background == pytest.approx(expected.background, rel=1e-6)
        assert np.allclose(found.shares, expected.shares, rtol=0, atol=1e-6)
        assert found.shares.sum(axis=1) == pytest.approx(np.ones(700), rel=1e-12)
