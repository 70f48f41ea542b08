"""A site: a holder of rows or images, and what may leave it. Knows nothing of Flower."""

import faulthandler
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import sites
from fedjigsaw._validation import check_name
from fedjigsaw.engine import Client
from fedjigsaw.errors import DataError, MessageError, ParameterError, invalid
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.tables import Table, open_table
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.parameters import integer
from fedjigsaw.privacy.guard import Guard

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

LAST_RESORT_SECONDS = 30.0
DEEP = "deepfeca"  # the one method that wants images, and needs torch


@dataclass(frozen=True)
class Site:
    """A holder of data, and what may leave it.

    Parameters
    ----------
    name : what the transcript shows and what the site's random stream hangs on.
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
        """Say what is wrong with the data before anybody asks."""
        if isinstance(self.data, Path):
            open_table(self.data, columns=self.scaler.columns if self.scaler else self.columns)

    def answer(self, question: "Question") -> SummaryFile:
        """The one small thing that leaves the site in this round."""
        if question.method == DEEP:
            advice = "This site holds rows."
            raise ParameterError(invalid("method", self.name, "one for rows", DEEP, advice))
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
class ImageSite:
    """A holder of images, for DeepFeCA: what leaves are centers of projections, and weights.

    Parameters
    ----------
    name : as of a :class:`Site`.
    data : images, as for ``fedjigsaw deep train --data``.
    size : as of :func:`fedjigsaw.deep.images.load`.
    device : where this site computes, whatever the server says.
    min_cluster_size : fewest images that a center may stand for, if the server asks for no more.
        Nothing leaves a site that has fewer in all.
    """

    name: str
    data: str
    size: int | None = None
    device: str = "auto"
    min_cluster_size: int = 5

    def __post_init__(self) -> None:
        check_name(self.name)
        integer(1).check("min_cluster_size", "a guard", self.min_cluster_size)

    def check(self) -> None:
        """Say what is wrong with the images, or the device, before anybody asks."""
        from fedjigsaw.deep import check_device

        check_device(self.device)
        self._images(self.min_cluster_size)

    def answer(self, question: "Question") -> SummaryFile:
        """Centers or weights, whichever this round is about."""
        from fedjigsaw.deep import DeepFeCA

        if question.method != DEEP:
            advice = "This site holds images."
            raise ParameterError(invalid("method", self.name, DEEP, question.method, advice))
        method = DeepFeCA.from_settings(question.params)
        method.check_federated()
        size = max(self.min_cluster_size, method.objective.min_cluster_size)
        images = self._images(size)
        # how and where it computes is the site's own matter; a question may be another process each
        # time, in which compiling would take longer than training
        method.set_params(device=self.device, compile=False, min_cluster_size=size)
        _check_finite(question)
        summary = Client(self.name, images, method).answer(question.broadcast)
        return SummaryFile(
            summary,
            DEEP,
            question.params,
            tuple(f"projection {i}" for i in range(summary.centers.shape[1])),
            None,
            {"min_cluster_size": size, "counts": "none" if summary.counts is None else "exact"},
            question.broadcast.seed,
            len(images),
        )

    def _images(self, at_least: int) -> Any:
        from fedjigsaw.deep import images

        found = images.load(self.data, size=self.size).train
        if len(found) < at_least:
            advice = "Nothing may leave this site under its guard."
            allowed = f"at least min_cluster_size, {at_least}"
            raise DataError(invalid("images", self.data, allowed, len(found), advice))
        return found


def _check_finite(question: "Question") -> None:
    """Weights that are no numbers would be an error somewhere deep inside."""
    model = question.broadcast.model
    for name, tensor in () if model is None else model.tensors.items():
        if not np.isfinite(tensor).all():
            raise MessageError(invalid(f"tensor {name!r}", "the question", "finite", "others"))


@dataclass(frozen=True)
class PunctualSite:
    """A site that gives up, with its whole story in the log, when nobody waits for it any more.

    A node does one thing at a time: work that hangs would keep it from the next run.
    """

    site: Site | ImageSite

    def check(self) -> None:
        self.site.check()

    def answer(self, question: "Question") -> SummaryFile:
        def give_up(number: int, frame: object) -> None:
            raise TimeoutError(f"not done within {question.timeout:g} s; nobody waits any more")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, question.timeout)
        # for what no signal interrupts
        faulthandler.dump_traceback_later(question.timeout + LAST_RESORT_SECONDS, exit=True)
        try:
            return self.site.answer(question)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            faulthandler.cancel_dump_traceback_later()


def load_site(options: Mapping[str, Any]) -> PunctualSite:
    """A site by the options of `federation site`, which are JSON values."""
    size = options["min_cluster_size"]
    if options["images"] is not None:
        place, pixels, device = options["images"], options["size"], options["device"]
        return PunctualSite(ImageSite(options["name"], place, pixels, device, size))
    scaler = options["scaler"]
    return PunctualSite(
        Site(
            options["name"],
            Path(options["data"]),
            None if options["columns"] is None else tuple(options["columns"]),
            None if scaler is None else formats.load_scaler(Path(scaler)),
            Guard(size, options["counts"]),
            options["max_rows"],
            options["drop_missing"],
        )
    )
