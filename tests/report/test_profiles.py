"""Clusters in words: the columns that made generated groups are named, with plain numbers."""

import numpy as np
import pytest

from fedjigsaw import Guard, Model, Privacy, sites
from fedjigsaw.columns.contrasts import Contrast
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.schema import Column
from fedjigsaw.errors import MessageError
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.statistics import guard_profile
from fedjigsaw.report.profiles import describe_clusters, phrase

COLUMNS = [f"x{j}" for j in range(8)]


def three_groups(rng):
    """Groups that differ in columns 0 and 1, 2 and 3, or 4; columns 5 to 7 are noise."""
    shifts = np.zeros((3, 8))
    shifts[0, [0, 1]], shifts[1, [2, 3]], shifts[2, 4] = 40, -40, 60
    rows = {name: rng.normal(100, 8, (90, 8)) for name in ("bern", "lyon")}
    for X in rows.values():
        X += np.repeat(shifts, 30, axis=0)
    return {name: from_array(X, COLUMNS) for name, X in rows.items()}


def test_the_columns_that_made_the_groups_are_named(rng):
    tables = three_groups(rng)
    summaries = {name: sites.summarize(t, 3, client=name) for name, t in tables.items()}
    model = sites.aggregate(summaries, 3)
    scores = {n: sites.score(t, model, client=n, profile=True) for n, t in tables.items()}
    found = describe_clusters(model, sites.merge_scores(scores), list(scores.values()))
    apart = {frozenset(one.column for one in c.apart) for c in found}
    wanted = [{"x0", "x1"}, {"x2", "x3"}, {"x4"}]
    for columns in wanted:
        assert any(columns <= named for named in apart)
    (fourth,) = (c for c in found if c.apart[0].column == "x4")
    assert fourth.phrases[0].startswith("higher x4 (mean 1")
    assert fourth.sentence.startswith(f"Cluster {fourth.cluster}, 60 rows at 2 sites: higher x4")
    assert fourth.by_site == {"bern": 30, "lyon": 30}
    assert fourth.support["points"] == 60
    assert 50 < fourth.distance < 100
    assert fourth.nearest != fourth.cluster


def model_of(centers):
    return ModelFile(Model(centers, "jigsaw", {}, ("age",)), None, ("a",), 10)


def test_clusters_without_a_profile_say_so():
    score = Score("1 site", "m", np.array([9, 1]), np.zeros(2))
    first, second = describe_clusters(model_of([[0.0], [1.0]]), score)
    assert first.sentence == "Cluster 0, 9 rows: no site sent a profile."
    assert second.sentence == "Cluster 1, 1 row: no site sent a profile."
    assert first.support is None


def test_a_cluster_that_the_guard_hid_says_so():
    model = model_of([[0.0], [50.0], [100.0]])
    rows = np.array([[0.0]] * 20 + [[100.0]] * 2 + [[50.0]] * 9 + [[49.0]] * 30)
    table = from_array(rows, ["age"])
    found = describe_clusters(model, sites.score(table, model, client="a", profile=True))
    assert found[2].sentence == "Cluster 2, 2 rows: the guard hides its profile."
    both = {n: sites.score(table, model, client=n, profile=True) for n in ("a", "b")}
    found = describe_clusters(model, sites.merge_scores(both), list(both.values()))
    assert found[2].sentence.endswith(
        "4 rows at 2 sites: the guard of every site hides its profile."
    )
    found = describe_clusters(
        model, sites.score(table, model, client="a", profile=True, guard=Guard(1))
    )
    assert found[2].sentence == "Cluster 2, 2 rows: higher age (mean 100, all rows: 35)."


def test_a_cluster_without_rows_says_so():
    model = model_of([[0.0], [50.0], [100.0]])
    table = from_array(np.array([[0.0]] * 20 + [[51.0]] * 20), ["age"])
    found = describe_clusters(model, sites.score(table, model, client="a", profile=True))
    assert found[2].sentence == "Cluster 2, 0 rows: no rows."


def test_what_may_be_noise_sets_nothing_apart():
    columns = [[[30], [30]], [[45.0], [55.0]], [[3000.0], [3000.0]]]
    profile = Profile(("age",), *columns, {}, {})
    privacy = Privacy(1.0, bounds=(0, 100))
    for promise, words in ((None, "lower age"), (privacy, "too noisy to tell")):
        score = Score("1 site", "m", np.array([30, 30]), np.zeros(2), profile, promise)
        assert words in describe_clusters(model_of([[0.0], [1.0]]), score)[0].sentence


@pytest.mark.parametrize(("female", "apart"), [(17, []), (0, ["sex"])])
def test_what_the_guard_did_to_shares_sets_nothing_apart(female, apart):
    """Each of 50 sites rounds 18 and 2 rows to 20 and 0, but 17 and 3 rows to 15 and 5."""
    counts = np.array([[18, 2], [female, 20 - female]])
    levels = {"sex": ("female", "male")}
    exact = Profile((), *np.zeros((3, 2, 0)).astype(int), levels, {"sex": counts})
    guarded = guard_profile(exact, counts.sum(axis=1), 5)
    assert guarded.level_counts["sex"][0].tolist() == [20, 0]
    sent = [Score(f"{i}", "m", np.array([20, 20]), np.zeros(2), guarded) for i in range(50)]
    total = sites.merge_scores({score.client: score for score in sent})
    for cluster in describe_clusters(None, total, sent):
        assert [one.column for one in cluster.apart] == apart


def test_one_cluster_has_no_neighbor():
    score = Score("1 site", "m", np.array([9]), np.zeros(1))
    (only,) = describe_clusters(model_of([[0.0]]), score)
    assert only.nearest is None
    assert np.isnan(only.distance)


def number(way, mean, everyone, std=1.0):
    return Contrast(0, "x", None, 9, way, 0.5, mean=mean, all_mean=everyone, all_std=std)


LETTERS = Column("x", "category", categories=("a", "b"))
FEWER = Contrast(0, "x", "b", 9, -1, 1, share=0.0, all_share=0.1)


@pytest.mark.parametrize(
    ("one", "about", "words"),
    [
        (number(1, 71.0, 54.0, 12.0), Column("x", unit="years"), "higher x (mean 71 years, all rows: 54)"),
        (number(-1, 1.234, 2.345, 0.5), None, "lower x (mean 1.23, all rows: 2.35)"),
        (number(1, 18000.0, 17000.0, 400.0), Column("x", "date"), "later x (mean 2019-04-14, all rows: 2016-07-18)"),
        (number(-1, 0.02, 0.2, 0.4), Column("x", "boolean"), "x less often (2 %, all rows: 20 %)"),
        (FEWER, LETTERS, "x less often b (0 %, all rows: 10 %)"),
    ],
)  # fmt: skip
def test_phrases(one, about, words):
    assert phrase(one, about) == words


def test_a_score_of_very_many_clusters_does_not_fill_the_memory():
    counts = np.ones((40_000, 1), dtype=np.int64)
    profile = Profile(("x0",), counts, counts * 1.0, counts * 0.0, {}, {})
    score = Score("bern", "m", counts[:, 0], np.ones(40_000), profile)
    with pytest.raises(MessageError, match="at most 5,000 clusters"):
        describe_clusters(None, score)
