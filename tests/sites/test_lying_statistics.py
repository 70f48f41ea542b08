"""Statistics of liars must not move the scaler of all; honest ones give exactly the pooled one."""

import warnings
from itertools import combinations_with_replacement

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.scaling import Stats, measure, merge
from fedjigsaw.errors import ConspicuousSiteWarning, ParameterError, SiteWarning

COLUMNS = ("age", "dose")
NAMES = [f"site {m}" for m in range(10)]


def federation(rng, n_sites=10, rows=400):
    """Honest sites whose means differ by a deviation or two."""
    return {
        name: measure(name, COLUMNS, [rng.normal([54, 2.5], [20, 1.3], (rows, 2)) + shift])
        for name, shift in zip(NAMES[:n_sites], rng.normal(0, [20, 1.3], (n_sites, 2)), strict=True)
    }


def far(honest):
    """A far mean with very many rows."""
    return Stats(honest.client, COLUMNS, 2**40, honest.mean * 0 + 1e6, honest.sum_of_squares)


def wide(honest):
    squares = np.full(2, 1e200)
    return Stats(honest.client, COLUMNS, honest.n_samples, honest.mean, squares)


def wide_in_one(honest):
    squares = honest.sum_of_squares * [1, 1e9]
    return Stats(honest.client, COLUMNS, honest.n_samples, honest.mean, squares)


def heavy(honest):
    """Plausible numbers, with a claim that would make them those of all: no spread at all."""
    return Stats(honest.client, COLUMNS, 2**40, honest.mean, honest.sum_of_squares * 1e-9)


def judged(stats, **options):
    scaler, verdicts = sites.merge_statistics(stats, **options)
    return scaler, {v.stats.client: v for v in verdicts}


LIES = [far, wide, wide_in_one, heavy]
PAIRS = list(combinations_with_replacement(LIES, 2))


@pytest.mark.parametrize("n_liars", [1, 2, 3])
@pytest.mark.parametrize("lies", PAIRS, ids=lambda pair: "+".join(lie.__name__ for lie in pair))
def test_liars_do_not_move_the_scaler(rng, lies, n_liars):
    stats = federation(rng)
    liars = NAMES[1 : 1 + n_liars]
    truth = merge([s for name, s in stats.items() if name not in liars])
    for i, name in enumerate(liars):
        stats[name] = lies[i % 2](stats[name])
    scaler, verdicts = judged(stats)
    assert (np.abs(scaler.mean - truth.mean) < truth.deviation).all()
    assert (np.abs(np.log(scaler.deviation / truth.deviation)) < np.log(1.5)).all()
    for name, verdict in verdicts.items():
        assert (verdict.used is not verdict.stats) == bool(verdict.reason) == (name in liars)
    if heavy not in lies:  # set aside is the same as left out, bit for bit
        assert (
            scaler.fingerprint == truth.fingerprint == judged(stats, without=liars)[0].fingerprint
        )


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_one_liar_of_four(rng, lie):
    stats = federation(rng, n_sites=4)
    truth = merge(list(stats.values()))
    stats["site 0"] = lie(stats["site 0"])
    scaler = judged(stats)[0]
    assert (np.abs(scaler.mean - truth.mean) < truth.deviation).all()
    assert (np.abs(np.log(scaler.deviation / truth.deviation)) < np.log(2)).all()


def skewed(rng, case, m):
    """Rows of an honest site."""
    rows = rng.normal([54, 2.5], [20, 1.3], (200, 2))
    if case == "far apart":
        rows += rng.normal(0, 6, 2) * [20, 1.3]
    elif case == "one site far away":
        rows += [200, 13] if m == 3 else [0, 0]
    elif case == "sizes":
        rows = rows[: 20 if m % 2 else 200] if m else np.tile(rows + np.array([60, 4]), (10, 1))
    elif (case == "constant at some" and m % 3) or (case == "constant at most" and m > 1):
        rows[:, 1] = 0.1
    elif case == "constant everywhere":
        rows[:, 1] = 0.1 + m
    elif case == "rare":
        rows[:, 1] = rng.random(200) < (0.9 if m == 2 else 0.01)
    elif case == "heavy tails":
        rows = np.exp(rng.normal(0, 1, 2) + 2 * rng.normal(size=(200, 2)))
    elif case == "one tight site" and m == 5:
        rows = [54, 2.5] + (rows - [54, 2.5]) / 100
    return rows


CASES = {
    "far apart": False,
    "one site far away": None,  # may be conspicuous
    "sizes": False,
    "constant at some": False,
    "constant at most": False,
    "constant everywhere": False,
    "rare": None,
    "heavy tails": None,
    "one tight site": False,
}


@pytest.mark.parametrize("n_sites", [4, 10])
@pytest.mark.parametrize("case", CASES)
def test_honest_federations_get_the_pooled_scaler_bit_for_bit(case, n_sites):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        shards = {name: skewed(rng, case, m) for m, name in enumerate(NAMES[:n_sites])}
        stats = {name: measure(name, COLUMNS, [rows]) for name, rows in shards.items()}
        scaler, verdicts = judged(stats)
        assert scaler.fingerprint == merge(list(stats.values())).fingerprint
        if CASES[case] is False:
            assert not any(verdict.reason for verdict in verdicts.values())


def test_a_huge_honest_site_that_is_like_the_others_counts_in_full(rng):
    stats = federation(rng)
    big = stats["site 4"]
    stats["site 4"] = Stats("site 4", COLUMNS, 4_000_000, big.mean, big.sum_of_squares * 10_000)
    scaler, verdicts = judged(stats)
    assert scaler.fingerprint == merge(list(stats.values())).fingerprint
    assert "10,000 times the rows" in verdicts["site 4"].reason


@pytest.mark.parametrize("factor", [18.0, 1 / 18, 38.67, 88.4, 100.0, 0.001])
def test_other_units_are_told_and_kept(factor):
    rng = np.random.default_rng(3)
    stats = {}
    for m, name in enumerate(NAMES):
        rows = rng.normal([54, 5.5], [20, 1.1], (200, 2)) + rng.normal(0, [10, 0.6])
        stats[name] = measure(name, COLUMNS, [rows * [1, factor if m == 7 else 1]])
    scaler, verdicts = judged(stats)
    assert scaler.fingerprint == merge(list(stats.values())).fingerprint
    assert [name for name, verdict in verdicts.items() if verdict.reason] == ["site 7"]
    assert verdicts["site 7"].column == "dose"
    assert "are these other units?" in verdicts["site 7"].reason


def test_a_unit_that_is_impossibly_far_is_set_aside_and_told(rng):
    stats = federation(rng)
    own = stats["site 7"]
    squares = own.sum_of_squares * 1e8
    stats["site 7"] = Stats("site 7", COLUMNS, own.n_samples, own.mean * 1e4, squares)
    verdict = judged(stats)[1]["site 7"]
    assert verdict.used is None
    assert "units" in verdict.reason


def test_columns_keep_the_order_of_the_first_site_that_counts(rng):
    stats = federation(rng)
    liar = wide(stats["site 0"])
    stats["site 0"] = Stats("site 0", COLUMNS[::-1], liar.n_samples, liar.mean, liar.sum_of_squares)
    scaler = judged(stats)[0]
    assert scaler.columns == COLUMNS
    assert scaler.fingerprint == judged(stats, without=["site 0"])[0].fingerprint


def test_python_warns_of_other_units_once(rng):
    stats = federation(rng)
    own = stats["site 7"]
    squares = own.sum_of_squares * [1, 18**2]
    stats["site 7"] = Stats("site 7", COLUMNS, own.n_samples, own.mean * [1, 18], squares)
    with pytest.warns(SiteWarning, match="column 'dose'") as caught:
        scaler = sites.common_scaler(stats)
    assert [w.category for w in caught] == [SiteWarning]
    assert scaler.fingerprint == merge(list(stats.values())).fingerprint
    big = stats["site 7"]  # what a warning of units does not say is said
    stats["site 7"] = Stats("site 7", COLUMNS, 200_000, big.mean, big.sum_of_squares * 500)
    with pytest.warns(SiteWarning), pytest.warns(ConspicuousSiteWarning):
        sites.common_scaler(stats)


def test_python_warns(rng):
    stats = federation(rng)
    with warnings.catch_warnings(action="error"):
        sites.common_scaler(stats)
    stats["site 2"] = wide(stats["site 2"])
    with pytest.warns(ConspicuousSiteWarning, match="'site 2'"):
        sites.common_scaler(stats)


@pytest.mark.parametrize("without", [["x"], ["site 0", "site 1"]])
def test_names_that_are_not_there_and_all(rng, without):
    with pytest.raises(ParameterError, match=without[-1] if len(without) == 1 else "left"):
        sites.common_scaler(federation(rng, n_sites=2), without=without)
