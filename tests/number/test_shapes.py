"""Clusters that are not round: labels by likelihood, joined pieces, a label for background rows."""

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import make_moons

from fedjigsaw import Guard, Jigsaw, Model, metrics
from fedjigsaw.errors import FewerClustersWarning, MessageError, ParameterError
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.number import mixture as mixtures
from fedjigsaw.number.cells import Cells
from fedjigsaw.number.shapes import NOISE, ClusterShapes, label_rows

CLIENTS = 4


def fitted(X, n_clusters="auto", **params):
    clients = np.arange(len(X)) % CLIENTS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Jigsaw(n_clusters, random_state=0, **params).fit(X, clients=clients)


@pytest.fixture(scope="module")
def bars():
    """Two long parallel clusters that lie closer to each other than they are long."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal((0, y), (10, 0.5), (600, 2)) for y in (0, 5)])
    return X[rng.permutation(1200)], (X[:, 1] > 2.5)


@pytest.fixture(scope="module")
def spread():
    """Three blobs and a uniform background."""
    rng = np.random.default_rng(1)
    blobs = [rng.normal(at, 0.5, (500, 2)) for at in ((0, 0), (20, 0), (0, 20))]
    X = np.concatenate([*blobs, rng.uniform(-10, 30, (150, 2))])
    y = np.append(np.repeat([0, 1, 2], 500), np.full(150, NOISE))
    order = rng.permutation(len(X))
    return X[order], y[order]


def components(m=3, d=3, seed=0):
    """Random components on random axes, and their covariances."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0][:, : d - 1]
    means, variances = rng.normal(size=(m, d)) * 5, rng.uniform(0.5, 2, m)
    lengths = rng.uniform(1, 9, (m, d - 1))
    turn = np.linalg.qr(rng.normal(size=(m, d - 1, d - 1)))[0]
    pulls = np.einsum("kab,kb,kcb->kac", turn, 1 - 1 / lengths, turn)
    covariances = np.array(
        [np.linalg.inv((np.eye(d) - basis @ a @ basis.T) / v) for a, v in zip(pulls, variances, strict=True)]
    )  # fmt: skip
    offsets = np.array(
        [multivariate_normal(c, s).logpdf(c) for c, s in zip(means, covariances, strict=True)]
    )
    found = ClusterShapes(means, basis, pulls, variances, offsets, np.arange(m), None)
    return found, covariances


def one_component(cells):
    labels = np.zeros(len(cells.counts), dtype=int)
    return mixtures.fit(cells, mixtures.from_labels(cells, labels, 0.01 * cells.n_rows))


@pytest.mark.parametrize("shape", ["elongated", "any"])
def test_a_column_that_is_the_same_everywhere_changes_no_label(spread, shape):
    X, _ = spread
    wide = np.column_stack([X[:, 0], np.full(len(X), 0.1), X[:, 1]])
    of_wide = fitted(wide, shape=shape, noise=True)
    differ = of_wide.labels_ != fitted(X, shape=shape, noise=True).labels_
    assert differ.sum() <= (0 if installed() else 1)  # without numba, a row on a border
    assert of_wide.cluster_centers_[:, 1] == pytest.approx(np.full(3, 0.1))


def test_nearest_centers_load_no_search():
    code = """
import sys
import numpy as np
from fedjigsaw import FeCA, Jigsaw, estimator
for method in (FeCA(3), Jigsaw(3)):
    method.fit(np.arange(40.0)[:, None]).predict([[1.0]])
print([name for name in sys.modules if name.endswith(("number.search", "number.decide"))])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


class TestLogDensities:
    @pytest.mark.parametrize("by_row", [False, True])
    def test_equal_those_of_scipy(self, by_row):
        found, covariances = components()
        rows = np.random.default_rng(1).normal(size=(50, 3)) * 4
        expected = np.column_stack(
            [multivariate_normal(m, c).logpdf(rows) for m, c in zip(found.means, covariances, strict=True)]
        )  # fmt: skip
        np.testing.assert_allclose(found.log_densities(rows, by_row=by_row), expected, rtol=1e-9)

    def test_of_a_row_do_not_depend_on_other_rows(self, monkeypatch):
        found, _ = components(d=20)
        rows = np.random.default_rng(1).normal(size=(200, 20)) * 4
        one_by_one = [found.log_densities(row[None], by_row=True)[0] for row in rows]
        assert np.array_equal(found.log_densities(rows, by_row=True), one_by_one)
        # a matrix product adds up in blocks, which depend on the number of rows
        for name in ("matmul", "einsum"):
            monkeypatch.delattr(np, name)
        assert np.array_equal(found.log_densities(rows, by_row=True), one_by_one)

    def test_values_in_steps_count_as_the_rows_between_them(self):
        """As EM counts them: the mean log density of all values that a step stands for."""
        rng = np.random.default_rng(3)
        centers = rng.integers(0, 9, (60, 2)).astype(float)
        cells = Cells(centers, np.full(60, 5.0), np.zeros(60), np.full(2, 1 / 12))
        mixture = one_component(cells)
        found = ClusterShapes.of(cells, mixture, None, noise=False).log_densities(centers)[:, 0]
        seen = mixtures.log_densities(cells, mixture)[:, 0] - 2 * np.log(cells.scale)
        share = np.log(mixture.moments.counts[0] / cells.n_rows)
        np.testing.assert_allclose(found, seen + share, rtol=1e-9)


class TestLabels:
    def test_nearest_centers_cut_long_clusters_and_shapes_do_not(self, bars):
        X, _ = bars
        y = X[:, 1] > 2.5
        cut = fitted(X, 2)
        assert metrics.ari(y, cut.labels_) < 0.1
        for n_clusters in (2, "auto"):
            whole = fitted(X, n_clusters, shape="elongated")
            assert metrics.ari(y, whole.labels_) == 1
            assert np.allclose(whole.cluster_centers_[:, 0], 0, atol=1)
            assert sorted(whole.cluster_centers_[:, 1].round()) == [0, 5]

    @pytest.mark.slow
    def test_two_moons_are_joined_from_pieces(self):
        X, y = make_moons(2000, noise=0.05, random_state=0)
        found = fitted(X, shape="any")
        assert found.n_clusters_ == 2
        assert metrics.ari(y, found.labels_) > 0.99
        assert metrics.ari(y, fitted(X, 2, shape="any").labels_) > 0.99
        assert metrics.ari(y, fitted(X, 2, shape="elongated").labels_) < 0.9
        assert found.support_["points"].tolist() == pytest.approx([1000, 1000], abs=20)
        assert len(found.support_["separation"]) == 2

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", ["round", "elongated", "any"])
    @pytest.mark.parametrize("n_clusters", [3, "auto"])
    def test_background_rows_belong_to_no_cluster(self, spread, shape, n_clusters):
        X, y = spread
        found = fitted(X, n_clusters, shape=shape, noise=True)
        assert found.n_clusters_ == 3
        assert metrics.ari(y, found.labels_) > 0.97
        assert (found.labels_[y == NOISE] == NOISE).mean() > 0.9
        assert (found.labels_[y != NOISE] != NOISE).mean() > 0.98
        assert sorted(set(found.labels_)) == [NOISE, 0, 1, 2]
        # the means are those of the rows inside, not pulled by the background
        true = [X[y == k].mean(axis=0) for k in range(3)]
        assert metrics.center_mse(found.cluster_centers_, np.array(true)) < 0.01
        assert np.allclose(found.support_["points"], 500, atol=25)
        without = fitted(X, n_clusters, shape=shape)
        assert (without.labels_ != NOISE).all()

    @pytest.mark.parametrize("params", [{"shape": "elongated"}, {"shape": "any", "noise": True}])
    def test_predict_equals_labels_and_the_inertia_is_to_nearest_centers(self, spread, params):
        X, _ = spread
        found = fitted(X, **params)
        assert np.array_equal(found.predict(X), found.labels_)
        assert found.inertia_ == -found.score(X)
        assert found.objective_ >= found.inertia_ * (1 - 1e-12)
        clients = np.arange(len(X)) % CLIENTS
        local = found.predict(X, clients=clients)
        assert metrics.ari(local, found.labels_) > 0.9

    def test_local_labels_are_those_of_the_likeliest_cluster_of_a_cell(self, bars):
        X, _ = bars
        found = fitted(X, 2, shape="elongated", assign="local")
        assert metrics.ari(X[:, 1] > 2.5, found.labels_) == 1

    def test_round_clusters_have_the_bits_of_nearest_centers(self, spread):
        X, _ = spread
        model = fitted(X, 3).model_
        assert not any(name.startswith("shape_") for name in model.tensors)
        labeled = label_rows(model, X)
        assert labeled.distances is labeled.nearest

    def test_noise_rows_are_in_no_profile(self, spread):
        X, _ = spread
        found = fitted(X, 3, noise=True)
        profile = found.profile_
        sizes = profile[profile["column"] == "x0"].set_index("cluster")["rows"]
        assert sizes.tolist() == np.bincount(found.labels_[found.labels_ >= 0]).tolist()

    def test_under_a_guard(self, spread):
        X, y = spread
        clients = np.arange(len(X)) % CLIENTS
        found = Jigsaw(3, shape="elongated", noise=True, random_state=0)
        found.fit(X, clients=clients, guard=Guard())
        assert metrics.ari(y, found.labels_) > 0.95
        sent = found.summaries_[0]
        assert set(sent.tensors) <= {"quantization", "left_out"}
        assert sent.counts.min() >= 5

    @pytest.mark.slow
    def test_of_a_given_number_that_no_mixture_has(self):
        """More clusters than the criterion wants, and fewer."""
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(20 * i, 1, (200, 2)) for i in range(5)])
        for n_clusters in (1, 3, 30):
            for shape in ("elongated", "any"):
                found = fitted(X, n_clusters, shape=shape)
                assert found.n_clusters_ == n_clusters
        three = fitted(X, 3, shape="any").labels_
        assert all(len(set(three[200 * i : 200 * i + 200])) == 1 for i in range(5))

    def test_of_few_rows(self):
        X = np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]])
        found = Jigsaw(2, shape="elongated", random_state=0).fit(X)
        assert found.labels_.tolist() == [0, 0, 1, 1]
        same = Jigsaw(1, shape="any", noise=True, random_state=0).fit(np.ones((6, 2)))
        assert same.labels_.tolist() == [0] * 6


class TestNumberGiven:
    @pytest.mark.slow
    @pytest.mark.parametrize("shape", ["elongated", "any"])
    def test_clusters_that_overlap_are_as_good_as_those_of_k_means(self, shape):
        """With "any", two of them are now and then one: there is hardly a valley between."""
        worse = 0
        places = np.repeat([[0, 0], [2.5, 0], [0, 2.5]], 300, axis=0)
        y, clients = np.arange(900) // 300, np.arange(900) % 4
        for seed in range(8):
            X = np.random.default_rng(seed).normal(size=(900, 2)) + places
            found, own = (
                metrics.ari(y, Jigsaw(3, shape=s, random_state=0).fit(X, clients=clients).labels_)
                for s in (shape, "round")
            )
            worse += found <= own - 0.05
        assert worse <= (2 if shape == "any" else 0)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [1, 2, 3, 4])
    def test_in_many_columns_clusters_are_no_tiny_ones(self, seed):
        rng = np.random.default_rng(seed)
        places = np.zeros((4, 10))
        places[np.arange(4), np.arange(4)] = 1.6
        X = rng.normal(size=(2000, 10)) + places.repeat(500, axis=0)
        sizes = np.bincount(fitted(X, 4, shape="elongated").labels_, minlength=4)
        assert sizes.min() > 200

    def test_components_without_rows_are_told(self):
        X = np.random.default_rng(0).normal(size=(1000, 10))
        with pytest.warns(FewerClustersWarning, match="[12] of 3 clusters? ha(s|ve) hardly any"):
            found = Jigsaw(3, shape="elongated", random_state=0).fit(X, clients=np.arange(1000) % 4)
        assert np.bincount(found.labels_, minlength=3).min() <= 3  # of 1000: hardly any
        empty = found.support_["points"] == 0
        assert (found.support_["margin"][empty] == 0).all()

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", ["round", "elongated", "any"])
    @pytest.mark.filterwarnings("ignore::fedjigsaw.errors.UncertainNumberWarning")
    def test_a_limit_that_joins_clusters_is_told(self, shape):
        rng, places = np.random.default_rng(0), 12 * np.indices((3, 3)).reshape(2, -1).T
        X = rng.normal(size=(900, 2)) + places[np.arange(900) % 9]
        for most, words in ((4, "the search ended at its limit"), (9, "")):
            found = Jigsaw("auto", max_clusters=most, shape=shape, random_state=0)
            found.fit(X, clients=np.arange(900) % 5)
            assert found.n_clusters_ == most
            assert words in found.k_sentence_
            assert (found.k_confidence_ < 0.5) is (most == 4)
            assert any("raise max_clusters" in a for a in found.k_advice_) is (most == 4)


class TestParameters:
    @pytest.mark.parametrize("params", [{"shape": "any"}, {"noise": True}])
    def test_need_a_single_round(self, params):
        with pytest.raises(ParameterError, match="shape and noise require n_rounds=1"):
            Jigsaw(3, n_rounds=2, **params).fit(np.eye(9))

    def test_have_rules(self):
        with pytest.raises(ParameterError, match="'round', 'elongated', 'any'"):
            Jigsaw(3, shape="square").fit(np.eye(9))


class TestModelsOfOthers:
    def model(self, **changes):
        found, _ = components()
        tensors = {**found.tensors(), "shape_background": np.array([-9.0]), **changes}
        return Model(found.means, tensors={n: t for n, t in tensors.items() if t is not None})

    def test_are_read_as_they_were_written(self):
        model = self.model()
        found = ClusterShapes.from_model(model)
        assert found.background == -9
        for name, tensor in found.tensors().items():
            assert np.array_equal(tensor, model.tensors[name])

    @pytest.mark.parametrize(
        ("name", "tensor"),
        [
            ("shape_means", np.zeros((2, 3))),
            ("shape_means", np.zeros(3)),
            ("shape_means", np.zeros((0, 3))),
            ("shape_means", np.full((3, 3), np.nan)),
            ("shape_basis", np.zeros((3, 21))),
            ("shape_basis", np.full((3, 2), np.inf)),
            ("shape_basis", None),
            ("shape_pulls", np.zeros((3, 2, 3))),
            ("shape_pulls", np.full((3, 2, 2), 1e9)),
            ("shape_variances", np.zeros(3)),
            ("shape_variances", -np.ones(3)),
            ("shape_variances", None),
            ("shape_offsets", np.full(3, np.inf)),
            ("shape_clusters", np.array([0, 1, 3])),
            ("shape_clusters", np.array([0, -1, 1])),
            ("shape_clusters", np.array([0.0, 0.5, 1.0])),
            ("shape_background", np.zeros(2)),
        ],
    )
    def test_with_bad_tensors_are_refused(self, name, tensor):
        with pytest.raises(MessageError, match="a model"):
            label_rows(self.model(**{name: tensor}), np.zeros((2, 3)))

    def test_rows_far_away_are_labeled_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            labels = label_rows(self.model(), np.full((2, 3), 1e99)).labels
        assert labels.tolist() == [NOISE, NOISE]

    def test_memory_is_bounded(self, monkeypatch):
        seen = []
        densities = ClusterShapes.log_densities
        monkeypatch.setattr(
            ClusterShapes,
            "log_densities",
            lambda self, rows, **more: seen.append(len(rows)) or densities(self, rows, **more),
        )
        label_rows(self.model(), np.zeros((300_000, 3)))
        assert len(seen) > 1
        assert max(seen) * (9 + 3) <= 2**20

    def test_clusters_of_whole_numbers_in_another_order(self):
        model = self.model(shape_clusters=np.array([2, 0, 1]))
        rows = np.array(model.tensors["shape_means"])
        assert label_rows(model, rows).labels.tolist() == [2, 0, 1]
        turned = replace(model, centers=model.centers[[1, 2, 0]])
        assert np.allclose(label_rows(turned, rows).distances, 0)
        away, nearest = label_rows(model, rows)[1:]
        assert np.allclose(away, np.linalg.norm(rows - rows[[2, 0, 1]], axis=1))
        assert np.allclose(nearest, 0)
