"""Numbers and days that stand for missing values are named before anything leaves a site."""

import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedjigsaw import Privacy, sites
from fedjigsaw.columns.schema import Column, Schema, from_days
from fedjigsaw.errors import DataWarning

RNG = np.random.default_rng(0)
N = 300
AGES = RNG.normal(55, 12, N).round()
DAYS = [date(2024, 1, 1) + timedelta(int(d)) for d in RNG.integers(0, 300, N)]
FORMATS = {"iso": "%Y-%m-%d", "german": "%d.%m.%Y", "time": "%Y-%m-%d 23:59:59"}


def with_mark(values, mark, n=12):
    return [mark, *values[1 : 1 - n], *[mark] * (n - 1)]


def save(path, **columns):
    pd.DataFrame({"bmi": RNG.normal(25, 3, N).round(2), **columns}).to_csv(path, index=False)
    return path


class TestDays:
    @pytest.mark.parametrize("mark", [date(9999, 12, 31), date(1900, 1, 1), date(1970, 1, 1)])
    @pytest.mark.parametrize("pattern", FORMATS.values(), ids=FORMATS)
    def test_a_day_beyond_all_others_is_proposed_and_removed(self, tmp_path, mark, pattern):
        days = [day.strftime(pattern) for day in with_mark(DAYS, mark)]
        path = save(tmp_path / "x.csv", seen=days)
        (_, entry) = sites.propose_schema(path).columns
        assert f"--missing seen:{mark}" in " ".join(entry.notes)
        first, last = map(from_days, entry.column.range)
        assert (first.year, last.year) == (2023, 2025)  # not widened by the mark
        strict = Schema((Column("bmi"), Column("seen", "date", range=entry.column.range)))
        found = sites.check_file(path, strict)
        assert found.options == (("--missing", f"seen:{mark}"),)
        copy = tmp_path / "copy.parquet"
        changes = sites.Changes(missing_in={"seen": [str(mark)]})
        assert sites.apply_schema(path, strict, copy, changes).n_missing["seen"] == 12
        assert sites.check_file(copy, strict).fits

    def test_real_dates_have_marks_too(self, tmp_path):
        path = tmp_path / "x.parquet"
        days = pa.array(with_mark(DAYS, date(9999, 12, 31)), pa.date32())
        pq.write_table(pa.table({"bmi": RNG.normal(25, 3, N), "seen": days}), path)
        schema = Schema((Column("bmi"), Column("seen", "date")))
        assert "9999-12-31 occurs" in " ".join(sites.check_file(path, schema).columns[1].remarks)
        changes = sites.Changes(missing_in={"seen": ["9999-12-31"]})
        done = sites.apply_schema(path, schema, tmp_path / "copy.parquet", changes)
        assert done.n_missing["seen"] == 12

    def test_a_day_between_others_is_a_day(self, tmp_path):
        days = [date(1940, 1, 1) + timedelta(120 * i) for i in range(N)]
        path = save(tmp_path / "x.csv", seen=with_mark(days, date(1970, 1, 1)))
        schema = Schema((Column("bmi"), Column("seen", "date")))
        assert sites.check_file(path, schema).columns[1].remarks == ()

    def test_days_of_zeros_are_missing(self, tmp_path):
        path = save(tmp_path / "x.csv", seen=with_mark(DAYS, "0000-00-00"))
        schema = Schema((Column("bmi"), Column("seen", "date")))
        assert sites.check_file(path, schema).columns[1].n_missing == 12


RANGED = Schema((Column("bmi", range=(0, 60)), Column("age", range=(0, 1000))))


class TestNumbers:
    @pytest.mark.parametrize("mark", [9999, -999, 999])
    @pytest.mark.parametrize("n", [2, 12])
    def test_statistics_warn_of_them(self, tmp_path, mark, n):
        path = save(tmp_path / "x.csv", age=with_mark(AGES, mark, n))
        for schema in (None, Schema((Column("bmi"), Column("age")))):
            with pytest.warns(DataWarning, match=f"'age': {mark} occurs in {n} rows"):
                sites.measure(path, schema=schema)

    @pytest.mark.parametrize("settings", [{"scale": "log"}, {"missing": "median"}])
    def test_with_logarithms_and_missing_values(self, tmp_path, settings):
        ages = [None if i % 3 == 0 else age for i, age in enumerate(with_mark(AGES, 9999, 30))]
        path = save(tmp_path / "x.csv", age=ages)
        schema = Schema((Column("bmi"), Column("age", **settings)))
        with pytest.warns(DataWarning, match="9999 occurs in 20 rows"):
            sites.measure(path, schema=schema)

    def test_days_in_statistics(self, tmp_path):
        path = save(tmp_path / "x.csv", seen=with_mark(DAYS, date(1900, 1, 1)))
        schema = Schema((Column("bmi"), Column("seen", "date")))
        with pytest.warns(DataWarning, match="schema apply --missing seen:1900-01-01"):
            sites.measure(path, schema=schema)

    @pytest.mark.parametrize("schema", [None, RANGED])
    def test_noisy_statistics_warn_before_they_are_paid_for(self, tmp_path, schema):
        path = save(tmp_path / "x.csv", age=with_mark(AGES, 999))
        privacy = Privacy(1.0, 1e-6, (np.array([0.0, 0.0]), np.array([60.0, 1000.0])))
        paid = []
        with warnings.catch_warnings(record=True, action="always") as caught:
            spend = lambda *_: paid.extend(w.category for w in caught)  # noqa: E731
            sites.measure(path, privacy=privacy, spend=spend, schema=schema)
        assert DataWarning in paid

    def test_summaries_warn_of_them(self, tmp_path):
        """Statistics may have been skipped, or come from another version of the file."""
        path = save(tmp_path / "x.csv", age=with_mark(AGES, 999))
        with pytest.warns(DataWarning, match="'age': 999 occurs in 12 rows"):
            sites.summarize(path, 3)
        schema = Schema((Column("bmi"), Column("age", scale="log")))
        with pytest.warns(DataWarning):
            scaler = sites.common_scaler({"x": sites.measure(path, schema=schema)}, schema=schema)
        with pytest.warns(DataWarning, match="--missing age:999"):
            sites.summarize(path, 3, scaler=scaler)

    @pytest.mark.parametrize(
        "values",
        [
            AGES,
            [*AGES[:-2], 99, 99],  # somebody is 99
            RNG.integers(-1, 2, N),
            RNG.lognormal(3, 1.5, N).round(),  # a long tail, in which 99 occurs
            [*np.arange(200) * 5, *[999] * 100],
        ],
        ids=["ages", "old", "signs", "tail", "wide"],
    )
    def test_other_columns_are_left_in_peace(self, tmp_path, values):
        path = save(tmp_path / "x.csv", x=values)
        with warnings.catch_warnings(action="error"):
            sites.measure(path)
            sites.summarize(path, 3)
