"""A command imports what it needs, and no more: so it starts at once."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.cli._app import COMMANDS
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
