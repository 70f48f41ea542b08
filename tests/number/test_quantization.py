import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.number.cells import UNKNOWN, quantization_variance


def grain(column, **options):
    return quantization_variance(np.asarray(column, dtype=np.float64)[:, None], **options)[0]


def test_two_values():
    assert grain([0, 1] * 5) == pytest.approx(1 / 6)
    assert grain([-3.0, 4.0] * 9) == pytest.approx(49 / 6)


def test_steps():
    assert grain(np.repeat([1, 2, 3, 5], 6)) == pytest.approx(1 / 12)
    scaled = (np.repeat([1, 2, 3, 4, 5], 6) - 2.7) / 1.3  # a scaler keeps steps equal
    assert grain(scaled) == pytest.approx(1 / 12 / 1.3**2)


def test_no_steps(rng):
    assert grain(rng.normal(size=500)) == 0
    assert grain(rng.normal(size=12)) == UNKNOWN  # too few rows to tell
    assert grain(rng.normal(size=65)) == 0
    tied = np.append(rng.normal(size=149), 0.25)
    for column in (tied, np.append(tied, 0.25)):  # two equal values tell nothing under a guard
        assert grain(column, min_rows=20) == 0
    assert grain(np.arange(12_000) % 2000) == 0  # steps too small to matter
    spikes = np.concatenate([np.repeat([0, 1], 200), rng.uniform(size=200)])
    assert grain(rng.permutation(spikes)[:64]) in (0, UNKNOWN)  # many rows lie between


def test_a_mean_in_place_of_missing_values():
    """Levels 1 to 4, and 40 rows with a mean between two of them."""
    column = np.append(np.repeat([1, 2, 3, 4], 100), [2.37] * 40)
    assert grain(column) == pytest.approx(1 / 12)
    assert grain(np.append(np.repeat([0, 1], 100), [0.37] * 40)) == pytest.approx(1 / 6)
    assert grain(np.repeat([0, 5, 9], 20)) == 0  # three places, none of them a mean of others


def test_a_rare_value_is_not_told():
    assert grain([0] * 20 + [1] * 4) == UNKNOWN
    assert grain([0] * 20 + [1] * 9, min_rows=10) == UNKNOWN
    assert grain([3] * 20) == UNKNOWN


@pytest.mark.parametrize("rare", [0.5, 3.21, 2, 7, 1e9])
@pytest.mark.parametrize("n", [1, 4])
def test_a_rare_value_changes_nothing(rare, n):
    """Whether somebody has it must not be told."""
    for common in (np.repeat([0, 1], 200), np.repeat([1, 2, 3, 4], 100)):
        assert grain(np.append(common, [rare] * n)) == grain(common) > 0


def test_the_order_of_rows_does_not_matter(rng):
    X = np.column_stack([rng.integers(0, 2, 300), rng.integers(0, 9, 300), rng.normal(size=300)])
    assert (quantization_variance(X) == quantization_variance(X[rng.permutation(300)])).all()


@pytest.mark.parametrize("n", [4, 5, 6, 39, 40, 41, 64, 65, 99, 100])
@pytest.mark.parametrize("min_rows", [2, 5])
def test_columns_do_not_matter_to_each_other(rng, n, min_rows):
    """A column in which no value is shared, alone and beside one in which all rows share theirs."""
    for column in (rng.normal(size=n), np.arange(n) // (min_rows - 1)):
        beside = np.column_stack([column, np.zeros(n)])
        assert quantization_variance(beside, min_rows)[0] == grain(column, min_rows=min_rows)


def test_ages_have_steps_though_some_are_rare(rng):
    """Of 400 rows, many years have fewer than five."""
    ages = rng.integers(0, 82, size=400)
    assert (np.bincount(ages) < 5).sum() > 20
    assert grain(ages) == pytest.approx(1 / 12)
    assert grain(rng.integers(0, 900, size=40_000)) == pytest.approx(1 / 12)
    heaps = np.append(np.repeat(np.arange(0, 100, 5), 10), rng.uniform(0, 100, 150))
    assert grain(heaps) == pytest.approx(25 / 12)  # noise of that size hides heaps, too
    far = np.append(np.repeat([0.0, 1.0, 50.0], 50), rng.uniform(0, 50, 100))
    assert grain(far) == 0


@pytest.mark.parametrize(("n_rows", "n_years"), [(2000, 64), (5000, 82), (20_000, 120)])
@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.UncertainNumberWarning")
def test_years_are_no_clusters(rng, n_rows, n_years):
    ages = rng.integers(0, n_years, size=(n_rows, 1)).astype(float)
    found = Jigsaw("auto", random_state=0).fit(ages, clients=np.arange(n_rows) % 5)
    assert found.n_clusters_ == 1


@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.UncertainNumberWarning")
def test_two_groups_of_ages_are_two_clusters(rng):
    ages = np.append(rng.uniform(0, 50, 2500), rng.uniform(70, 120, 2500))
    found = Jigsaw("auto", random_state=0).fit(np.rint(ages)[:, None], clients=np.arange(5000) % 5)
    assert found.n_clusters_ == 2
