"""A run from the first round, or from a checkpoint, to the last, or until its time is up.

One row per round: what ``fedjigsaw deep train`` prints and writes, and what pages are made from.
"""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from fedjigsaw import metrics
from fedjigsaw._typing import Ints
from fedjigsaw.deep.backbones import in_parts, quiet
from fedjigsaw.deep.checkpoint import NOT_COMPARED, Checkpoint, save
from fedjigsaw.deep.deepfeca import DeepFeCA
from fedjigsaw.deep.evaluate import choose_decay, linear_probe, neighbors
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.state import State
from fedjigsaw.deep.trainer import GPU_FEATURE_BATCH
from fedjigsaw.errors import DataError, invalid
from fedjigsaw.io.atomic import add_row, write_whole

NMI_IMAGES = 10_000  # enough to follow a run by; evaluation is for the rest


@dataclass(frozen=True)
class Session:
    """What to train on what, and what to keep of it.

    Parameters
    ----------
    clients : who holds each training image; None pools them.
    about : what the run is on, as JSON values; the start of every row.
    out : where the checkpoint goes; every `save_every` rounds, and at the end.
    rows : where one JSON line per round goes.
    eval_every : rounds between two evaluations, where there are labels; 0 is at the end only.
    max_minutes : stop, with a checkpoint, before this time is over.
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

    def run(self, start: Checkpoint | None = None) -> Generator[dict[str, Any], None, None]:
        """Train on from a checkpoint, or from nothing; yields the row of every round."""
        began = perf_counter()
        before = 0.0 if start is None else float(start.state.numbers["seconds"])
        if start is not None:
            self._cut_rows(start.state.round)
        evaluation = 0.0  # seconds of the last one
        unsaved: State | None = None
        run = self.method.train(
            self.data.train, clients=self.clients, start=None if start is None else start.state
        )
        try:
            for state in run:
                self.method.model_ = state.model
                row = {**self.about, "rounds": state.round, "seed": state.seed, **state.numbers}
                row |= self._follow(state.model)
                reserve = 1.2 * (state.numbers["round_seconds"] + 2 * evaluation) + 5
                late = self._is_late(perf_counter() - began + reserve)
                last = late or state.round == self.method.schedule.n_rounds
                if last or (self.eval_every and state.round % self.eval_every == 0):
                    tick = perf_counter()
                    row |= evaluate(self.method, self.data)
                    row["config"] = self.method.configuration()
                    evaluation = perf_counter() - tick
                row["seconds"] = before + perf_counter() - began
                self._write(row, first=start is None and state.round == 1)
                unsaved = replace(state, numbers={**state.numbers, "seconds": row["seconds"]})
                if last or state.round % self.save_every == 0:
                    self._save(unsaved)
                    unsaved = None
                yield row
                if late:
                    return
        except (KeyboardInterrupt, GeneratorExit):  # in a round, or between two of them
            if unsaved is not None:
                self._save(unsaved)
            raise

    def _save(self, state: State) -> None:
        save(Checkpoint(self.method, state, self.about), self.out)

    def _is_late(self, seconds: float) -> bool:
        return self.max_minutes is not None and seconds > 60 * self.max_minutes

    def _follow(self, model: Any) -> dict[str, Any]:
        """What can be said of a round in a moment."""
        found: dict[str, Any] = {"device": str(self.method.execution.torch_device)}
        if self.data.train_labels is not None:
            some = np.linspace(0, len(self.data.train) - 1, NMI_IMAGES).astype(int)
            some = np.unique(some)
            labels = self.method.predict(self.data.train[some])
            found["nmi"] = metrics.nmi(labels, self.data.train_labels[some])
        if self.method.execution.torch_device.type == "cuda":
            found["peak_gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
        return found

    def _cut_rows(self, done: int) -> None:
        """Keep the rows up to the checkpoint."""
        if self.rows is not None and self.rows.is_file():
            lines = self.rows.read_text().splitlines()
            kept = [(line, row) for line in lines if (row := _parse(line)) is not None]
            kept = [(line, row) for line, row in kept if row.get("rounds", done + 1) <= done]
            write_whole(self.rows, "".join(f"{line}\n" for line, _ in kept).encode())

    def _write(self, row: Mapping[str, Any], *, first: bool) -> None:
        if self.rows is not None and first:  # only now: what was there stays until there is more
            write_whole(self.rows, f"{json.dumps(row)}\n".encode())
        elif self.rows is not None:
            add_row(self.rows, row)


def evaluate(
    method: DeepFeCA, data: ImageSet, *, tell: Callable[[int], object] = quiet
) -> dict[str, float | None]:
    """Linear probe and nearest neighbors on frozen features; nothing where there are no labels.

    Without images to test on, every fifth is kept for that. `tell` is that of
    :func:`fedjigsaw.deep.backbones.embed`.
    """
    if data.train_labels is None:
        return {}
    train, labels, test, answers = data.train, data.train_labels, data.test, data.test_labels
    if answers is None or not len(test):
        held = np.arange(len(train)) % 5 == 4
        test, answers, train, labels = train[held], labels[held], train[~held], labels[~held]
    size = GPU_FEATURE_BATCH  # a GPU fills up what is less
    seen, shown = (in_parts(method.transform, images, size, tell) for images in (train, test))
    parts = (seen, labels, shown, answers)
    device = method.execution.torch_device
    chosen = choose_decay(seen, labels, device=device)
    return {
        "linear_accuracy": linear_probe(*parts, decay=chosen.decay, device=device),
        "probe_decay": chosen.decay,
        "held_out_accuracy": chosen.accuracy,
        "knn_accuracy": neighbors(*parts, device=device),
    }


def check_rows(
    path: Path | None, about: Mapping[str, Any], method: DeepFeCA, *, resuming: bool
) -> None:
    """Rows that are there before more are added must be those of the same run.

    Parameters
    ----------
    resuming : the run goes on, and cuts off the rest of a line that was being written at its end.
    """
    text = path.read_text(errors="replace") if path and path.exists() else ""
    lines = text.splitlines(keepends=True)
    config = {n: v for n, v in method.configuration().items() if n not in NOT_COMPARED}
    for number, line in enumerate(lines, 1):
        row = _parse(line) if line.endswith("\n") else None
        if row is None and number == len(lines) and resuming:
            continue
        same = row is not None and all(row.get(n) == value for n, value in about.items())
        if not same or not _agree(config, (row or {}).get("config")):
            advice = "Name another file" + (", or use --force." if resuming else ".")
            owner = f"{path}, line {number}"
            raise DataError(invalid("content", owner, "a row of this run", "another", advice))


def _agree(wanted: Mapping[str, Any], found: Any) -> bool:
    """Whether two tables say the same where both say something; no table says nothing."""
    return not isinstance(found, Mapping) or all(
        found.get(name, value) == value for name, value in wanted.items()
    )


def _parse(line: str) -> dict[str, Any] | None:
    """A row; None for the rest of a line that was being written when the run was ended."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
