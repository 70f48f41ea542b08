"""Describe a file in plain text, so that a site can decide whether to send it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.errors import counted
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.formats import Content, ModelFile, NoisyStats, Score, SummaryFile
from fedjigsaw.kernels.indices import SKEWED
from fedjigsaw.messages import FIELDS, LEFT_OUT, QUANTIZATION, Model, Summary, Tensors
from fedjigsaw.methods import METHODS, data_kind
from fedjigsaw.methods._support import WITH_AUTO, knows_no_counts, support_of
from fedjigsaw.number.shapes import describe_shapes
from fedjigsaw.privacy.summaries import has_cells
from fedjigsaw.report.centers import read_centers
from fedjigsaw.report.number import describe_choice
from fedjigsaw.report.preparation import describe_features, describe_preparation
from fedjigsaw.report.privacy import describe_privacy, rows_in_words
from fedjigsaw.report.profiles import describe_profile
from fedjigsaw.report.regions import describe_region, without_region
from fedjigsaw.report.trust import (
    clusters_in_words,
    describe_lone,
    describe_sites,
    part_of,
    reports_of,
    strange_sites,
)

MAX_SHOWN = 20
NEAREST = "into their nearest neighbor"
ROUNDING = 1e-9  # of the spread of a column: smaller numbers are shown as 0
Lines = Iterator[str]


def describe(content: Content | Scaler, n_bytes: int, *, most: int = MAX_SHOWN) -> list[str]:
    """Describe a summary, model, score, statistics or scaler of `n_bytes` bytes, line by line.

    Parameters
    ----------
    most : how many centers, columns, and numbers of other kinds are shown.
    """
    if isinstance(content, SummaryFile):
        lines = _summary(content, most)
    elif isinstance(content, ModelFile):
        lines = _model(content, most)
    elif isinstance(content, Score):
        lines = _score(content, most)
    elif isinstance(content, Stats):
        lines = _stats(content)
    else:
        lines = _scaler(content)
    return [*lines, f"Size: {n_bytes:,} bytes. The file contains no code."]


# ------------------------------------------------------------------------------------- summaries


def _summary(file: SummaryFile, most: int) -> Lines:
    summary = file.summary
    yield f"A summary of site {summary.client!r}, for one round of federated clustering."
    yield from describe_region(summary, most)
    summary = without_region(summary)
    exact = file.privacy is None
    rows = f"{summary.n_samples:,} (exact)" if exact else rows_in_words(summary)
    skipped = f"; {file.n_skipped:,} were skipped" if file.n_skipped else ""
    kind = data_kind(file.method)
    what = {"rows": "Rows at the site, without those with missing values"}
    yield f"{what.get(kind, 'Images that the site learns from')}: {rows}{skipped}."
    if file.n_used < summary.n_samples:
        yield f"Only a random sample of {file.n_used:,} of them was clustered."
    yield from _origin(file.method, file.params, file.columns, file.scaler, most)
    yield f"Centers: {len(summary.centers)}, {_kind_of_centers(file)}. Seed: {file.seed}."
    sent = [n for n in FIELDS if _is_sent(getattr(summary, n))]
    yield "Sent with the centers: " + (", ".join(sent) or "nothing else") + "."
    if summary.sse is not None:
        units = "" if file.scaler is None else ", in scaled units"
        yield f"(sse: summed squared distance of the rows to their center{units})"
    yield from _centers(summary.centers, file.columns, file.scaler, most, summary)
    yield from _tensors(summary.tensors, most)
    yield from _about_cells(summary)
    if not exact:
        yield from describe_privacy(file, most)
        return
    yield _guard(file)
    yield from _weights(summary.tensors)
    yield "What could be inferred:"
    yield f"- how many {kind} the site has, and around which values they gather."
    if summary.radii is not None:
        yield (
            "- a radius is the largest distance of a row of that cluster to its center, "
            "or half the distance to the nearest center."
        )
    if (summary.tensors.get(QUANTIZATION, np.zeros(0)) > 0).any():
        yield "- which columns have few values, and how far apart these are."
    yield from _exposed(file)
    yield (
        f"- anyone who knows all {kind} of a cluster but one {_last_row(file)}: "
        "this is not differential privacy."
    )


def _about_cells(summary: Summary) -> Lines:
    """Explain what is sent only where the number of clusters is to be found."""
    if QUANTIZATION in summary.tensors:
        yield (
            "  (quantization: for columns of few values, the squared step between them over 6 or "
            "12; 0: no such column, -1: cannot tell)"
        )
    if LEFT_OUT in summary.tensors:
        yield "  (left_out: rows far from all others, of which nothing else is sent)"


def _kind_of_centers(file: SummaryFile) -> str:
    if file.method not in METHODS:
        return f"whatever {file.method!r} sends, a method that is not of fedjigsaw"
    if file.privacy is None:
        return f"each the mean of some {data_kind(file.method)}"
    if has_cells(file.summary):
        return "those of cells that all sites share; they follow from the bounds alone"
    return "each the mean of some rows plus noise; counts and sse are noisy, too"


def _guard(file: SummaryFile) -> str:
    size, counts = file.guard["min_cluster_size"], file.guard["counts"]
    rule = "none"
    if size > 1:
        how = "into similar ones, or left out" if QUANTIZATION in file.summary.tensors else NEAREST
        merged = f"{file.summary.merged} merged {how}"
        rule = f"no center of fewer than {size} {data_kind(file.method)} ({merged})"
    return f"Guard, as stated by the sender: {rule}; counts: {counts}."


def _exposed(file: SummaryFile) -> Lines:
    summary, guarded = file.summary, file.guard["min_cluster_size"] > 1
    if file.method not in METHODS:
        yield "- a center may be the values of one row: ask the authors of the method."
    if not guarded:
        yield "- without a guard, any center may be a single row of the data, to the last digit."
    alone = 0 if summary.counts is None else int((summary.counts == 1).sum())
    if alone:
        yield f"- {counted(alone, 'center')} with a count of 1: the center of one row is that row."
    rows = "several equal rows" if guarded else "one row, or several equal ones,"
    for what, values in (("a radius", summary.radii), ("an sse", summary.sse)):
        points = 0 if values is None else int((values == 0).sum())
        if points:
            centers = counted(points, "center")
            where = "near" if guarded else "with exactly"
            yield f"- {centers} with {what} of 0: {rows} {where} these values."


def _last_row(file: SummaryFile) -> str:
    guarded = file.guard["min_cluster_size"] > 1
    return "learns roughly where the last one is" if guarded else "can compute the last one"


def _is_sent(values: object) -> bool:
    return values is not None and (not isinstance(values, Mapping) or bool(values))


# ---------------------------------------------------------------------------------------- models


def _model(file: ModelFile, most: int) -> Lines:
    yield f"A model of {clusters_in_words(file.model)}."
    yield from strange_sites(file)
    part = part_of(file)
    out = {report.client for report in reports_of(file) if not report.clusters}
    names = ", ".join(name for name in file.clients if name not in out)
    about = "" if file.privacy is None else "about "
    kind = data_kind(file.model.method)
    rows = describe_rows(part.n_rows, file.n_skipped, kind)
    yield f"Made from {counted(part.n_sites, 'site')}: {names}; {about}{rows} in all{part.more}."
    if file.partly:
        yield f"Not in every round: {', '.join(file.partly)}."
    yield from _origin(file.model.method, file.model.params, file.columns, file.scaler, most)
    yield from _ids(file)
    yield from _centers(file.model.centers, file.columns, file.scaler, most, ids=file.ids)
    yield from describe_lone(file)
    yield from describe_choice(file.model, file.ids)
    yield from describe_support(file.model, most, file.ids)
    yield from describe_sites(file, most)
    yield from _label_rule(file.model)
    yield from describe_shapes(file.model)
    yield from _weights(file.model.tensors)
    if file.privacy is not None:
        yield "All numbers of rows are noisy."
        yield from describe_privacy(file, most)
        return
    yield (
        f"What could be inferred: around which values the {kind} of all sites gather, "
        + (f"how many {kind} each site has, " if reports_of(file) else "")
        + "and which sites took part."
    )
    support = support_of(file.model)
    if support is not None and (support["clients"] == 1).any():
        alone = int((support["clients"] == 1).sum())
        yield (
            f"- {counted(alone, 'cluster')} with rows of one site only: size and center are those "
            "of that site's rows."
        )


def _ids(file: ModelFile) -> Lines:
    """Say where the numbers of clusters are from, if they are not just counted."""
    if file.ids:
        yield (
            "Cluster ids are kept from earlier models (made with --like); "
            f"the next new cluster gets {file.next_id}."
        )


def describe_support(
    model: Model, most: int = MAX_SHOWN, ids: Sequence[int] | None = None
) -> Lines:
    """Describe the support of each cluster, if the model has it."""
    support = support_of(model)
    if support is None:
        return
    yield "Support of each cluster (margin: 0 if two centers coincide, near 1 if far from all):"
    if WITH_AUTO in support:
        yield "  (separation: near 1 if clearly fewer rows lie between this cluster and others)"
    if knows_no_counts(model):
        yield "  (some sites sent no counts: the numbers of rows are guesses)"
    for i in range(len(model.centers)):
        if i == most:
            yield f"  ... and {len(model.centers) - most} more"
            return
        one = {name: values[i] for name, values in support.items()}
        found = f"{counted(int(one['clients']), 'site')}, {counted(int(one['points']), 'row')}"
        number = ids[i] if ids else i
        text = f"  {number}: {found}, spread {one['spread']:.6g}, margin {one['margin']:.2f}"
        yield text + (f", separation {one[WITH_AUTO]:.2f}" if WITH_AUTO in one else "")


def _label_rule(model: Model) -> Lines:
    """Recommend a rule for labels, if the model knows how different the sites are."""
    skew = model.tensors.get("skew")
    if skew is not None and skew.size == 1 and not knows_no_counts(model):
        local = skew.item() >= SKEWED
        rule = "Local-center labels (assign --local)" if local else "Nearest-center labels"
        yield (
            f"Mutual information of site and cluster: {skew.item():.2f} bits. "
            f"{rule} are recommended."
        )


def _weights(tensors: Tensors) -> Lines:
    """Say what the weights of a network may reveal, if there are any."""
    sizes = [tensor.size for name, tensor in tensors.items() if name.startswith("weights.")]
    if sizes:
        yield (
            f"Weights of a network: {sum(sizes):,} numbers, trained on the images. An analysis of "
            "the weights may reveal what some images look like: this is not differential privacy."
        )


def _tensors(tensors: Tensors, most: int) -> Lines:
    """Show other numbers, but not the weights of a network: they are too many to read."""
    for name, tensor in tensors.items():
        if not name.startswith("weights."):
            numbers = [f"{value:.6g}" for value in tensor.ravel()[:most].tolist()]
            more = "" if tensor.size <= most else f", ... and {tensor.size - most} more"
            yield f"  {name}: {', '.join(numbers)}{more}"


# -------------------------------------------------------------------- scores, statistics, scalers


def _score(score: Score, most: int) -> Lines:
    yield f"A score of {score.client!r} for model {score.model}."
    skipped = ""
    if score.n_skipped:
        skipped = f" ({counted(score.n_skipped, 'more was', 'more were')} skipped)"
    if score.n_noise:
        more = counted(score.n_noise, "more is", "more are")
        skipped += f" ({more} in no cluster, or left out by a guard)"
    noisy = "" if score.privacy is None else "about "
    known = score.privacy is None or score.sse.any()
    total = (
        f"summed squared distance: {score.sse.sum():.6g}" if known else "distances: not measured"
    )
    yield f"Rows: {noisy}{score.n_rows:,}{skipped}; {total}."
    for i, (n, sse) in enumerate(zip(score.counts[:most], score.sse, strict=False)):
        distance = f", summed squared distance {sse:.6g}" if known else ""
        yield f"  {score.cluster_ids[i]}: {counted(int(n), 'row')}{distance}"
    if len(score.counts) > most:
        yield f"  ... and {len(score.counts) - most} more"
    if score.profile is not None:
        yield from describe_profile(score.profile, most, score.ids, score.made_by)
    if score.privacy is not None:
        yield from describe_privacy(score, most)
        return
    yield "What could be inferred: how many rows of the site are in each cluster."
    if score.profile is not None:
        yield "- around which values the rows of each cluster gather, and how they are spread."
    if (score.counts == 1).any() and (score.profile is None or score.profile.min_cluster_size == 1):
        yield "- a cluster with one row shows the distance of that row to its center."


def _stats(stats: Stats) -> Lines:
    yield f"Column statistics of site {stats.client!r}, for a common scaler."
    noisy = isinstance(stats, NoisyStats)
    rows = f"about {stats.n_samples:,} (all numbers are noisy)" if noisy else f"{stats.n_samples:,}"
    yield f"Rows: {rows}. For each column, the mean and the standard deviation:"
    if stats.made_by is None:
        yield from _moments(stats)
    else:
        yield from describe_features(stats, stats.made_by)
    yield "  (the file has the sum of squared deviations: deviation squared times rows)"
    if isinstance(stats, NoisyStats):
        yield from describe_privacy(stats, MAX_SHOWN)
        return
    known = ", rows of each category, missing values" if stats.made_by else ""
    known += ", and how its values are spread" if stats.sketches else ""
    yield f"What could be inferred: mean and spread of each column at this site{known}."
    if stats.n_samples <= 2:
        yield "- the mean of one row is that row; of two rows, mean and spread give both values."


def _moments(stats: Stats) -> Lines:
    deviations = np.sqrt(stats.sum_of_squares / stats.n_samples)
    for name, mean, deviation in zip(stats.columns, stats.mean, deviations, strict=True):
        yield f"  {name}: mean {mean:.6g}, standard deviation {deviation:.6g}"


def _scaler(scaler: Scaler) -> Lines:
    columns = scaler.columns if scaler.encoding is None else scaler.encoding.sources
    kind = "scaler" if scaler.encoding is None else "preparation"
    yield f"A {kind} for {counted(len(columns), 'column')}, fingerprint {scaler.fingerprint}."
    if scaler.encoding is not None:
        yield f"Made by schema {scaler.encoding.schema.fingerprint}, which is part of this file."
    yield from describe_preparation(scaler, len(scaler.columns))
    yield "What could be inferred: mean and standard deviation of each column over all sites."
    yield "(nothing, if it was made from bounds alone; differential privacy takes it as public)"


# ----------------------------------------------------------------------------------------- parts


def _origin(
    method: str,
    params: Mapping[str, Any],
    columns: tuple[str, ...],
    scaler: Scaler | None,
    most: int,
) -> Lines:
    settings = ", ".join(f"{name} = {value}" for name, value in params.items())
    yield f"Method: {method}, with {settings or 'no parameters'}."
    encoding = None if scaler is None else scaler.encoding
    names = columns if encoding is None else encoding.sources
    features = "" if encoding is None else f" as {len(columns)} features"
    yield f"Columns ({len(names)}{features}): {', '.join(names)}."
    if scaler is None:
        yield "Not scaled."
        return
    verb = "Scaled" if encoding is None else "Prepared"
    yield (
        f"{verb} by {scaler.fingerprint}, which is part of this file; the centers below are in "
        "original units."
    )
    yield from describe_preparation(scaler, most)


def _centers(
    centers: Floats,
    columns: tuple[str, ...],
    scaler: Scaler | None,
    most: int,
    summary: Summary | None = None,
    ids: Sequence[int] | None = None,
) -> Lines:
    if not len(centers):  # of DeepFeCA, statistics and weights leave without any
        return
    encoding = None if scaler is None else scaler.encoding
    if encoding is None:
        found = _in_numbers(centers[:most], columns[:most], scaler)
    else:
        found = _in_words(centers[:most], columns, scaler, most)
        columns = encoding.sources
    for i, line in enumerate(found):
        number = ids[i] if ids else i
        yield f"  {number}: {line}" + ("" if summary is None else _with_center(summary, i))
    if len(centers) > most:
        yield f"  ... and {len(centers) - most} more; --all shows them"
    if len(columns) > most:
        yield f"  (the first {most} of {len(columns)} columns are shown)"
    if encoding is None:
        yield "  (shown with 6 digits; the file has 16)"
        return
    logs = [c.name for c in encoding.schema.clustered if c.scale == "log"]
    if logs:
        yield f"  (geometric means, of 1 + value: {', '.join(logs)})"
    yield "  (means and shares of the rows with a value, rounded; --json shows all digits)"


def _in_numbers(centers: Floats, columns: tuple[str, ...], scaler: Scaler | None) -> list[str]:
    shown = _without_rounding(centers if scaler is None else scaler.unscale(centers), scaler)
    return [
        ", ".join(f"{name} {x:.6g}" for name, x in zip(columns, row, strict=False)) for row in shown
    ]


def _in_words(
    centers: Floats, columns: tuple[str, ...], scaler: Scaler | None, most: int
) -> list[str]:
    return [
        "; ".join(f"{name} {reading.text}" for name, reading in list(center.items())[:most])
        for center in read_centers(centers, columns, scaler)
    ]


def _without_rounding(centers: Floats, scaler: Scaler | None) -> Floats:
    """Replace numbers that are 0 but for rounding, measured by the spread of their column."""
    spread = np.ptp(centers, axis=0)
    if scaler is not None:
        spread = np.maximum(spread, scaler.deviation)
    return np.where(np.abs(centers) < ROUNDING * spread, 0.0, centers)


def _with_center(summary: Summary, i: int) -> str:
    """List what was sent with one center."""
    line = "" if summary.radii is None else f"; radius {summary.radii[i]:.6g}"
    line += "" if summary.counts is None else f"; {counted(int(summary.counts[i]), 'row')}"
    return line + ("" if summary.sse is None else f"; sse {summary.sse[i]:.6g}")
