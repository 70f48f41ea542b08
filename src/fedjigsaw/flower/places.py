"""Where runs are started: on the server's machine, or on an operator's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from fedjigsaw.flower import jobs, stopping
from fedjigsaw.flower.folders import server_folder
from fedjigsaw.flower.jobs import Job, Tell
from fedjigsaw.flower.operators import is_operator_folder
from fedjigsaw.flower.status import read_status


class Place(Protocol):
    """What `federation run`, `status` and `stop` need, wherever the server is."""

    def status(self) -> dict[str, Any]:
        """Return the state of the server, as `federation status --json` prints it."""

    def sites(self, without: Sequence[str], tell: Tell) -> list[str]:
        """Return the sites that a run asks; unknown names in `without` are a ParameterError."""

    def run(self, job: Job, tell: Tell, *, resume: bool) -> tuple[Path, dict[str, Any]]:
        """Run a job; return the file of its model, in a folder of its own, and the transcript."""

    def stop(self, name: str) -> dict[str, Any]:
        """Stop a run, and return how it ended, as `federation stop --json` prints it."""


class ServerPlace:
    """The machine of the server, whose folder is here."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def status(self) -> dict[str, Any]:
        return {**read_status(self.home), "runs": stopping.open_runs(self.home)}

    def sites(self, without: Sequence[str], tell: Tell) -> list[str]:
        return jobs.active_sites(self.home, without)

    def run(self, job: Job, tell: Tell, *, resume: bool) -> tuple[Path, dict[str, Any]]:
        found = jobs.run_job(self.home, job, tell, resume=resume)
        jobs.delivered(found[0].parent)
        return found

    def stop(self, name: str) -> dict[str, Any]:
        return stopping.stop(self.home, name, stopping.COORDINATOR)


def find_place(folder: Path) -> Place:
    """Return the place of a folder: that of a federation, or one from `federation operator add`."""
    if is_operator_folder(folder):
        from fedjigsaw.flower.operator_client import OperatorPlace

        return OperatorPlace(folder)
    return ServerPlace(server_folder(folder))
