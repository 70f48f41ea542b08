"""Noisy statistics of columns: the exact table, its sensitivity, its noise, what it gives."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as tests

from fedjigsaw import Privacy, sites
from fedjigsaw.columns.encoding import provisional
from fedjigsaw.columns.schema import Schema
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import NoisyStats
from fedjigsaw.io.frames import from_frame
from fedjigsaw.privacy.dp import GRID, multiplier_for
from fedjigsaw.privacy.statistics import (
    BINS,
    count_outside,
    exact_table,
    plain,
    release,
    sensitivity,
)

COLUMNS = {
    "age": {"range": [0, 120]},
    "dose": {"scale": "log", "range": [0, 99], "outside": "clip"},
    "lab": {"scale": "robust", "missing": "median", "range": [-10, 10], "outside": "missing"},
    "sex": {"kind": "category", "categories": ["f", "m"]},
    "smoker": {"kind": "boolean"},
    "stage": {"kind": "ordered", "categories": ["I", "II", "III"], "missing": "refuse"},
    "seen": {"kind": "date", "range": [18000, 20000], "scale": "range"},
}
SCHEMA = Schema.from_dict({"format": 1, "columns": COLUMNS})
ENCODING = provisional(SCHEMA)
# count, age, dose, stage and seen with two sums each, lab with bins, sex and smoker with counts
LENGTH = math.sqrt(1 + 4 * 2 + 3 + 2)
DAY = pd.Timestamp("2022-06-01")


def promise(**changes):
    bounds = ENCODING.bounds()
    return Privacy(**{"epsilon": 1.0, "bounds": bounds, "insecure_seed": 0, **changes})


def table_of(people, encoding=ENCODING):
    if not people:
        return exact_table([], encoding.encoders)
    frame = pd.DataFrame(people, columns=list(COLUMNS)).astype(
        {"age": float, "dose": float, "lab": float, "seen": "datetime64[ns]"}
    )
    table = from_frame(frame).encoded(encoding)
    return exact_table([batch.rows for batch in table.batches()], encoding.encoders)


def any_of(*values):
    return st.sampled_from([*values, None])


person = st.tuples(
    st.one_of(any_of(0.0, 120.0, 60.0), st.floats(0, 120)),
    st.one_of(any_of(0.0, 99.0, 1e6, -5.0), st.floats(-1e9, 1e9)),
    st.one_of(any_of(-10.0, 10.0, 0.0, 999.0), st.floats(-11, 11)),
    any_of("f", "m", "x", "", "(other)"),
    any_of(True, False),
    st.sampled_from(["I", "II", "III"]),
    any_of(pd.Timestamp("2019-04-14"), pd.Timestamp("2024-10-04"), DAY),
)


def test_the_table_by_hand():
    row = (120.0, 0.0, 0.0, "m", True, "II", None)
    table = table_of([row, (None, 1e6, 999.0, "x", None, "I", DAY)]) / GRID
    assert len(table) == 1 + 3 + 3 + (3 + BINS) + 4 + 2 + 2 + 3
    assert table[:7].tolist() == [2, *[1, 1, 1], *[0, 2, 0]]  # -1 and 1, clipped, are the two doses
    assert table[7:10].tolist() == [0, -1, 1]
    bins = table[10 : 10 + BINS]
    assert np.flatnonzero(bins).tolist() == [BINS // 2]
    rest = table[10 + BINS :]
    assert rest[:8].tolist() == [*[0, 1, 1, 0], *[1, 1], *[-1, 0]]
    assert rest[-1] == 1


@pytest.mark.slow
@given(st.lists(person, min_size=1, max_size=6), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_one_row_changes_the_table_by_at_most_the_sensitivity(people, which):
    """Whatever it is, and whatever the others are: missing, clipped or in no category."""
    which %= len(people)
    change = table_of(people) - table_of(people[:which] + people[which + 1 :])
    assert np.linalg.norm(change.astype(float)) <= sensitivity(ENCODING.encoders)
    alone = table_of([people[which]])
    assert (change == alone).all()  # what the others are has no say


def test_a_row_on_the_bounds_needs_all_of_the_sensitivity():
    table = table_of([(0.0, 99.0, 10.0, "f", True, "III", pd.Timestamp("2019-04-14"))])
    assert np.linalg.norm(table.astype(float)) == pytest.approx(sensitivity(ENCODING.encoders))
    assert sensitivity(ENCODING.encoders) == pytest.approx(GRID * LENGTH)


def test_the_noise_is_that_of_the_promise():
    """On counts of rows, categories and missing values, on sums, and on bins."""
    people = [(60.0, 5.0, 0.0, "f", None, "II", DAY)] * 1500
    table, drawn = table_of(people), []
    for seed in range(300):
        found = release(table, promise(insecure_seed=seed), "a", ENCODING.encoders)
        n, place = found.n_samples, dict(zip(found.columns, found.mean, strict=True))
        drawn.append([n - 1500, n * place["sex: f"], n * (place["age"] - 60) / 60])
        drawn[-1].append(n * place["smoker: (missing)"])
    noise = multiplier_for(1.0, 1e-6) * LENGTH
    rows, female, age, missing = np.array(drawn).T
    assert tests.kstest(rows / noise, "norm").pvalue > 0.01
    assert tests.kstest(age / noise, "norm").pvalue > 0.01
    for counts in (female, missing):  # shares above 1 are cut off
        below = counts[counts < 1500 + rows - 1e-6]
        assert len(below) == pytest.approx(150, abs=40)
    assert (female - missing).std() > noise / 2  # each has noise of its own


def test_every_entry_of_the_table_gets_noise():
    empty = np.zeros_like(table_of([]))
    found = [release(empty, promise(insecure_seed=s), "a", ENCODING.encoders) for s in range(40)]
    sizes = [sketch.sizes.sum() for sketch in (stats.sketches["lab"] for stats in found)]
    assert np.std(sizes) > 0
    means = np.array([stats.mean for stats in found])
    assert (means.std(axis=0) > 0).all()


class TestPlainColumns:
    """Columns without a schema: each is a number within the bounds of the promise."""

    privacy = Privacy(1.0, bounds=([0.0, -5.0], [120.0, 5.0]))

    def test_the_table_by_hand(self):
        rows = np.array([[0.0, 0.0], [120.0, 99.0]])  # u = (-1, 0) and, clipped, (1, 1)
        columns = plain(("age", "dose"), self.privacy)
        for blocks in ([rows], [rows[:1], rows[1:]]):
            assert (exact_table(blocks, columns) / GRID).tolist() == [2, 0, 2, 1, 0]
        assert count_outside(rows, self.privacy) == 1

    @pytest.mark.parametrize("n_columns", [1, 2, 40])
    def test_one_row_changes_the_table_by_at_most_the_sensitivity(self, rng, n_columns):
        rows = rng.normal(0, 4, (300, n_columns))
        rows[:2] = [[-3.0], [5.0]]  # corners are the worst
        columns = plain([str(j) for j in range(n_columns)], Privacy(1.0, bounds=(-3, 5)))
        whole = exact_table([rows], columns)
        changes = [whole - exact_table([np.delete(rows, i, 0)], columns) for i in range(300)]
        lengths = np.linalg.norm(np.array(changes, dtype=float), axis=1)
        assert lengths.max() <= sensitivity(columns)
        assert lengths.max() == pytest.approx(sensitivity(columns))  # so it is not too large either


def test_a_whole_site_cannot_be_protected():
    with pytest.raises(ParameterError, match="scaler from the bounds instead"):
        release(table_of([]), promise(unit="site"), "a", ENCODING.encoders)


def make(rng, n):
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(60, 12, n).clip(0, 120)),
            "dose": np.where(rng.random(n) < 0.15, np.nan, rng.lognormal(1, 0.8, n)),
            "lab": np.where(rng.random(n) < 0.1, np.nan, rng.normal(3, 1, n)),
            "sex": rng.choice(["f", "m", None], n, p=[0.5, 0.3, 0.2]),
            "smoker": rng.choice([True, False, None], n, p=[0.2, 0.5, 0.3]),
            "stage": rng.choice(["I", "II", "III"], n, p=[0.2, 0.3, 0.5]),
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )


def test_many_rows_give_nearly_the_preparation_without_noise(rng):
    tables = {f"site{i}": from_frame(make(rng, 20_000)) for i in range(2)}
    exact, noisy = (
        sites.common_scaler(
            {
                name: sites.measure(table, client=name, schema=SCHEMA, privacy=privacy)
                for name, table in tables.items()
            },
            schema=SCHEMA,
        )
        for privacy in (None, promise())
    )
    assert noisy.columns == exact.columns
    assert noisy.mean == pytest.approx(exact.mean, rel=0.01, abs=0.03)
    assert noisy.deviation == pytest.approx(exact.deviation, rel=0.03)
    for ours, theirs in zip(noisy.encoding.encoders, exact.encoding.encoders, strict=True):
        if ours.column.missing not in ("refuse", "category"):
            assert ours.fill == pytest.approx(theirs.fill, rel=0.02, abs=0.02)


def test_noise_moves_no_common_value_out_of_its_range(rng):
    frame = make(rng, 300).assign(dose=99.0)
    frame["age"] = np.where(rng.random(300) < 0.4, np.nan, 120.0)
    for seed in range(20):
        privacy = promise(insecure_seed=seed)
        found = sites.measure(from_frame(frame), client="a", schema=SCHEMA, privacy=privacy)
        scaler = sites.common_scaler({"a": found}, schema=SCHEMA)
        fills = {e.column.name: e.fill for e in scaler.encoding.encoders}
        assert 0 <= fills["age"] <= 120
        assert 0 <= fills["dose"] <= math.log1p(99)
        assert (scaler.deviation > 0).all()


def test_nothing_but_noise_is_a_statistic(rng):
    for seed in range(20):
        privacy = promise(insecure_seed=seed, epsilon=0.1)
        table = from_frame(make(rng, 2))
        found = sites.measure(table, client="a", schema=SCHEMA, privacy=privacy)
        assert found.n_samples >= 1
        low, high = ENCODING.bounds()
        assert ((low <= found.mean) & (found.mean <= high)).all()
        assert -10 <= found.sketches["lab"].quantile(0.5) <= 10


def test_noise_of_the_operating_system_and_the_file(rng, tmp_path):
    table = from_frame(make(rng, 2_000))
    found = sites.measure(table, client="a", schema=SCHEMA, privacy=Privacy(2.0, bounds=(0, 1)))
    assert found.n_samples == pytest.approx(2_000, abs=200)
    low, high = ENCODING.bounds()
    assert found.privacy.bounds == (tuple(low), tuple(high))
    formats.save(found, tmp_path / "a.stats")
    again = formats.load(tmp_path / "a.stats", NoisyStats)
    assert again.sketches["lab"].means.tolist() == found.sketches["lab"].means.tolist()
    assert again.schema == SCHEMA.fingerprint


def test_nothing_is_spent_on_rows_that_are_refused(rng):
    def spend(privacy, multiplier):
        raise AssertionError("spent")

    frame = make(rng, 50)
    frame.loc[7, "age"] = 130.0
    with pytest.raises(DataError, match="row 8, column 'age': 130 is outside the range"):
        sites.measure(from_frame(frame), client="a", schema=SCHEMA, privacy=promise(), spend=spend)
    open_ended = Schema.from_dict({"format": 1, "columns": {"age": {}, "sex": COLUMNS["sex"]}})
    with pytest.raises(ParameterError, match="Column 'age' has no range in the schema"):
        sites.measure(
            from_frame(frame), client="a", schema=open_ended, privacy=promise(), spend=spend
        )
