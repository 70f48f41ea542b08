"""A single row that is far from all others: what leaves does not tell how far away it is."""

import warnings

import numpy as np
import pytest

from fedjigsaw import Guard, Jigsaw, Privacy
from fedjigsaw.errors import NoiseWarning, PrivacyWarning
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.guard import pulled_in, pulled_in_clusters
from fedjigsaw.sites import summarize

PLACES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def rows_with(far, seed=0, n=500):
    """Four groups, and one row at this distance from the middle of all."""
    rng = np.random.default_rng(seed)
    rows = PLACES[np.arange(n) % 4] + rng.normal(size=(n, 2))
    direction = np.array([np.cos(1.1), np.sin(1.1)])
    return np.concatenate([rows, [PLACES.mean(axis=0) + far * direction]])


def sent(rows, k=4, seed=0, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return Jigsaw(k, random_state=seed, **params).fit(rows, guard=Guard()).summaries_[0]


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 4, "auto"])
def test_no_answer_tells_how_far_it_is(k):
    """The attacker knows all other rows, and where the far one is but for its distance."""
    for seed in range(6):
        far, *others = [sent(rows_with(far), k, seed) for far in (300.0, 1000.0, 3000.0, 1e6)]
        for other in others:
            assert other.centers.tolist() == far.centers.tolist()
            assert other.sse.tolist() == far.sse.tolist()


@pytest.mark.parametrize("far", [40.0, 60.0, 100.0, 200.0])
def test_it_does_not_dominate_the_sum_of_squares_of_its_cluster(far):
    """Beyond half of a sum, the sum is the distance with a little noise."""
    near = sent(rows_with(0.0))
    assert sent(rows_with(far)).sse.max() < 2.5 * near.sse.max()


def test_groups_are_found_beside_it():
    found = sent(rows_with(3000.0))
    gaps = np.linalg.norm(PLACES[:, None] - found.centers, axis=2)
    assert gaps.min(axis=1).max() < 1


def test_in_a_file():
    table = from_array(rows_with(3000.0), ["x", "y"])
    with pytest.warns(PrivacyWarning) as told:
        file = summarize(table, 4, client="bern")
    assert [warning.message.clients for warning in told] == [("bern",)]
    assert file.summary.sse.max() < 1000
    with pytest.warns(PrivacyWarning):
        summarize(table, 4, client="bern", guard=Guard(1))


def test_a_fit_without_a_guard_tells():
    with pytest.warns(PrivacyWarning, match="Row 500"):
        Jigsaw(4, random_state=0).fit(rows_with(1000.0))


def test_a_warning_promises_no_more_than_a_guard_does():
    few = rows_with(1000.0, n=14)
    with pytest.warns(PrivacyWarning, match="20 rows"):
        Jigsaw(2, random_state=0).fit(few)
    assert pulled_in(few, 5) is few
    assert pulled_in(rows_with(1000.0, n=19), 5).max() < 100


def test_one_warning_for_all_clients_of_a_fit():
    rows = np.concatenate([rows_with(1000.0, seed) for seed in range(3)])
    site = np.repeat(["bern", "lyon", "oslo"], 501)
    with pytest.warns(PrivacyWarning) as told:
        Jigsaw(4, random_state=0).fit(rows, clients=site, guard=Guard())
    assert [warning.message.clients for warning in told] == [("bern", "lyon", "oslo")]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(size=(n, 3)),
        lambda rng, n: rng.standard_t(3, size=(n, 2)),
        lambda rng, n: rng.exponential(size=(n, 1)),
        lambda rng, n: rng.integers(2, size=(n, 4)).astype(float),
        lambda rng, n: np.c_[rng.random(n) < 0.01, 0.1 * rng.normal(size=n)],
    ],
)
@pytest.mark.parametrize("n", [40, 200, 5000])
def test_ordinary_rows_stay_where_they_are(draw, n):
    rng = np.random.default_rng(n)
    moved = 0
    for _ in range(20):
        rows = draw(rng, n)
        moved += pulled_in(rows, 5) is not rows
    assert moved <= 2  # of 20: of 40 heavy-tailed rows, one may well be far from all others


def test_as_many_rows_as_a_guard_lets_out_are_a_cluster():
    rows = rows_with(1000.0)
    many = np.concatenate([rows, np.repeat(rows[-1:], 4, axis=0)])
    assert pulled_in(many, 5) is many
    assert pulled_in(many, 6) is not many


def test_a_far_row_goes_onto_the_outermost_of_the_others_in_its_direction():
    rows = rows_with(1000.0)
    near = pulled_in_clusters(rows, np.zeros(len(rows), dtype=np.int64), 5)
    assert (near[:-1] == rows[:-1]).all()
    offsets = rows - np.median(rows, axis=0)
    assert near[-1].tolist() == rows[(offsets[:-1] @ offsets[-1]).argmax()].tolist()


def test_noise_needs_no_such_rule():
    privacy = Privacy(5.0, bounds=(-5, 15), cells="own", insecure_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        warnings.simplefilter("ignore", NoiseWarning)
        with warnings.catch_warnings(record=True):
            Jigsaw(4, random_state=0).fit(rows_with(1000.0), privacy=privacy)
