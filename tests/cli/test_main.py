"""The command as its own process: version, exit codes, help."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from fedjigsaw import __version__, sites
from fedjigsaw.cli._app import all_commands, app
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array

COMMAND = Path(sys.executable).parent / "fedjigsaw"


def test_version(shell):
    assert shell("--version").stdout.strip() == f"fedjigsaw {__version__}"


def test_our_errors_are_one_line_and_a_code(shell, tmp_path):
    done = shell("compare", "--dataset", "s1", FEDJIGSAW_DATA="", FEDJIGSAW_CACHE=str(tmp_path))
    assert done.returncode == 6
    assert done.stderr.startswith(
        "Error: Data set 's1' not found: no ssets/s1.txt in FEDJIGSAW_DATA"
    )
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["compare", "--dataset", "iris", "-p", "x"], 2),
        (["compare", "--split", "none"], 2),
        (["demo", "--out", "/nowhere/at/all.png"], 3),
        (["nonsense"], 2),
    ],
)
def test_exit_codes(shell, words, code):
    assert shell(*words).returncode == code


@pytest.mark.parametrize("command", [[], ["demo"], ["methods"], ["data"], ["data", "fetch"]])
@pytest.mark.slow
def test_help(shell, command):
    done = shell(*command, "--help")
    assert done.returncode == 0
    assert "Usage: fedjigsaw" in done.stdout


def test_paragraphs_of_help_fill_their_lines():
    keep = get_command(app).commands["federation"].command.commands["keep"]
    assert "With `run --ask new` or `--ask none`, kept summaries take part" in keep.help
    assert keep.help.count("\n\nExample: ") == 2


def test_every_option_and_argument_says_what_it_is():
    """With each version of Typer and click that is allowed."""
    silent = [
        f"{name} {parameter.name}"
        for name, command in all_commands("fedjigsaw", get_command(app))
        for parameter in command.params
        if not parameter.help
    ]
    assert silent == []


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


@pytest.mark.slow
class TestSignals:
    """A command that is stopped says little and leaves nothing behind."""

    @pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
    @pytest.mark.parametrize(
        ("library", "said"), [("numpy", "Aborted."), ("pyarrow", "Aborted."), ("sklearn", "")]
    )
    def test_interrupted_while_it_starts(self, library, said, tmp_path):
        """As soon as a library is being imported; others follow."""
        np.save(tmp_path / "a.npy", np.arange(60.0).reshape(30, 2))
        process = start("summarize", tmp_path / "a.npy", "-k", 2, "-o", tmp_path / "summary")
        maps = Path(f"/proc/{process.pid}/maps")
        while f"/{library}/" not in maps.read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.strip() == said
        assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]

    def test_nothing_heavy_comes_before_the_handler(self):
        script = "import sys, fedjigsaw.cli; print('numpy' in sys.modules, 'typer' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout.split() == ["False", "False"]

    @pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
    def test_assign_leaves_no_part_of_a_file(self, tmp_path, name):
        rows = np.random.default_rng(0).normal(size=(2_000_000, 2))
        np.save(tmp_path / "a.npy", rows)
        file = sites.summarize(from_array(rows[:100]), 2, client="a")
        formats.save(sites.aggregate({"a": file}, 2), tmp_path / "model")
        before = sorted(tmp_path.iterdir())
        process = start(
            "assign", tmp_path / "a.npy", "--model", tmp_path / "model", "-o", tmp_path / "l.csv"
        )
        deadline = time.monotonic() + 120
        while sorted(tmp_path.iterdir()) == before and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(getattr(signal, name))
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert process.returncode not in (0, 1)
        assert sorted(tmp_path.iterdir()) == before

    def test_a_signal_that_is_ignored_stays_ignored(self, tmp_path):
        """As with nohup."""
        process = subprocess.Popen(
            [COMMAND, "methods"], stdout=subprocess.PIPE, preexec_fn=ignore_hangups
        )
        for _ in range(20):
            time.sleep(0.1)
            process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
        assert process.returncode == 0


def start(*words):
    return subprocess.Popen(
        [COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )


def ignore_hangups():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def heed_signals():
    """Undo what nohup or a job in the background did to the process that runs the tests."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
