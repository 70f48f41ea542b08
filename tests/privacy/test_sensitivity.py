"""Neighboring data sets: how far apart the tables are that noise is added to.

Every law here is about exact whole numbers, for rows that an attacker would choose: on the bounds,
on the borders of cells and radii, alone in a corner, or all the same.
"""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedjigsaw import Broadcast, Model, Privacy
from fedjigsaw.errors import ParameterError
from fedjigsaw.privacy.cells import SHARES, Box, cell_table, nearest_cell
from fedjigsaw.privacy.dp import GRID
from fedjigsaw.privacy.statistics import exact_table, plain, sensitivity
from fedjigsaw.privacy.summaries import PrivateRound, box_of, shared_cells
from reproduction.experiments.audit import Witness, replay, watch

WIDTHS = (1, 2, 16, 100)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
examples = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def bounds_of(draw, d):
    """Bounds of d columns: alike, of very different widths, or far from zero."""
    low = np.full(d, draw(st.sampled_from([-1.0, 0.0, 0.1, 1e6])))
    widths = {"alike": np.full(d, 2.0), "uneven": 10.0 ** -np.linspace(0, 2.9, d)}
    return low, low + widths[draw(st.sampled_from(sorted(widths)))]


@st.composite
def rows_of(draw, low, high, centers, radii, n):
    """Rows: corners, borders between cells, borders of radii, outside the bounds, or anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, rows = len(low), []
    for kind in draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)):
        one, other = centers[rng.integers(len(centers), size=2)]
        way = rng.standard_normal(d)
        way /= np.linalg.norm(way)
        rows.append(
            [
                np.where(rng.random(d) < 0.5, low, high),
                (one + other) / 2,
                one + way * radii[rng.integers(len(radii))],
                low + (high - low) * rng.uniform(-1e3, 1e3, d),
                one,
                low + (high - low) * rng.random(d),
            ][kind]
        )
    return np.array(rows).reshape(n, d)


@st.composite
def neighbors(draw, kind):
    """A question and two data sets whose answers may not be told apart."""
    d = draw(st.sampled_from(WIDTHS))
    low, high = draw(bounds_of(d))
    promise = {"site": {"unit": "site"}, "shared": {"cells": "shared"}}.get(kind, {})
    promise |= {"rows_per_site": draw(st.sampled_from([1, 3, 1000]))} if kind == "site" else {}
    privacy = Privacy(draw(st.sampled_from([0.5, 4.0])), bounds=(low, high), **promise)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    centers = low + (high - low) * np.rint(8 * rng.random((4, d))) / 8
    radii = float((high - low).max()) * draw(st.sampled_from([0.01, 0.5])) * np.ones(4)
    model = None
    if kind == "step":
        spreads = draw(st.sampled_from([radii / 2, np.array([np.nan, np.inf, 0.0, -1.0])]))
        model = Model(np.vstack([centers, centers[:1]]), tensors={"support_spread": spreads})
        if draw(st.booleans()):
            model = Model(centers * 1e9 - 1e3, tensors={"support_spread": spreads})
    if kind in ("shared", "site"):
        box = box_of(privacy, d)
        cells, reach = shared_cells(tuple(box.half), 6)
        centers, radii = box.to_units(cells), np.full(6, reach * box.scale)
    n_rounds = draw(st.sampled_from([1, 3]))
    broadcast = Broadcast(draw(st.integers(0, n_rounds - 1)), 0, model, client="a")
    question = PrivateRound(privacy, n_rounds, broadcast, 2, 4, 6)
    rows = draw(rows_of(low, high, centers, radii, draw(st.integers(1, 30))))
    if draw(st.booleans()):
        rows = np.repeat(rows[:1], len(rows), axis=0)
    if kind == "site":
        return question, rows, draw(rows_of(low, high, centers, radii, draw(st.integers(1, 30))))
    more = np.insert(
        rows, draw(st.integers(0, len(rows))), draw(rows_of(low, high, centers, radii, 1)), axis=0
    )
    return (question, more, rows) if draw(st.booleans()) else (question, rows, more)


def lengths(question, rows, others, seed=0):
    """Return, for each release, the distance of both tables in units of its noise."""
    witness = Witness(np.random.default_rng(seed))
    watch(question, rows, witness)
    other = replay(question, others, witness.releases)
    assert len(other.releases) == len(witness.releases)
    pairs = zip(witness.releases, other.releases, strict=True)
    return [np.linalg.norm((a.table - b.table).ravel()) / a.scale for a, b in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own", "step", "shared", "site"])
def test_tables_of_neighbors_are_within_the_sensitivity(kind):
    shares = SHARES if kind == "own" else (1.0,)

    @examples
    @given(neighbors(kind))
    def check(case):
        question, rows, others = case
        allowed = 1 / question.privacy.multiplier(question.n_rounds)
        found = lengths(question, rows, others)
        for length, share in zip(found, shares, strict=True):
            assert length <= allowed * share**0.5 * (1 + 1e-12)
        assert np.linalg.norm(found) <= allowed * (1 + 1e-12)

    check()


@examples
@given(neighbors("step"))
def test_statistics_of_neighbors_are_within_the_sensitivity(case):
    question, rows, others = case
    d = rows.shape[1]
    columns = plain([str(j) for j in range(d)], question.privacy)
    one, other = (exact_table([part], columns) for part in (rows, others))
    assert np.linalg.norm(one - other) <= sensitivity(columns)
    alone = [exact_table([rows[i : i + 1]], columns) for i in range(len(rows))]
    assert (one == sum(alone)).all()


def test_bounds_too_narrow_to_divide_by_are_refused():
    with pytest.raises(ParameterError, match="low < high"):
        Privacy(1.0, bounds=(0, 5e-324))


def canary(kind, d):
    """A question, and neighbors whose tables are as far apart as may be."""
    promise = {"site": {"unit": "site"}, "shared": {"cells": "shared"}}.get(kind, {})
    privacy = Privacy(1.0, bounds=(-1, 1), **promise)
    model = Model(np.zeros((1, d)), tensors={"support_spread": [0.01]}) if kind == "step" else None
    rows = np.clip(-0.9 + 0.01 * np.random.default_rng(0).standard_normal((1000, d)), -1, 1)
    question = PrivateRound(privacy, 1, Broadcast(0, 0, model, client="a"), 2, 8, 64)
    row = np.ones((1, d))
    if kind in ("shared", "site"):
        points = np.random.default_rng(0).uniform(-1, 1, (5000, d))
        points = Box.within(-np.ones(d), np.ones(d)).on_grid(points)
        row = points[[nearest_cell(points, shared_cells((1.0,) * d, 64)[0])[1].argmax()]]
    return question, rows, row if kind == "site" else np.vstack([rows, row])


@pytest.mark.parametrize("d", [2, 16])
@pytest.mark.parametrize("kind", ["own", "step", "shared"])
def test_noise_is_no_larger_than_the_promise_needs(kind, d):
    question, rows, others = canary(kind, d)
    allowed = 1 / question.privacy.multiplier()
    assert np.linalg.norm(lengths(question, rows, others)) == pytest.approx(allowed, rel=1e-4)


def test_the_farthest_sites_are_one_row_each_in_two_cells():
    question, _, row = canary("site", 2)
    points = Box.within(-np.ones(2), np.ones(2)).on_grid(
        np.random.default_rng(1).uniform(-1, 1, (5000, 2))
    )
    labels, squared = nearest_cell(points, shared_cells((1.0, 1.0), 64)[0])
    own = nearest_cell(row, shared_cells((1.0, 1.0), 64)[0])[0]
    other = points[[np.where(labels == own, 0, squared).argmax()]]
    allowed = 1 / question.privacy.multiplier()
    assert lengths(question, row, other) == pytest.approx([allowed], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 16, 100, 1024])
def test_a_row_adds_the_same_whether_alone_or_among_others(d):
    rng = np.random.default_rng(d)
    half = 10.0 ** -np.linspace(0, 3, d)
    box = Box(np.zeros(d), 1.0, half)
    centers = box.on_grid(rng.uniform(-half, half, (9, d)))
    n = 150 if d < 1000 else 20
    ties = box.on_grid(centers[rng.integers(9, size=(n, 2))].mean(axis=1))
    rows = np.vstack([ties, box.on_grid(rng.uniform(-half, half, (n, d)))])
    radii = np.full(9, 0.1)

    def table(part):
        labels, squared = nearest_cell(part, centers)
        return cell_table(part, centers, radii, labels, squared)

    assert (table(rows) == sum(table(rows[i : i + 1]) for i in range(len(rows)))).all()


@pytest.mark.parametrize("kind", ["own", "step", "shared", "site"])
@pytest.mark.parametrize("seed", range(3))
def test_the_message_depends_on_nothing_but_noisy_tables(kind, seed):
    question, rows, _ = canary(kind, 2)
    witness = Witness(np.random.default_rng(seed))
    message = watch(question, rows, witness)
    others = np.random.default_rng(seed).uniform(-1, 1, (17, 2))
    again = Witness(given=[release.noisy for release in witness.releases])
    assert watch(question, others, again) == message


def test_memory_for_a_question_about_many_centers_is_bounded():
    rows, centers = np.zeros((2000, 1)), np.arange(20_001)[:, None] / GRID
    tracemalloc.start()
    labels, _ = nearest_cell(rows, centers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (labels == 0).all()
    assert peak < 2e8  # all distances at once are 3.2e8, twice


def test_rows_on_the_bounds_are_not_reported_as_outside():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(200):
            low = rng.normal(size=3) * 10.0 ** rng.integers(-3, 4)
            high = low + rng.random(3) * 10.0 ** rng.integers(-3, 4)
            box = Box.within(low, high)
            assert box.inside(np.array([low, high]))[1] == 0
            assert box.inside(np.array([high + 1e-3 * (high - low)]))[1] == 1


def test_a_model_with_a_spread_that_is_no_number_is_answered():
    question, rows, _ = canary("step", 2)
    model = Model(np.zeros((1, 2)), tensors={"support_spread": [np.nan]})
    asked = PrivateRound(**vars(question) | {"broadcast": Broadcast(0, 0, model, client="a")})
    assert len(watch(asked, rows, Witness(np.random.default_rng(0))).centers) == 1
