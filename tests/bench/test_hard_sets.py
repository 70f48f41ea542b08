"""The generated sets of the study auto-hard: sizes, true k, and what each of them claims to be."""

from collections import Counter

import numpy as np
import pytest

from fedjigsaw.bench import hard_shapes
from fedjigsaw.bench.hard_sets import HARD_SETS, KINDS, classes_of
from fedjigsaw.datasets import Dataset


@pytest.mark.parametrize("name", HARD_SETS)
class TestEverySet:
    def test_has_its_columns_its_clusters_and_enough_rows(self, name):
        hard = HARD_SETS[name]
        data = hard.draw(seed=3)
        assert data.X.shape == (len(data.y), int(name.rsplit("-", 1)[1].removesuffix("d")))
        assert data.X.dtype == np.float64
        assert np.isfinite(data.X).all()
        assert set(data.y[data.y >= 0]) == set(range(hard.n_clusters))
        assert 2900 <= len(data.X) <= 10_000
        assert hard.kind in KINDS
        assert (hard.n_clusters == 1) == (hard.kind == "no structure")

    def test_depends_on_the_seed_alone(self, name):
        one, same, other = (HARD_SETS[name].draw(seed).X for seed in (3, 3, 4))
        assert one.tobytes() == same.tobytes()
        assert one.tobytes() != other.tobytes()


def test_there_are_64_sets_of_all_kinds_and_15_are_held_out():
    kinds = Counter(hard.kind for hard in HARD_SETS.values())
    assert kinds == {"Gaussian": 32, "no structure": 21, "other": 11}
    assert sum(hard.held_out for hard in HARD_SETS.values()) == 15


def test_gaussian_sets_reach_what_the_study_promises():
    gaussian = [hard for hard in HARD_SETS.values() if hard.kind == "Gaussian"]
    assert max(hard.n_clusters for hard in gaussian) == 150
    columns = {hard.draw(0).X.shape[1] for hard in gaussian}
    assert (min(columns), max(columns)) == (1, 512)
    sizes = np.bincount(HARD_SETS["100to1-3d"].draw(0).y)
    assert sizes.tolist() == [4000, 1000, 200, 40]


def test_centers_are_as_far_apart_as_asked_for():
    centers = hard_shapes.spread_centers(np.random.default_rng(0), 20, 2, gap=6)
    gaps = np.linalg.norm(centers[:, None] - centers, axis=2)[np.triu_indices(20, 1)]
    assert centers.shape == (20, 2)
    assert gaps.min() >= 6


def test_elongated_clusters_have_their_ratio_and_do_not_overlap():
    data = HARD_SETS["elong4par-2d"].draw(1)
    axes = []
    for cluster in range(4):
        values, vectors = np.linalg.eigh(np.cov(data.X[data.y == cluster].T))
        assert np.sqrt(values[1] / values[0]) == pytest.approx(8, rel=0.1)
        axes.append(vectors[:, 1])
    assert all(abs(axes[0] @ other) > 0.99 for other in axes)
    centers, scale = np.zeros((2, 2)), np.eye(2)[None].repeat(2, axis=0)
    assert not hard_shapes._separate(centers, scale)
    assert hard_shapes._separate(np.array([[0.0, 0.0], [5.0, 0.0]]), scale)
    assert not hard_shapes._separate(np.array([[0.0, 0.0], [5.0, 0.0]]), scale * [[8, 0], [0, 1]])


def test_widths_and_rounding():
    data = HARD_SETS["dev5-2d"].draw(1)
    found = [data.X[data.y == cluster].std(axis=0).mean() for cluster in range(5)]
    assert found == pytest.approx([0.5, 1, 2, 3, 4], rel=0.1)
    whole = HARD_SETS["round12-3d"].draw(1).X
    assert (whole == np.round(whole)).all()


def test_columns_without_meaning_do_not_depend_on_the_cluster():
    coins = HARD_SETS["irrel01-5d"].draw(1)
    assert set(np.unique(coins.X[:, 3:])) == {-1.0, 1.0}
    noise = HARD_SETS["2of20-20d"].draw(1)
    means = [noise.X[noise.y == cluster].mean(axis=0) for cluster in range(5)]
    spread = np.ptp(means, axis=0)
    assert (spread[:2] > 1).all()
    assert (spread[2:] < 0.3).all()
    assert noise.X.std(axis=0) == pytest.approx(np.ones(20), rel=0.1)


def test_categories():
    one_hot = HARD_SETS["onehot4-24d"].draw(1).X.reshape(-1, 6, 4)
    assert (one_hot.sum(axis=2) == 1).all()
    answers = HARD_SETS["likert4-10d"].draw(1).X
    assert set(np.unique(answers)) == {1.0, 2.0, 3.0, 4.0, 5.0}


class TestClasses:
    def test_a_background_has_random_classes_and_no_cluster(self):
        data = HARD_SETS["noise5-2d"].draw(1)
        background = data.y == hard_shapes.BACKGROUND
        assert background.sum() == 150
        classes = classes_of(data, seed=1)
        assert (classes[~background] == data.y[~background]).all()
        assert set(classes[background]) == set(range(5))
        assert (data.y[background] == -1).all()

    def test_data_without_structure_are_cut_into_stripes(self):
        X = np.array([[float(i % 20)] for i in range(40)])
        classes = classes_of(Dataset(X, np.zeros(40, dtype=np.int64), None, "one"), seed=0)
        assert (classes == (X[:, 0] // 2)).all()
