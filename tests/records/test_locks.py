import errno
import os
import subprocess
import sys
import threading

import pytest

from fedjigsaw.records.locks import locked, locked_folder

HOLD = """
import sys
import threading
from pathlib import Path
from fedjigsaw.records.locks import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_held_once(tmp_path):
    with locked(tmp_path / "lock"), pytest.raises(BlockingIOError), locked(tmp_path / "lock"):
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


def test_who_waits_gets_the_lock_when_its_holder_ends(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        timer = threading.Timer(0.3, holder.kill)
        timer.start()
        with locked(path, wait=True):
            assert not timer.is_alive()


def test_a_lock_of_the_owner_alone(tmp_path):
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_stays_locked_if_its_lock_file_is_deleted(tmp_path):
    path = tmp_path / "lock"
    with locked_folder(path):
        path.unlink()
        with pytest.raises(BlockingIOError), locked_folder(path):
            pass
    with locked_folder(path):
        pass


def test_a_lock_file_is_enough_where_folders_cannot_be_locked(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    original = fcntl.flock

    def flock(file, how):
        if os.path.samestat(os.fstat(file), tmp_path.stat()):
            raise OSError(errno.EBADF, "as over NFS")
        original(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        locked_folder(tmp_path / "lock"),
        pytest.raises(BlockingIOError),
        locked_folder(tmp_path / "lock"),
    ):
        pass
