"""FederatedPreparation is the preparation of the commands, with scikit-learn's API."""

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedjigsaw import FederatedPreparation, Guard, Jigsaw, sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import DataError, DataTypeError, DataWarning, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.frames import from_frame
from fedjigsaw.sites.aggregate import with_reports

SETTINGS = {
    "columns": {
        "age": {"unit": "years", "range": [0, 120]},
        "dose": {"scale": "log"},
        "lab": {"scale": "robust", "missing": "median"},
        "sex": {"kind": "category", "categories": ["female", "male"]},
        "smoker": {"kind": "boolean", "missing": "refuse"},
        "stage": {"kind": "ordered", "categories": ["low", "mid", "high"]},
        "seen": {"kind": "date"},
        "note": {"kind": "ignore"},
    }
}


def make(n=600, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "note": "free text",
            "age": (30.0 + 20 * group + rng.normal(0, 3, n)).clip(0, 120),
            "dose": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(group, 0.2)),
            "lab": np.where(rng.random(n) < 0.05, np.nan, rng.gamma(2, 3, n)),
            "sex": rng.choice(["female", "male"], n),
            "smoker": rng.random(n) < 0.3,
            "stage": rng.choice(["low", "mid", "high"], n),
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    frame.loc[rng.random(n) < 0.03, "sex"] = None
    return frame, np.array(["bern", "lyon", "oslo"])[rng.integers(0, 3, n)]


@pytest.fixture(scope="module")
def data():
    return make()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_and_memory_give_the_same_bits(data, tmp_path, ending):
    frame, clients = data
    schema = Schema.from_dict({"format": 1, **SETTINGS})
    paths = {}
    for name in np.unique(clients):
        paths[name] = tmp_path / f"{name}.{ending}"
        part = frame[clients == name]
        part.to_csv(paths[name], index=False) if ending == "csv" else part.to_parquet(paths[name])
    stats = {n: sites.measure(p, schema=schema, min_rows=5) for n, p in paths.items()}
    scaler = sites.common_scaler(stats, schema=schema)
    summaries = {n: sites.summarize(p, 3, scaler=scaler) for n, p in paths.items()}
    by_file = sites.aggregate(summaries, 3)

    preparation = FederatedPreparation(schema, min_cluster_size=5).set_output(transform="pandas")
    rows = preparation.fit_transform(frame, clients=clients)
    guard = Guard(scaled_by=preparation.scaler_)
    jigsaw = Jigsaw(3, random_state=0).fit(rows, clients=clients, guard=guard)
    assert preparation.scaler_.fingerprint == scaler.fingerprint
    model = ModelFile(
        with_reports(jigsaw, jigsaw.summaries_, jigsaw.model_),
        preparation.scaler_,
        tuple(paths),
        len(frame),
        n_skipped=by_file.n_skipped,
    )
    assert formats.encode(model) == formats.encode(by_file)


@pytest.mark.slow
def test_statistics_do_not_depend_on_the_blocks_of_a_file(tmp_path):
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(1e6, 1, 300_000)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=1000)
    schema = Schema((Column("x", scale="robust"),))
    found = [sites.measure(tmp_path / f"a.{e}", schema=schema) for e in ("csv", "parquet")]
    found.append(sites.measure(from_frame(frame), client="a", schema=schema))
    assert len({formats.encode(stats) for stats in found}) == 1


def test_every_kind_of_table_gives_the_same(data):
    frame, clients = data
    tables = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "categorical": pl.from_pandas(frame).with_columns(pl.col("sex").cast(pl.Categorical)),
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "columns": {name: frame[name].to_numpy() for name in frame},
        "objects": frame.astype(object).set_index("note", drop=False),
        "other order": frame[sorted(frame)],
        "array": frame[list(SETTINGS["columns"])].to_numpy(dtype=object),
    }
    first, *others = (
        FederatedPreparation(SETTINGS).fit(table, clients=clients) for table in tables.values()
    )
    expected = first.transform(frame)
    for table, fitted in zip(list(tables.values())[1:], others, strict=True):
        assert fitted.scaler_.fingerprint == first.scaler_.fingerprint
        assert fitted.transform(table).tobytes() == expected.tobytes()


def test_a_schema_may_be_a_file(data, tmp_path):
    frame, _ = data
    path = tmp_path / "schema.toml"
    path.write_text('format = 1\n[columns.age]\nunit = "years"\n[columns.smoker]\nkind="boolean"')
    for kind, given in (("pandas", path), ("polars", str(path))):
        rows = FederatedPreparation(given).set_output(transform=kind).fit_transform(frame)
        assert list(rows.columns) == ["age", "smoker"]
    with pytest.raises(ParameterError, match="schema"):
        FederatedPreparation(3).fit(frame)


def test_without_a_schema_types_tell_what_columns_mean(data):
    frame, clients = data
    frame = frame.drop(columns="note").assign(
        patient=[f"p{i}" for i in range(len(frame))],
        stage=pd.Categorical(frame["stage"], ["low", "mid", "high"], ordered=True),
        rare=["odd", *["usual"] * (len(frame) - 1)],
    )
    with pytest.warns(DataWarning, match="Column 'patient' is ignored"):
        fitted = FederatedPreparation(min_cluster_size=5).fit(frame, clients=clients)
    kinds = {column.name: column.kind for column in fitted.encoding_.schema.columns}
    found = ["number"] * 3 + ["category", "boolean", "ordered", "date", "ignore", "category"]
    assert kinds == dict(zip(frame, found, strict=True))
    assert fitted.encoding_.schema["sex"].categories == ("female", "male")
    assert fitted.encoding_.schema["stage"].categories == ("low", "mid", "high")
    assert "rare: odd" not in fitted.get_feature_names_out()
    assert fitted.n_features_in_ == 9
    assert fitted.feature_names_in_.tolist() == list(frame)


def test_columns_of_polars_of_every_type():
    frame = pl.DataFrame(
        {
            "day": pl.Series([date(2020, 1, i + 1) for i in range(6)]),
            "time": pl.Series([datetime(2020, 1, i + 1, tzinfo=UTC) for i in range(6)]),
            "yes": [True, False, None] * 2,
            "enum": pl.Series(["a", "b", "c"] * 2, dtype=pl.Enum(["c", "b", "a"])),
            "price": [Decimal("1.5")] * 5 + [None],
            "small": pl.Series([1, 2, 3, None, 5, 6], dtype=pl.Int8),
        }
    )
    fitted = FederatedPreparation().fit(frame)
    kinds = [column.kind for column in fitted.encoding_.schema.columns]
    # the order of an Enum is for sorting, and says nothing about distances
    assert kinds == ["date", "date", "boolean", "category", "number", "number"]
    back = fitted.inverse_transform(fitted.transform(frame))
    for name in ("day", "yes", "enum", "small"):
        assert back[name].to_pylist() == frame[name].to_list()


def test_polars_tables_that_numpy_cannot_hold():
    """Booleans beside dates have no type in common, and polars refuses an array of them."""
    frame = pd.DataFrame({"seen": pd.date_range("2020-01-01", periods=4), "ill": [True, False] * 2})
    prepared = FederatedPreparation().fit_transform(pl.from_pandas(frame))
    assert prepared.tolist() == FederatedPreparation().fit_transform(frame).tolist()


def test_values_come_back_in_their_own_units(data):
    frame, clients = data
    fitted = FederatedPreparation(SETTINGS).fit(frame, clients=clients)
    back = fitted.inverse_transform(fitted.transform(frame)).to_pandas()
    for name in ("age", "dose", "lab"):
        np.testing.assert_allclose(back[name], frame[name], rtol=1e-9)
    for name in ("sex", "stage"):
        assert back[name].fillna("?").tolist() == frame[name].fillna("?").tolist()
    assert back["smoker"].tolist() == frame["smoker"].tolist()
    assert pd.to_datetime(back["seen"]).tolist() == frame["seen"].tolist()
    assert list(back) == [name for name in SETTINGS["columns"] if name != "note"]
    with pytest.raises(DataError, match="1 columns"):
        fitted.inverse_transform([[1.0]])


def test_a_pipeline_gives_the_clients_to_both_steps(data):
    frame, clients = data
    steps = FederatedPreparation(SETTINGS), Jigsaw(3, random_state=0)
    by_hand = clone(steps[1]).fit(
        clone(steps[0]).fit_transform(frame, clients=clients), clients=clients
    )
    pipeline = make_pipeline(*map(clone, steps))
    named = clone(pipeline).fit(
        frame, federatedpreparation__clients=clients, jigsaw__clients=clients
    )
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(
            clone(steps[0]).set_fit_request(clients=True),
            clone(steps[1]).set_fit_request(clients=True),
        ).fit(frame, clients=clients)
    for found in (named, routed):
        assert found[-1].model_ == by_hand.model_
        assert found[-1].transcript_.clients == ("bern", "lyon", "oslo")
    again = pickle.loads(pickle.dumps(named))
    assert (again.predict(frame) == named[-1].labels_).all()
    assert make_pipeline(FederatedPreparation(SETTINGS), KMeans(3)).fit_predict(frame).max() == 2


@parametrize_with_checks([FederatedPreparation()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"age": [1, "old"]}, "X, row 2, column 'age': 'old'"),
        ({"age": [1, 130]}, "X, row 2, column 'age': 130"),
        ({"dose": [1, 2]}, "'age'.* It has 'dose'"),
        ({"age": [1, 2], "b": [1]}, "length"),
        ({"age": [1, object()]}, "'age' .*object"),
        ({}, "0 rows and 0 columns"),
        ([1, 2], "2D"),
        ([[1, 2]], "2"),
    ],
)
def test_what_cannot_be_used_is_named(table, told):
    schema = {"columns": {"age": {"range": [0, 120]}}}
    with pytest.raises(DataError, match=told):
        FederatedPreparation(schema).fit(table)


def test_a_bad_value_is_named_with_its_client():
    ages = {"columns": {"age": {}}}
    with pytest.raises(DataError, match="X of client 'b', row 1, column 'age': 'old'"):
        FederatedPreparation(ages).fit({"age": ["1", "2", "old", "4"]}, clients=list("aabb"))
    with pytest.raises(DataTypeError, match="'pair'"):
        FederatedPreparation().fit({"pair": [[1, 2], [3, 4]]})
    few = FederatedPreparation(ages, min_cluster_size=3)
    with pytest.raises(DataError, match="X of client 'a' has 2 rows"):
        few.fit({"age": [1, 2, 3, 4]}, clients=list("aabb"))
    with pytest.raises(ParameterError, match="min_cluster_size"):
        FederatedPreparation(min_cluster_size=0).fit([[1.0]])


@pytest.mark.parametrize("half", ["fit", "fit_transform"])
def test_a_single_column_is_no_table(half):
    with pytest.raises(DataError, match="2-D"):
        getattr(FederatedPreparation(), half)(pd.Series(["a", None]))
