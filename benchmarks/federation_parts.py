"""Memory and CPU time of the parts of a federation, and plain Flower for comparison."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from fedjigsaw.flower import bundle, patches, processes

NOTHING = {
    "fedjigsaw_app/client.py": """
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()
@app.query()
def answer(message, context):
    return Message(RecordDict(), reply_to=message)
""",
    "fedjigsaw_app/server.py": """
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()
@app.main()
def main(grid, context):
    nodes = grid.get_node_ids()
    asked = [Message(RecordDict(), dst_node_id=n, message_type="query") for n in nodes]
    assert len(list(grid.send_and_receive(asked))) == 3
""",
}


def family(process: int) -> list[int]:
    """Return a process and all that it started and that are running."""
    found = [process]
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(entry.read_text().rpartition(")")[2].split()[1]) == process:
                found += family(int(entry.parent.name))
        except OSError:
            continue
    return found


def memory(process: int) -> dict[str, float]:
    """Return RSS and PSS of a process and all that it started, in MB."""
    sums = {"rss_mb": 0.0, "pss_mb": 0.0}
    for number in family(process):
        for line in Path(f"/proc/{number}/smaps_rollup").read_text().splitlines():
            for kind in ("Rss", "Pss"):
                if line.startswith(f"{kind}:"):
                    sums[f"{kind.lower()}_mb"] += int(line.split()[1]) / 1024
    return sums


def cpu_seconds(processes: list[int]) -> float:
    """Return the CPU time of processes, all that they started, and what these waited for."""
    ticks = 0
    for number in (member for process in processes for member in family(process)):
        values = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, values[11:15]))
    return ticks / 100


@contextmanager
def plain_flower(folder: Path) -> Iterator[tuple[Callable[[], float], int]]:
    """Start Flower's own server and three nodes; yield a run that does nothing, and a node."""
    from flwr.common.serde import fab_to_proto
    from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, StartRunRequest
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.fab import Fab

    place = f"127.0.0.1:{processes.free_port()}"
    bin_, port = Path(sys.executable).parent, place.rpartition(":")[2]
    own = ["--insecure", "--host", "127.0.0.1", "--port"]
    with ExitStack() as parts:

        def start(name: str, *words: str) -> int:
            process = subprocess.Popen(
                [bin_ / name, *words],
                env=processes.environment(folder),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            parts.callback(processes.end, process, 5.0)
            return process.pid

        start("flower-superlink", *own, port, "--disable-runtime-dependency-installation")
        nodes = [
            start("flower-supernode", *own, str(processes.free_port()), "--superlink", place)
            for _ in range(3)
        ]
        client: Any = ControlHttpClient.from_server_address(place, True, None, [])

        def online() -> bool:
            try:
                found = client.ListNodes(ListNodesRequest()).nodes_info
            except Exception:
                return False
            return bool(sum(node.status == "online" for node in found) == 3)

        _wait(online)
        texts = {"pyproject.toml": bundle.PROJECT, "LICENSE": bundle.LICENSE, **NOTHING}
        files = {name: text.encode() for name, text in texts.items()}
        app = patches.build_app({**files, "fedjigsaw_app/__init__.py": b""})
        fab = fab_to_proto(Fab(sha256(app).hexdigest(), app, {}))

        def run() -> float:
            begun = perf_counter()
            number = client.StartRun(StartRunRequest(fab=fab)).run_id

            def status() -> Any:
                return client.ListRuns(ListRunsRequest(run_id=number)).run_dict[number].status

            _wait(lambda: status().status == "finished")
            if status().sub_status != "completed":
                raise RuntimeError(f"The run of plain Flower failed: {status()}")
            return perf_counter() - begun

        sleep(5)  # what starts apps has been loaded
        yield run, nodes[0]
        client.close()


def _wait(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    deadline = perf_counter() + seconds
    while not condition():
        if perf_counter() > deadline:
            raise RuntimeError(f"Plain Flower was not ready after {seconds:.0f} seconds.")
        sleep(0.1)
