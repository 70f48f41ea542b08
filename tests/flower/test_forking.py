"""A process that has loaded the libraries is forked: children work, and share nothing they must not.

Each test forks in a fresh process, since the tests' own one has threads.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fedjigsaw.flower import forking, processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux processes are forked")
START = "import os, sys, json, time\nfrom fedjigsaw.flower.forking import *\nassert is_safe()\n"


def run(script, *words):
    """Run a script in a process of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", START + script, *map(str, words)],
        env={**os.environ, **processes.QUIET_FLOWER},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_thirty_children_compute_and_leave_nothing_behind(tmp_path):
    """Each clusters with scikit-learn, whose OpenMP the parent has loaded and never used."""
    script = """
import numpy as np
from fedjigsaw import Jigsaw
from sklearn.cluster import KMeans
rows = np.random.default_rng(0).normal(size=(60, 2)) + 9 * np.arange(60)[:, None].__mod__(3)

def work():
    clusterer = KMeans(3, n_init=1, random_state=0).fit(rows) if i % 10 else Jigsaw(3).fit(rows)
    with open(sys.argv[1], "ab") as file:
        file.write(np.round(np.sort(clusterer.cluster_centers_, axis=0), 6).tobytes())

def state():
    size = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return size, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

seen = []
for i in range(30):
    running = {fork(work, "an app")} | ({fork(lambda: None, "idle")} if i % 10 == 0 else set())
    while running:
        running -= set(ended(running))
        time.sleep(0.001)
    seen.append(state())
    assert is_safe()
print(json.dumps([seen[4], seen[-1]]))
try:
    os.wait()
except ChildProcessError:
    print("no zombies")
"""
    out = run(script, tmp_path / "centers").stdout.splitlines()
    (size, files, threads), (last_size, last_files, last_threads) = json.loads(out[0])
    assert last_size - size < 2**20
    assert (files, threads) == (last_files, last_threads)
    assert out[1] == "no zombies"
    content = (tmp_path / "centers").read_bytes()
    assert len(content) == 30 * 6 * 8
    assert content == content[: 6 * 8] * 30


def test_children_draw_different_random_numbers():
    script = """
import random, secrets
import numpy as np, numpy.random
for _ in range(2):
    fork(lambda: print(random.random(), np.random.random(), secrets.token_hex(8)), "draws")
    os.wait()
"""
    first, second = (set(line.split()) for line in run(script).stdout.splitlines())
    assert len(first | second) == 6


def test_a_child_cannot_use_the_connections_of_its_parent():
    script = """
import socket
here, there = socket.socketpair()
def work():
    new = socket.socketpair()
    assert here.fileno() not in [one.fileno() for one in new]
    try:
        here.send(b"as if from the parent")
    except OSError:
        here.close()  # as objects do that are no longer needed
        new[0].send(b"x")
        print("refused", new[1].recv(1))
fork(work, "an app")
os.wait()
here.send(b"from the parent")
print(there.recv(99))
"""
    assert run(script).stdout.splitlines() == ["refused b'x'", "b'from the parent'"]


def test_a_process_with_another_thread_is_not_forked():
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait)
    thread.start()
    assert not forking.is_safe()
    wait.set()
    thread.join()


def test_a_process_ends_with_its_parent(tmp_path):
    """However the parent ends; and at once if it was too late to look."""
    script = """
import signal
def parent():
    fork(child, "child")
    time.sleep(600)
def child():
    end_with_parent(os.getppid())
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
number = fork(parent, "parent", quiet=True)  # the pipe to the test must not stay open
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
os.kill(number, signal.SIGKILL)
os.wait()
fork(lambda: end_with_parent(1), "late")
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert run(script, tmp_path / "number").stdout == "1\n"
    status = Path(f"/proc/{(tmp_path / 'number').read_text()}/stat")
    deadline = time.monotonic() + 30
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)
