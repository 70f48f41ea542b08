"""Preparation over sites is that of scikit-learn on the pooled rows."""

import time
import warnings
from dataclasses import replace
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

from fedjigsaw import sites
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.errors import DataError, DataWarning, MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import open_table
from fedjigsaw.privacy.guard import Guard
from raising import raises

SCHEMA = Schema(
    (
        Column("age", unit="years", range=(0, 120)),
        Column("dose", scale="log", missing="mean"),
        Column("lab", scale="robust", missing="median"),
        Column("sex", "category", categories=("female", "male", "rare")),
        Column("smoker", "boolean", missing="refuse"),
        Column("stage", "ordered", categories=("low", "mid", "high")),
        Column("seen", "date"),
        Column("note", "ignore"),
    )
)


def make(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 12, n).clip(0, 120)),
            "dose": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(1, 1, n)),
            "lab": np.where(rng.random(n) < 0.05, np.nan, rng.gamma(2, 3, n)),
            "sex": rng.choice(["female", "male", "rare", "odd"], n, p=[0.5, 0.48, 0.005, 0.015]),
            "smoker": rng.choice(["yes", "no"], n),
            "stage": rng.choice(["low", "mid", "high"], n),
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "note": "free text",
        }
    )
    frame.loc[rng.random(n) < 0.03, "sex"] = None
    return frame


@pytest.fixture(scope="module")
def frames():
    return {
        name: make(n, i)
        for i, (name, n) in enumerate({"bern": 700, "lyon": 350, "oslo": 40}.items())
    }


@pytest.fixture(scope="module")
def paths(frames, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    found = {}
    for name, frame in frames.items():
        found[name] = folder / f"{name}.csv"
        frame.sample(frac=1, axis=1, random_state=len(frame)).to_csv(found[name], index=False)
    return found


def prepare(paths, schema=SCHEMA, **kwargs):
    stats = {name: sites.measure(path, schema=schema, **kwargs) for name, path in paths.items()}
    return sites.common_scaler(stats, schema=schema, robust=False)


def rows_of(path, scaler):
    table = sites.prepare(path, scaler=scaler)
    return np.concatenate([scaler.scale(batch.rows) for batch in table.batches()])


def test_it_equals_scikit_learn_on_the_pooled_rows(frames, paths):
    scaler = prepare(paths)
    pooled = pd.concat(frames.values())
    rows = np.concatenate([rows_of(path, scaler) for path in paths.values()])
    found = dict(zip(scaler.columns, rows.T, strict=True))
    for name, values in {
        "age": pooled["age"],
        "dose": np.log1p(pooled["dose"]),
        "seen": (pooled["seen"] - pd.Timestamp("1970-01-01")).dt.days,
        "stage": pooled["stage"].map({"low": 0, "mid": 1, "high": 2}),
    }.items():
        filled = SimpleImputer().fit_transform(values.to_numpy(float)[:, None])
        standard = StandardScaler().fit_transform(filled)[:, 0]
        np.testing.assert_allclose(found[name], standard, atol=1e-9, err_msg=name)
    absent = pooled["age"].isna().to_numpy(float)
    np.testing.assert_allclose(found["age: (missing)"], absent - absent.mean(), atol=1e-12)
    smoker = (pooled["smoker"] == "yes").to_numpy(float)
    np.testing.assert_allclose(found["smoker"], smoker - smoker.mean(), atol=1e-12)
    assert "seen: (missing)" not in scaler.columns


def test_categories_equal_those_of_scikit_learn_exactly(frames, paths):
    """Two rows that differ in the category alone are one standard deviation apart."""
    scaler = prepare(paths)
    pooled = pd.concat(frames.values())
    known = pooled["sex"].where(pooled["sex"].isin(["female", "male", "rare"]), "odd")
    known = known.where(pooled["sex"].notna(), "(missing)")
    encoder = OneHotEncoder(
        min_frequency=0.01, categories=[["female", "male", "rare", "odd", "(missing)"]]
    )
    theirs = encoder.fit_transform(known.to_numpy()[:, None]).toarray()
    names = ["sex: female", "sex: male", "sex: (other)", "sex: (missing)"]
    assert [name for name in scaler.columns if name.startswith("sex")] == names
    places = [scaler.columns.index(name) for name in names]
    scaled = np.concatenate([rows_of(p, scaler) for p in paths.values()])[:, places]
    ours = scaler.deviation[places] * scaled + scaler.mean[places]
    infrequent = theirs[:, 3] + theirs[:, 4] if theirs.shape[1] == 5 else theirs[:, -1]
    np.testing.assert_allclose(ours[:, 0], theirs[:, 0], atol=1e-12)
    np.testing.assert_allclose(ours[:, 1], theirs[:, 1], atol=1e-12)
    np.testing.assert_allclose(ours[:, 2], np.isin(known, ["rare", "odd"]), atol=1e-12)
    assert infrequent.sum() >= ours[:, 2].sum()
    female, male = scaled[ours[:, 0] == 1][0], scaled[ours[:, 1] == 1][0]
    assert np.linalg.norm(female - male) == pytest.approx(1)


def test_quantiles_keep_their_stated_error(frames, paths):
    scaler = prepare(paths)
    pooled = pd.concat(frames.values())["lab"].to_numpy()[:, None]
    values = SimpleImputer(strategy="median").fit_transform(pooled)
    theirs = RobustScaler(unit_variance=True).fit(values)
    j = scaler.columns.index("lab")
    median, quartiles = scaler.mean[j], scaler.deviation[j] * 1.3489795
    low, high = (np.quantile(values, q) for q in (0.25, 0.75))
    assert abs((values < median).mean() - 0.475) <= 0.03  # 5 % are the median itself
    assert theirs.center_[0] == pytest.approx(median, rel=0.02)
    # both quartiles are wrong by at most 0.5 % of the rows
    span = [np.quantile(values, q + e) for q in (0.25, 0.75) for e in (-0.005, 0.005)]
    assert span[2] - span[1] <= quartiles <= span[3] - span[0]
    assert high - low == pytest.approx(theirs.scale_[0] * 1.3489795)


def test_the_guard_pools_rare_categories_and_hides_few_values(paths, frames):
    frame = make(60, 9)
    frame["sex"] = ["female"] * 57 + ["rare"] * 3
    frame["dose"] = [5.0, 6.0, 7.0] + [None] * 57
    frame["smoker"] = ["yes"] + ["no"] * 59
    path = paths["bern"].parent / "few.csv"
    frame.to_csv(path, index=False)
    found = sites.measure(path, schema=SCHEMA, min_rows=5)
    values = dict(zip(found.columns, found.mean, strict=True))
    assert (values["sex: rare"], values["sex: (other)"], values["sex: female"]) == (0, 0, 1)
    assert (values["dose"], values["dose: (missing)"]) == (0, 1)
    assert values["smoker"] == 0
    exact = sites.measure(path, schema=SCHEMA, min_rows=1)
    assert dict(zip(exact.columns, exact.mean, strict=True))["sex: rare"] == pytest.approx(0.05)


@pytest.mark.parametrize("present", [["CH"] * 3, ["CH"] * 2 + ["DE"] * 2, ["CH", "elsewhere"]])
def test_a_category_column_with_few_values_counts_as_missing_throughout(tmp_path, present):
    values = [*present, *[""] * (40 - len(present))]
    lines = (f"{place},{value}" for place, value in enumerate(values))
    (tmp_path / "bern.csv").write_text("\n".join(["age,land", *lines, ""]))
    schema = Schema((Column("age"), Column("land", "category", categories=("CH", "DE"))))
    found = sites.measure(tmp_path / "bern.csv", schema=schema, min_rows=5)
    shares = dict(zip(found.columns, found.mean, strict=True))
    assert [shares[f"land: {part}"] for part in ("CH", "DE", "(other)")] == [0, 0, 0]
    assert shares["land: (missing)"] == 1
    full = {**shares, "land: CH": 1.0, "land: (missing)": 0.0}  # of another site
    other = replace(found, client="lyon", mean=np.array([full[name] for name in found.columns]))
    sites.common_scaler({"bern": found, "lyon": other}, schema=schema)  # nothing is contradictory


@pytest.mark.slow
def test_files_carry_the_preparation_whole(paths, tmp_path):
    scaler = prepare(paths)
    formats.save_scaler(scaler, tmp_path / "scaler.json")
    again = formats.load_scaler(tmp_path / "scaler.json")
    assert again.fingerprint == scaler.fingerprint
    assert again.encoding == scaler.encoding
    summaries = {n: sites.summarize(p, 3, scaler=again) for n, p in paths.items()}
    for name, summary in summaries.items():
        formats.save(summary, tmp_path / name)
    loaded = sites.read_summaries([tmp_path / name for name in paths])
    formats.save(sites.aggregate(loaded, 3), tmp_path / "model")
    model = formats.load(tmp_path / "model", formats.ModelFile)
    assert model.encoding == scaler.encoding
    for path in paths.values():
        (part,) = sites.assign(open_table(path, encoding=model.encoding), model, drop_missing=True)
        assert not part.labels.null_count
        assert sites.score(path, model, drop_missing=True).n_rows == len(part.labels)
    statistics = sites.measure(paths["bern"], schema=SCHEMA)
    formats.save(statistics, tmp_path / "bern.stats")
    read = formats.load(tmp_path / "bern.stats", formats.Stats)
    assert formats.encode(read) == formats.encode(statistics)
    assert read.sketches["lab"].sizes.sum() == statistics.sketches["lab"].sizes.sum()


def test_statistics_of_another_schema_are_refused(paths):
    stats = {"a": sites.measure(paths["bern"], schema=SCHEMA)}
    with pytest.raises(MessageError, match="Give that schema here, too"):
        sites.common_scaler(stats)
    with pytest.raises(MessageError, match="by another schema"):
        sites.common_scaler(stats, schema=SCHEMA.without(["age"]))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("age", "old"), ("age", "999"), ("stage", "huge")),
        *(("smoker", "maybe"), ("seen", "31.02.2020")),
    ],
)
def test_a_bad_value_is_named_with_file_row_and_column(tmp_path, column, value):
    frame = make(20, 1).astype(object)
    frame.loc[2, column] = value
    frame.to_csv(tmp_path / "bern.csv", index=False)
    with raises(DataError, str(value), file="bern.csv", row=3, column=column):
        sites.measure(tmp_path / "bern.csv", schema=SCHEMA)


def test_values_outside_of_the_schema_are_told_with_their_number(tmp_path):
    frame = make(40, 1)
    frame["age"] = [150.0] * 3 + [20.0, 60.0] * 18 + [40.0]
    frame["dose"] = frame["age"]
    frame.to_csv(tmp_path / "bern.csv", index=False)
    lenient = Schema((Column("age", range=(0, 120), outside="missing"), *SCHEMA.columns[1:]))
    told = "3 of 40 values are outside of what the schema allows and count as missing"
    with pytest.warns(DataWarning, match=told):
        found = sites.measure(tmp_path / "bern.csv", schema=lenient)
    scaler = sites.common_scaler({"bern": found}, schema=lenient)
    with pytest.warns(DataWarning, match=told):
        made = sites.summarize(tmp_path / "bern.csv", 2, scaler=scaler, guard=Guard(1))
    model = sites.aggregate({"bern": made}, 2)
    with pytest.warns(DataWarning, match=told):  # once, though age is read twice
        sites.score(tmp_path / "bern.csv", model, profile=True)


def test_categories_of_which_most_are_unknown_are_told(tmp_path):
    schema = Schema((Column("ward", "category", categories=("007", "042")), Column("age")))
    rows = [f"{ward},{age}\n" for age in range(10) for ward in ("7", "42")]
    (tmp_path / "bern.csv").write_text("ward,age\n" + "".join(rows))  # Excel drops zeros
    told = r"bern.csv, column 'ward': 20 of 20 values are none of the categories .* \(other\)"
    with pytest.warns(DataWarning, match=told):
        sites.measure(tmp_path / "bern.csv", schema=schema)
    half = "007,1\n" * 20
    (tmp_path / "bern.csv").write_text("ward,age\n" + half + "".join(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sites.measure(tmp_path / "bern.csv", schema=schema)


@pytest.mark.parametrize("schema_form", ["NFC", "NFD"])
def test_categories_are_the_same_however_their_letters_are_composed(tmp_path, schema_form):
    names = [normalize(schema_form, name) for name in ("Orléans", "Zürich")]
    schema = Schema((Column("city", "category", categories=tuple(names)), Column("age")))
    table = "city,age\n" + "Orléans,1\nZürich,2\nnon renseigné,3\n" * 5
    found = []
    for form in ("NFC", "NFD"):
        path, copy = tmp_path / f"{form}.csv", tmp_path / f"{form}.parquet"
        path.write_text(normalize(form, table), encoding="utf-8")
        assert sites.check_file(path, schema).fits
        found.append(sites.measure(path, schema=schema).mean.tolist())
        changes = sites.Changes(levels={"city": {normalize("NFD", "Zürich"): names[0]}})
        sites.apply_schema(path, schema, copy, changes)
        mapped = sites.measure(copy, schema=schema).mean
        np.testing.assert_allclose(mapped[:4], [2 / 3, 0, 0, 1 / 3])
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0][:4], [1 / 3, 1 / 3, 0, 1 / 3])


@pytest.mark.parametrize("schema_form", ["NFC", "NFD"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_so_are_marks_of_missing_values(tmp_path, schema_form, form):
    mark, path = normalize(schema_form, "ungeklärt"), tmp_path / "bern.csv"
    columns = (Column("city", "category", categories=("Bern", "Zürich")), Column("age"))
    table = "city,age\n" + "Bern,1\nZürich,2\nungeklärt,3\nBern,ungeklärt\n" * 5
    path.write_text(normalize(form, table), encoding="utf-8")
    found = sites.measure(path, schema=Schema(columns, missing=(mark,)))
    shares = dict(zip(found.columns, found.mean.tolist(), strict=True))
    assert shares["city: (other)"] == 0
    assert shares["city: (missing)"] == shares["age: (missing)"] == 1 / 4


def test_a_category_column_of_one_category_may_have_missing_values(tmp_path):
    (tmp_path / "bern.csv").write_text("land,age\nCH,1\n,2\nDE,3\n")
    schema = Schema((Column("land", "category", categories=("CH",)), Column("age")))
    found = sites.measure(tmp_path / "bern.csv", schema=schema, min_rows=1)
    assert found.columns[:3] == ("land: CH", "land: (other)", "land: (missing)")
    np.testing.assert_allclose(found.mean[:3], 1 / 3)


def test_a_category_of_floats_is_read_value_by_value(tmp_path):
    """One more row must not change how others are read: noise would not hide that."""
    schema = Schema((Column("c", "category", categories=("10000000000", "0", "1.5")),))
    for values in ([1e10, -0.0, 0.0], [1e10, -0.0, 0.0, 1.5], [1e10, -0.0, 0.0, 1.5, np.nan]):
        pd.DataFrame({"c": values}).to_parquet(tmp_path / "c.parquet")
        found = sites.measure(tmp_path / "c.parquet", schema=schema, min_rows=1)
        counts = (found.mean * len(values)).round().astype(int).tolist()
        assert counts == [1, 2, int(1.5 in values), 0, sum(map(np.isnan, values))]


@pytest.mark.parametrize(
    ("change", "told", "column"),
    [
        ({"sizes": [10**6, 10**6], "means": [100.0, 200.0]}, "2,000,000 values", "lab"),
        ({"shift": 5.0}, "mean", "lab"),
        ({"stretch": 3.0}, "spread", "lab"),
        ({"share": ("sex: male", 5.0)}, "share", "sex"),
        ({"share": ("sex: male", 0.9)}, "shares", "sex"),
        ({"share": ("age: (missing)", -3.0)}, "share", "age"),
    ],
)
def test_statistics_that_contradict_themselves_name_their_site(paths, change, told, column):
    """Otherwise one site could move quantiles anywhere, without a word."""
    stats = {name: sites.measure(path, schema=SCHEMA) for name, path in paths.items()}
    lie = stats["bern"]
    sketch = lie.sketches["lab"]
    means, sizes = change.get("means", sketch.means), change.get("sizes", sketch.sizes)
    means = np.asarray(means) + change.get("shift", 0.0)
    middle = np.average(means, weights=sizes)
    changed = Sketch(middle + (means - middle) * change.get("stretch", 1.0), np.asarray(sizes))
    mean = lie.mean.copy()
    if "share" in change:
        name, share = change["share"]
        mean[lie.columns.index(name)] = share
    stats["bern"] = replace(lie, mean=mean, sketches={"lab": changed})
    with raises(MessageError, told, file="bern", column=column):
        sites.common_scaler(stats, schema=SCHEMA)


def test_a_huge_fill_is_an_error_of_the_file(paths):
    content = prepare(paths).encoding.to_dict()
    content["fitted"]["age"]["fill"] = 10**400
    with raises(ParameterError, "fill", column="age"):
        Encoding.from_dict(content)


def test_a_list_of_very_many_parts_is_not_searched():
    """A scaler of 4 MB kept every command busy for a minute."""

    class Part(str):
        n_compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Part.n_compared += 1
            return str.__eq__(self, other)

    sex = Column("sex", "category", categories=("f", "m"))
    fitted = {"sex": {"parts": [Part("x")] * 1000}}
    with raises(ParameterError, "parts", column="sex"):
        Encoding.from_dict({"schema": Schema((sex,)).to_dict(), "fitted": fitted})
    assert Part.n_compared < 10


def test_very_many_columns_of_a_schema_are_found_in_no_time():
    names = [f"c{i}" for i in range(4000)]
    schema = Schema(tuple(Column(name, missing="refuse") for name in names))
    fitted = {name: {"parts": []} for name in names}
    content = {"schema": schema.to_dict(), "fitted": fitted}
    start = time.process_time()
    assert Encoding.from_dict(content).features == tuple(names)
    assert time.process_time() - start < 1  # it was the square of the columns: four seconds
