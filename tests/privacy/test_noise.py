"""The noise on each released field: its size, its distribution, and that it is whole and new.

What the size must be is written here once more by hand: the multiplier of the promise times the
longest vector that a row adds.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, kstest, norm

from fedjigsaw import Broadcast, Jigsaw, Model, Privacy
from fedjigsaw.engine import Client
from fedjigsaw.privacy import statistics
from fedjigsaw.privacy.dp import Noise, multiplier_for
from fedjigsaw.privacy.summaries import PrivateRound
from reproduction.experiments.audit import Witness, watch

SMALL = 1e-4  # p-value; there are about 40 of them, all with fixed seeds
D = 3
ROW = np.sqrt(0.5**2 + 1 + 0.3**2) * 2**20  # a row's vector: count, coordinates, square
SHARED_ROW = np.sqrt(1 + 1 + 0.3**2) * 2**20
PLACES = np.array([[-0.6, -0.6, 0.5], [0.6, -0.5, 0.0], [0.0, 0.7, -0.5]])
MODEL = Model(PLACES, tensors={"support_spread": [0.1, 0.2, 0.4]})
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rows_of(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(PLACES[np.arange(n) % 3] + 0.05 * rng.standard_normal((n, D)), -1, 1)


def question(kind, model=None):
    promise = {"site": {"unit": "site"}, "shared": {"cells": "shared"}}.get(kind, {})
    privacy = Privacy(1.0, bounds=(-1, 1), **promise)
    return PrivateRound(privacy, 1, Broadcast(0, 0, model, client="a"), 3, 12, 48)


def residuals(asked, n_runs, strength=1.0, *, seeded=True):
    """Return the noise of each release, one array per field: count, square, sums or bins."""
    found = {}
    for seed in range(n_runs):
        witness = Witness(np.random.default_rng([5, seed]) if seeded else None, strength)
        watch(asked, rows_of(), witness)
        for i, release in enumerate(witness.releases):
            drawn = release.noisy - release.table
            parts = {"bins": drawn}
            if release.table.shape[1] == D + 2:
                parts = {"count": drawn[:, 0], "square": drawn[:, 1], "sums": drawn[:, 2:]}
            for name, part in parts.items():
                found.setdefault((i, name), []).append(part.ravel())
    return {field: np.concatenate(parts) for field, parts in found.items()}


def check_gaussian(drawn, scale):
    """The variance by a chi-square test, the shape by Kolmogorov's and by equally likely bins."""
    n, ratio = len(drawn), (drawn**2).sum() / scale**2
    assert 2 * min(chi2.cdf(ratio, n), chi2.sf(ratio, n)) > SMALL
    # spread evenly between whole numbers, so that steps of narrow noise do not count as a shape
    smooth = drawn + np.random.default_rng(0).uniform(-0.5, 0.5, n)
    exact = norm(scale=np.sqrt(scale**2 + 1 / 12))
    assert kstest(smooth, exact.cdf).pvalue > SMALL
    bins = np.histogram(exact.cdf(smooth), bins=min(50, n // 10), range=(0, 1))[0]
    assert chisquare(bins).pvalue > SMALL


def check_unrelated(drawn):
    """No number is related to the one before it."""
    together = (drawn[1:] * drawn[:-1]).sum() / np.sqrt((drawn[1:] ** 2).sum())
    assert 2 * norm.sf(abs(together) / drawn.std()) > SMALL


EXPECTED = {  # release -> its share of the budget, the longest vector of a row
    "own": [
        (0.1, np.sqrt(D)), (0.3, ROW), (0.1, 1.0), (0.2, ROW), (0.3, ROW),
    ],
    "step": [(1.0, ROW)],
    "shared": [(1.0, SHARED_ROW)],
    "site": [(1.0, np.sqrt(2) * SHARED_ROW)],
}  # fmt: skip
RUNS = {"own": 12, "step": 200, "shared": 30, "site": 30}
MULTIPLIER = 4.5309  # for epsilon 1 and delta 1e-6, from an accountant of another library


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPECTED)
def test_noise_of_each_released_field(kind):
    asked = question(kind, MODEL if kind == "step" else None)
    fields = residuals(asked, RUNS[kind])
    assert len(fields) == {"own": 11, "step": 3, "shared": 3, "site": 3}[kind]
    for (i, _), drawn in fields.items():
        share, length = EXPECTED[kind][i]
        check_gaussian(drawn, MULTIPLIER / share**0.5 * length)
        check_unrelated(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPECTED)
def test_half_the_noise_is_noticed(kind):
    asked = question(kind, MODEL if kind == "step" else None)
    for (i, _), drawn in residuals(asked, RUNS[kind], strength=0.5).items():
        share, length = EXPECTED[kind][i]
        with pytest.raises(AssertionError):
            check_gaussian(drawn, MULTIPLIER / share**0.5 * length)


def test_the_multiplier_is_that_of_another_library():
    assert multiplier_for(1.0, 1e-6) == pytest.approx(MULTIPLIER, rel=1e-4)


@pytest.mark.parametrize("scale", [0.7, 40.0, 5e6])
def test_opendp_draws_a_gaussian(scale):
    drawn = Noise().add(np.full((60, 60), 12345, dtype=np.int64), scale) - 12345
    assert drawn.shape == (60, 60)
    n, ratio = drawn.size, (drawn.ravel() ** 2).sum() / scale**2
    assert 1e-6 < chi2.cdf(ratio, n) < 1 - 1e-6
    if scale > 1:
        smooth = drawn.ravel() + np.random.default_rng(0).uniform(-0.5, 0.5, n)
        assert kstest(smooth, norm(scale=np.hypot(scale, 12**-0.5)).cdf).pvalue > 1e-6


def test_opendp_draws_the_noise_of_a_real_answer():
    fields = residuals(question("step", MODEL), 60, seeded=False)
    for drawn in fields.values():
        ratio = drawn.std() / (MULTIPLIER * ROW)
        assert abs(ratio - 1) < 6 / np.sqrt(2 * len(drawn))
        assert kstest(drawn / (MULTIPLIER * ROW), norm.cdf).pvalue > 1e-6


def answers(n, **promise):
    """Return what a server receives about a model or shared cells, for many seeds of the noise."""
    X, method = rows_of(), Jigsaw(3, n_rounds=1)
    for seed in range(n):
        terms = promise or {"cells": "own"}
        privacy = Privacy(1.0, bounds=(-1, 1), insecure_seed=seed, **terms)
        model = None if promise else MODEL
        yield Client("a", X, method, privacy=privacy).answer(Broadcast(0, 0, model))


@pytest.mark.slow
def test_noise_of_a_summary_is_as_it_says():
    """Counts, centers and sums of squares of a summary, as the server sees them."""
    X = rows_of()
    received = list(answers(400))
    assert all(len(summary.centers) == 3 for summary in received)
    said = received[0].tensors["noise"]
    assert said[:, 0] == pytest.approx(MULTIPLIER * ROW / 2**19, rel=1e-3)
    counts = np.array([summary.counts for summary in received]) - 1000
    check_gaussian(counts.ravel(), said[0, 0])
    check_gaussian(np.array([s.n_samples for s in received]) - 3000, said[0, 0] * 3**0.5)
    for j, rows in enumerate(X.reshape(-1, 3, D).transpose(1, 0, 2)):
        reach = 2 * MODEL.tensors["support_spread"][j]
        assert (np.linalg.norm(rows - PLACES[j], axis=1) < reach).mean() > 0.99
        moved = np.array([s.centers[j] - rows.mean(axis=0) for s in received])
        stated = np.array([s.tensors["noise"][j, 1] for s in received])
        assert stated == pytest.approx(MULTIPLIER * ROW / 2**20 * reach / 1000, rel=0.2)
        # a mean is a noisy sum over a noisy count, which is off by a few in a hundred
        ratio = ((moved / stated[:, None]) ** 2).mean()
        assert abs(ratio - 1) < 4 * np.sqrt(2 / moved.size) + 0.05
        # a sum of squares has the noise of the square's unit, 0.3
        sse = np.array([s.sse[j] for s in received]) - ((rows - rows.mean(axis=0)) ** 2).sum()
        kept = sse > -0.99 * ((rows - rows.mean(axis=0)) ** 2).sum()  # others were set to zero
        assert np.quantile(np.abs(sse[kept]), 0.5) < MULTIPLIER * ROW / 2**20 / 0.3 * reach**2


def test_noise_of_shared_cells_is_as_they_say():
    received = list(answers(60, cells="shared"))
    tables = np.array([summary.tensors["cells"] for summary in received])
    said = received[0].tensors["cell_noise"]
    assert said[0] == pytest.approx(MULTIPLIER * SHARED_ROW / 2**20, rel=1e-3)
    spread = (tables - tables.mean(axis=0)) * np.sqrt(60 / 59)  # the mean has noise, too
    n = tables[..., 0].size - tables[0, :, 0].size
    for part, scale in ((spread[..., 0], said[0]), (spread[..., 2:], said[1])):
        ratio = (part**2).sum() / scale**2 * 59 / 60
        degrees = n * (part.shape[2] if part.ndim == 3 else 1)
        assert 2 * min(chi2.cdf(ratio, degrees), chi2.sf(ratio, degrees)) > SMALL


def test_noise_of_statistics_is_that_of_the_longest_row():
    X, n = rows_of(), 300
    tables, promise = [], Privacy(1.0, bounds=(-1, 1))
    columns = statistics.plain(("x", "y", "z"), promise)
    exact = statistics.exact_table([X], columns)
    for seed in range(n):
        stats = statistics.release(exact, replace(promise, insecure_seed=seed), "a", columns)
        tables.append([stats.n_samples, *(stats.mean * stats.n_samples)])
    noise = MULTIPLIER * np.sqrt(1 + 2 * D)
    check_gaussian(np.array(tables)[:, 0] - len(X), noise)
    for j in range(D):
        check_gaussian(np.array(tables)[:, 1 + j] - exact[1 + 2 * j] / 2**20, noise)
