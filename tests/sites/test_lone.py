"""Clusters that one site alone claims, through all that is done with a model."""

import numpy as np
import pytest

from fedjigsaw import load, sites
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.trust import lone_values
from fedjigsaw.report.values import file_values

GROUPS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
NAMES = ("bern", "graz", "lyon", "oslo", "rome")
pytestmark = pytest.mark.filterwarnings("ignore::fedjigsaw.errors.ConspicuousSiteWarning")


def drawn(seed):
    """Return the rows of five sites, one of which measures in another unit."""
    rng = np.random.default_rng(seed)
    found = {n: GROUPS[rng.integers(4, size=200)] + rng.normal(size=(200, 2)) for n in NAMES}
    return found | {"oslo": 2 * found["oslo"]}


def summarized(rows):
    return {
        name: sites.summarize(from_array(X), 4, client=name, params={"detail": 3})
        for name, X in rows.items()
    }


@pytest.fixture(scope="module")
def rows():
    return drawn(0)


@pytest.fixture(scope="module")
def files(rows):
    return summarized(rows)


@pytest.fixture(scope="module")
def model(files):
    return sites.aggregate(files, 4, params={"liars": 1})


def test_they_are_where_the_rows_of_that_site_are(model, rows):
    k = len(model.model.centers) - model.model.n_lone
    assert k == 4
    assert model.model.n_lone == 3
    assert [lone["client"] for lone in lone_values(model)] == ["oslo"] * 3
    parts = list(sites.assign(from_array(rows["oslo"]), model))
    labels = np.concatenate([part.labels for part in parts])
    for i, lone in enumerate(lone_values(model), start=k):
        assert lone["id"] == i
        own = rows["oslo"][labels == i]
        assert lone["rows"] == pytest.approx(len(own), abs=10)
        spread = np.sqrt(((own - own.mean(axis=0)) ** 2).sum(axis=1).mean())
        assert model.model.tensors["support_spread"][i] == pytest.approx(spread, rel=0.2)
        assert model.model.centers[i] == pytest.approx(own.mean(axis=0), abs=1)


def test_the_others_are_as_without_that_site(model, files):
    honest = sites.aggregate({n: f for n, f in files.items() if n != "oslo"}, 4)
    assert model.model.centers[:4] == pytest.approx(honest.model.centers, abs=0.3)


def test_they_keep_their_ids(model):
    later = sites.aggregate(summarized(drawn(1)), 4, params={"liars": 1})
    later, succession = sites.succeed(later, model)
    assert later.model.n_lone == 3
    assert sorted(later.cluster_ids) == list(range(7))
    assert set(later.cluster_ids[4:]) == {4, 5, 6}
    assert succession.is_calm


def test_they_are_scored_and_profiled(model, rows):
    scores = {n: sites.score(from_array(X), model, client=n, profile=True) for n, X in rows.items()}
    assert (scores["oslo"].counts[4:] > 0).all()
    assert (scores["bern"].counts[4:] == 0).all()
    merged = sites.merge_scores(scores)
    assert len(merged.counts) == len(merged.profile.count) == 7
    assert merged.counts.sum() == 1000


def test_they_are_told_in_words_and_values(model):
    values, words = file_values(model, []), describe(model, 1)
    assert values["n_clusters"] == 4
    assert len(values["clusters"]) == 7
    for lone in values["lone"]:
        told = f"Cluster {lone['id']} is held by oslo alone: {lone['rows']} rows."
        assert told in words


def test_a_model_file_keeps_them(model, rows, tmp_path):
    formats.save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.n_clusters_ == len(loaded.cluster_centers_) == 4
    assert loaded.lone_clients_ == ["oslo"] * 3
    assert set(loaded.predict(rows["oslo"])) >= {4, 5, 6}
