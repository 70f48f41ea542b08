"""The commands methods and data."""

import json

import pytest

from fedjigsaw import datasets
from fedjigsaw.errors import FedJigsawError


def test_methods(run):
    assert "CentralKMeans" in run("methods").stdout
    listed = json.loads(run("methods", "--json").stdout)
    assert listed["feca"]["parameters"]["refine"] == "True or False"
    assert listed["deepfeca"]["parameters"] is None  # they are not known without torch


def test_data(run, monkeypatch, tmp_path):
    monkeypatch.delenv("FEDJIGSAW_DATA", raising=False)
    monkeypatch.setenv("FEDJIGSAW_CACHE", str(tmp_path))
    assert "data fetch ssets" in run("data").stdout
    listed = json.loads(run("data", "--json").stdout)
    assert (listed["digits"]["here"], listed["s1"]["here"]) == (True, False)


def test_fetch(run, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(datasets, "fetch_ssets", lambda home: asked.append(home) or tmp_path)
    result = run("data", "fetch", "ssets", "--home", "http://127.0.0.1/x")
    assert str(tmp_path) in result.stdout.replace("\n", "")
    assert asked == ["http://127.0.0.1/x/"]
    with pytest.raises(FedJigsawError, match="There is no download 's1'"):
        run("data", "fetch", "s1")
