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
    assert done.stderr.startswith("Error: Data set 's1' not found")
    assert (done.stderr.count("\n"), done.stdout) == (1, "")


def test_exit_codes(shell):
    assert shell("nonsense").returncode == 2
    assert shell("demo", "--out", "/nowhere/at/all.png").returncode == 3


def test_every_command_option_and_argument_says_what_it_is(run):
    """With each version of Typer and click that is allowed."""
    for name, command in all_commands("", get_command(app)):
        assert run(*name.split(), "--help").exit_code == 0
        silent = [parameter.name for parameter in command.params if not parameter.help]
        assert silent == [], name


@pytest.mark.slow
def test_the_module_runs_like_the_command():
    words = [sys.executable, "-m", "fedjigsaw", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == f"fedjigsaw {__version__}"


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


def start(*words):
    return subprocess.Popen(
        [COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )


def heed_signals():
    """Undo what nohup or a job in the background did to the process that runs the tests."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def test_the_list_of_commands_says_what_each_command_says():
    for name, later in get_command(app).commands.items():
        assert later.help == later.command.help.partition("\n\n")[0], name
