"""Whatever inspect shows of a column is in the units of the table, or says which unit it is."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.schema import Schema, to_days
from fedjigsaw.errors import MessageError
from fedjigsaw.io._codec import pack, unpack
from fedjigsaw.io.formats import decode, encode
from fedjigsaw.privacy import Privacy
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.values import file_values
from fedjigsaw.sites.stats import common_scaler

SCHEMA = Schema.from_dict(
    {
        "format": 1,
        "columns": {
            "age": {"unit": "years", "range": [0, 120]},
            "dose": {"unit": "mg", "scale": "log", "range": [0, 500], "missing": "median"},
            "seen": {
                "kind": "date",
                "scale": "robust",
                "range": [
                    to_days(pd.Timestamp(day).date()) for day in ("2019-01-01", "2023-12-31")
                ],
            },
            "stage": {"kind": "ordered", "categories": ["low", "mid", "high"]},
            "smoker": {"kind": "boolean"},
        },
    }
)
WIDE = Schema(tuple(replace(column, range=None) for column in SCHEMA.columns))
BOUNDS = (
    "age 0 to 120 years, .*dose 0 to 500 mg, .*seen 2019-01-01 to 2023-12-31, .*stage low to high"
)
DAYS = re.compile(r"\b1[789]\d{3}(\.\d+)?\b")  # since 1970-01-01, in these years


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    group = np.arange(60) % 3
    frame = pd.DataFrame(
        {
            "age": (30 + 20 * group + rng.normal(0, 3, 60)).round(1),
            "dose": np.expm1(1 + group + rng.normal(0, 0.2, 60)).round(3),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(200 * group, "D"),
            "stage": np.array(["low", "mid", "high"])[group],
            "smoker": np.where(group == 1, "yes", "no"),
        }
    )
    path = tmp_path_factory.mktemp("units") / "bern.csv"
    frame.to_csv(path, index=False)
    return path, frame


def private():
    return Privacy(5.0, cells="own", bounds=(0, 1), insecure_seed=0)


@pytest.fixture(scope="module")
def files(table):
    """Every kind of file that a site sends, exact and noisy, as it is read."""
    path, _ = table
    exact = sites.measure(path, schema=SCHEMA, min_rows=5)
    scaler = common_scaler({"bern": exact}, schema=SCHEMA)
    features = replace(private(), bounds=scaler.encoding.bounds())
    shown = replace(private(), bounds=([0, 0, 17897, 0, 0], [120, 500, 19722, 2, 1]))
    summary = sites.summarize(path, 3, scaler=scaler)
    model = sites.aggregate({"bern": summary}, 3)
    found = {
        "stats": exact,
        "noisy stats": sites.measure(path, schema=SCHEMA, privacy=private()),
        "summary": summary,
        "noisy summary": sites.summarize(path, 3, scaler=scaler, privacy=features),
        "model": model,
        "score": sites.score(path, model, profile=True),
        "noisy score": sites.score(path, model, profile=True, privacy=shown),
    }
    return {name: decode(encode(file)) for name, file in found.items()}


def test_no_file_shows_dates_as_numbers(files):
    for name, file in files.items():
        lines = [line for line in describe(file, 1) if "seen" in line]
        assert lines, name
        without = [re.sub("sum of squares [^)]*", "", line) for line in lines]
        assert not list(filter(DAYS.search, without)), name


def test_bounds_are_in_the_units_of_the_table(files):
    for name, file in files.items():
        (*_, bounds) = ["", *(line for line in describe(file, 1) if line.startswith("- Bounds"))]
        assert bool(re.search(BOUNDS, bounds)) is name.startswith("noisy"), name
        if name.startswith("noisy"):
            values = file_values(file, [])["privacy"]["bounds"]
            assert values["dose"] == pytest.approx([0, 500])
            assert values["seen"] == [17897, 19722]


def test_a_profile_takes_no_logarithm(files, table):
    (line,) = (x for x in describe(files["score"], 1) if x.startswith("  0: age"))
    means = table[1].groupby("stage")["dose"].mean()
    shown = float(re.search(r"dose ([\d.]+) mg \(n 20", line)[1])
    assert np.abs(means / shown - 1).min() < 0.2
    assert re.search(r"seen 20\d\d-\d\d-\d\d \(n 20", line)


def test_a_schema_that_did_not_make_the_statistics_is_refused(files):
    header, arrays = unpack(encode(files["stats"]))
    other = SCHEMA.without(["age"]).to_dict()
    with pytest.raises(MessageError, match="columns of client 'bern' are not"):
        decode(pack({**header, "made_by": other}, arrays))
    for wrong in ({}, [], {"format": 1, "columns": {"a": {"kind": "x"}}}):
        with pytest.raises(MessageError):
            decode(pack({**header, "made_by": wrong}, arrays))


def test_ignored_columns_whose_names_leave_with_the_schema_are_shown(tmp_path):
    pd.DataFrame({"age": np.arange(9.0), "nickname": "x"}).to_csv(tmp_path / "a.csv", index=False)
    columns = {"age": {}, "nickname": {"kind": "ignore"}}
    schema = Schema.from_dict({"format": 1, "columns": columns})
    stats = sites.measure(tmp_path / "a.csv", schema=schema)
    assert b"nickname" in encode(stats)
    assert "columns that are ignored: 'nickname'." in "\n".join(describe(stats, 9))


class TestSitesCompared:
    """The coordinator compares what sites sent: in units, as inspect shows it."""

    def stats(self, table, n_sites, **changed):
        frame = table[1].assign(dose=table[1]["dose"] + 20)
        found = {}
        for i in range(n_sites):
            part = frame.iloc[i:].copy()
            for name, change in changed.items() if i == 1 else ():
                part[name] = change(part[name])
            path = table[0].parent / f"site{i}.csv"
            part.to_csv(path, index=False)
            found[path.stem] = sites.measure(path, schema=WIDE)
        return found

    def test_columns_in_which_units_seem_to_differ(self, table):
        stats = self.stats(table, 3, dose=lambda x: 1000 * x)
        text = "\n".join(map(str, sites.unlike_units(stats, [])))
        assert re.search(r"site0: 60 rows, geometric mean 2\d\.\d+ mg, deviation a factor of", text)
        assert re.search(r"site1: 59 rows, geometric mean 2\.\d+e\+04 mg, deviation a fact", text)
        stats = self.stats(table, 3, seen=lambda x: x + pd.Timedelta(40_000, "D"))
        text = "\n".join(map(str, sites.unlike_units(stats, [])))
        assert re.search(r"site0: 60 rows, mean 2020-\d\d-\d\d, deviation 1\d\d days", text)
        assert "site1: 59 rows, mean 2130-" in text
        assert not DAYS.search(text)

    def test_missing_values_do_not_hide_another_unit(self, tmp_path, rng):
        schema = Schema.from_dict({"format": 1, "columns": {"glucose": {"range": [0, 400]}}})
        stats = {}
        for site, unit in (("bern", 18), ("lyon", 1), ("oslo", 18)):
            values = rng.normal(6.7, 1.2, 200) * unit
            values[:10] = np.nan  # they are filled with 200 until the common mean is known
            pd.DataFrame({"glucose": values}).to_csv(tmp_path / f"{site}.csv", index=False)
            stats[site] = sites.measure(tmp_path / f"{site}.csv", schema=schema)
        (found,) = sites.unlike_units(stats, [])
        assert (found.column, found.clients) == ("glucose", ("lyon",))
