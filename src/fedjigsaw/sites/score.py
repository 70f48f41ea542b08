"""How well a model fits the rows of one site, and of all sites together."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.profiles import merge_profiles
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import Schema
from fedjigsaw.errors import MessageError, ParameterError, counted, invalid
from fedjigsaw.io.formats import ModelFile, Score, SummaryFile, encode, fingerprint
from fedjigsaw.io.tables import Table
from fedjigsaw.messages import Model
from fedjigsaw.number.shapes import NOISE, label_rows
from fedjigsaw.privacy import Guard, Privacy
from fedjigsaw.sites import profiles
from fedjigsaw.sites.aggregate import weakest
from fedjigsaw.sites.charge import Spend, free
from fedjigsaw.sites.compatibility import check_contents, check_different, check_has_centers
from fedjigsaw.sites.preparation import Progress, open_data, quiet, scaled_rows, site_name
from fedjigsaw.threads import available_threads
from fedjigsaw.validation import MAX_SAMPLES

GUARD = Guard()


def score(
    data: Path | str | Table,
    file: ModelFile,
    *,
    client: str | None = None,
    drop_missing: bool = False,
    profile: bool = False,
    guard: Guard = GUARD,
    privacy: Privacy | None = None,
    spend: Spend = free,
    progress: Progress = quiet,
) -> Score:
    """Measure size and summed squared distance of every cluster on one site's rows.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    file : the model, from :func:`~fedjigsaw.sites.aggregate` or :func:`fedjigsaw.io.formats.load`.
    client : name of the site; None is that of the file, without its ending.
    drop_missing : skip rows with missing values; False makes them a DataError.
    profile : measure what the rows of each cluster are like, too.
    guard : what may be in the profile; without a profile, sizes and distances are exact.
    privacy : differential privacy, only with a profile; all numbers are then noisy, in place of a
        guard. Its bounds are for the columns of numbers of the profile, in their order.
    spend : called right before noise is drawn; it may refuse, see :class:`~fedjigsaw.sites.Charge`.
    progress : called with the number of rows of each batch that was read.

    Returns
    -------
    Score
        Sizes and distances in the order of the centers, for :func:`merge_scores`.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column of the model, or has missing values.
    MessageError
        If the model has no centers, or no row is left to measure.
    ParameterError
        If `privacy` is given without a profile.
    BudgetError
        If `spend` is that of a :class:`~fedjigsaw.sites.Charge`, and a limit forbids the release.

    Examples
    --------
    >>> from fedjigsaw import Model
    >>> from fedjigsaw.io.formats import ModelFile
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import score
    >>> file = ModelFile(Model([[32.0], [62.0]], feature_names=("age",)), None, ("bern",), 10)
    >>> found = score(from_array([[30.0], [35.0], [60.0]], ["age"]), file, client="oslo")
    >>> found.counts.tolist(), found.sse.tolist()
    ([2, 1], [13.0, 4.0])
    """
    Guard.check(guard, "score")
    check_has_centers(file)
    table = open_data(data, file.columns, drop_missing=drop_missing, encoding=file.encoding)
    name, print_of_model = site_name(client, table), fingerprint(encode(file))
    if privacy is not None:
        if not profile:
            raise ParameterError(
                "Differential privacy of a score needs a profile.", parameter="profile"
            )
        noisy = profiles.measure_privately(table, file, privacy, name, spend, progress)
        measured = noisy.counts, noisy.sse, noisy.profile
        return Score(name, print_of_model, *measured, privacy, ids=file.ids, made_by=_shown(file))
    found = profiles.measure(table, file, guard.min_cluster_size, progress) if profile else None
    counts, sse, n_noise = (
        _per_cluster(table, file.model, file.scaler, progress)
        if found is None
        else (found.counts, found.sse, found.n_noise)
    )
    return Score(
        name,
        print_of_model,
        counts,
        sse,
        None if found is None else found.profile,
        n_skipped=table.tally.skipped,
        n_noise=n_noise,
        ids=file.ids,
        made_by=_shown(file) if profile else None,
    )


def _shown(file: ModelFile) -> Schema | None:
    """Return the schema of the columns that profiles show: no others are named in a score."""
    schema = file.made_by
    return None if schema is None else replace(schema, columns=schema.described)


def merge_scores(scores: Mapping[str, Score]) -> Score:
    """Add up the scores of one model over all sites.

    Parameters
    ----------
    scores : file name -> its content; the names are for error messages.

    Returns
    -------
    Score
        Its `client` says how many sites it is about.

    Raises
    ------
    ParameterError
        If no scores are given.
    MessageError
        If two scores are from one site, or are about different models.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.io.formats import Score
    >>> from fedjigsaw.sites import merge_scores
    >>> bern = Score("bern", "model 1", np.array([2, 1]), np.array([13.0, 4.0]))
    >>> oslo = Score("oslo", "model 1", np.array([5, 0]), np.array([7.0, 0.0]))
    >>> total = merge_scores({"bern": bern, "oslo": oslo})
    >>> total.client, total.counts.tolist(), total.sse.tolist()
    ('2 sites', [7, 1], [20.0, 4.0])
    """
    check_contents(scores, "scores", Score)
    check_different({name: score.client for name, score in scores.items()})
    (first_name, first), *others = scores.items()
    for name, found in scores.items():
        rows = {"rows": found.n_rows, "skipped rows": found.n_skipped, "noise": found.n_noise}
        for what, n in rows.items():
            if n > MAX_SAMPLES:
                raise MessageError(invalid(what, name, f"at most {MAX_SAMPLES}", n))
    for name, other in others:
        if other.model != first.model:
            allowed = f"that of {first_name}, {first.model}"
            raise MessageError(invalid("model", name, allowed, other.model))
        if other.cluster_ids != first.cluster_ids:
            k = counted(len(first.counts), "cluster")
            text = f"{first_name} has {k}, {name} {len(other.counts)}"
            if len(other.counts) == len(first.counts):
                text = f"{first_name} and {name} have different cluster ids"
            raise MessageError(f"{text}, though both name the same model. Score them again.")
    ordered = sorted(scores.values(), key=lambda score: score.client)
    counts, sse = (sum(getattr(s, n) for s in ordered) for n in ("counts", "sse"))
    name = counted(len(ordered), "site")
    profiled = [score.profile for score in ordered if score.profile is not None]
    profile = merge_profiles(profiled) if profiled else None
    promises = [score.privacy for score in ordered]
    privacy = None if profile is None else weakest(promises, len(profile.numbers))
    skipped, noise = (sum(getattr(s, n) for s in ordered) for n in ("n_skipped", "n_noise"))
    total, distances = np.asarray(counts), np.asarray(sse)
    rest = profile, privacy, skipped, noise, first.ids, first.made_by
    return Score(name, first.model, total, distances, *rest)


def is_sum(score: Score) -> bool:
    """Tell by its name whether a score is one that :func:`merge_scores` made."""
    return re.fullmatch(r"1 site|\d+ sites", score.client) is not None


def mean_squared_distance(
    data: Path | str | Table,
    file: SummaryFile,
    *,
    drop_missing: bool = False,
    progress: Progress = quiet,
) -> float:
    """Measure the mean squared distance of a site's rows to the nearest center of its summary.

    Where only a sample was clustered, this tells what the sampling cost: it uses all rows.

    Parameters
    ----------
    data, drop_missing, progress : as in :func:`score`.
    file : the summary that was made from these rows.

    Returns
    -------
    float
        In squared units of the clustering, which are scaled if the summary has a scaler.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column, or has no row without missing values.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import mean_squared_distance, summarize
    >>> rows = from_array([[30.0], [31.0], [32.0], [33.0], [34.0]], ["age"])
    >>> mean_squared_distance(rows, summarize(rows, 1, client="bern"))
    2.0
    """
    table = open_data(data, file.columns, drop_missing=drop_missing, encoding=file.encoding)
    counts, sse, _ = _per_cluster(table, Model(file.summary.centers), file.scaler, progress)
    return float(sse.sum() / counts.sum())


def _per_cluster(
    table: Table, model: Model, scaler: Scaler | None, progress: Progress
) -> tuple[Ints, Floats, int]:
    """Count rows and sum their squared distances by cluster; count those of none."""
    k, n_noise = len(model.centers), 0
    counts: Ints = np.zeros(k, dtype=np.int64)
    sse: Floats = np.zeros(k)
    for rows in scaled_rows(table, scaler, progress):
        labels, distances, _ = label_rows(model, rows, n_threads=available_threads())
        inside = labels != NOISE
        n_noise += int((~inside).sum())
        counts += np.bincount(labels[inside], minlength=k)
        sse += np.bincount(labels[inside], distances[inside] ** 2, minlength=k)
    return counts, sse, n_noise
