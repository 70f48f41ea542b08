"""Sites of a federation: data, guard and answers, independent of Flower.

:class:`Site` holds rows. A site that holds images is :class:`fedjigsaw.deep.site.ImageSite`, which
is imported only where images are, since it needs torch.
"""

import faulthandler
import logging
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedjigsaw import sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import FederatedMethod, MadeError
from fedjigsaw.errors import DataError, MessageError, ParameterError, quote_names
from fedjigsaw.flower import site_tasks
from fedjigsaw.flower.desk import Desk, make_method
from fedjigsaw.flower.records import LateError
from fedjigsaw.flower.scaler_values import check_size
from fedjigsaw.flower.site_tasks import LabelFile
from fedjigsaw.flower.tasks import Result, Scoring, Statistics, Task
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.tables import Table
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import CLUSTERERS, METHODS, find, is_known, other_names
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.records.policy import OwnScalerError, Policy, PolicyError, PrivateError
from fedjigsaw.sites import Spend
from fedjigsaw.validation import check_name

if TYPE_CHECKING:
    from fedjigsaw.flower.records import LateError, Question

logger = logging.getLogger(__name__)

LAST_RESORT_SECONDS = 30.0
# A site clusters with a seed of its own: with the server's, every seed would be another answer
# about the same rows. 0 is also the default of `federation run`.
SITE_SEED = 0


class AnySite(Protocol):
    """Protocol of a site, for any kind of data."""

    def check(self) -> str | None:
        """Raise if the data cannot be used; return what the operator should know, if anything."""

    def answer(self, question: "Question") -> SummaryFile:
        """Return the summary that leaves the site in this round."""


@dataclass(frozen=True)
class Site:
    """A site that holds rows.

    Parameters
    ----------
    name : name of the site in the transcript; the site's random stream depends on it, and not on
        the seed of the run.
    data : a CSV, Excel, Parquet or NPY file, or rows (:func:`fedjigsaw.io.tables.from_array`).
    columns, scaler, guard, max_rows, drop_missing : as in :func:`fedjigsaw.sites.summarize`.
    decimal : the decimal sign of a file of text, "." or ","; None detects it.
    policy : which questions the site answers.
    folder : where it keeps its journal; without one, it cannot count questions, and answers
        later rounds only if the policy allows any model.
    privacy : differential privacy of every answer, as in :func:`fedjigsaw.sites.summarize`; it
        needs a folder, where the ledger is, and nothing that a server asks can change it.
    labels : where it keeps the labels of its rows, by the model that the server sends; None takes
        no model.
    version : under privacy, the name of the data: an answer about data of this name is given again
        even if they changed. By default the name of the site.

    Raises
    ------
    DataError
        If `name` or `version` cannot be a name.

    Examples
    --------
    >>> from fedjigsaw.flower.site import Site
    >>> from fedjigsaw.io.tables import from_array
    >>> Site("bern", from_array([[30.0], [60.0]] * 5, ["age"])).guard
    Guard(min_cluster_size=5, counts=None, sums=True)
    """

    name: str
    data: Path | Table
    columns: tuple[str, ...] | None = None
    scaler: Scaler | None = None
    guard: Guard = field(default_factory=Guard)
    max_rows: int = sites.MAX_ROWS
    drop_missing: bool = False
    decimal: str | None = None
    policy: Policy = field(default_factory=Policy)
    folder: Path | None = None
    privacy: Privacy | None = None
    version: str | None = None
    labels: LabelFile | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.version is not None:
            check_name(self.version)

    def check(self) -> str | None:
        """Raise if the rows cannot be used; set a limit if there is privacy without one."""
        if isinstance(self.data, Path):
            table = self.open(self.scaler)
            if self.privacy is not None:
                self.privacy.limits(len(table.columns))
            if self.labels is not None:
                encoding = None if self.scaler is None else self.scaler.encoding
                self.labels.check(self.data, table.columns, encoding, self.decimal)
        return self.desk().open(self.data_set)

    def open(self, scaler: Scaler | None, order: Sequence[str] | None = None) -> Table:
        """Open the rows, with the columns that the site or its scaler names."""
        return sites.prepare(
            self.data,
            scaler=scaler,
            columns=self.columns,
            order=order,
            drop_missing=self.drop_missing,
            decimal=self.decimal,
        )

    def answer(self, question: "Question") -> SummaryFile:
        """Return the summary that leaves, if the policy allows it; keep it in the journal."""

        def work(guard: Guard, broadcast: Broadcast, spend: Spend) -> SummaryFile:
            caught: list[warnings.WarningMessage] = []
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    return self._summarize(question, guard, broadcast, spend)
            except MessageError as error:  # about the summary, not about the question
                raise MadeError(f"{question.method} made no summary: {error}") from error
            finally:  # they may tell of rows: for the log of the site, and nobody else
                for told in caught:
                    logger.warning("a warning while the rows were summarized: %s", told.message)

        return self.desk().answer(question, self.data_set, self.guard, work, self._method)

    def do(self, task: Task) -> Result:
        """Return what a task gives, if the policy allows it; keep it in the journal."""
        if isinstance(task, Statistics):
            return site_tasks.statistics(self)
        if isinstance(task, Scoring):
            return site_tasks.score(self, task)
        return site_tasks.write(self, task.file)

    def check_scaler(self, question: "Question") -> None:
        """Raise if the server must not choose the scaler, or chose it for other columns."""
        if question.scaler is None:
            return
        if self.privacy is not None:
            raise PrivateError("under differential privacy, the scaler is the site's own")
        if self.scaler is not None:
            raise OwnScalerError("this site has a scaler of its own")
        check_size(question.scaler)
        columns = self.open(None).columns
        if sorted(columns) != sorted(question.scaler.columns):
            ours, theirs = quote_names(columns), quote_names(question.scaler.columns)
            raise DataError(f"The scaler of the server is for {theirs}; this site has {ours}.")

    def desk(self) -> Desk:
        """Make the desk, where all questions are decided and written down."""
        place = self.data if isinstance(self.data, Path) else None
        view = fingerprint(*self._view())
        return Desk(self.name, self.policy, self.folder, self.privacy, place, self.version, view)

    def data_set(self) -> str:
        """Return a name of exactly the rows and columns that this site clusters."""
        data: Path | np.ndarray
        if isinstance(self.data, Path):
            data = self.data
        else:
            encoding = None if self.scaler is None else self.scaler.encoding
            table = self.data if encoding is None else self.data.encoded(encoding)
            data = np.concatenate([batch.rows for batch in table.batches()])
        return fingerprint(data, *self._view())

    def _view(self) -> tuple[object, ...]:
        """Return how the rows are read."""
        scaler = None if self.scaler is None else self.scaler.fingerprint
        return self.columns, scaler, self.max_rows, self.drop_missing, self.decimal

    def _method(self, question: "Question") -> FederatedMethod:
        name = question.method
        # a method of another package runs, and is imported, only if the policy names it
        own = name not in METHODS and name in self.policy.methods and is_known(name)
        if name not in CLUSTERERS and not own:
            raise ParameterError(
                f"Site {self.name!r} holds rows: it can run {', '.join(CLUSTERERS)}, not {name}. A "
                "method of another package must be installed at the site, and named in policy.toml."
            )
        self.check_scaler(question)
        return make_method(question)

    def _summarize(
        self, question: "Question", guard: Guard, broadcast: Broadcast, spend: Spend
    ) -> SummaryFile:
        params = dict(question.params)
        n_clusters = params.pop("n_clusters", None)
        params.pop("random_state", None)
        scaler = question.scaler or self.scaler
        return sites.summarize(
            self.open(scaler),
            n_clusters,
            method=question.method,
            params=params,
            client=self.name,
            scaler=scaler,
            guard=guard,
            seed=SITE_SEED,
            broadcast=replace(broadcast, seed=SITE_SEED),
            privacy=self.privacy,
            spend=spend,
            max_rows=self.max_rows,
            order=question.columns if question.scaler is None else None,
        )


class OtherSite(AnySite, Protocol):
    """Protocol of a site that has its own guard, and no desk."""

    def data_set(self) -> str:
        """Return a name of exactly the data that the site learns from."""


@dataclass(frozen=True)
class PolicedSite:
    """A site of another kind, behind the same desk; the guard is in the site itself."""

    site: OtherSite
    desk: Desk
    guard: Guard

    def check(self) -> str | None:
        return self.site.check()

    def answer(self, question: "Question") -> SummaryFile:
        def work(guard: Guard, broadcast: Broadcast, spend: Spend) -> SummaryFile:
            spend(None, None)
            return self.site.answer(replace(question, broadcast=broadcast))

        if question.scaler is not None:
            raise ParameterError("Images have no columns to scale: run without --scale.")
        return self.desk.answer(question, self.site.data_set, self.guard, work)


@dataclass(frozen=True)
class TimeLimitedSite:
    """A site that raises a LateError when the server no longer waits for its answer.

    A node answers one question at a time: work that hangs would block the next run.
    """

    site: AnySite

    def check(self) -> str | None:
        return self.site.check()

    def answer(self, question: "Question") -> SummaryFile:
        with in_time(question.timeout):
            return self.site.answer(question)

    def do(self, task: Task) -> Result:
        if not isinstance(self.site, Site):
            raise ParameterError("This site holds no rows: it answers with summaries only.")
        with in_time(task.timeout):
            return self.site.do(task)


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise a LateError in the block when these seconds are over."""

    def give_up(number: int, frame: object) -> None:
        limit = max(round(seconds, 2), 0.01)
        raise LateError(
            f"no answer within {limit:g} s; the server has moved on. The coordinator "
            "can give sites more time (`federation run --timeout`)"
        )

    # for code that no signal interrupts
    faulthandler.dump_traceback_later(seconds + LAST_RESORT_SECONDS, exit=True)
    try:
        before = signal.signal(signal.SIGALRM, give_up)
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    finally:  # wherever the alarm came, even above: otherwise this process would end later
        faulthandler.cancel_dump_traceback_later()


def load_policy(folder: Path | None) -> Policy:
    """Read the policy of a site's folder; without a folder, the default one.

    A method of another package that it names must be there: otherwise the site does not start.
    """
    if folder is None:
        return Policy()
    # a method that pools rows can be no part of a policy
    known = [
        name
        for name, entry in METHODS.items()
        if name not in CLUSTERERS or not entry.cls.pools_data
    ]
    try:
        policy = Policy.load(folder, known=known)
    except ParameterError:  # it may name methods of other packages: looking for them takes a while
        policy = Policy.load(folder, known=[*known, *other_names()])
    for name in set(policy.methods) - set(METHODS):
        if find(name).cls.pools_data:
            raise PolicyError(
                f"policy.toml of {folder} names {name!r}, which pools all rows, so it cannot run "
                "in a federation. Remove it."
            )
    return policy


def load_site(options: Mapping[str, Any]) -> TimeLimitedSite:
    """Make a site from JSON values.

    Parameters
    ----------
    options : `kind` ("rows" or "images"), `name`, `folder`, with its policy and journal, and
        `accept_policy`, without which a policy may not be looser than the default; the others are
        the parameters of :func:`load_rows` or of :class:`fedjigsaw.deep.site.ImageSite`.
    """
    own = {name: value for name, value in options.items() if name not in ("kind", "folder")}
    folder = None if options.get("folder") is None else Path(options["folder"])
    policy = load_policy(folder)
    policy.check_accepted(own["name"], accepted=own.pop("accept_policy", False) is True)
    promise = own.get("privacy")
    policy.check_privacy(own["name"], None if promise is None else promise["epsilon"])
    guard = policy.guard(own.pop("min_cluster_size", None), own.pop("counts", None))
    if options["kind"] == "rows":
        return TimeLimitedSite(load_rows(**own, guard=guard, policy=policy, folder=folder))
    guard = policy.tighten(guard, ("counts",))  # the number of images at each center always leaves
    # by name: flower must not import deep, which needs torch
    images = import_module("fedjigsaw.deep.site").ImageSite(**own, guard=guard)
    desk = Desk(own["name"], policy, folder, data=Path(own["data"]))
    return TimeLimitedSite(PolicedSite(images, desk, guard))


def load_rows(
    name: str,
    data: str,
    columns: Sequence[str] | None = None,
    scaler: str | None = None,
    max_rows: int = sites.MAX_ROWS,
    drop_missing: bool = False,
    decimal: str | None = None,
    privacy: Mapping[str, Any] | None = None,
    version: str | None = None,
    labels: str | None = None,
    label_ids: Sequence[str] = (),
    *,
    guard: Guard,
    policy: Policy,
    folder: Path | None,
) -> Site:
    """Make a site that holds rows from JSON values.

    Parameters
    ----------
    data, scaler : paths.
    privacy : as :meth:`fedjigsaw.Privacy.to_dict` gives it.
    version : name of the data for questions under privacy.
    labels, label_ids : file for the labels of the rows, and columns to copy to it.
    """
    return Site(
        name,
        Path(data),
        None if columns is None else tuple(columns),
        None if scaler is None else formats.load_scaler(Path(scaler)),
        guard,
        max_rows,
        drop_missing,
        decimal,
        policy,
        folder,
        None if privacy is None else Privacy.from_dict(privacy),
        version,
        None if labels is None else LabelFile(Path(labels), tuple(label_ids)),
    )
