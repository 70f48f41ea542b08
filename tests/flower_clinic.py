"""A real federation on this machine, for tests: every part is a process of its own.

Each part is started by the command that an operator would use. All of them are ended when the tests
are, whatever happened.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from typer.testing import CliRunner

import fedjigsaw
from fedjigsaw import cli
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.flower import bundle, founding, jobs
from fedjigsaw.flower.processes import free_port

COMMAND = str(Path(sys.executable).parent / "fedjigsaw")
NAMES = ("bern", "lyon", "oslo")
PATIENCE = 90
# sites that answer everything, exactly
POLICY = """
methods = ["jigsaw", "feca", "kfed", "match", "fuzzy", "deepfeca"]
rounds = 1000
later_models = "any"
questions_per_day = 1000
questions_in_all = 1000
least_cluster_size = 1
"""
BACKEND = ("FEDJIGSAW_BACKEND", "sklearn")  # the quickest to import, and one for all
LIBC = ctypes.CDLL(None)  # loading it after a fork may wait forever for another thread's lock


def end_with_the_tests():
    """Linux: this process gets SIGTERM when the tests' own process ends, however it ends."""
    LIBC.prctl(1, signal.SIGTERM)


def without_rights_of_root():
    """Linux: this process may write only what its user may write, even if that user is root."""
    end_with_the_tests()
    drop, overriding_modes, reading_all = 24, 1, 2  # of linux/prctl.h and linux/capability.h
    for capability in (overriding_modes, reading_all):
        LIBC.prctl(drop, capability, 0, 0, 0)  # an error for other users, who have none


def members(folder):
    """All living processes that were started for a folder: it is in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if str(folder).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def command_of(number):
    """The words with which a process was started; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    return []


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.2)


class Clinic:
    """The folders of a federation, and its running parts."""

    def __init__(self, folder, shards, others=()):
        self.folder = folder
        self.shards = shards
        self.parts = {}
        self.words = {}
        self.seen = {}
        self.options = {}  # of sites: name -> words
        self.began = time.monotonic()
        self.timeouts = ()
        self.home = folder / "clinic"
        founding.init(self.home, [*NAMES, *others], "127.0.0.1", free_port(), bundle.build())
        for name, rows in shards.items():
            table = pa.table({"age": rows[:, 0], "dose": rows[:, 1]})
            if name == "lyon":
                pa.parquet.write_table(table, folder / name)
                (folder / name).rename(folder / "lyon.parquet")
            else:
                pa.csv.write_csv(table, folder / f"{name}.csv")
            self.behave(name, "well")
            (self.home / name / "policy.toml").write_text(POLICY)

    def behave(self, name, how):
        (self.folder / f"{name}.mode").write_text(how)

    def start(self, name, *words):
        # the package of the tests, which need not be the one that is installed
        source = Path(fedjigsaw.__file__).parents[1]
        path = f"{Path(__file__).parent / 'flower' / 'shim'}{os.pathsep}{source}"
        mode = self.folder / f"{name}.mode"
        mode.touch()
        self.words[name] = words
        with (self.folder / f"{name}.out").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                [COMMAND, "federation", *map(str, words)],
                stdout=log,
                stderr=log,
                env=os.environ
                | {"PYTHONPATH": path, "FEDJIGSAW_TEST_MODE": str(mode)}
                | dict([BACKEND]),
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=end_with_the_tests,
            )
        return self.parts[name]

    def runs(self, name):
        return name in self.parts and self.parts[name].poll() is None

    def restore(self, needed=NAMES):
        """Bring all parts back to where a test begins: connected, with rows, well-behaved.

        Sites that the test does not need are left alone.
        """
        for name in NAMES:
            self.behave(name, "well")
            (self.home / name / "policy.toml").write_text(POLICY)
        self.behave("server", "")
        for path in [*self.folder.glob("*.out"), *self.home.rglob("*.log")]:
            self.seen[path] = path.stat().st_size
        if not self.runs("server"):
            self.start("server", "server", self.home)
            self.wait_to_say("server", "Press Ctrl-C to end it")
        changed = [
            name
            for name in needed
            if not self.runs(name) or self.words[name] != self.site_words(name)
        ]
        for name in changed:
            if self.runs(name):
                self.interrupt(name)
            self.start_site(name)
        for name in changed:
            self.wait_to_say(name, "connected to the server")
        wait_for(lambda: set(needed) <= set(self.connected()), "all sites to be connected")
        if not self.timeouts:
            # To start was far more work than to answer. A busy machine may still need more time:
            # tests of a timeout try the next one where a site that is well was late.
            first = min(max(10, round((time.monotonic() - self.began) * 2 / 3)), 60)
            self.timeouts = (first, 60 + first, 240 + first)

    def since(self, path):
        """The part of a log that was written since this test began."""
        return path.read_bytes()[self.seen.get(path, 0) :].decode()

    def site_words(self, name, home=None, data=None, kind="--data"):
        data = data or self.folder / f"{name}.{'parquet' if name == 'lyon' else 'csv'}"
        guard = ("--min-cluster-size", 1, "--accept-policy")
        return ("site", home or self.home / name, kind, data, *guard, *self.options.get(name, ()))

    def start_site(self, name, home=None, data=None, kind="--data"):
        ((home or self.home / name) / "policy.toml").write_text(POLICY)
        return self.start(name, *self.site_words(name, home, data, kind))

    def command(self, label, *words):
        """A run whose model goes to the file `label`."""
        patience = ["--wait", 60, "--timeout", PATIENCE]
        return ["run", self.home, "-k", 3, "-o", self.folder / label, *patience, *words]

    def start_run(self, label, *words):
        return self.start(f"run {label}", *self.command(label, *words))

    def run(self, label, *words):
        """The same in this process, which saves time: exit code and all that it printed."""
        words = ["federation", *map(str, self.command(label, *words))]
        done = CliRunner().invoke(cli.app, words)
        error = done.exception if isinstance(done.exception, FedJigsawError) else None
        return (error or done).exit_code, f"{done.output} {error or ''}"

    def output(self, name):
        return self.since(self.folder / f"{name}.out")

    def mode(self, name):
        return (self.folder / f"{name}.mode").read_text()

    def story(self, printed):
        """What a run printed, and the ends of all logs."""
        logs = sorted(self.home.glob("*/flower.log"))
        return "\n".join([printed, *(f"--- {log}\n{log.read_text()[-3000:]}" for log in logs)])

    def wait_to_say(self, name, text):
        def said():
            assert self.parts[name].poll() is None or text in self.output(name), self.output(name)
            return text in self.output(name)

        wait_for(said, f"{name} to say {text!r}")

    def connected(self):
        with jobs.control(self.home / "server") as client:
            return sorted(client.online())

    def in_server(self, text):
        """Whether a text is anywhere in what the server wrote or received."""
        files = [path for path in (self.home / "server").rglob("*") if path.is_file()]
        return any(text.encode() in path.read_bytes() for path in files)

    def interrupt(self, name, number=signal.SIGINT):
        part = self.parts.pop(name)
        part.send_signal(number)
        return part.wait(PATIENCE)

    def end(self):
        for part in self.parts.values():
            with suppress(ProcessLookupError):
                os.killpg(part.pid, signal.SIGKILL)
            part.wait()
        for number in members(self.folder):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def make_shards():
    """Rows of three sites with different shares of three groups."""
    rng = np.random.default_rng(1)
    groups = np.array([[25.0, 1.0], [45.0, 35.0], [80.0, 4.0]])
    return {
        name: groups[rng.choice(3, 120, p=np.roll([0.6, 0.3, 0.1], i))] + rng.normal(size=(120, 2))
        for i, name in enumerate(NAMES)
    }


def needs(*names):
    """Mark a test that starts sites itself: only these are brought back before it."""

    def mark(test):
        test.needs = names
        return test

    return mark
