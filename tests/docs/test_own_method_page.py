"""docs/own-method.md: its code runs, prints what it says, and its package can be installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedjigsaw import methods
from pages_as_code import ROOT, blocks, commands, page, section

PAGE = page("docs/own-method.md")
COMMAND = Path(sys.executable).parent / "fedjigsaw"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the file of the page, where nothing stays known after a test."""
    first, *_ = blocks(PAGE, "python")
    assert first.startswith("# my_ward.py\n")
    (tmp_path / "my_ward.py").write_text(first)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(methods, "_registered", {})
    yield tmp_path
    sys.modules.pop("my_ward", None)


def test_code_prints_what_the_page_says(folder, capsys):
    names = {}
    for code in blocks(PAGE, "python")[1:]:
        exec(code, names)
    assert capsys.readouterr().out == "".join(blocks(PAGE, "text"))


@pytest.mark.slow
def test_commands_run(folder, run):
    for program, *words in commands(section(PAGE, "In a command")):
        if program == "python":
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            continue
        methods._registered.clear()  # each command is a process of its own
        done = run(*words)
        assert done.exit_code == 0, (words, done.output)
        if words[0] == "compare":
            assert "MyWard" in done.stdout
    assert (folder / "labels.csv").read_text().count("\n") > 100


@pytest.mark.slow
def test_the_package_can_be_installed_and_is_found(folder):
    pytest.importorskip("setuptools", minversion="77")
    source = folder / "package"
    source.mkdir()
    (folder / "my_ward.py").rename(source / "my_ward.py")
    (toml,) = blocks(PAGE, "toml")
    (source / "pyproject.toml").write_text(toml)
    target = folder / "site-packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    options = ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*install, *options, str(source)], check=True, timeout=120)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    words = [COMMAND, "methods", "--json"]
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)["my-ward"]
    assert (found["label"], found["source"]) == ("MyWard", "my-ward 1.0")
