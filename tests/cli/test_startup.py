"""A command imports what it needs, and no more: so it starts at once."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.cli._app import COMMANDS
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array

COMPUTE = {"scipy", "sklearn", "sklearnex", "numba", "joblib"}
OTHER = {
    *[
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
    ]
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


READS = {"numpy", "pyarrow"}
TABLES = READS | {"pyarrow.compute"}
NEEDED = {
    "inspect model": {"numpy"},
    "inspect a.summary": {"numpy"},
    "privacy status a.csv": {"numpy"},
    "assign a.csv --model model -o labels.csv": TABLES,
    "score a.csv --model model": TABLES,
    "stats a.csv -o c.stats": TABLES,
    "scaler a.stats b.stats -o scaler.json": READS,
    "schema init a.csv -o schema.toml": TABLES,
    "summarize nothing -k 2 -o none": READS,
    "aggregate nothing -k 2 -o none": READS,
}


@pytest.mark.parametrize("words", NEEDED)
def test_files_are_read_described_and_labeled_without_what_clusters(round_of_files, words):
    assert loaded(round_of_files, *words.split()) == NEEDED[words]


@pytest.mark.parametrize(
    "words", ["summarize a.csv -k 2 -o b.summary", "aggregate a.summary -k 2 -o other"]
)
def test_clustering_needs_no_data_frames(round_of_files, words):
    """scikit-learn imports pandas where it is installed."""
    found = loaded(round_of_files, *words.split())
    assert not found & OTHER - {"asyncio"}


def test_noise_needs_neither_what_clusters_nor_data_frames(tmp_path):
    """All of OpenDP imports scikit-learn and polars where they are installed."""
    (tmp_path / "a.csv").write_text("age,dose\n" + "1.5,2\n" * 60)
    words = "stats a.csv -o a.stats --epsilon 1 --bounds 0,9"
    found = loaded(tmp_path, *words.split())
    assert found - {"asyncio"} == {"numpy", "pyarrow", "pyarrow.compute", "opendp"}
