"""Profiles of columns of all kinds: what pandas makes of the pooled rows, in their own units."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import Guard, Privacy, sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.columns.shown import shown_bounds
from fedjigsaw.errors import DataError, MessageError, ParameterError
from fedjigsaw.io.formats import decode, encode, save
from fedjigsaw.report.page.run import read_run
from fedjigsaw.report.profiles import describe_clusters
from fedjigsaw.sites.profiles import check_profile
from raising import raises

SCHEMA = Schema(
    (
        Column("age", unit="years", range=(0, 120)),
        Column("dose", scale="log", range=(0, 100)),
        Column("sex", "category", categories=("female", "male")),
        Column("smoker", "boolean"),
        Column("stage", "ordered", categories=("low", "mid", "high"), weight=0),
        Column("seen", "date", weight=0, range=(18_000, 19_000)),
        Column("ward", "category", categories=("a", "b"), weight=0),
        Column("note", "ignore"),
    )
)
OFF = Guard(min_cluster_size=1)


def people(n, seed):
    """Two groups: old women who smoke, and young men."""
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "note": "free text",
            "ward": rng.choice(["a", "b", "elsewhere"], n),
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "stage": np.where(old, "high", "low"),
            "smoker": np.where(rng.random(n) < np.where(old, 0.9, 0.1), "yes", "no"),
            "sex": np.where(rng.random(n) < np.where(old, 0.95, 0.05), "female", "male"),
            "dose": rng.uniform(1, 9, n),
            "age": np.where(old, rng.normal(75, 5, n), rng.normal(30, 5, n)).round(2),
        }
    )
    for column in ("age", "sex", "ward", "stage"):
        frame.loc[rng.random(n) < 0.1, column] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("mixed")
    for i, (name, n) in enumerate({"bern": 300, "lyon": 150, "oslo": 30}.items()):
        people(n, i).to_csv(found / f"{name}.csv", index=False)
    return found


@pytest.fixture(scope="module")
def paths(folder):
    return [folder / f"{name}.csv" for name in ("bern", "lyon", "oslo")]


@pytest.fixture(scope="module")
def model(paths):
    stats = {path.name: sites.measure(path, schema=SCHEMA) for path in paths}
    scaler = sites.common_scaler(stats, schema=SCHEMA, robust=False)
    return sites.aggregate({p.name: sites.summarize(p, 2, scaler=scaler) for p in paths}, 2)


def labeled(paths, model):
    parts = [part.labels.to_pylist() for path in paths for part in sites.assign(path, model)]
    frame = pd.concat(pd.read_csv(path) for path in paths)
    return frame.assign(cluster=np.concatenate(parts))


def test_merged_profiles_are_what_pandas_makes_of_the_pooled_rows(paths, model):
    scores = {p.name: sites.score(p, model, profile=True, guard=OFF) for p in paths}
    profile = decode(encode(sites.merge_scores(scores))).profile
    assert profile.numbers == ("age", "dose", "smoker", "stage", "seen")
    frame = labeled(paths, model)
    frame["smoker"] = (frame.smoker == "yes").astype(float)
    frame["stage"] = frame.stage.map({"low": 0.0, "mid": 1.0, "high": 2.0})
    frame["seen"] = (pd.to_datetime(frame.seen) - pd.Timestamp("1970-01-01")).dt.days
    grouped = frame.groupby("cluster")[list(profile.numbers)]
    assert profile.count.tolist() == grouped.count().to_numpy().tolist()
    np.testing.assert_allclose(profile.mean, grouped.mean(), rtol=1e-9)
    squares = grouped.var(ddof=0) * grouped.count()
    np.testing.assert_allclose(profile.sum_of_squares, squares, rtol=1e-9, atol=1e-9)
    assert profile.levels["ward"] == ("a", "b", "(other)")
    for column in ("sex", "ward"):
        known = frame[column].replace("elsewhere", "(other)")
        table = pd.crosstab(frame.cluster, known).reindex(columns=profile.levels[column])
        assert profile.level_counts[column].tolist() == table.fillna(0).to_numpy().tolist()


def test_the_columns_that_made_the_groups_are_named_in_words(paths, model):
    scores = {p.name: sites.score(p, model, profile=True) for p in paths}
    merged = sites.merge_scores(scores)
    found = describe_clusters(model, merged, list(scores.values()))
    old = max(found, key=lambda one: one.contrasts[0].mean)
    assert {one.column for one in old.apart} >= {"age", "sex", "smoker", "stage"}
    words = "; ".join(old.phrases)
    assert "higher age (mean 7" in words
    assert "sex mostly female (" in words
    assert "ward" not in words


def test_a_private_profile_takes_its_bounds_from_the_schema(folder, model):
    path = folder / "many.csv"
    people(20_000, 5).to_csv(path, index=False)
    low, high = shown_bounds(SCHEMA)
    bounds = [(0, 120), (0, 100), (0, 1), (0, 2), (18_000, 19_000)]
    assert list(zip(low, high, strict=True)) == bounds
    privacy = Privacy(2.0, cells="own", bounds=(low, high), insecure_seed=0)
    noisy = sites.score(path, model, profile=True, privacy=privacy)
    exact = sites.score(path, model, profile=True, guard=OFF)
    assert noisy.counts.tolist() != exact.counts.tolist()
    np.testing.assert_allclose(noisy.profile.mean, exact.profile.mean, rtol=0.05)
    np.testing.assert_allclose(noisy.profile.count, exact.profile.count, rtol=0.02)
    for column, counts in exact.profile.level_counts.items():
        np.testing.assert_allclose(noisy.profile.level_counts[column], counts, atol=60)
    assert not noisy.sse.any()
    assert decode(encode(noisy)).privacy == noisy.privacy


def test_a_column_without_a_range_has_no_private_profile():
    with raises(ParameterError, column="age"):
        shown_bounds(Schema((Column("age"),)))


def test_a_column_that_is_only_shown_must_be_in_the_file(folder, model):
    people(50, 9).drop(columns="ward").to_csv(folder / "short.csv", index=False)
    with raises(DataError, file="short.csv", column="ward"):
        sites.score(folder / "short.csv", model, profile=True)


def test_a_bad_value_of_a_shown_column_names_row_and_column(folder, model):
    frame = people(50, 9)
    frame.loc[7, "stage"] = "very high"
    frame.to_csv(folder / "odd.csv", index=False)
    with raises(DataError, file="odd.csv", row=8, column="stage"):
        sites.score(folder / "odd.csv", model, profile=True)


def test_rows_that_are_skipped_are_not_in_the_profile(tmp_path):
    schema = Schema((Column("age", missing="refuse"), Column("ward", weight=0)))
    ages = [10.0, None, 20.0, None, 90.0] * 8
    pd.DataFrame({"age": ages, "ward": range(40)}).to_csv(tmp_path / "a.csv", index=False)
    stats = sites.measure(tmp_path / "a.csv", schema=schema, drop_missing=True)
    scaler = sites.common_scaler({"a": stats}, schema=schema)
    files = {"a": sites.summarize(tmp_path / "a.csv", 2, scaler=scaler, drop_missing=True)}
    model = sites.aggregate(files, 2)
    options = {"profile": True, "drop_missing": True, "guard": OFF}
    score = sites.score(tmp_path / "a.csv", model, **options)
    assert score.n_skipped == 16
    old = score.profile.mean[:, 0].argmax()
    assert score.profile.mean[old].tolist() == [90.0, np.mean(range(4, 40, 5))]
    assert score.profile.count[old].tolist() == [8, 8]


def test_no_text_of_a_row_is_in_the_file(paths, model):
    for guard in (Guard(), OFF):
        content = encode(sites.score(paths[0], model, profile=True, guard=guard))
        assert b"female" in content  # a level of the schema
        for text in (b"elsewhere", b"free text", b"note"):
            assert text not in content


def test_profiles_that_the_schema_rules_out_are_refused(paths, model, tmp_path, run):
    honest = sites.score(paths[0], model, profile=True)
    profile = honest.profile
    check_profile("bern.score", profile, model)
    age, spread = profile.mean.copy(), profile.sum_of_squares.copy()
    age[1, 0], spread[0, 3] = 1e100, 1e9
    levels = {**profile.levels, "ward": ("a", "b", "<b>")}
    odd = {**profile.level_counts, "odd": np.zeros((2, 1), dtype=int)}
    save(model, tmp_path / "model")
    for told, changes in (
        ("mean of column 'age' in cluster 1 of .*x.score", {"mean": age}),
        ("spread of column 'stage' in cluster 0 of .*x.score", {"sum_of_squares": spread}),
        ("column 'ward' of .*x.score", {"levels": levels}),
        ("x.score", {"levels": {**levels, "odd": ("a",)}, "level_counts": odd}),
    ):
        forged = replace(honest, profile=replace(profile, **changes))
        save(forged, tmp_path / "x.score", replace=True)
        with pytest.raises(MessageError, match=told):
            read_run([tmp_path / "model", tmp_path / "x.score"])
        with pytest.raises(MessageError, match=told):
            run("score", "--merge", tmp_path / "x.score", "--model", tmp_path / "model")


def test_rounding_leaves_no_mean_outside_of_the_range(tmp_path):
    schema = Schema((Column("age", range=(0, 100.75)), Column("dose", scale="range", range=(0, 9))))
    ages = [100.75] * 30 + list(range(30))
    pd.DataFrame({"age": ages, "dose": 1.0}).to_csv(tmp_path / "a.csv", index=False)
    stats = {"a": sites.measure(tmp_path / "a.csv", schema=schema)}
    scaler = sites.common_scaler(stats, schema=schema)
    model = sites.aggregate({"a": sites.summarize(tmp_path / "a.csv", 2, scaler=scaler)}, 2)
    found = sites.score(tmp_path / "a.csv", model, profile=True)
    check_profile("a", found.profile, model)
    assert found.profile.mean[:, 0].max() == 100.75
