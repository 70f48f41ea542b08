"""A command imports what it needs, and no more: so it starts at once."""

import importlib
import os
import pkgutil
import subprocess
import sys
from contextlib import nullcontext
from importlib.util import find_spec

import numpy as np
import pytest
import typer
from typer.main import get_command, get_group

from fedjigsaw import cli, sites
from fedjigsaw.cli import _app
from fedjigsaw.cli._app import COMMANDS, app
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array

COMPUTE = {"scipy", "sklearn", "sklearnex", "numba", "joblib"}
OTHER = {
    "pandas",
    "polars",
    "matplotlib",
    "jinja2",
    "pooch",
    "torch",
    "flwr",
    "opendp",
    "openpyxl",
    "asyncio",
}
HEAVY = {"numpy", "pyarrow", "pyarrow.compute"} | COMPUTE | OTHER
SCRIPT = f"""
import atexit, sys
from fedjigsaw.cli import main
atexit.register(lambda: print("loaded", *({HEAVY!r} & set(sys.modules)), file=sys.stderr))
main()
"""


class TestTheListOfCommands:
    def test_it_says_of_each_command_what_the_command_says(self):
        for name, later in get_command(app).commands.items():
            assert later.command.name in (name, "", None)
            assert later.help == later.command.help.partition("\n\n")[0]
            assert not later.command.hidden
            assert not later.command.deprecated

    def test_it_has_the_commands_of_all_modules(self):
        modules = [
            importlib.import_module(f"fedjigsaw.cli.{module.name}")
            for module in pkgutil.iter_modules(cli.__path__)
            if module.name != "_app"
        ]
        found = {
            part for m in modules for part in vars(m).values() if isinstance(part, typer.Typer)
        }
        places = {row[1] for row in COMMANDS.values()}
        groups = {part_of(place) for place in places if ":" in place}
        within = {group.typer_instance for part in groups for group in part.registered_groups}
        plain = {part_of(place) for place in places if ":" not in place}
        assert found == groups | within | plain
        names = {name for part in plain for name in get_group(part).commands}
        assert names == {name for name, row in COMMANDS.items() if ":" not in row[1]}


def part_of(place):
    module, _, group = place.partition(":")
    return getattr(importlib.import_module(f"fedjigsaw.cli.{module}"), group or "app")


def loaded(folder, *words):
    """Run a command as its own process; return which of the heavy packages it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
        timeout=120,
    )
    *lines, last = done.stderr.splitlines()
    word, *found = last.split()
    assert word == "loaded", done.stderr
    assert bool(done.returncode) == ("nothing" in words), lines
    return set(found)


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    """A folder with a file of each kind."""
    folder = tmp_path_factory.mktemp("round")
    rows = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    np.savetxt(folder / "a.csv", rows, delimiter=",", header="age,dose", comments="")
    table = from_array(rows, ["age", "dose"])
    for name in ("a", "b"):
        formats.save(sites.measure(table, client=name), folder / f"{name}.stats")
    summary = sites.summarize(table, 2, client="a")
    formats.save(summary, folder / "a.summary")
    formats.save(sites.aggregate({"a": summary}, 2), folder / "model")
    return folder


@pytest.mark.parametrize("words", ["--help", "--version", "report --help"])
def test_no_numbers_for_help(tmp_path, words):
    assert not loaded(tmp_path, *words.split())


def test_no_module_of_commands_loads_what_computes():
    modules = {row[1].partition(":")[0] for row in COMMANDS.values()}
    imports = "".join(f"import fedjigsaw.cli.{module}\n" for module in sorted(modules))
    script = f"import sys\n{imports}print(*({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert set(done.stdout.split()) == {"numpy", "pyarrow"}


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("inspect model", {"numpy"}),
        ("inspect a.summary", {"numpy"}),
        ("privacy status a.csv", {"numpy"}),
        ("assign a.csv --model model -o labels.csv", {"numpy", "pyarrow", "pyarrow.compute"}),
        ("score a.csv --model model", {"numpy", "pyarrow", "pyarrow.compute"}),
        ("stats a.csv -o c.stats", {"numpy", "pyarrow", "pyarrow.compute"}),
        ("scaler a.stats b.stats -o scaler.json", {"numpy", "pyarrow"}),
        ("schema init a.csv -o schema.toml", {"numpy", "pyarrow", "pyarrow.compute"}),
        ("summarize nothing -k 2 -o none", {"numpy", "pyarrow"}),
        ("aggregate nothing -k 2 -o none", {"numpy", "pyarrow"}),
        pytest.param(
            "report nothing -o none.html",
            {"numpy", "pyarrow"},
            marks=pytest.mark.skipif(not find_spec("jinja2"), reason="ends before it reads"),
        ),
    ],
)
def test_files_are_read_described_and_labeled_without_what_clusters(round_of_files, words, needed):
    assert loaded(round_of_files, *words.split()) == needed


@pytest.mark.parametrize(
    "words", ["summarize a.csv -k 2 -o b.summary", "aggregate a.summary -k 2 -o other"]
)
def test_clustering_needs_neither_data_frames_nor_intelex(round_of_files, words):
    """scikit-learn imports pandas where it is installed, and a small file needs no intelex."""
    found = loaded(round_of_files, *words.split())
    assert not found & (OTHER | {"sklearnex"}) - {"asyncio"}


def test_noise_needs_neither_what_clusters_nor_data_frames(tmp_path):
    """All of OpenDP imports scikit-learn and polars where they are installed."""
    (tmp_path / "a.csv").write_text("age,dose\n" + "1.5,2\n" * 60)
    words = "stats a.csv -o a.stats --epsilon 1 --bounds 0,9"
    found = loaded(tmp_path, *words.split())
    assert found - {"asyncio"} == {"numpy", "pyarrow", "pyarrow.compute", "opendp"}


def test_every_command_keeps_out_what_none_uses(monkeypatch):
    spared = []
    monkeypatch.setattr(cli, "started", True)
    monkeypatch.setattr(cli, "importing", nullcontext)
    monkeypatch.setattr(_app, "spare_imports", lambda: spared.append(1))
    for name, row in COMMANDS.items():
        assert _app.Later(name, *row).command
    assert len(spared) == len(COMMANDS)


def test_what_is_imported_later_is_there_when_it_is_used():
    script = """
from fedjigsaw._imports import import_freely, spare_imports
spare_imports()
import sys, scipy.stats
from importlib.util import find_spec
assert find_spec("pandas").origin is None  # who only asks, as torch does, is answered
print("scipy.stats._qmc" in sys.modules)
from scipy.stats import qmc
print(qmc.Sobol(2, scramble=False).random(1).tolist())
try:
    import pandas
except ImportError as error:
    print(error)
import_freely()  # as for plugins
import pandas
print(pandas.DataFrame({"x": [1]}).shape)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "False",
        "[[0.0, 0.0]]",
        "This process of fedjigsaw does without pandas.",
        "(1, 1)",
    ]
