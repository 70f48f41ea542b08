"""Columns in which a site uses another unit are found, and skewed sites are no false alarm."""

import numpy as np
import pytest

from fedjigsaw import Privacy, partition, sites
from fedjigsaw.columns.scaling import Stats, measure
from fedjigsaw.columns.units import conspicuous_columns
from fedjigsaw.io.tables import from_array


def site(name, mean, deviation, n=400):
    mean, deviation = np.atleast_1d(mean).astype(float), np.atleast_1d(deviation)
    columns = tuple(f"x{j}" for j in range(len(mean)))
    return Stats(name, columns, n, mean, n * deviation.astype(float) ** 2)


# mean and deviation, and the factor and shift of another unit
UNITS = {
    "glucose": (120, 35, 1 / 18.016, 0),
    "creatinine": (1.1, 0.6, 88.4, 0),
    "hemoglobin": (14, 2, 10, 0),
    "body temperature": (37, 0.7, 1.8, 32),
    "weight": (75, 15, 2.2046, 0),
    "height": (1.7, 0.1, 100, 0),
}


@pytest.mark.parametrize("n_sites", [2, 3, 5])
@pytest.mark.parametrize("unit", UNITS)
def test_one_site_in_another_unit_is_found(unit, n_sites):
    mean, deviation, factor, shift = UNITS[unit]
    rng = np.random.default_rng(n_sites)
    for which in range(n_sites):
        stats = []
        for m in range(n_sites):
            rows = np.c_[rng.normal(mean, deviation, 400) + rng.normal(0, deviation / 20)]
            stats.append(measure(f"s{m}", ("x",), [rows * factor + shift if m == which else rows]))
        (found,) = conspicuous_columns(stats)
        assert found.column == "x"
        assert f"s{which}" in found.clients
        if n_sites > 2:
            assert found.clients == (f"s{which}",)
            if not shift:
                assert found.sites[which].factor == pytest.approx(factor, rel=0.3)
        assert found.sites[which].mean == pytest.approx(stats[which].mean[0])


def test_an_outlier_at_a_third_site_hides_nothing():
    """Creatinine of a trial: mg/dl, umol/l, and mg/dl with one 999 in 28 rows."""
    stats = [site("basel", 1.08, 0.45), site("dresden", 95, 41), site("lyon", 36.6, 185, n=28)]
    (found,) = conspicuous_columns(stats)
    assert found.clients == ("dresden",)


@pytest.mark.parametrize("name", ["s1", "s4"])
@pytest.mark.parametrize("alpha", [None, 0.3, 0.1])
def test_sites_with_other_mixtures_are_no_false_alarm(load_or_skip, name, alpha):
    data = load_or_skip(name)
    scaled = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    for n_sites in (2, 3, 10):
        for seed in range(4):
            if alpha is None:
                ids = partition.iid(len(data.y), n_sites, rng=seed)
            else:
                ids = partition.dirichlet(data.y, n_sites, alpha=alpha, rng=seed)
            for X in (data.X, scaled):
                stats = [measure(f"s{m}", ("x", "y"), [X[ids == m]]) for m in np.unique(ids)]
                assert conspicuous_columns(stats) == []


@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.NoiseWarning")
def test_noise_is_no_false_alarm():
    rng = np.random.default_rng(0)
    for seed, epsilon in enumerate((0.05, 0.2, 1.0, 5.0) * 3):
        privacy = Privacy(
            epsilon, cells="own", bounds=([0.0, 0.0], [120.0, 400.0]), insecure_seed=seed
        )
        tables = [from_array(rng.normal([54, 120], [18, 35], (40, 2))) for _ in range(5)]
        stats = [sites.measure(t, client=f"s{m}", privacy=privacy) for m, t in enumerate(tables)]
        assert conspicuous_columns(stats) == []


def test_sites_with_a_cluster_each_are_no_false_alarm():
    assert conspicuous_columns([site(f"s{m}", 10 * m, 0.5) for m in range(1, 6)]) == []


class TestNotJudged:
    def test_one_site(self):
        assert conspicuous_columns([site("a", 1, 1)]) == []

    def test_few_rows(self):
        stats = [site("a", 120, 30), site("b", 121, 30), site("c", 7, 2, n=9)]
        assert conspicuous_columns(stats) == []
        assert conspicuous_columns([*stats[:2], site("c", 7, 2, n=10)])

    def test_zeros_and_ones(self):
        """A clinic for a rare disease has no other unit."""
        shares = [0.01, 0.012, 0.97]
        stats = [site(f"s{p}", p, np.sqrt(p * (1 - p))) for p in shares]
        assert conspicuous_columns(stats) == []

    def test_columns_that_are_constant_at_a_site(self):
        stats = [site("a", 2019, 0), site("b", 2020, 0), site("c", 7, 0)]
        assert conspicuous_columns(stats) == []

    def test_means_of_other_signs_have_no_factor(self):
        stats = [site("a", -1, 0.1), site("b", -1.01, 0.1), site("c", 8, 0.8)]
        (found,) = conspicuous_columns(stats)
        assert "c: 400 rows, mean 8, deviation 0.8 (far from the others)" in str(found)


def test_columns_may_be_in_any_order_and_only_conspicuous_ones_are_named():
    first = site("a", [50, 120], [10, 30])
    second = Stats("b", ("x1", "x0"), 400, np.array([119.0, 52.0]), 400 * np.array([31.0, 9]) ** 2)
    third = site("c", [51, 7], [11, 2])
    (found,) = conspicuous_columns([first, second, third])
    assert (found.column, found.clients) == ("x1", ("c",))
    assert [s.mean for s in found.sites] == [120, 119, 7]


@pytest.mark.filterwarnings("error")
def test_huge_numbers_are_no_trouble():
    stats = [site("a", 1e99, 1e90), site("b", -1e99, 1e98), site("c", 0, 1e-9), site("d", 0, 0)]
    conspicuous_columns(stats)
