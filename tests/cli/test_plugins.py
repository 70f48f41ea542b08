"""Commands with methods that are no part of the package, as processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import methods, partition
from fedjigsaw.errors import DataError, MessageError, ParameterError
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
        for name in ("bern", "oslo"):
            words = f"summarize {name}.csv -k 2 --method toy-ward -p scale=1 -o {name}.summary"
            done = shell(sites, words, toy, broken)
            assert done.returncode == 0, done.stderr
        done = shell(sites, "aggregate bern.summary oslo.summary -k 2 -o model", toy, broken)
        assert done.returncode == 0, done.stderr
        done = shell(sites, "assign bern.csv --model model -o labels.csv")  # needs no package
        assert done.returncode == 0, done.stderr
        model = formats.load(sites / "model", ModelFile).model
        assert model.method == "toy-ward"
        assert np.abs(model.centers - [[0, 0], [20, 5]]).max() < 1
        done = shell(sites, "aggregate bern.summary oslo.summary -k 2 -o other")
        assert done.returncode == 4
        words = (
            "bern.summary was made with method 'toy-ward', which is not known here: use --plugin"
        )
        assert words in done.stderr

    def test_experiments(self, sites, toy, broken):
        words = "compare --dataset iris --split iid --clients 3 --runs 1 -k 3 --json"
        done = shell(sites, f"{words} --method toy-ward --method jigsaw", toy, broken)
        assert done.returncode == 0, done.stderr
        assert [row["method"] for row in json.loads(done.stdout)["rows"]] == ["toy-ward", "jigsaw"]
        done = shell(sites, f"{words} --method toy-broken", toy, broken)
        assert done.returncode == 7
        assert (
            "'toy-broken' of broken-clusters 1.0 cannot be loaded from broken:Ward" in done.stderr
        )
        assert "ZeroDivisionError" in done.stderr

    def test_the_list_of_methods_has_them_and_says_what_is_broken(self, tmp_path, toy, broken):
        done = shell(tmp_path, "methods", toy, broken)
        assert done.returncode == 0, done.stderr
        shown = " ".join(done.stdout.split())
        assert "ToyWard" in shown
        assert "toy-clusters 1.0" in shown
        assert "Not usable: Method 'toy-broken' of broken-clusters 1.0 cannot be loaded" in shown
        assert "broken-clusters 1.0 has a method 'jigsaw' too, which is ignored" in shown
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
        summary = sites / "bern.summary"
        run(
            "summarize", sites / "bern.csv", "-k", 2, "--method", "toy-ward", "-o", summary, *plugin
        )
        assert formats.load(summary, SummaryFile).method == "toy-ward"
        assert "ToyWard" in run("methods", *plugin).stdout
        methods._registered.clear()  # each command is a process of its own
        words = (
            "bern.summary was made with method 'toy-ward', which is not known here: use --plugin"
        )
        with pytest.raises(MessageError, match=words):
            run("aggregate", summary, "-k", 2, "-o", sites / "model")

    def test_a_list_of_parameters_need_not_repeat_number_and_seed(self, run, sites):
        lists = "    client_parameters = ('scale',)\n\n    def __init__"
        (sites / "toy_file.py").write_text(WARD.replace("    def __init__", lists))
        plugin = ("--plugin", sites / "toy_file.py")
        words = ("-k", 2, "--method", "toy-ward", *plugin)
        for name in ("bern", "oslo"):
            run("summarize", sites / f"{name}.csv", "-o", sites / f"{name}.summary", *words)
        found = [sites / "bern.summary", sites / "oslo.summary"]
        run("aggregate", *found, "-k", 2, "-o", sites / "model", *plugin)
        assert formats.load(sites / "model", ModelFile).model.method == "toy-ward"

    def test_commands_that_do_not_know_a_method_say_how_it_becomes_known(self, run, sites):
        words = "Unknown method 'toy-ward'. Choose one of .* --plugin FILE .* install its package"
        with pytest.raises(ParameterError, match=words):
            run("summarize", sites / "bern.csv", "-k", 2, "--method", "toy-ward", "-o", "s")

    def test_splits_of_a_file_have_a_name(self, run, tmp_path):
        (tmp_path / "toy_split.py").write_text(SPLIT)
        words = "compare --dataset iris --clients 3 --runs 1 --method match --json --split by_order"
        plugin = str(tmp_path / "toy_split.py")
        assert json.loads(run(*words.split(), "--plugin", plugin).stdout)["rows"]
        assert run(*words.replace("by_order", "by_luck").split()).exit_code == 2

    def test_a_file_that_is_not_there(self, run):
        with pytest.raises(DataError, match="none.py"):
            run("methods", "--plugin", "none.py")

    def test_help_says_that_it_runs_code(self, run):
        for command in ("compare", "summarize", "aggregate"):
            shown = " ".join(run(command, "--help").stdout.replace("│", " ").split())
            assert "--plugin" in shown
            assert "Name a file only if you trust it" in shown
        assert "--plugin" not in run("federation", "run", "--help").stdout
