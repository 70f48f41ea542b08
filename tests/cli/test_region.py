"""aggregate --as-summary."""

import json

import numpy as np
import pytest

from builders import blobs, write_table
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    shards, _ = blobs(np.random.default_rng(0), k=3)
    for X, name in zip(shards, "abcd", strict=True):
        write_table(tmp_path / f"{name}.parquet", x=X[:, 0], y=X[:, 1])
        run(f"summarize {name}.parquet -k 3 -o {name}.summary")


def test_summaries_pass_as_they_are_up_to_four_centers_for_each_cluster(run, tmp_path):
    files = "a.summary b.summary c.summary d.summary"
    text = run(f"aggregate {files} -k 3 --as-summary -o n.summary").stdout
    assert "4 sites, 240 rows -> region 'n': 12 centers" in " ".join(text.split())
    run("aggregate n.summary -k 3 -o high")
    run(f"aggregate {files} -k 3 -o flat")
    assert (tmp_path / "high").read_bytes() == (tmp_path / "flat").read_bytes()


def test_more_are_merged(run, tmp_path):
    command = "aggregate a.summary b.summary -k 3 --as-summary --centers 4 --client north"
    found = json.loads(run(f"{command} -o n.summary --json").stdout)
    assert (found["region"], found["n_centers"], found["merged"]) == ("north", 4, True)
    assert found["sites"] == ["a", "b"]
    assert formats.load(tmp_path / "n.summary", SummaryFile).summary.client == "north"
    text = " ".join(run("inspect n.summary").stdout.split())
    assert "a region of 2 sites: a (60 rows), b (60 rows)" in text
    assert "region." not in text  # arrays that nobody could read


@pytest.mark.parametrize("option", ["--client north", "--centers 5"])
def test_options_of_regions_need_as_summary(run, option):
    with pytest.raises(ParameterError, match="--as-summary"):
        run(f"aggregate a.summary b.summary -k 3 -o model {option}")


def test_a_site_in_two_files_is_named_with_both(run):
    run("aggregate a.summary b.summary -k 3 --as-summary -o n.summary")
    with pytest.raises(MessageError, match=r"'b' is in b\.summary and in n\.summary"):
        run("aggregate b.summary n.summary -k 3 -o model")
