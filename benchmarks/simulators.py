"""One round of small clients here and in two simulators, for docs/performance.md.

Flower's simulation and NVIDIA FLARE's simulator need environments of their own, whose interpreters
are given to this script. One that is not given is left out. In a checkout::

    python -m venv FOLDER/flower
    FOLDER/flower/bin/pip install -c constraints.txt -e '.[fast]' 'flwr[simulation]==1.41.0'
    python -m venv FOLDER/flare
    FOLDER/flare/bin/pip install -c constraints.txt -e '.[fast]' 'nvflare==2.9.0'
    python benchmarks/simulators.py --flower FOLDER/flower/bin/python \\
        --flare FOLDER/flare/bin/python

flwr 1.41.0 asks for ray 2.55.1. FLARE takes minutes: it starts a process for each client. Some of
Ray's ports are open to the network during the run; on Linux, ``unshare -rn sh -c "ip link set lo up
&& python benchmarks/simulators.py ..."`` leaves it nothing but the loopback device.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from fedjigsaw import Client, Jigsaw
from fedjigsaw._typing import Floats
from fedjigsaw.datasets import gaussian_grid
from fedjigsaw.engine import aggregate_round
from fedjigsaw.messages import Broadcast, Summary
from measuring import HERE, Row, run_benchmarks, seconds_of

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.serverapp import Grid

SIZES = (20, 100)  # clients; FLARE's simulator takes no more than 100
ROWS, K = 50, 15
LIMIT = 300  # seconds of a process
WORKERS = 2  # clients that a simulator runs at a time
MARK = "FEDJIGSAW_SIMULATOR"  # in the environment of all processes of one run, to end them by
FIELDS = ("centers", "counts", "sse")
Answer = Mapping[str, Any]  # what a client sends: an array for each field
PACKAGES = {"ours": ("fedjigsaw",), "flower": ("flwr", "ray"), "flare": ("nvflare",)}


def simulators(pythons: Mapping[str, str], repeats: int) -> Iterator[Row]:
    """Measure each contender in new processes, in turn; the shortest times count.

    `seconds` is the call that runs the round, in a process that has imported the libraries.
    `process_seconds` is that process from its start to its end. A contender that takes longer than
    the limit is ended; one that takes more than half of it is not run again.
    """
    versions = {name: _versions(name, python) for name, python in pythons.items()}
    for n_clients in SIZES:
        rows = gaussian_grid(n_clients * ROWS).X
        found: dict[str, list[Row]] = {name: [] for name in pythons}
        slow: set[str] = set()
        for _ in range(repeats):
            for name, python in pythons.items():
                run = None if name in slow else _in_process(name, python, rows)
                if run is None or run["process_seconds"] > LIMIT / 2:
                    slow.add(name)
                if run is not None:
                    found[name].append(run)
        for name in pythons:
            yield {
                "benchmark": "simulators",
                "contender": name,
                "versions": versions[name],
                "n_clients": n_clients,
                "n_rows": ROWS,
                "n_columns": rows.shape[1],
                "n_clusters": K,
                "workers": WORKERS,
                **(_best(found[name], found["ours"]) if found[name] else {"limit_seconds": LIMIT}),
            }


def _best(runs: Sequence[Row], ours: Sequence[Row]) -> Row:
    """Return the shortest times, over ours, and whether all runs found the same centers."""
    seconds, whole, our_seconds, our_whole = (
        min(run[key] for run in made)
        for made in (runs, ours)
        for key in ("seconds", "process_seconds")
    )
    return {
        "seconds": seconds,
        "process_seconds": whole,
        "ratio": seconds / our_seconds,
        "process_ratio": whole / our_whole,
        "repeats": len(runs),
        "same_result": all(run["centers"] == ours[0]["centers"] for run in runs),
    }


def _versions(name: str, python: str) -> dict[str, str]:
    """Return the versions of a contender's packages in its environment."""
    words = f"{{name: version(name) for name in {PACKAGES[name]!r}}}"
    script = f"import json; from importlib.metadata import version; print(json.dumps({words}))"
    done = subprocess.run([python, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


def _in_process(name: str, python: str, rows: Floats) -> Row | None:
    """Run a contender in a process of its own, and end everything that it started.

    Return None if it does not end in time.
    """
    mark = uuid4().hex
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")]),  # the same code
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        MARK: mark,
    }
    with TemporaryDirectory() as place:
        folder = Path(place)
        np.save(folder / "rows.npy", rows)
        command = [python, "-c", f"import simulators; simulators.contend({name!r}, {place!r})"]
        with (folder / "log").open("wb") as log:
            started = perf_counter()
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, "FLWR_HOME": place},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                code = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                return None
            finally:
                seconds = perf_counter() - started
                _end_marked(mark)
                process.wait()
        if code != 0:
            last = (folder / "log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"The process of {name} ended with {code}: {last}")
        return {**json.loads((folder / "result.json").read_text()), "process_seconds": seconds}


def _end_marked(mark: str) -> None:
    """Kill all processes of a run: simulators start some in sessions of their own."""
    word = f"{MARK}={mark}".encode()
    while True:
        left = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended, or belongs to somebody else
                if word in (place / "environ").read_bytes().split(b"\0"):
                    left.append(int(place.name))
        if not left:
            return
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        sleep(0.1)


def contend(name: str, folder: str) -> None:
    """Run the round of one contender, and write what it took and found."""
    contenders = {"ours": ours, "flower": with_flower, "flare": with_flare}
    row = contenders[name](Path(folder))
    (Path(folder) / "result.json").write_text(json.dumps(row))


def count_clients(folder: Path) -> int:
    """Return the number of clients of the round."""
    return len(np.load(folder / "rows.npy", mmap_mode="r")) // ROWS


def answer(folder: Path, number: int) -> Answer:
    """Do a client's part: read its rows, and summarize them."""
    rows = np.load(folder / "rows.npy", mmap_mode="r")[number * ROWS : (number + 1) * ROWS]
    summary = Client(str(number), np.array(rows), Jigsaw(K)).answer(Broadcast(0, 0))
    return {field: getattr(summary, field) for field in FIELDS}


def put_together(answers: Mapping[int, Answer], n_clients: int) -> list[list[float]]:
    """Do the server's part: return the centers of all answers."""
    if len(answers) != n_clients:
        raise RuntimeError(f"Only {len(answers)} of {n_clients} clients answered.")
    summaries = [
        Summary(int(parts["counts"].sum()), **parts, client=str(number))
        for number, parts in answers.items()
    ]
    model = aggregate_round(Jigsaw(K), summaries, Broadcast(0, 0))
    centers: list[list[float]] = model.centers.tolist()
    return centers


def ours(folder: Path) -> Row:
    """Run the round with `fit`."""
    rows = np.load(folder / "rows.npy")
    clients = np.repeat(np.arange(count_clients(folder)), ROWS)
    model = Jigsaw(K, random_state=0)
    seconds = seconds_of(lambda: model.fit(rows, clients=clients))
    return {"seconds": seconds, "centers": model.cluster_centers_.tolist()}


def with_flower(folder: Path) -> Row:
    """Run the round in Flower's simulation, on Ray."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    n_clients = count_clients(folder)
    client_app, server_app = ClientApp(), ServerApp()
    found: list[list[list[float]]] = []

    @client_app.query()
    def summarize(message: "Message", context: "Context") -> "Message":
        number = int(context.node_config["partition-id"])
        arrays = ArrayRecord({k: Array(v) for k, v in answer(folder, number).items()})
        content = RecordDict({"answer": arrays, "client": ConfigRecord({"number": number})})
        return Message(content, reply_to=message)

    @server_app.main()
    def main(grid: "Grid", context: "Context") -> None:
        while len(nodes := list(grid.get_node_ids())) < n_clients:
            sleep(0.01)
        asked = [Message(RecordDict(), dst_node_id=node, message_type="query") for node in nodes]
        replies: list[Any] = [
            reply.content for reply in grid.send_and_receive(asked, timeout=LIMIT)
        ]
        answers = {
            int(content["client"]["number"]): {k: v.numpy() for k, v in content["answer"].items()}
            for content in replies
        }
        found.append(put_together(answers, n_clients))

    machine = {"num_cpus": WORKERS, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    settings: dict[str, Any] = {
        "init_args": machine,
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    seconds = seconds_of(
        lambda: run_simulation(server_app, client_app, n_clients, backend_config=settings)
    )
    return {"seconds": seconds, "centers": found[0]}


def with_flare(folder: Path) -> Row:
    """Run the round in the simulator of NVIDIA FLARE."""
    from nvflare.job_config.api import FedJob  # type: ignore[import-not-found]

    from flare_round import Gather, Summarize

    n_clients = count_clients(folder)
    job = FedJob(name="round", min_clients=n_clients)
    job.set_app_packages(["simulators", "measuring", "fedjigsaw"])  # not copied into the job
    job.to_server(Gather(str(folder)))
    job.to_clients(Summarize(str(folder)), tasks=["summarize"])
    run = partial(job.simulator_run, str(folder / "work"), n_clients=n_clients, threads=WORKERS)
    seconds = seconds_of(run)
    return {"seconds": seconds, "centers": json.loads((folder / "centers.json").read_text())}


def main(words: Sequence[str]) -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flower", metavar="PYTHON", help="interpreter that has flwr[simulation]")
    parser.add_argument("--flare", metavar="PYTHON", help="interpreter that has nvflare")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args(words)
    given = {"ours": sys.executable, "flower": options.flower, "flare": options.flare}
    pythons = {name: python for name, python in given.items() if python is not None}
    run_benchmarks({"simulators": partial(simulators, pythons, options.repeats)}, [])


if __name__ == "__main__":
    main(sys.argv[1:])
