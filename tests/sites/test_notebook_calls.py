"""What callers in a notebook do: paths as strings, rows in memory, and nothing at all."""

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import sites
from fedjigsaw.errors import DataError, DataTypeError, ParameterError, QuorumError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array, open_table

ROWS = np.repeat([[0.0, 1.0], [9.0, 8.0]], 5, axis=0)


def test_paths_may_be_strings(tmp_path):
    table = from_array(ROWS)
    summary = sites.summarize(table, 2, client="bern")
    at = f"{tmp_path}/bern.summary"
    formats.save(summary, at)
    assert formats.load(at, formats.SummaryFile).summary.client == "bern"
    assert list(sites.read_summaries([at])) == [at]
    scaler = sites.common_scaler({"bern": sites.measure(table, client="bern")})
    formats.save_scaler(scaler, f"{tmp_path}/scaler.json")
    assert formats.load_scaler(f"{tmp_path}/scaler.json").fingerprint == scaler.fingerprint
    parts = sites.assign(table, sites.aggregate({at: summary}, 2))
    assert sites.write_labels(f"{tmp_path}/labels.csv", parts) == 10
    with pytest.raises(ParameterError, match="a is given twice"):
        sites.check_once(["a", "./a"])


@pytest.mark.parametrize("rows", [ROWS, pd.DataFrame(ROWS), [[0.0]]])
@pytest.mark.parametrize(
    "call", [sites.measure, sites.propose_schema, open_table, lambda X: sites.summarize(X, 2)]
)
def test_rows_in_memory_need_a_table(call, rows):
    with pytest.raises(DataTypeError, match="from_array"):
        call(rows)


def test_a_table_keeps_the_names_of_a_data_frame():
    frame = pd.DataFrame(ROWS, columns=["age", "dose"])
    assert from_array(frame).columns == ("age", "dose")
    assert from_array(frame, ["a", "b"]).columns == ("a", "b")
    assert from_array(frame.to_numpy(), frame.columns).columns == ("age", "dose")


def test_contents_of_files_are_given_by_name():
    table = from_array(ROWS)
    summary, stats = sites.summarize(table, 2, client="bern"), sites.measure(table, client="bern")
    model = sites.aggregate({"bern": summary}, 2)
    score = sites.score(table, model, client="bern")
    for call, good in [
        (lambda files: sites.aggregate(files, 2), summary),
        (sites.check_fit_together, summary),
        (sites.merge_statistics, stats),
        (sites.common_scaler, stats),
        (sites.merge_scores, score),
    ]:
        for wrong in ([good], "bern.summary", {"bern": "bern.summary"}, {"bern": model}, {}):
            with pytest.raises((ParameterError, QuorumError)):
                call(wrong)
    with pytest.raises(ParameterError):
        sites.read_summaries("bern.summary")


@pytest.mark.parametrize(
    "call",
    [
        lambda rows, file: list(sites.assign(rows, file)),
        sites.score,
        lambda _, file: sites.compare(file, file),
    ],
)
@pytest.mark.parametrize("wrong", ["bern.model", None])
def test_a_model_is_the_content_of_its_file(call, wrong):
    with pytest.raises(ParameterError, match="ModelFile"):
        call(from_array(ROWS), wrong)


def test_no_labels_to_write(tmp_path):
    with pytest.raises(ParameterError, match="labels.csv: there are no labels"):
        sites.write_labels(tmp_path / "labels.csv", [])


def test_distance_of_no_rows():
    summary = sites.summarize(from_array(ROWS), 2, client="bern")
    with pytest.raises(DataError, match="missing values"):
        sites.mean_squared_distance(from_array(np.full((3, 2), np.nan)), summary, drop_missing=True)
