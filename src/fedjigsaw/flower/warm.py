"""The process that starts the apps of a site: ``python -m fedjigsaw.flower.warm``.

It reads a task from each line of standard input, and writes the number of each task whose process
has ended to standard output. No token is in the arguments of a process, and nobody asks over the
network whether there is a task.

A site is idle most of the time, and the libraries that compute take 200 MB, those for images twice
that. So this process loads them with the first task, forks for each app as long as tasks arrive,
and gives the memory back when none has arrived for a while.
"""

import gc
import json
import os
import select
import sys
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from fedjigsaw._imports import spare_imports
from fedjigsaw.flower import forking

if TYPE_CHECKING:
    import subprocess

    from fedjigsaw.flower.app_patches import Task

IDLE_SECONDS = "FEDJIGSAW_WARM_SECONDS"  # how long libraries stay loaded without a task
LOOK_SECONDS = 0.1  # how often to look whether an app has ended


class Starter:
    """Starts apps, and knows which of them are running."""

    def __init__(self) -> None:
        self.waiting = b""  # the beginning of a line
        self.running: dict[int, int] = {}  # number of a process -> number of its task
        self.fresh: list[subprocess.Popen[bytes]] = []  # so that nobody else waits for them
        self.loaded = False
        # what an app prints goes to the log, and not to who waits for numbers
        self.output = os.dup(1)
        os.dup2(2, 1)

    def run(self) -> None:
        """Start apps until standard input ends."""
        idle = float(os.environ.get(IDLE_SECONDS, "600"))
        until = monotonic() + idle
        while True:
            pause = LOOK_SECONDS if self.running else idle if self.loaded else None
            if select.select([0], [], [], pause)[0]:
                if not self.read():
                    return
                until = monotonic() + idle
            if self.tell_ended():  # work may take longer than the time that libraries stay
                until = monotonic() + idle
            if self.loaded and not self.running and not self.waiting and monotonic() >= until:
                os.dup2(self.output, 1)
                os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    def read(self) -> bool:
        """Start the apps that have arrived; return False at the end of standard input."""
        arrived = os.read(0, 2**16)
        *lines, self.waiting = (self.waiting + arrived).split(b"\n")
        for line in lines:
            number, values = json.loads(line)
            self.start(number, values)
        return bool(arrived)

    def start(self, number: int, values: dict[str, object]) -> None:
        """Start an app: fork, or start a fresh process where that is not safe."""
        from fedjigsaw.flower import app_patches, launcher, processes

        task: Task = app_patches.Task(**values)  # type: ignore[arg-type]
        if not self.loaded:
            site = json.loads(os.environ.get(processes.OPTIONS, "{}"))
            launcher.preload(task.app, images=site.get("kind") == "images")
            self.loaded = True
        if forking.is_safe():
            process = forking.fork(partial(app_patches.run_app, task), task.app, quiet=task.quiet)
        else:
            self.fresh.append(launcher.start_fresh(task))
            process = self.fresh[-1].pid
        self.running[process] = number

    def tell_ended(self) -> bool:
        """Tell which tasks no longer have a process; return whether there are any."""
        ended = list(forking.ended(self.running))
        for process in ended:
            self.fresh = [one for one in self.fresh if one.pid != process]
            os.write(self.output, b"%d\n" % self.running.pop(process))
        return bool(ended)


def main() -> None:
    if sys.platform == "linux":
        forking.end_with_parent(int(sys.argv[1]))
    spare_imports()
    gc.freeze()
    Starter().run()


if __name__ == "__main__":
    main()
