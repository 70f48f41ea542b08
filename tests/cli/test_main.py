"""The command as its own process: version, exit codes, help."""

import subprocess
import sys

import pytest

from fedjigsaw import __version__


def test_version(shell):
    assert shell("--version").stdout.strip() == f"fedjigsaw {__version__}"


def test_our_errors_are_one_line_and_a_code(shell, tmp_path):
    done = shell("simulate", "--dataset", "s1", FEDJIGSAW_DATA="", FEDJIGSAW_CACHE=str(tmp_path))
    assert done.returncode == 6
    assert done.stderr.startswith(
        "Error: Data set 's1' not found: no ssets/s1.txt in FEDJIGSAW_DATA"
    )
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["simulate", "-p", "x"], 2),
        (["simulate", "--split", "none"], 2),
        (["demo", "--out", "/nowhere/at/all.png"], 3),
        (["nonsense"], 2),
    ],
)
def test_exit_codes(shell, words, code):
    assert shell(*words).returncode == code


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["simulate"], ["methods"], ["data"], ["data", "fetch"]]
)
@pytest.mark.slow
def test_help(shell, command):
    done = shell(*command, "--help")
    assert done.returncode == 0
    assert "Usage: fedjigsaw" in done.stdout


@pytest.mark.slow
def test_the_module_runs_like_the_command():
    words = [sys.executable, "-m", "fedjigsaw", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == f"fedjigsaw {__version__}"


def test_every_command_is_in_a_panel(run):
    shown = run("--help").stdout
    panels = ["Start here", "Experiments on one machine", "One round, by files"]
    panels += ["Federation over a network", "Images"]
    places = [shown.index(panel) for panel in panels]
    assert places == sorted(places)
    assert "Commands" not in shown  # typer's panel of commands without one
