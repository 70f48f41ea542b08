"""What the page about security says is not defended by file: these attacks work."""

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import Model, sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array

N, RARE = 200, 17
COLUMNS = ["age", "dose"]


@pytest.fixture
def rows():
    found = np.random.default_rng(0).normal([50, 3], [10, 1], (N, 2)).round(1)
    found[RARE] = 93.4, 2.2
    return found


@pytest.fixture
def table(tmp_path, rows):
    status = np.array(["negative"] * N)
    status[RARE] = "positive"
    write_table(tmp_path / "bern.csv", age=rows[:, 0], status=status.tolist())
    return tmp_path / "bern.csv"


def statistics(table, *columns):
    """Names of features -> their exact sum, with the guard of the command."""
    found = sites.measure(table, schema=Schema(columns), min_rows=5, client="bern")
    return dict(zip(found.columns, found.mean * found.n_samples, strict=True))


def test_exact_statistics_before_and_after_give_the_row(rows):
    before, after = (
        sites.measure(from_array(some, COLUMNS), client="bern", min_rows=5)
        for some in (np.delete(rows, RARE, axis=0), rows)
    )
    assert after.mean * N - before.mean * (N - 1) == pytest.approx(rows[RARE])


def test_columns_that_one_row_lacks_give_its_other_values(rows):
    """With --drop-missing, each choice of columns is one of rows."""
    rows = np.c_[rows, np.zeros(N)]
    rows[RARE, 2] = np.nan
    table = from_array(rows, [*COLUMNS, "smoker"])
    found = [
        sites.measure(table, client="bern", columns=names, min_rows=5, drop_missing=True)
        for names in (COLUMNS, [*COLUMNS, "smoker"])
    ]
    sums = [stats.n_samples * stats.mean[:2] for stats in found]
    assert sums[0] - sums[1] == pytest.approx(rows[RARE, :2])


@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.DataWarning")
def test_ranges_of_a_schema_give_the_greatest_value(table):
    """Values outside are missing ones, and these are counted exactly."""

    def missing(greatest):
        column = Column("age", range=(0, greatest), outside="missing")
        return round(statistics(table, column)["age: (missing)"])

    assert [missing(greatest) for greatest in (93.3, 93.4)] == [1, 0]


def test_an_order_of_categories_counts_the_rare_ones(table):
    words = ("negative", "positive")
    guarded = statistics(table, Column("status", kind="category", categories=words))
    assert guarded["status: positive"] == 0
    ranks = statistics(table, Column("status", kind="ordered", categories=words))
    assert ranks["status"] == pytest.approx(1)


def test_scores_of_several_models_give_a_row_that_is_alone(rows):
    """Its distances to three places are told exactly."""
    places = np.array([[93.0, 2.0], [93.0, 2.5], [94.0, 2.0]])
    squared = []
    for place in places:
        model = Model([[75.0, 3.0], place], feature_names=tuple(COLUMNS))
        file = ModelFile(model, None, ("bern",), N)
        found = sites.score(from_array(rows, COLUMNS), file, client="bern")
        assert found.counts.tolist() == [N - 1, 1]
        squared.append(found.sse[1])
    # |x - p|^2 - |x - q|^2 = |p|^2 - |q|^2 - 2 x (p - q)
    lengths = (places**2).sum(axis=1)
    known = lengths[0] - lengths[1:] - squared[0] + np.array(squared[1:])
    assert np.linalg.solve(2 * (places[0] - places[1:]), known) == pytest.approx(rows[RARE])


def test_what_all_rows_of_a_cluster_have_is_told_of_each(rows):
    rows[:, 1] = rows[:, 0] > np.sort(rows[:, 0])[-6]  # the five oldest smoke
    sent = sites.summarize(from_array(rows * [1, 1000], COLUMNS), 2, client="bern").summary
    assert sorted(zip(sent.centers[:, 1].tolist(), sent.counts.tolist(), strict=True)) == [
        (0.0, N - 5),
        (1000.0, 5),
    ]
