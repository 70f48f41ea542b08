"""A site: a holder of data, its rows and what may leave it. Knows nothing of Flower."""

import faulthandler
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjigsaw import formats, sites
from fedjigsaw._inputs import check_name
from fedjigsaw.formats import SummaryFile
from fedjigsaw.guards import Guard
from fedjigsaw.scaling import Scaler
from fedjigsaw.tables import Table

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

LAST_RESORT_SECONDS = 30.0


@dataclass(frozen=True)
class Site:
    """A holder of data, and what may leave it.

    Parameters
    ----------
    name : what the transcript shows and what the site's random stream hangs on.
    data : a CSV, Parquet, NPY or NPZ file, or :func:`fedjigsaw.tables.from_array` of rows.
    columns, scaler, guard, max_rows, drop_missing : as in :func:`fedjigsaw.sites.summarize`.
    """

    name: str
    data: Path | Table
    columns: tuple[str, ...] | None = None
    scaler: Scaler | None = None
    guard: Guard = field(default_factory=Guard)
    max_rows: int = sites.MAX_ROWS
    drop_missing: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)

    def answer(self, question: "Question") -> SummaryFile:
        """The one small thing that leaves the site in this round."""
        params = dict(question.params)
        n_clusters = params.pop("n_clusters", None)
        params.pop("random_state", None)
        return sites.summarize(
            self.data,
            n_clusters,
            method=question.method,
            params=params,
            client=self.name,
            scaler=self.scaler,
            guard=self.guard,
            seed=question.broadcast.seed,
            broadcast=question.broadcast,
            max_rows=self.max_rows,
            columns=self.columns,
            order=question.columns,
            drop_missing=self.drop_missing,
        )


class WatchedSite(Site):
    """A site that gives up, with its whole story in the log, when nobody waits for it any more.

    A node does one thing at a time: work that hangs would keep it from the next run.
    """

    def answer(self, question: "Question") -> SummaryFile:
        def give_up(number: int, frame: object) -> None:
            raise TimeoutError(f"not done within {question.timeout:g} s; nobody waits any more")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, question.timeout)
        # for what no signal interrupts
        faulthandler.dump_traceback_later(question.timeout + LAST_RESORT_SECONDS, exit=True)
        try:
            return super().answer(question)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            faulthandler.cancel_dump_traceback_later()


def load_site(options: Mapping[str, Any]) -> Site:
    """A site by the options of `federation site`, which are JSON values."""
    scaler = options["scaler"]
    return WatchedSite(
        options["name"],
        Path(options["data"]),
        None if options["columns"] is None else tuple(options["columns"]),
        None if scaler is None else formats.load_scaler(Path(scaler)),
        Guard(options["min_cluster_size"], options["counts"]),
        options["max_rows"],
        options["drop_missing"],
    )
