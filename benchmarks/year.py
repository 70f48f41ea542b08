"""Rehearse a year of a federation: real processes on this machine, one run a week, and mishaps.

Sites hold new rows every week. During the year a site joins, another is revoked, one is silent for
a month, the server is killed in the middle of a run, its certificate is renewed, and one week a
cluster appears that was not there. At the end the rehearsal says what held: cluster ids stayed with
their clusters, drift was reported in that week and in no other, no run was lost, and no part
printed a traceback. Prints one JSON line for each week and one for the year, to be kept in
results/year.jsonl.

    python benchmarks/year.py                          # 20 sites, 52 weeks
    python benchmarks/year.py --sites 6 --weeks 8      # everything happens, earlier
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np

from fedjigsaw._signals import stopped_by_signals
from fedjigsaw.flower import processes
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.report.provenance import provenance

ALARM, LEVEL = 10, 2  # exit code of `fedjigsaw diff`, and the drift from which on it has it
COLUMNS = ("age", "pressure", "dose")
# the population: mean of each cluster, in units of the columns; the last one is the new cluster
MEANS = np.array(
    [[35, 118, 10], [52, 135, 25], [68, 150, 12], [74, 122, 40], [28, 105, 33], [45, 165, 55]],
    dtype=float,
)
SPREAD = np.array([4.0, 5.0, 3.0])
NEW = len(MEANS) - 1
PATIENCE = 180.0
POLICY = """
questions_per_day = 1000
questions_in_all = 1000
"""


@dataclass(frozen=True)
class Calendar:
    """In which week things happen."""

    n_weeks: int

    def at(self, week_of_52: int) -> int:
        """Return the week for a week of a whole year, counted from 1."""
        return max(2, round(week_of_52 * self.n_weeks / 52))

    @property
    def joins(self) -> int:
        return self.at(8)

    @property
    def silent(self) -> range:
        return range(self.at(18), max(self.at(18) + 1, self.at(22)))

    @property
    def crash(self) -> int:
        return self.at(26)

    @property
    def new_cluster(self) -> int:
        return self.at(30)

    @property
    def renewed(self) -> int:
        return self.at(36)

    @property
    def revoked(self) -> int:
        return self.at(44)


def rows_of(site: int, week: int, n_rows: int, *, new: bool) -> np.ndarray:
    """Return a site's rows of a week: its own mixture of clusters, with a new one or without."""
    shares = np.random.default_rng([site, 1]).dirichlet(np.full(NEW, 2.0))
    shares = np.append(shares * (0.9 if new else 1.0), 0.1 if new else 0.0)
    rng = np.random.default_rng([site, week, 2])
    labels = rng.choice(len(MEANS), n_rows, p=shares)
    return MEANS[labels] + SPREAD * rng.standard_normal((n_rows, len(COLUMNS)))


class Federation:
    """The processes of the rehearsal, and the commands that an operator would use."""

    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        self.folder, self.home = folder, folder / "clinic"
        self.sites = list(sites)
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        port = str(processes.free_port())
        self.command("init", self.home, "--sites", ",".join(sites), "--port", port)
        for name in sites:
            self.allow(name)

    def allow(self, site: str) -> None:
        """Let a site answer as often as a year needs, within the hour that this one takes."""
        (self.home / site / "policy.toml").write_text(POLICY)

    def program(self, words: Sequence[object]) -> list[str]:
        code = "from fedjigsaw.cli import main; main()"
        return [sys.executable, "-c", code, *map(str, words)]

    def command(
        self, *words: object, codes: Sequence[int] = (0,)
    ) -> "subprocess.CompletedProcess[str]":
        """Run `fedjigsaw federation ...` to its end."""
        return self.run("federation", *words, codes=codes)

    def run(
        self, *words: object, codes: Sequence[int] = (0,)
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            self.program(words), capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode not in codes:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stderr}")
        return done

    def start(self, name: str, *words: object) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                self.program(["federation", *words]),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_server(self) -> None:
        self.start("server", "server", self.home)
        wait(lambda: (self.home / "server" / "running.json").exists(), "the server")

    def start_site(self, name: str) -> None:
        data = self.folder / f"{name}.csv"
        words = ["site", self.home / name, "--data", data, "--accept-policy"]
        self.start(name, *words)

    def stop(self, name: str) -> None:
        processes.end(self.parts.pop(name), 15.0)

    def kill_server(self) -> None:
        """Kill the server's processes, as a power failure would."""
        server = self.parts.pop("server")
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        sleep(1.0)  # its child notices that its parent is gone
        (self.home / "server" / "running.json").unlink(missing_ok=True)

    def stop_all(self) -> None:
        for name in list(self.parts):
            self.stop(name)

    def connected(self) -> set[str]:
        found = json.loads(self.command("status", self.home, "--json").stdout)
        return {name for name, online in found["connected"].items() if online}


def wait(condition: Any, what: str) -> None:
    deadline = perf_counter() + PATIENCE
    while not condition():
        if perf_counter() > deadline:
            raise RuntimeError(f"Waited in vain for {what}.")
        sleep(0.5)


class Year:
    """The rehearsal: what happens in each week, and what came of it."""

    def __init__(self, federation: Federation, calendar: Calendar, n_rows: int) -> None:
        self.federation, self.calendar, self.n_rows = federation, calendar, n_rows
        self.sites = list(federation.sites)
        self.gone: set[str] = set()
        self.silent: str = self.sites[1]
        self.revoked: str = self.sites[3]
        self.last: Path | None = None

    def weeks(self) -> Iterator[dict[str, Any]]:
        self._write_rows(1)
        self.federation.start_server()
        for name in self.sites:
            self.federation.start_site(name)
        for week in range(1, self.calendar.n_weeks + 1):
            events = self._happen(week)
            self._write_rows(week)
            expected = set(self.sites) - self.gone
            wait(lambda: self.federation.connected() >= expected, f"sites of week {week}")  # noqa: B023
            yield {"week": week, "events": events, **self._run(week, events)}

    def _happen(self, week: int) -> list[str]:
        """Let things happen before the run of a week; return what they are called."""
        calendar, federation = self.calendar, self.federation
        events = []
        if week == calendar.joins:
            name = f"site{len(self.sites) + 1:02d}"
            self.sites.append(name)
            self._write_rows(week)
            federation.command("add", federation.home, name)
            federation.allow(name)
            federation.start_site(name)
            events.append("a site joined")
        if week == calendar.silent.start:
            federation.stop(self.silent)
            self.gone.add(self.silent)
            events.append("a site fell silent")
        if week == calendar.silent.stop:
            federation.start_site(self.silent)
            self.gone.discard(self.silent)
            events.append("the silent site is back")
        if week == calendar.new_cluster:
            events.append("a new cluster appeared")
        if week == calendar.renewed:
            federation.command("renew", federation.home)
            federation.stop("server")
            federation.start_server()
            events.append("the certificate was renewed")
        if week == calendar.revoked:
            federation.command("revoke", federation.home, self.revoked)
            self.sites.remove(self.revoked)
            events.append("a site was revoked")
        if week == calendar.crash:
            events.append("the server was killed in a run")
        return events

    def _write_rows(self, week: int) -> None:
        new = week >= self.calendar.new_cluster
        for name in self.sites:
            rows = rows_of(int(name[4:]), week, self.n_rows, new=new)
            lines = [",".join(COLUMNS), *(",".join(f"{v:.2f}" for v in row) for row in rows)]
            write_whole(self.federation.folder / f"{name}.csv", "\n".join(lines).encode())

    def _run(self, week: int, events: Sequence[str]) -> dict[str, Any]:
        """Run the federation, label clusters like those of the week before, and compare."""
        federation = self.federation
        model = federation.folder / f"week{week:02d}.model"
        like = [] if self.last is None else ["--like", self.last]
        enough = len(set(self.sites) - self.gone)
        words = ["run", federation.home, "-k", "auto", "-o", model, "--min-sites", enough]
        words += ["--wait", 5, "--json", *like]
        if week == self.calendar.crash:
            self._crash_in_a_run(words)
        started = perf_counter()
        found = json.loads(federation.command(*words).stdout)
        seconds = perf_counter() - started
        row = {
            "seconds": seconds,
            "sites": len(found["sites"]),
            "k": found["n_clusters"],
            "ids": ids_by_cluster(model),
        }
        if self.last is not None:
            done = federation.run(
                "diff", self.last, model, "--json", "--alarm", LEVEL, codes=(0, ALARM)
            )
            row |= {"alarm": done.returncode == ALARM, "drift": json.loads(done.stdout)["drift"]}
        self.last = model
        return row

    def _crash_in_a_run(self, words: Sequence[object]) -> None:
        federation = self.federation
        running = subprocess.Popen(
            federation.program(["federation", *words]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        sleep(4.0)
        federation.kill_server()
        if running.wait(60) == 0:
            raise RuntimeError("The run that was to crash had ended before.")
        federation.start_server()


def ids_by_cluster(path: Path) -> list[int | None]:
    """Return the id that a model gives to each cluster of the population; None if it has none."""
    file = formats.load(path, formats.ModelFile)
    apart = ((MEANS[:, None] - file.model.centers[None]) / SPREAD) ** 2
    nearest = apart.sum(axis=2).argmin(axis=1)
    near = apart.sum(axis=2).min(axis=1) < len(COLUMNS)
    return [file.cluster_ids[i] if close else None for i, close in zip(nearest, near, strict=True)]


def tracebacks(folder: Path) -> list[str]:
    """Return the parts that showed a traceback, on their screens or in their own logs."""
    logs = [
        *folder.glob("*.out"),
        *folder.glob("clinic/*/site.log"),
        *folder.glob("clinic/*/server.log"),
    ]
    return [str(log.relative_to(folder)) for log in logs if "Traceback" in log.read_text()]


def rehearse(n_sites: int, n_weeks: int, n_rows: int) -> Iterator[dict[str, Any]]:
    """Rehearse a year; yield a row for each week, and one for the year."""
    calendar = Calendar(n_weeks)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        federation = Federation(folder, [f"site{i + 1:02d}" for i in range(n_sites)])
        stack.callback(federation.stop_all)
        rows = []
        for row in Year(federation, calendar, n_rows).weeks():
            rows.append(row)
            yield {"benchmark": "year", "n_sites": n_sites, **row}
        federation.stop_all()
        yield {
            "benchmark": "year summary",
            "n_sites": n_sites,
            "n_weeks": n_weeks,
            **verdict(rows, calendar),
            "tracebacks": tracebacks(folder),
            "seconds": sum(row["seconds"] for row in rows),
        }


def verdict(rows: Sequence[dict[str, Any]], calendar: Calendar) -> dict[str, Any]:
    """Say what held over the year."""
    ids: list[set[int]] = [set() for _ in MEANS]
    for row in rows:
        for found, i in zip(ids, row["ids"], strict=True):
            found |= set() if i is None else {i}
    alarms = [row["week"] for row in rows if row.get("alarm")]
    in_all = [row["ids"][:NEW] for row in rows]
    return {
        "ids": [sorted(found) for found in ids],
        "ids_stayed": all(len(found) == 1 for found in ids) and all(i == in_all[0] for i in in_all),
        "alarms": alarms,
        "alarms_as_expected": alarms == [calendar.new_cluster],
        "runs": len(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--rows", type=int, default=400, help="rows of a site in a week")
    options = parser.parse_args()
    with stopped_by_signals(in_background=True):
        for row in rehearse(options.sites, options.weeks, options.rows):
            print(json.dumps({**row, **provenance()}), flush=True)


if __name__ == "__main__":
    main()
