import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from fedjigsaw import metrics
from fedjigsaw.errors import DataError, ParameterError


def test_mse_and_l2_of_the_paper_agree():
    """Its tables report an MSE of 6.7e6 and an l2 of 1.0e4 for the same runs, with k = 15."""
    true = np.zeros((15, 1)) + np.arange(15)[:, None] * 1e7
    found = true + np.sqrt(6.7e6)
    assert metrics.center_l2(found, true) == pytest.approx(1.0e4, rel=0.01)


def test_order_of_centers_does_not_matter(rng):
    found, true = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    shuffled = found[rng.permutation(6)]
    assert metrics.center_l2(found, true) == pytest.approx(metrics.center_l2(shuffled, true))


def test_matching_minimizes_squares_not_distances():
    # both matchings have a total distance of 4; only one minimizes the sum of squares
    assert metrics.center_mse([[0.0], [1.0]], [[1.0], [4.0]]) == 5.0
    assert metrics.center_mse([[0.0, 0.0], [3.0, 0.0]], [[3.0, 0.0], [4.0, 3.0]]) == pytest.approx(
        9.5
    )


def test_only_matched_centers_count():
    assert metrics.center_l2([[1.0, 0.0]], [[0.0, 0.0], [50.0, 50.0]]) == 1.0
    assert metrics.center_mse([[3.0], [100.0]], [[0.0]]) == 9.0


def test_labels_by_hand():
    labels, classes = [0, 0, 0, 1, 1, 2], ["a", "a", "b", "b", "b", "a"]
    found = metrics.purity(labels_true=classes, labels_pred=labels)
    assert found == pytest.approx(5 / 6)
    assert metrics.purity(labels_true=labels, labels_pred=classes) == pytest.approx(4 / 6)
    joint = np.array([[2, 1], [0, 2], [1, 0]]) / 6
    rows, columns = joint.sum(1), joint.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.nansum(joint * np.log(joint / np.outer(rows, columns)))
    entropies = -(rows * np.log(rows)).sum() - (columns * np.log(columns)).sum()
    for pair in ((labels, classes), (classes, labels)):
        assert metrics.nmi(*pair) == pytest.approx(2 * information / entropies)


def test_ari_does_not_reward_chance(rng):
    labels, classes = rng.integers(10, size=5000), rng.integers(10, size=5000)
    assert abs(metrics.ari(labels, classes)) < 0.01 < metrics.ari(classes, classes) == 1


def test_inertia_by_hand():
    X = [[0.0, 0.0], [4.0, 3.0], [9.0, 0.0]]
    assert metrics.inertia(X, [[0.0, 0.0], [9.0, 0.0]]) == 25
    assert metrics.inertia_ratio(X, [[0.0, 0.0]], [[0.0, 0.0], [9.0, 0.0]]) == (25 + 81) / 25


def test_bad_input():
    with pytest.raises(DataError, match="labels_true and labels_pred differ in length: 2 and 3"):
        metrics.purity(labels_true=[0, 1], labels_pred=[0, 1, 1])
    for call in (([0, 1], [0, 1]), ([0, 1],), ()):
        with pytest.raises(ParameterError, match=r"purity\(labels_true=classes, labels_pred=clu"):
            metrics.purity(*call)
    with pytest.raises(DataError, match="reference centers have inertia 0"):
        metrics.inertia_ratio([[1.0]], [[0.0]], [[1.0]])


def test_inertia_refuses_centers_of_other_columns():
    with pytest.raises(DataError, match="X and centers"):
        metrics.inertia([[1.0], [2.0]], [[1.0, 2.0]])


@pytest.mark.parametrize("metric", [metrics.center_mse, metrics.center_l2, metrics.inertia])
@pytest.mark.parametrize(
    "bad",
    [
        None,
        "abc",
        [["a", "b"]],
        [[1.0, np.nan]],
        [[1.0, np.inf]],
        [[1.0, 1j]],
        [[1.0], [1.0, 2.0]],
        np.zeros((2, 2, 2)),
        [],
        [1.0, 2.0],
        np.zeros((0, 2)),
        csr_matrix(np.ones((2, 2))),
    ],
    ids=str,
)
def test_centers_that_are_no_table_of_numbers(metric, bad):
    good = [[0.0, 1.0], [2.0, 3.0]]
    for call in ((bad, good), (good, bad)):
        with pytest.raises(DataError):
            metric(*call)


@pytest.mark.parametrize("metric", ["purity", "nmi", "ari"])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (3, "1-D, .*got int"),
        ([[0], [1]], r"1-D, .*got shape \(2, 1\)"),
        ([[0], [1, 2]], "rows of different lengths"),
        (pd.Series(["a", None]), "are missing, the first one in row 1"),
        ([0.0, np.nan], "are missing, the first one in row 1"),
        ([0, "a"], "Use only numbers or only strings"),
        ([], "not empty"),
    ],
)
def test_labels_that_are_no_column(metric, bad, words):
    for name, other in (("labels_true", "labels_pred"), ("labels_pred", "labels_true")):
        with pytest.raises(DataError, match=f"{name} of {metric}.*{words}"):
            getattr(metrics, metric)(**{name: bad, other: [0, 1]})
