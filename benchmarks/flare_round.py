"""The two halves of a round for the simulator of NVIDIA FLARE, which imports them by name."""

import json
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task  # type: ignore[import-not-found]
from nvflare.apis.executor import Executor  # type: ignore[import-not-found]
from nvflare.apis.impl.controller import Controller  # type: ignore[import-not-found]
from nvflare.apis.shareable import Shareable  # type: ignore[import-not-found]

from simulators import FIELDS, Answer, answer, count_clients, put_together


class Summarize(Executor):  # type: ignore[misc]
    """A client: send the summary of its rows."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        """Return what the client sends."""
        return Shareable(answer(Path(self.folder), _number(fl_ctx.get_identity_name())))


class Gather(Controller):  # type: ignore[misc]
    """The server: ask all clients once, and write the centers to a file."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.answers: dict[int, Answer] = {}

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Run the round."""
        task = Task("summarize", Shareable(), result_received_cb=self._keep)
        folder = Path(self.folder)
        n_clients = count_clients(folder)
        self.broadcast_and_wait(task, fl_ctx, min_responses=n_clients, abort_signal=abort_signal)
        found = put_together(self.answers, n_clients)
        (folder / "centers.json").write_text(json.dumps(found))

    def _keep(self, client_task: Any, fl_ctx: Any) -> None:
        parts = {field: client_task.result[field] for field in FIELDS}
        self.answers[_number(client_task.client.name)] = parts

    def start_controller(self, fl_ctx: Any) -> None:
        """Do nothing: FLARE asks for this method."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Do nothing: FLARE asks for this method."""


def _number(name: str) -> int:
    """Return a client's number from FLARE's name of it: ``site-1`` is the first."""
    return int(name.removeprefix("site-")) - 1
