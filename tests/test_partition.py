import numpy as np
import pytest

from fedjigsaw import partition
from fedjigsaw.errors import DataError, ParameterError

LABELS = np.repeat(np.arange(10), 50)
SPLITS = {
    "iid": lambda rng: partition.iid(500, 7, rng=rng),
    "dirichlet": lambda rng: partition.dirichlet(LABELS, 7, alpha=0.5, rng=rng),
    "shards": lambda rng: partition.shards(LABELS, 7, rng=rng),
}


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())
def test_every_row_has_one_client_which_depends_on_the_seed(split):
    ids = split(0)
    assert ids.shape == (500,)
    assert set(ids) == set(range(7))
    assert (ids == split(0)).all()
    assert (ids == split(np.random.default_rng(0))).all()
    assert (ids != split(1)).any()


OPTIONS = {"alpha": 0.5, "min_size": 3, "shards_per_client": 4}


class TestSplit:
    @pytest.mark.parametrize("name", partition.SPLITS)
    def test_is_the_function_of_that_name_with_its_options(self, name):
        expected = {
            "iid": partition.iid(500, 7, rng=1),
            "dirichlet": partition.dirichlet(LABELS, 7, alpha=0.5, rng=1, min_size=3),
            "shards": partition.shards(LABELS, 7, rng=1, shards_per_client=4),
        }
        found = partition.split(name, LABELS, 7, rng=1, **OPTIONS)
        assert (found == expected[name]).all()

    @pytest.mark.parametrize("name", partition.SPLITS)
    def test_uses_exactly_the_options_that_are_listed(self, name):
        def ids(**changed):
            options = {**OPTIONS, **changed}
            return partition.split(name, LABELS, 7, rng=1, **options).tolist()

        changed = {"alpha": 5.0, "min_size": 50, "shards_per_client": 1}
        used = {option for option, value in changed.items() if ids(**{option: value}) != ids()}
        assert used == set(partition.SPLITS[name])

    def test_unknown_name(self):
        with pytest.raises(ParameterError, match="name of split must be one of 'iid'.*got 'even'"):
            partition.split("even", LABELS, 7, rng=0)


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


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: partition.iid(3, 4, rng=0), ParameterError, "Cannot split 3 samples among 4"),
        (lambda: partition.iid(3, 0, rng=0), ParameterError, "n_clients"),
        (lambda: partition.iid(0, 1, rng=0), ParameterError, "n_samples"),
        (
            lambda: partition.dirichlet([], 1, alpha=1, rng=0),
            DataError,
            "labels of dirichlet must be 1-D with at least one label",
        ),
        (
            lambda: partition.dirichlet(LABELS, 2, alpha=0, rng=0),
            ParameterError,
            "alpha .* >= 0.001",
        ),
        (
            lambda: partition.dirichlet(LABELS, 2, alpha=1, rng=0, min_size=251),
            ParameterError,
            "min_size of dirichlet must be at most",
        ),
        (
            lambda: partition.dirichlet([0] * 100, 10, alpha=0.002, rng=0, min_size=10),
            ParameterError,
            "at least 10 rows per client was found in 10000 draws .*Use fewer clients",
        ),
        (
            lambda: partition.shards(LABELS, 2, rng=0, shards_per_client=0),
            ParameterError,
            "shards_per_client",
        ),
        (
            lambda: partition.shards([0, 1, 2], 2, rng=0, shards_per_client=2),
            ParameterError,
            "at most n_samples / n_clients = 1.5; got 2",
        ),
        (lambda: partition.shards([[0]], 1, rng=0), DataError, "1-D"),
        (
            lambda: partition.shards(np.array([1, "a"], dtype=object), 1, rng=0),
            DataError,
            "Cannot sort the labels",
        ),
        (lambda: partition.iid(3, 1, rng="x"), ParameterError, "rng of iid"),
        (lambda: partition.iid(3, 1, rng=-1), ParameterError, "rng of iid"),
        (lambda: partition.dirichlet(LABELS, 2, alpha=1e9, rng=0), ParameterError, "at most 1e6"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
