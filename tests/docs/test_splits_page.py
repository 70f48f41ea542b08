"""docs/splits.md: its code runs and prints what it says, and so do its commands."""

import subprocess
import sys

import pytest

from fedjigsaw import partition
from pages_as_code import ROOT, blocks, commands, page

PAGE = page("docs/splits.md")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(partition, "_own", {})
    monkeypatch.setattr(partition, "WITHOUT_CLASSES", list(partition.WITHOUT_CLASSES))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    known = set(partition.SPLITS)
    yield tmp_path
    for name in set(partition.SPLITS) - known:  # commands may have kept the mapping itself
        del partition.SPLITS[name]


def test_code_prints_what_the_page_says(folder, capsys):
    pytest.importorskip("matplotlib")
    names = {}
    for code in blocks(PAGE, "python"):
        exec(code, names)
    assert capsys.readouterr().out == "".join(blocks(PAGE, "text"))
    assert (folder / "who-holds-what.png").stat().st_size > 1000


def test_the_table_has_every_split():
    named = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert named[: len(partition.SPLITS)] == list(partition.SPLITS)


@pytest.mark.slow
def test_commands_run(folder, run):
    for program, *words in commands(PAGE):
        if program == "python":
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            continue
        done = run(*words)
        assert done.exit_code == 0, (words, done.output)
