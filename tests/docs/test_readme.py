"""The README does what it says: its Python block, its commands, its map."""

import contextlib
import io
import re
import subprocess
import sys

import pytest

from pages_as_code import ROOT, blocks, commands, page, section

MINUTE = section(page("README.md"), "60 seconds")

# Commands that set up a checkout: not run, since the tests already run in one.
SET_UP = ("git clone", ". .venv/bin/activate")
# Commands that run here under another name.
SUBSTITUTES = {("make", "demo"): ["fedjigsaw", "demo", "--out", "demo.png", "--force"]}


def test_the_python_block_prints_what_the_readme_shows():
    (code,) = blocks(MINUTE, "python")
    (shown,) = blocks(MINUTE, "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == shown


def test_make_demo_is_the_command_that_stands_for_it():
    makefile = page("Makefile")
    for words in SUBSTITUTES.values():
        assert " ".join(words) in makefile


@pytest.fixture(scope="module")
def minute(tmp_path_factory):
    """A folder in which all commands of the first minute ran; what they printed, by command."""
    folder = tmp_path_factory.mktemp("minute")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder, {}


@pytest.mark.slow
def test_the_commands_of_the_first_minute_run(minute, run, monkeypatch):
    folder, printed = minute
    monkeypatch.chdir(folder)
    for words in commands(MINUTE):
        if " ".join(words).startswith(SET_UP):
            continue
        program, *arguments = SUBSTITUTES.get(tuple(words), words)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True, timeout=60)
            continue
        assert program == "fedjigsaw", words
        result = run(*arguments)
        assert result.exit_code == 0, (words, result.output)
        printed[arguments[0]] = result.stdout
    assert set(printed) == {"demo", "summarize", "inspect", "aggregate", "assign", "compare"}
    assert "3 sites, 1,200 rows -> 4 centers -> model" in printed["aggregate"]
    assert len((folder / "bern-labels.csv").read_text().splitlines()) == 401
    assert (folder / "demo.png").stat().st_size > 10_000
    assert_the_demo_prints_the_table_of_the_readme(printed["demo"])


def assert_the_demo_prints_the_table_of_the_readme(printed):
    """Its rows and columns."""
    title, *table = re.search(r"```\n(15 Gaussians.*?)```", MINUTE, re.DOTALL)[1].splitlines()
    assert title in printed
    for name in [*re.split(r"\s{2,}", table[0]), *(line.split()[0] for line in table[1:])]:
        assert name in printed


def test_the_map_shows_every_module_and_folder_of_the_package():
    (tree,) = re.findall(r"^src/fedjigsaw/\n(.*?)^tests/", page("README.md"), re.DOTALL | re.M)
    mapped = set(re.findall(r"(?<!\S)(\w+\.py|\w+/)(?!\S)", tree))
    package = ROOT / "src" / "fedjigsaw"
    there = {path.name for path in package.glob("*.py")}
    there |= {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert mapped == there - {"__init__.py", "__main__.py"}
