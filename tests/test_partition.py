from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from fedjigsaw import partition
from fedjigsaw.errors import DataError, ParameterError

LABELS = np.repeat(np.arange(10), 50)
ROWS = np.random.default_rng(3).normal(size=(500, 3)) * [1.0, 5.0, 2.0]
SPLITS = {
    "iid": lambda rng: partition.iid(500, 7, rng=rng),
    "dirichlet": lambda rng: partition.dirichlet(LABELS, 7, alpha=0.5, rng=rng),
    "shards": lambda rng: partition.shards(LABELS, 7, rng=rng),
    "quantity": lambda rng: partition.quantity(500, 7, alpha=0.5, rng=rng),
    "features": lambda rng: partition.features(ROWS, 7, rng=rng, mix=0.3),
}


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())
def test_every_row_has_one_client_which_depends_on_the_seed(split):
    ids = split(0)
    assert ids.shape == (500,)
    assert set(ids) == set(range(7))
    assert (ids == split(0)).all()
    assert (ids == split(np.random.default_rng(0))).all()
    assert (ids != split(1)).any()


OPTIONS = {
    "alpha": 0.5,
    "min_size": 3,
    "shards_per_client": 4,
    "X": ROWS,
    "direction": 0,
    "mix": 0.1,
    "values": LABELS % 3,
}
OTHERS = {
    "alpha": 5.0,
    "min_size": 50,
    "shards_per_client": 1,
    "X": -ROWS,
    "direction": 1,
    "mix": 0.9,
    "values": LABELS % 4,
}


class TestSplit:
    @pytest.mark.parametrize("name", partition.SPLITS)
    def test_is_the_function_of_that_name_with_its_options(self, name):
        expected = {
            "iid": partition.iid(500, 7, rng=1),
            "dirichlet": partition.dirichlet(LABELS, 7, alpha=0.5, rng=1, min_size=3),
            "shards": partition.shards(LABELS, 7, rng=1, shards_per_client=4),
            "quantity": partition.quantity(500, 7, alpha=0.5, rng=1, min_size=3),
            "features": partition.features(ROWS, 7, rng=1, direction=0, mix=0.1),
            "column": LABELS % 3,
        }
        found = partition.split(name, LABELS, 7, rng=1, **OPTIONS)
        assert (found == expected[name]).all()

    @pytest.mark.parametrize("name", partition.SPLITS)
    def test_uses_exactly_the_options_that_are_listed(self, name):
        def ids(**changed):
            options = {**OPTIONS, **changed}
            return partition.split(name, LABELS, 7, rng=1, **options).tolist()

        used = {option for option, value in OTHERS.items() if ids(**{option: value}) != ids()}
        assert used == set(partition.SPLITS[name])

    @pytest.mark.parametrize("name", partition.SPLITS)
    def test_only_splits_by_class_look_at_the_classes(self, name):
        found = [
            partition.split(name, labels, 7, rng=1, **OPTIONS).tolist()
            for labels in (LABELS, LABELS[::-1] % 4)
        ]
        assert (found[0] == found[1]) == (name in partition.WITHOUT_CLASSES)

    def test_unknown_name(self):
        with pytest.raises(ParameterError, match="name of split"):
            partition.split("even", LABELS, 7, rng=0)


class TestOwnSplits:
    @pytest.fixture(autouse=True)
    def nothing_stays(self, monkeypatch):
        monkeypatch.setattr(partition, "SPLITS", dict(partition.SPLITS))
        monkeypatch.setattr(partition, "_own", {})
        monkeypatch.setattr(partition, "WITHOUT_CLASSES", list(partition.WITHOUT_CLASSES))

    @staticmethod
    def by_sign(X, labels, n_clients, rng):
        return (X[:, 0] > 0).astype(int)

    def test_a_function_gets_rows_classes_number_and_random_numbers(self):
        def own(X, labels, n_clients, rng):
            assert X is ROWS
            assert labels is LABELS
            return rng.integers(n_clients, size=len(labels))

        first, again, other = (partition.split(own, LABELS, 7, rng=s, X=ROWS) for s in (0, 0, 1))
        assert (first == again).all()
        assert (first != other).any()
        assert set(first) == set(range(7))

    def test_a_registered_one_has_a_name(self):
        partition.register(self.by_sign, name="by-sign")
        assert list(partition.SPLITS)[-1] == "by-sign"
        found = partition.split("by-sign", LABELS, 7, rng=0, X=ROWS)
        assert (found == (ROWS[:, 0] > 0)).all()
        partition.register(lambda X, y, n, rng: np.zeros(len(y), int), name="by-sign")  # anew
        assert not partition.split("by-sign", LABELS, 7, rng=0).any()

    def test_clients_may_have_names(self):
        found = partition.split(
            lambda X, y, n, rng: np.where(y > 4, "Bern", "Oslo"), LABELS, 2, rng=0
        )
        assert set(found.tolist()) == {"Bern", "Oslo"}
        frame = pd.DataFrame({"town": np.where(LABELS > 4, "Bern", "Oslo")})
        again = partition.split(lambda X, y, n, rng: X["town"], LABELS, 2, rng=0, X=frame)
        assert again.tolist() == found.tolist()

    def test_the_package_is_not_replaced(self):
        with pytest.raises(ParameterError, match="'iid' is a split of the package"):
            partition.register(self.by_sign, name="iid")

    @pytest.mark.parametrize(
        ("result", "words"),
        [
            (np.zeros(3, int), r"one for each of the 500 rows; got shape \(3,\)"),
            (np.zeros(500), "integers or strings; got float64"),
            (np.zeros((500, 2), int), "shape"),
            ([[0]] * 499 + [[0, 1]], "rows of different lengths"),
            ([0] * 499 + ["a"], "integers or strings; got object"),
            (None, "got NoneType"),
        ],
    )
    def test_bad(self, result, words):
        def own_split(X, labels, n_clients, rng):
            return result

        with pytest.raises(DataError, match=f"clients of own_split must be .*{words}"):
            partition.split(own_split, LABELS, 7, rng=0)


class TestQuantity:
    @pytest.mark.parametrize("min_size", [0, 1, 10, 20])
    def test_respects_min_size(self, min_size):
        ids = partition.quantity(500, 8, alpha=0.5, rng=1, min_size=min_size)
        assert np.bincount(ids, minlength=8).min() >= min_size

    def test_small_alpha_means_few_large_clients_and_a_large_one_equal_ones(self):
        def largest(alpha):
            ids = partition.quantity(5000, 10, alpha=alpha, rng=0, min_size=0)
            return np.bincount(ids, minlength=10).max()

        assert largest(1e6) <= 505
        assert 600 < largest(1.0) < largest(0.01)
        assert largest(1e-3) > 4900

    def test_classes_stay_in_proportion(self):
        ids = partition.quantity(500, 3, alpha=1.0, rng=0, min_size=100)
        for m in range(3):
            shares = np.bincount(LABELS[ids == m], minlength=10) / (ids == m).sum()
            assert abs(shares - 0.1).max() < 0.1

    def test_sizes_have_the_mean_and_variance_of_a_dirichlet(self):
        sizes = [
            np.bincount(partition.quantity(1000, 4, alpha=0.5, rng=s, min_size=0), minlength=4)
            for s in range(600)
        ]
        shares = np.array(sizes) / 1000
        assert shares.mean(axis=0) == pytest.approx(0.25, abs=0.04)
        assert shares.var(axis=0) == pytest.approx(0.25 * 0.75 / 3, abs=0.012)

    @pytest.mark.parametrize("n_clients", [1, 500])
    def test_one_client_and_as_many_as_rows(self, n_clients):
        ids = partition.quantity(500, n_clients, alpha=1e6, rng=0, min_size=0)
        assert len(ids) == 500
        assert set(partition.quantity(500, 1, alpha=0.1, rng=0)) == {0}


class TestFeatures:
    def test_clients_are_intervals_of_the_direction(self):
        for direction, place in ((2, ROWS[:, 2]), ([1.0, 0.0, -2.0], ROWS @ [1.0, 0.0, -2.0])):
            ids = partition.features(ROWS, 5, rng=0, direction=direction)
            ends = [(place[ids == m].min(), place[ids == m].max()) for m in range(5)]
            assert all(a[1] < b[0] for a, b in pairwise(ends))

    def test_sizes_are_even_whatever_is_mixed(self):
        for mix in (0.0, 0.3, 1.0):
            sizes = np.bincount(partition.features(ROWS, 7, rng=0, mix=mix))
            assert sizes.max() - sizes.min() <= 1

    def test_the_principal_direction_is_that_of_the_largest_variance(self):
        ids = partition.features(ROWS, 4, rng=0)
        along = partition.features(ROWS, 4, rng=0, direction=1)
        assert np.mean(ids == along) > 0.9  # the column with the largest spread
        shifted = partition.features(ROWS + 1e3, 4, rng=0)
        assert (ids == shifted).mean() > 0.99

    def test_by_hand(self):
        X = [[4.0, 0.0], [3.0, 9.0], [1.0, 5.0], [2.0, 1.0]]
        assert partition.features(X, 2, rng=0, direction=0).tolist() == [1, 1, 0, 0]
        assert partition.features(X, 2, rng=0, direction=1).tolist() == [0, 1, 1, 0]
        assert partition.features(X, 4, rng=0, direction=[-1, 0]).tolist() == [0, 1, 3, 2]

    def test_mixing_goes_from_regions_to_even(self):
        def apart(mix):
            ids = partition.features(ROWS, 5, rng=0, direction=1, mix=mix)
            means = [ROWS[ids == m, 1].mean() for m in range(5)]
            return np.std(means)

        assert apart(0.0) > apart(0.5) > apart(1.0)
        assert apart(1.0) < 0.2 * apart(0.0)

    def test_equal_rows_are_dealt_at_random(self):
        ids = partition.features(np.zeros((1000, 2)), 2, rng=0)
        assert 0.4 < ids[:500].mean() < 0.6


def test_a_column_has_a_client_for_each_value():
    towns = np.array(["Oslo", "Bern", "Oslo", "Lyon"])
    ids = partition.column(towns)
    assert ids.tolist() == [2, 0, 2, 1]
    assert ((ids[:, None] == ids) == (towns[:, None] == towns)).all()
    assert partition.column([2.5, -1, 2.5]).tolist() == [1, 0, 1]


def test_iid_is_even_and_mixes_classes():
    ids = partition.iid(500, 10, rng=0)
    assert (np.bincount(ids) == 50).all()
    assert all(len(set(LABELS[ids == m])) >= 8 for m in range(10))


@pytest.mark.parametrize("min_size", [0, 1, 20, 50])
def test_dirichlet_respects_min_size(min_size):
    ids = partition.dirichlet(LABELS, 8, alpha=0.5, rng=1, min_size=min_size)
    assert np.bincount(ids, minlength=8).min() >= min_size


def test_small_alpha_means_few_classes_per_client():
    def classes_seen(alpha):
        ids = partition.dirichlet(LABELS, 10, alpha=alpha, rng=0)
        counts = np.array([np.bincount(LABELS[ids == m], minlength=10) for m in range(10)])
        return (counts.max(axis=1) / counts.sum(axis=1)).mean()

    assert classes_seen(100.0) < 0.2 < classes_seen(0.3) < classes_seen(0.05)


def test_dirichlet_proportions_have_the_right_mean_and_variance():
    """The share of a class that a client gets has mean 1/M and variance (1/M)(1-1/M)/(M alpha+1)."""
    labels = np.zeros(1000, dtype=int)
    shares = np.array(
        [
            np.bincount(partition.dirichlet(labels, 4, alpha=0.5, rng=s, min_size=0), minlength=4)
            for s in range(600)
        ]
    )
    shares = shares / 1000
    assert shares.mean(axis=0) == pytest.approx(0.25, abs=0.04)
    assert shares.var(axis=0) == pytest.approx(0.25 * 0.75 / 3, abs=0.012)


def test_rows_of_a_class_are_assigned_at_random():
    """The position of a row within its class does not determine its client."""
    labels = np.zeros(2000, dtype=int)
    for ids in (
        partition.dirichlet(labels, 2, alpha=100.0, rng=0),
        partition.shards(labels, 2, rng=0, shards_per_client=1),
    ):
        assert 0.4 < ids[:1000].mean() < 0.6


def test_labels_may_be_text():
    ids = partition.dirichlet(["x", "y"] * 20, 3, alpha=1.0, rng=0)
    assert ids.shape == (40,)


@pytest.mark.parametrize("per_client", [1, 2])
def test_shards_limit_the_classes_of_a_client(per_client):
    ids = partition.shards(LABELS, 10 // per_client, rng=0, shards_per_client=per_client)
    for m in range(10 // per_client):
        assert len(set(LABELS[ids == m])) <= per_client


def test_shards_are_even():
    sizes = np.bincount(partition.shards(LABELS, 7, rng=0, shards_per_client=3))
    assert sizes.max() - sizes.min() <= 3


BAD = [
    (lambda: partition.iid(1, 4, rng=0), "Cannot split 1 sample among 4"),
    (lambda: partition.iid(3, 0, rng=0), "n_clients"),
    (lambda: partition.iid(0, 1, rng=0), "n_samples"),
    (lambda: partition.iid(3, 1, rng="x"), "rng of iid .* or a numpy Gen"),
    (lambda: partition.quantity(9, 3, alpha=0.0, rng=0), "alpha of quantity"),
    (lambda: partition.quantity(3, 4, rng=0), "Cannot split 3 samples among 4"),
    (lambda: partition.quantity(0, 1, rng=0), "n_samples of quantity"),
    (lambda: partition.quantity(10**30, 3, rng=0), "n_samples of quantity"),
    (lambda: partition.quantity(9, 3, rng=0, min_size=4), "n_clients = 3"),
    (lambda: partition.features(ROWS, 3, rng=0, mix=1.5), "mix of features"),
    (lambda: partition.features(ROWS, 3, rng=0, direction=3), "direction of features"),
    (lambda: partition.features(ROWS, 3, rng=0, direction="x"), "got 'x'"),
    (lambda: partition.features(ROWS, 3, rng=0, direction=[0, 0, 0]), "direction"),
    (lambda: partition.split("features", [0], 1, rng=0), "needs the rows, X"),
    (lambda: partition.split(["iid"], [0], 1, rng=0), "name of split"),
    (lambda: partition.split(len, [0], "a", rng=0), "n_clients of len"),
    (lambda: partition.register("iid"), "function of register .*got 'iid'"),
    (lambda: partition.register(len, name=3), "name of register"),
    (lambda: partition.dirichlet(LABELS, 2, alpha=0, rng=0), "alpha .* >= 0.001"),
    (lambda: partition.dirichlet(LABELS, 2, alpha=1e9, rng=0), r"<= 1e\+06"),
    (lambda: partition.dirichlet(LABELS, 2, alpha=1, rng=0, min_size=251), "min_size of dirichlet"),
    (lambda: partition.shards(LABELS, 2, rng=0, shards_per_client=0), "shards_per_client"),
    (lambda: partition.shards([0, 1], 2, rng=0, shards_per_client=2), "n_samples / n_clients = 1;"),
]
BAD_DATA = [
    (lambda: partition.features(ROWS[0], 3, rng=0), "partition.features .*Reshape"),
    (lambda: partition.features([[1.0, np.nan]], 1, rng=0), "data of partition.features"),
    (lambda: partition.features([["a", "b"]], 1, rng=0), "Cannot use the data of"),
    (lambda: partition.features(csr_matrix(ROWS), 2, rng=0), "partition.features are sparse"),
    (lambda: partition.features(ROWS * 1j, 2, rng=0), "Complex data not supported"),
    (lambda: partition.split("column", [0], 1, rng=0), "values of a column"),
    (lambda: partition.split("iid", None, 1, rng=0), "labels of split .*NoneType"),
    (lambda: partition.column(["a", None]), "values of the column are missing"),
    (lambda: partition.column([1.0, np.nan]), "values of the column are missing"),
    (lambda: partition.column(pd.array([True, None], dtype="boolean")), "first one in row 1"),
    (lambda: partition.column([1, "a"]), "Use only numbers or only strings"),
    (lambda: partition.column(3), "values of the column"),
    (lambda: partition.column("town"), "got 'town'"),
    (lambda: partition.dirichlet([0, 1, None], 1, alpha=1, rng=0), "in row 2"),
    (lambda: partition.dirichlet([], 1, alpha=1, rng=0), "labels of dirichlet"),
    (lambda: partition.shards([0.0, np.nan], 1, rng=0), "labels of shards are missing"),
    (lambda: partition.shards([[0]], 1, rng=0), "1-D"),
    (lambda: partition.shards(np.array([1, "a"], object), 1, rng=0), "Cannot sort the labels"),
]


@pytest.mark.parametrize(("call", "words"), BAD + BAD_DATA)
def test_bad_input(call, words):
    with pytest.raises(DataError if (call, words) in BAD_DATA else ParameterError, match=words):
        call()


@pytest.mark.slow
def test_proportions_that_are_not_found():
    with pytest.raises(ParameterError, match="at least 10 rows .* in 10000 draws .*Use fewer"):
        partition.dirichlet([0] * 100, 10, alpha=0.002, rng=0, min_size=10)
