"""A training session: a run with checkpoints, evaluations and one row of numbers per round.

It starts at the first round or at a checkpoint, and ends at the last round or when time is up.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from fedjigsaw import metrics
from fedjigsaw._typing import Ints
from fedjigsaw.deep.backbones import in_parts, quiet
from fedjigsaw.deep.checkpoint import NOT_COMPARED, Checkpoint, load, save
from fedjigsaw.deep.deepfeca import DeepFeCA
from fedjigsaw.deep.evaluate import linear_probe, neighbors
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.state import State
from fedjigsaw.deep.trainer import GPU_FEATURE_BATCH
from fedjigsaw.errors import DataError
from fedjigsaw.io.rows import append_row, read_rows, write_rows
from fedjigsaw.records.signals import ignoring_signals
from fedjigsaw.report.provenance import provenance

NMI_IMAGES = 10_000  # enough to follow a run


@dataclass(frozen=True)
class Session:
    """A run of DeepFeCA, and where its results go.

    Parameters
    ----------
    method : DeepFeCA
    data : ImageSet
    clients : array of shape (n_images,) or None
        Client of each training image; None pools them.
    about : mapping
        Description of the data and the split as JSON values: the start of every row.
    out : Path
        The checkpoint, written every `save_every` rounds and at the end, also if an error or a
        signal is the end.
    rows : Path or None
        File for one JSON line per round.
    eval_every : int
        Rounds between two evaluations, if there are labels; 0 evaluates at the end only.
    max_minutes : float or None
        Stop, with a checkpoint, before this time is over.
    """

    method: DeepFeCA
    data: ImageSet
    clients: Ints | None
    about: Mapping[str, Any]
    out: Path
    rows: Path | None = None
    save_every: int = 10
    eval_every: int = 10
    max_minutes: float | None = None
    _kept: list[int] = field(default_factory=list, init=False, repr=False)

    def run(self, start: Checkpoint | None = None) -> Generator[dict[str, Any], None, None]:
        """Train from the beginning or from a checkpoint; yield the row of every round."""
        began = perf_counter()
        before = 0.0 if start is None else float(start.state.numbers.get("seconds", 0))
        if start is not None:
            self._kept.append(start.state.round)
            self._cut_rows(start.state.round)
        evaluation = 0.0  # seconds of the last one
        unsaved: State | None = None
        labels = None if start is None else self._label(start.state)
        run = self.method.train(
            self.data.train, clients=self.clients, start=None if start is None else start.state
        )
        try:
            for state in run:
                row = self.row(state)
                reserve = 1.2 * (state.numbers["round_seconds"] + 2 * evaluation) + 5
                seconds = perf_counter() - began + reserve
                late = self.max_minutes is not None and seconds > 60 * self.max_minutes
                last = late or state.round == self.method.schedule.n_rounds
                tick = perf_counter()
                try:
                    before_labels, labels = labels, self._label(state)
                    row |= self._follow(labels, before_labels)
                    if last or (self.eval_every and state.round % self.eval_every == 0):
                        row |= evaluate(self.method, self.data)
                        evaluation = perf_counter() - tick
                finally:  # the round is trained, whatever becomes of its evaluation
                    row["seconds"] = before + perf_counter() - began
                    unsaved = replace(state, numbers={**state.numbers, "seconds": row["seconds"]})
                    self._write(row, first=start is None and state.round == 1)
                if last or state.round % self.save_every == 0:
                    self._save(unsaved)
                    unsaved = None
                yield row
                if late:
                    return
        except BaseException:  # within a round, or between two
            if unsaved is not None:
                # of two errors, as where the disk is full, the first says what happened
                with ignoring_signals(), suppress(DataError):
                    self._save(unsaved)
            raise

    @property
    def kept(self) -> int:
        """The round of the checkpoint, if it is of this run; otherwise 0."""
        return self._kept[-1] if self._kept else 0

    def row(self, state: State) -> dict[str, Any]:
        """Make the row of a round, without what is measured after it."""
        own = {"rounds": state.round, "seed": state.seed, "config": self.method.configuration()}
        return {**self._about(), **own, **state.numbers}

    def _about(self) -> dict[str, Any]:
        on_gpu = self.method.execution.torch_device.type == "cuda"
        return {**self.about, **provenance("torch" if on_gpu else None)}

    def _save(self, state: State) -> None:
        save(Checkpoint(self.method, state, self._about()), self.out)
        self._kept.append(state.round)

    def _label(self, state: State) -> Ints:
        """Return the clusters of some images after a round, which the method then has loaded."""
        return self.method.load_model(state.model).predict(self.data.train[self._followed()])

    def _followed(self) -> Ints:
        """Return the images whose clusters are followed from round to round."""
        n = len(self.data.train)
        return np.unique(np.linspace(0, n - 1, NMI_IMAGES).astype(np.int64))

    def _follow(self, labels: Ints, before: Ints | None) -> dict[str, Any]:
        """Return device, memory, and NMI of clusters with classes and with those of last round."""
        found: dict[str, Any] = {"device": str(self.method.execution.torch_device)}
        if before is not None:
            found["agreement"] = metrics.nmi(labels, before)
        if self.data.train_labels is not None:
            found["nmi"] = metrics.nmi(labels, self.data.train_labels[self._followed()])
        if self.method.execution.torch_device.type == "cuda":
            found["peak_gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
        return found

    def _cut_rows(self, done: int) -> None:
        """Keep the rows of the rounds that the checkpoint has."""
        if self.rows is not None and self.rows.is_file():
            try:
                rows = read_rows(self.rows)
            except DataError:  # only with --force: otherwise `check_rows` has refused the file
                rows = []
            write_rows(self.rows, [row for row in rows if row.get("rounds", done + 1) <= done])

    def _write(self, row: Mapping[str, Any], *, first: bool) -> None:
        if self.rows is not None and first:  # rows of an earlier run stay until there are new ones
            write_rows(self.rows, [row])
        elif self.rows is not None:
            append_row(self.rows, row)


def evaluate(
    method: DeepFeCA, data: ImageSet, *, progress: Callable[[int], object] = quiet
) -> dict[str, float | None]:
    """Evaluate frozen features by a linear probe and nearest neighbors; {} where that cannot be.

    Without test images, every fifth training image is held out for that; of fewer, the last.

    Parameters
    ----------
    progress : callable
        Called with the number of images that were embedded since the last call.
    """
    if data.train_labels is None or why_not_evaluated(data) is not None:
        return {}
    train, labels, test, answers = data.train, data.train_labels, data.test, data.test_labels
    if answers is None or not data.has_test:
        held = _held_out(len(train))
        test, answers, train, labels = train[held], labels[held], train[~held], labels[~held]
    size = GPU_FEATURE_BATCH  # on a GPU, smaller batches are padded to this size
    features, shown = (
        in_parts(method.transform, images, size, progress) for images in (train, test)
    )
    parts = (features, labels, shown, answers)
    device = method.execution.torch_device
    probe = linear_probe(*parts, device=device)
    return {
        "linear_accuracy": probe.accuracy,
        "probe_decay": probe.decay,
        "probe_at_edge": probe.at_edge,
        "probe_converged": probe.converged,
        "held_out_accuracy": probe.held_out_accuracy,
        "knn_accuracy": neighbors(*parts, device=device),
    }


def why_not_evaluated(data: ImageSet) -> str | None:
    """Say why features of images cannot be evaluated; None if they can.

    Examples
    --------
    >>> images = np.zeros((9, 3, 8, 8), dtype=np.uint8)
    >>> why_not_evaluated(ImageSet("x", images, None, images[:0], None))
    'x has no labels, which an evaluation needs.'
    """
    labels = data.train_labels
    if labels is None:
        return f"{data.name} has no labels, which an evaluation needs."
    if len(np.unique(labels if data.has_test else labels[~_held_out(len(labels))])) < 2:
        kind = "training images" if data.has_test else "images, without those held out,"
        return f"{data.name} cannot be evaluated: its {kind} must be of at least two classes."
    return None


def _held_out(n_images: int) -> np.ndarray:
    """Tell which images are held out for the test: every fifth or, of fewer, the last."""
    found: np.ndarray = np.arange(n_images) % 5 == min(4, n_images - 1)
    return found


def resume(session: Session, *, force: bool = False) -> Checkpoint | None:
    """Find the checkpoint to go on from, if there is one.

    Raises
    ------
    ParameterError
        If the checkpoint is of a run with other parameters or data.
    DataError
        If the file of rows has rows of another run, unless `force`.
    """
    start = load(session.out) if session.out.exists() else None
    if start is not None:
        start.check_same(session.method, session.about, session.out)
    if not force:
        check_rows(session.rows, session.about, session.method, resuming=True)
    return start


def evaluate_checkpoint(
    path: Path,
    data: ImageSet,
    *,
    device: str = "auto",
    rows: Path | None = None,
    progress: Callable[[int], object] = quiet,
) -> dict[str, Any]:
    """Evaluate the network of a checkpoint on labeled images, and return the row.

    Parameters
    ----------
    rows : Path or None
        File of rows of the same run, to which the row is added.
    """
    if (reason := why_not_evaluated(data)) is not None:
        raise DataError(reason)
    loaded, made_by = load(path), provenance()
    about = {name: value for name, value in loaded.about.items() if name not in made_by}
    method = loaded.method.set_params(device=device)
    check_rows(rows, about, method, resuming=False)
    numbers = evaluate(method, data, progress=progress)
    row = {**about, "rounds": loaded.state.round, "seed": loaded.state.seed, **numbers}
    row |= {"evaluated_on": data.name, "config": method.configuration(), **made_by}
    if rows is not None:
        append_row(rows, row)
    return row


def check_rows(
    path: Path | None, about: Mapping[str, Any], method: DeepFeCA, *, resuming: bool
) -> None:
    """Raise a DataError if a file of rows has rows of another run.

    Parameters
    ----------
    resuming : bool
        Whether the run is resumed, which drops a torn last line.
    """
    advice = "Name another file" + (", or use --force." if resuming else ".")
    try:
        rows = [] if path is None else read_rows(path, allow_torn=resuming)
    except DataError as error:
        raise DataError(f"{error} {advice}") from error
    config = {n: v for n, v in method.configuration().items() if n not in NOT_COMPARED}
    for number, row in enumerate(rows, 1):
        same = all(row.get(n) == value for n, value in about.items() if n not in NOT_COMPARED)
        found = row.get("config", {})
        if not same or any(found.get(name) != value for name, value in config.items()):
            raise DataError(f"{path}, line {number}, is a row of another run. {advice}")
