"""Commands with methods that are no part of the package, as processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import methods, partition
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile
from plugin_packages import WARD, install

COMMAND = Path(sys.executable).parent / "fedjigsaw"


@pytest.fixture
def sites(tmp_path):
    """Two files of rows."""
    rng = np.random.default_rng(0)
    for name in ("bern", "oslo"):
        rows = np.repeat([[0.0, 0.0], [20.0, 5.0]], 30, axis=0) + rng.normal(size=(60, 2))
        np.savetxt(tmp_path / f"{name}.csv", rows, "%.4f", ",", header="age,dose", comments="")
    return tmp_path


def shell(folder, words, *installed):
    """Run a command in a folder; packages in other folders count as installed."""
    path = os.pathsep.join(map(str, installed))
    return subprocess.run(
        [COMMAND, *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": path},
        timeout=120,
    )


@pytest.fixture
def toy(tmp_path):
    """A package that works and imports pandas, which no command of ours does."""
    code = "import pandas\n" + WARD
    return install(tmp_path / "toy", "toy-clusters", {"toy-ward": "toy:ToyWard"}, toy=code)


@pytest.fixture
def broken(tmp_path):
    """A package that does not even import."""
    points = {"toy-broken": "broken:Ward", "jigsaw": "broken:Ward"}
    return install(tmp_path / "broken", "broken-clusters", points, broken="1 / 0")


@pytest.mark.slow
class TestInstalledPackages:
    def test_a_round_by_files(self, sites, toy, broken):
        def succeed(words, *installed):
            done = shell(sites, words, *installed)
            assert done.returncode == 0, done.stderr

        for name in ("bern", "oslo"):
            words = f"summarize {name}.csv -k 2 --method toy-ward -p scale=1 -o {name}.summary"
            succeed(words, toy, broken)
        succeed("aggregate bern.summary oslo.summary -k 2 -o model", toy, broken)
        succeed("assign bern.csv --model model -o labels.csv")  # needs no package
        model = formats.load(sites / "model", ModelFile).model
        assert model.method == "toy-ward"
        assert np.abs(model.centers - [[0, 0], [20, 5]]).max() < 1
        done = shell(sites, "aggregate bern.summary oslo.summary -k 2 -o other")
        assert done.returncode == 4
        assert "'toy-ward'" in done.stderr
        assert "--plugin" in done.stderr

    def test_experiments(self, sites, toy, broken):
        words = "compare --dataset iris --split iid --clients 3 --runs 1 -k 3 --json --force"
        done = shell(sites, f"{words} --method toy-ward --method jigsaw", toy, broken)
        assert [row["method"] for row in json.loads(done.stdout)["rows"]] == ["toy-ward", "jigsaw"]
        done = shell(sites, f"{words} --method toy-broken", toy, broken)
        assert done.returncode == 7
        for part in ("'toy-broken' of broken-clusters 1.0", "broken:Ward", "ZeroDivisionError"):
            assert part in done.stderr

    def test_the_list_of_methods_has_them_and_says_what_is_broken(self, tmp_path, toy, broken):
        shown = " ".join(shell(tmp_path, "methods", toy, broken).stdout.split())
        for part in (
            "ToyWard",
            "toy-clusters 1.0",
            "'toy-broken' of broken-clusters 1.0 cannot be",
        ):
            assert part in shown
        listed = json.loads(shell(tmp_path, "methods --json", toy, broken).stdout)
        assert listed["toy-ward"]["parameters"]["scale"] == "any value"
        assert "ZeroDivisionError" in listed["toy-broken"]["error"]
        assert listed["jigsaw"]["label"] == "Jigsaw"


@pytest.fixture
def nothing_stays(monkeypatch):
    monkeypatch.setattr(methods, "_registered", {})
    monkeypatch.setattr(partition, "_own", {})
    monkeypatch.setattr(partition, "WITHOUT_CLASSES", list(partition.WITHOUT_CLASSES))
    names = dict(partition.SPLITS)
    yield
    for name in set(partition.SPLITS) - set(names):
        del partition.SPLITS[name]
    for name in ("toy_file", "toy_split"):
        sys.modules.pop(name, None)


SPLIT = """
import numpy as np
from fedjigsaw import partition

@partition.register
def by_order(X, labels, n_clients, rng):
    return np.arange(len(labels)) * n_clients // len(labels)
"""


@pytest.mark.usefixtures("nothing_stays")
class TestOwnFiles:
    def test_a_command_runs_the_methods_of_a_file(self, run, sites):
        (sites / "toy_file.py").write_text(WARD)
        plugin = ("--plugin", sites / "toy_file.py")
        data, summary = sites / "bern.csv", sites / "bern.summary"
        with pytest.raises(ParameterError, match="'toy-ward'.* --plugin FILE"):
            run("summarize", data, "-k", 2, "--method", "toy-ward", "-o", summary)
        run("summarize", data, "-k", 2, "--method", "toy-ward", "-o", summary, *plugin)
        assert formats.load(summary, SummaryFile).method == "toy-ward"
        assert "ToyWard" in run("methods", *plugin).stdout
        methods._registered.clear()  # each command is a process of its own
        with pytest.raises(MessageError, match="'toy-ward'.* --plugin"):
            run("aggregate", summary, "-k", 2, "-o", sites / "model")

    def test_splits_of_a_file_have_a_name(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "toy_split.py").write_text(SPLIT)
        words = "compare --dataset iris --clients 3 --runs 1 --method match --json --force --split by_order"
        plugin = str(tmp_path / "toy_split.py")
        assert json.loads(run(*words.split(), "--plugin", plugin).stdout)["rows"]
        assert run(*words.replace("by_order", "by_luck").split()).exit_code == 2
