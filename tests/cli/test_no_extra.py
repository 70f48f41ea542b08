"""Without any extra, a command works, or says in one sentence which extra to install."""

import json
import re
import subprocess
import sys
from zipfile import ZipFile

import numpy as np
import pytest
from typer.main import get_command

from fedjigsaw.cli._app import all_commands, app

EXTRAS = (
    *("PIL", "cryptography", "daal", "flwr", "httpx", "jinja2", "matplotlib"),
    *("numba", "opendp", "openpyxl", "pandas", "polars", "prometheus_client", "sklearnex"),
    *("torch", "uvicorn"),
)
SCRIPT = f"""
import json, sys
from importlib.machinery import PathFinder

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in {EXTRAS}:
            return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
from typer.testing import CliRunner
from fedjigsaw.cli import app

for line in sys.stdin:
    done = CliRunner().invoke(app, line.split())
    error = done.exception
    print(json.dumps([done.exit_code, getattr(error, "exit_code", None), str(error), done.stderr]))
"""
# commands that work without an extra, in an order in which they find their files; and others
COMMANDS: dict[str, str | None] = {
    "methods": None,
    "demo": None,
    "data": None,
    "compare --dataset iris --clients 2": None,
    "compare a.csv b.csv -k 2": None,
    "stats a.csv -o a.stats": None,
    "stats b.csv -o b.stats": None,
    "scaler a.stats b.stats -o scaler.json": None,
    "summarize a.csv -k 2 -o a.summary": None,
    "summarize b.csv -k 2 -o b.summary": None,
    "aggregate a.summary b.summary -k 2 -o model": None,
    "assign a.csv --model model -o labels.csv": None,
    "score a.csv --model model -o a.score": None,
    "aggregate a.summary b.summary -k auto -o auto": None,
    "inspect model": None,
    "diff model model": None,
    "report model -o model.html": "report",
    "schema init a.csv b.csv -o schema.toml": None,
    "schema check a.csv --schema schema.toml": None,
    "schema apply a.csv --schema schema.toml -o a.parquet": None,
    "privacy status a.csv": None,
    "privacy cells --epsilon 1 --rows 5000 --sites 10 --columns 2 -k 15": "privacy",
    "privacy set-limit a.csv --epsilon 4": "privacy",
    # options of commands that work without
    "demo -o demo.svg --force": "plots",
    "summarize a.csv -k 2 --epsilon 1 --bounds 0,20 --cells own -o c.summary": "privacy",
    "summarize a.xlsx -k 2 -o c.summary": "excel",
}
GROUPS = {"federation": "flower", "deep": "deep"}  # of commands that all need an extra
for name, command in all_commands("", get_command(app)):
    group = name.strip().partition(" ")[0]
    if group in GROUPS and not hasattr(command, "commands"):
        needed = [p for p in command.params if p.required]
        words = [name, *(f"{p.opts[0]} x" if p.opts[0][0] == "-" else "x" for p in needed)]
        COMMANDS[" ".join(words).strip().replace("-k x", "-k 2")] = GROUPS[group]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """How each command ends: its code, that of an error of fedjigsaw, the error, what is told."""
    folder = tmp_path_factory.mktemp("bare")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        rows = np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0) + rng.normal(size=(60, 2)).round(3)
        lines = [f"{x:.3f},{y:.3f}" for x, y in rows]
        (folder / f"{name}.csv").write_text("\n".join(["age,dose", *lines]) + "\n")
    with ZipFile(folder / "a.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", "")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input="".join(f"{words}\n" for words in COMMANDS),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(COMMANDS), done.stderr
    return dict(zip(COMMANDS, found, strict=True))


@pytest.mark.parametrize("words", [words for words, extra in COMMANDS.items() if extra is None])
def test_it_works(ended, words):
    code, _, error, told = ended[words]
    assert code == 0, (error, told)
    if words.startswith(("demo", "compare")):  # and says that there is no picture
        assert told.count("fedjigsaw[plots]") == 1


@pytest.mark.parametrize("words", [words for words, extra in COMMANDS.items() if extra])
def test_it_says_which_extra_to_install(ended, words):
    _, code, error, _ = ended[words]
    assert code == 7, error
    assert re.findall(r"pip install 'fedjigsaw\[(\w+)\]'", error) == [COMMANDS[words]]
    assert len(error.splitlines()) == 1


def test_every_command_is_tried():
    for name, command in all_commands("", get_command(app)):
        words = name.strip()
        if not hasattr(command, "commands") and words != "data fetch":  # from the network
            assert any(f"{tried} ".startswith(f"{words} ") for tried in COMMANDS), words
