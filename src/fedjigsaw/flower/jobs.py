"""Jobs of a server: what a run is to do, what happens in it, and what came of it.

Flower brings nothing back to who submits a run. So a job is a folder in the server's own: the
question goes in as ``job.json``; the server's half of the app adds a line to ``events.jsonl`` for
all that happens, and in the end ``model`` and ``result.json``. Two runs never share a folder.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Self

import httpx
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    StartRunRequest,
    StopRunRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab

from fedjigsaw.base import FederatedClusterer
from fedjigsaw.errors import FederationError, ParameterError, invalid
from fedjigsaw.flower.apps import check_federated
from fedjigsaw.flower.folders import APP, CA, RUNNING, ServerSettings
from fedjigsaw.flower.site import DEEP
from fedjigsaw.io.atomic import add_row, write_whole
from fedjigsaw.messages import MAX_COUNT
from fedjigsaw.methods import make
from fedjigsaw.parameters import integer, real

if TYPE_CHECKING:
    from fedjigsaw.deep import DeepFeCA

NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
ENDED = "finished"


@dataclass(frozen=True)
class Job:
    """What a run is to do."""

    method: str
    n_clusters: Any
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    min_sites: int | None = None
    timeout: float = 600.0
    wait: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_COUNT:
            raise ParameterError(invalid("seed", "a run", f"from 0 to {MAX_COUNT}", self.seed))
        integer(1, or_none=True).check("min_sites", "a run", self.min_sites)
        real(0, inclusive=False).check("timeout", "a run", self.timeout)
        real(0).check("wait", "a run", self.wait)

    def clusterer(self) -> "FederatedClusterer | DeepFeCA":
        """The estimator, its parameters checked."""
        if self.method == DEEP:
            from fedjigsaw.deep import DeepFeCA

            own = {"n_clusters": self.n_clusters, "random_state": self.seed}
            for name in own.keys() & self.params.keys():
                allowed = "given by an option of its own, -k or --seed"
                raise ParameterError(invalid(name, "a run", allowed, f"-p {name}"))
            made: FederatedClusterer | DeepFeCA
            made = DeepFeCA.from_settings({**self.params, **own})
        else:
            made = make(self.method, self.n_clusters, self.seed, **self.params)
        check_federated(made)
        return made

    def save(self, folder: Path) -> None:
        write_whole(folder / "job.json", json.dumps(asdict(self)).encode())

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(**json.loads((folder / "job.json").read_text()))


def new_job_folder(home: Path) -> Path:
    """A folder that no other run has."""
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    return folder


def job_folder(home: Path, name: str) -> Path:
    """The folder of a job by its name, and of nothing else."""
    if not NAME.fullmatch(name):
        raise ParameterError(invalid("name", "a job", "one that a run was given", repr(name)))
    return home / "runs" / name


# --------------------------------------------------------------- written by the server's half


def append_event(folder: Path, event: str, site: str, detail: str) -> None:
    line = {"time": time(), "event": event, "site": site, "detail": detail}
    add_row(folder / "events.jsonl", line)


def write_result(folder: Path, **result: Any) -> None:
    write_whole(folder / "result.json", json.dumps(result).encode())


# ------------------------------------------------------------------------ read by `federation run`


@contextmanager
def control(home: Path) -> Iterator[ControlHttpClient]:
    """A line to the running server, over this machine's loopback."""
    advice = f"Start it with `fedjigsaw federation server {home.parent}`, on this machine."
    try:
        port = int(json.loads((home / RUNNING).read_text())["control_port"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FederationError(f"No server of {home} is running here. {advice}") from error
    client = ControlHttpClient.from_server_address(
        f"127.0.0.1:{port}", False, (home / CA).read_bytes(), []
    )
    try:
        yield client
    except httpx.HTTPError as error:
        reason = type(error).__name__
        raise FederationError(f"The server of {home} does not answer ({reason}).") from error
    finally:
        client.close()


def submit(client: ControlHttpClient, home: Path, folder: Path) -> int:
    """Start the run of a job; its number at Flower."""
    app = (home / APP).read_bytes()
    request = StartRunRequest(
        fab=fab_to_proto(Fab(sha256(app).hexdigest(), app, {})),
        override_config=user_config_to_proto({"job": folder.name}),
    )
    response = client.StartRun(request)
    if not response.HasField("run_id"):
        raise FederationError("The server did not start the run; its flower.log tells why.")
    return int(response.run_id)


def follow(client: ControlHttpClient, folder: Path, run: int) -> Iterator[dict[str, Any]]:
    """All that happens in a run, as it happens; ends when its result is there."""
    seen, asked = 0, monotonic()
    ended = False
    while True:
        done = (folder / "result.json").exists()
        events = folder / "events.jsonl"
        lines = events.read_text().splitlines() if events.exists() else []
        for line in lines[seen:]:
            yield json.loads(line)
        seen = len(lines)
        if done:
            return
        if ended:
            raise FederationError("The run ended without a result; flower.log at the server.")
        if monotonic() - asked > 2:
            asked, ended = monotonic(), status_of(client, run).startswith(ENDED)
        sleep(0.2)


def status_of(client: ControlHttpClient, run: int) -> str:
    runs = client.ListRuns(ListRunsRequest(run_id=run)).run_dict
    status = next(iter(runs.values())).status
    return f"{status.status}:{status.sub_status}".rstrip(":")


def stop(client: ControlHttpClient, run: int) -> None:
    client.StopRun(StopRunRequest(run_id=run))


def read_result(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def connected_sites(client: ControlHttpClient, settings: ServerSettings) -> dict[str, bool]:
    """Every site of the federation, and whether it is connected now."""
    nodes = client.ListNodes(ListNodesRequest()).nodes_info
    online = {node.name for node in nodes if node.status == "online"}
    return {name: name in online for name in sorted(settings.sites)}
