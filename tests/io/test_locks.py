import subprocess
import sys

import pytest

from fedjigsaw.io.locks import locked

HOLD = """
import sys
from pathlib import Path
from fedjigsaw.io.locks import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_lock_can_be_taken_again(tmp_path):
    for _ in range(2):
        with locked(tmp_path / "lock"):
            pass


def test_a_lock_is_held_once(tmp_path):
    with (
        locked(tmp_path / "lock"),
        pytest.raises(BlockingIOError),
        locked(tmp_path / "lock"),
    ):
        pass


def test_a_lock_ends_with_its_process_even_if_that_is_killed(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BlockingIOError), locked(path):
            pass
        holder.kill()
    with locked(path):
        pass


def test_a_lock_that_cannot_be_created(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path / "no" / "lock"):
        pass
