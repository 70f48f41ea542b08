"""Sites of a federation: data, guard and answers, independent of Flower.

:class:`Site` holds rows. A site that holds images is :class:`fedjigsaw.deep.site.ImageSite`, which
is imported only where images are, since it needs torch.
"""

import faulthandler
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedjigsaw import sites
from fedjigsaw._validation import check_name
from fedjigsaw.errors import ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.tables import Table, open_table
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.privacy.guard import Guard

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

LAST_RESORT_SECONDS = 30.0


class AnySite(Protocol):
    """Protocol of a site, for any kind of data."""

    def check(self) -> None:
        """Raise if the data cannot be used, before the first question."""

    def answer(self, question: "Question") -> SummaryFile:
        """Return the summary that leaves the site in this round."""


@dataclass(frozen=True)
class Site:
    """A site that holds rows.

    Parameters
    ----------
    name : name of the site in the transcript; the site's random stream depends on it.
    data : a CSV, Parquet, NPY or NPZ file, or :func:`fedjigsaw.io.tables.from_array` of rows.
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

    def check(self) -> None:
        """Raise if the rows cannot be used, before the first question."""
        if isinstance(self.data, Path):
            open_table(self.data, columns=self.scaler.columns if self.scaler else self.columns)

    def answer(self, question: "Question") -> SummaryFile:
        """Run one round of a method on the rows, and return the summary that leaves."""
        if question.method not in CLUSTERERS:
            raise ParameterError(
                f"Site {self.name!r} holds rows: it can run {', '.join(CLUSTERERS)}, not "
                f"{question.method}."
            )
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


@dataclass(frozen=True)
class TimeLimitedSite:
    """A site that raises TimeoutError when the server no longer waits for its answer.

    A node answers one question at a time: work that hangs would block the next run.
    """

    site: AnySite

    def check(self) -> None:
        self.site.check()

    def answer(self, question: "Question") -> SummaryFile:
        def give_up(number: int, frame: object) -> None:
            raise TimeoutError(f"no answer within {question.timeout:g} s; the server has moved on")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, question.timeout)
        # for code that no signal interrupts
        faulthandler.dump_traceback_later(question.timeout + LAST_RESORT_SECONDS, exit=True)
        try:
            return self.site.answer(question)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            faulthandler.cancel_dump_traceback_later()


def load_site(options: Mapping[str, Any]) -> TimeLimitedSite:
    """Make a site from JSON values.

    Parameters
    ----------
    options : `kind` ("rows" or "images") and `name`; the others are the parameters of
        :func:`load_rows` or of :class:`fedjigsaw.deep.site.ImageSite`.
    """
    own = {name: value for name, value in options.items() if name != "kind"}
    if options["kind"] == "rows":
        return TimeLimitedSite(load_rows(**own))
    # by name: flower must not import deep, which needs torch
    return TimeLimitedSite(import_module("fedjigsaw.deep.site").ImageSite(**own))


def load_rows(
    name: str,
    data: str,
    columns: Sequence[str] | None = None,
    scaler: str | None = None,
    min_cluster_size: int = 5,
    counts: str | None = None,
    max_rows: int = sites.MAX_ROWS,
    drop_missing: bool = False,
) -> Site:
    """Make a site that holds rows from JSON values; `data` and `scaler` are paths."""
    return Site(
        name,
        Path(data),
        None if columns is None else tuple(columns),
        None if scaler is None else formats.load_scaler(Path(scaler)),
        Guard(min_cluster_size, counts),
        max_rows,
        drop_missing,
    )
