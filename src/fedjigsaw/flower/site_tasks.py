"""What a site with rows does for tasks: statistics, scores and labels."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedjigsaw import sites
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.errors import DataError, ParameterError, counted
from fedjigsaw.flower.derived import derived, describe_model
from fedjigsaw.flower.desk import make_method, name_scaler, topic_of
from fedjigsaw.flower.earlier import Earlier, journaled
from fedjigsaw.flower.folders import check_writable
from fedjigsaw.flower.task_desk import answer_task
from fedjigsaw.flower.tasks import LABELS, SCORE, STATISTICS, Done, Scoring
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.io.regular import ending
from fedjigsaw.io.tables import Table
from fedjigsaw.messages import Model
from fedjigsaw.number.shapes import label_rows
from fedjigsaw.privacy.guard import Guard, Memory, refine, settle
from fedjigsaw.privacy.rounding import Moments, exact_moments, rounded_moments
from fedjigsaw.random import stream
from fedjigsaw.records.policy import ANY, NONE, NoLabelsError, OwnScalerError, RefusedError
from fedjigsaw.sites.charge import Spend
from fedjigsaw.sites.labels import WRITERS, write_labels
from fedjigsaw.threads import one_thread

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question
    from fedjigsaw.flower.site import Site

LAST_MODEL = "last.model"  # in a site's folder: the model of its labels


@dataclass(frozen=True)
class LabelFile:
    """Where a site keeps the labels of its rows.

    Attributes
    ----------
    path : a .csv or .parquet file.
    id_columns : columns to copy to it.
    """

    path: Path
    id_columns: tuple[str, ...] = ()

    def check(
        self,
        data: Path | Table,
        columns: Sequence[str],
        encoding: Encoding | None,
        decimal: str | None,
    ) -> None:
        """Raise if labels cannot be written there, or a column to copy is not in the data."""
        if ending(self.path) not in WRITERS:
            raise ParameterError(f"--labels {self.path}: the name must end in .csv or .parquet.")
        if not self.path.parent.is_dir():
            raise ParameterError(f"--labels {self.path}: there is no folder {self.path.parent}.")
        if isinstance(data, Path) and self.path.resolve() == data.resolve():
            raise ParameterError(f"--labels {self.path} would replace the data. Name another file.")
        check_writable(self.path.parent, ())  # the file itself is replaced, whatever its mode
        ids = self.id_columns or None
        sites.open_data(data, columns, id_column=ids, encoding=encoding, decimal=decimal)


# ------------------------------------------------------------------------------------- statistics


def statistics(site: "Site") -> Stats:
    """Return rounded statistics of the columns of a site, if its policy allows them."""
    least = site.guard.min_cluster_size

    def work(earlier: Earlier | None, spend: Spend) -> Stats:
        if site.scaler is not None:
            raise OwnScalerError("this site has a scaler of its own")
        if site.policy.statistics == NONE:
            raise RefusedError(f'statistics = "{NONE}"')
        columns, rows, n_rows = read_rows(site, None, spend)
        found = _moments(rows, np.zeros(len(rows), dtype=np.int64), 1, least)
        squares = found.squares[0] * (n_rows / len(rows))
        return Stats(site.name, columns, n_rows, found.means[0], squares)

    return answer_task(site.desk(), STATISTICS, [least], site.data_set, Stats, work)


def read_rows(
    site: "Site", order: tuple[str, ...] | None, spend: Spend
) -> tuple[tuple[str, ...], Floats, int]:
    """Read the rows that the site clusters, unscaled: all answers are about the same ones."""
    table = site.open(site.scaler, order)
    sampling = stream(0, 0, f"sample of {site.name}")
    rows, n_rows = table.read(max_rows=site.max_rows, rng=sampling)
    least = site.guard.min_cluster_size
    if len(rows) < least:
        raise DataError(
            f"{table.path} has {counted(len(rows), 'row')}, fewer than {least}: nothing leaves."
        )
    spend(None, None)
    return table.columns, rows, n_rows


# ------------------------------------------------------------------------------------------ scores


def score(site: "Site", task: Scoring) -> Score:
    """Return how well a model fits the rows of a site, if its policy allows it.

    Rows move between clusters only in the groups of earlier answers, and numbers are rounded in the
    units of the file: a score tells no more than a summary with the same clusters.
    """
    question, desk = task.question, site.desk()
    model = question.broadcast.model
    assert model is not None
    guard = site.policy.tighten(site.guard, ("counts", "sse"))
    data_set = cache(site.data_set)

    def work(earlier: Earlier | None, spend: Spend) -> Score:
        site.check_scaler(question)
        _check_allowed(site, guard.counts, guard.sums)
        scaler = question.scaler or site.scaler
        about = (
            model if site.policy.scores == ANY else _derived(site, data_set(), question, earlier)
        )
        order = about.feature_names if scaler is None else None
        columns, rows, _ = read_rows(_scaled_by(site, scaler), order, spend)
        if columns != about.feature_names:
            raise DataError("The columns of the model are not those of this site.")
        memory = Memory() if desk.folder is None else desk.recall(data_set(), earlier)
        labels = label(about, rows, scaler)
        if guard.min_cluster_size > 1:
            labels = _settled(labels, memory, rows, about, scaler, guard.min_cluster_size)
        if desk.folder is not None:
            desk.remember(data_set(), memory)
        return measured(site.name, task.model, about, rows, labels, scaler, guard)

    scaler = None if question.scaler is None else name_scaler(question.scaler)
    terms = [guard.min_cluster_size, guard.counts, describe_model(model), scaler]
    name, hashed = f"{SCORE} of {question.method[:100]}", describe_model(model)
    found = answer_task(desk, name, terms, data_set, Score, work, model=hashed)
    return replace(found, model=task.model)


def label(model: Model, rows: Floats, scaler: Scaler | None) -> Ints:
    """Return the cluster of each row, -1 for none."""
    with one_thread():
        labels: Ints = label_rows(model, rows if scaler is None else scaler.scale(rows))[0]
    return labels


def measured(
    name: str,
    print_of_model: str,
    model: Model,
    rows: Floats,
    labels: Ints,
    scaler: Scaler | None,
    guard: Guard,
) -> Score:
    """Make the score of clusters of rows; its distances follow from rounded moments."""
    size, k = guard.min_cluster_size, len(model.centers)
    found = _moments(rows, labels, k, size)
    centers = model.centers if scaler is None else scaler.unscale(model.centers)
    sse = found.distances(centers, 1.0 if scaler is None else scaler.deviation)
    counts, n_noise = found.counts, int((labels < 0).sum())
    if guard.counts == "rounded":
        counts = np.where(counts > 0, np.maximum(size, np.rint(counts / size) * size), 0)
        n_noise = size * round(n_noise / size)
    return Score(name, print_of_model, counts.astype(np.int64), sse, n_noise=n_noise)


def _moments(rows: Floats, labels: Ints, n_groups: int, least_rows: int) -> Moments:
    if least_rows == 1:
        return exact_moments(rows, labels, n_groups)
    return rounded_moments(rows, labels, n_groups, least_rows)


def _settled(
    labels: Ints, memory: Memory, rows: Floats, model: Model, scaler: Scaler | None, size: int
) -> Ints:
    """Return labels that split no group of earlier answers into small parts; remember them."""
    groups = np.zeros(len(labels), dtype=np.int64) if memory.groups is None else memory.groups
    scaled = rows if scaler is None else scaler.scale(rows)
    settled = settle(labels, groups, size, scaled, model.centers)
    memory.groups = refine(groups, settled)
    return settled


def _check_allowed(site: "Site", counts: str | None, sums: bool) -> None:
    if site.policy.scores == NONE:
        raise RefusedError(f'scores = "{NONE}"')
    if counts == "none" or not sums:
        raise RefusedError('a score has sizes and sums: counts or sums are "none"')


def _derived(site: "Site", data_set: str, question: "Question", earlier: Earlier | None) -> Model:
    """Compute the model again from the summaries shown, which must have this site's own."""
    method = make_method(question)
    if question.broadcast.round != method.total_rounds:
        raise RefusedError("the model is not that of the last round")
    if earlier is None:
        raise RefusedError("scores of derived models need a folder with a journal")
    guard = site.policy.tighten(site.guard, method.sends)
    topic = topic_of(question, method, data_set, guard)
    model = derived(question, method, site.name, earlier.chain(topic)).model
    assert model is not None
    return model


def _scaled_by(site: "Site", scaler: Scaler | None) -> "Site":
    return site if scaler is None else replace(site, scaler=scaler)


# ------------------------------------------------------------------------------------------ labels


def write(site: "Site", file: ModelFile) -> Done:
    """Keep a model and write the labels of the rows by it; the server learns that it is done."""
    if site.folder is None:
        raise ParameterError("This site has no folder, and so no journal for labels.")
    asked = {"task": LABELS, "model": describe_model(file.model)}
    with journaled(site.folder, site.policy, **asked) as entry:
        if site.labels is None:
            raise NoLabelsError("this site was started without --labels")
        encoding = None if site.scaler is None else site.scaler.encoding
        ours, theirs = (None if e is None else e.fingerprint for e in (encoding, file.encoding))
        if theirs is not None and ours != theirs:
            raise RefusedError("the schema in the model is not that of this site")
        own = site.open(site.scaler).columns
        if sorted(own) != sorted(file.columns):  # before anybody looks whether the data have them
            raise DataError("The columns of the model are not those of this site.")
        path, names = site.labels.path, site.labels.id_columns
        new = path.with_name(f".{path.stem}.new{path.suffix}")
        new_model = site.folder / f".{LAST_MODEL}.new"
        try:
            with one_thread():
                table = sites.open_data(
                    site.data,
                    file.columns,
                    id_column=names or None,
                    drop_missing=site.drop_missing,
                    encoding=file.encoding,
                    decimal=site.decimal,
                )
                parts = sites.assign(table, file, id_column=names or None)
                n_rows = write_labels(new, parts, id_column=names or None)
            formats.save(file, new_model)
            os.replace(new_model, site.folder / LAST_MODEL)
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
            new_model.unlink(missing_ok=True)
        text = (
            f"labels of {counted(n_rows, 'row')} are in {path}; the server learns that it is done"
        )
        entry.add("note", to=entry.number, text=text)
    return Done()
