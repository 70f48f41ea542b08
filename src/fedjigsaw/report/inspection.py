"""What is in a file, in plain words, for someone who has to decide whether it may leave."""

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.io.formats import Content, ModelFile, Score, SummaryFile
from fedjigsaw.kernels.scaling import Scaler, Stats
from fedjigsaw.messages import Model, Summary, Tensors
from fedjigsaw.methods._support import k_curve_of, knows_no_counts, runner_up, support_of
from fedjigsaw.methods.jigsaw import SKEWED

MAX_SHOWN = 20


def describe(content: Content | Scaler, n_bytes: int, *, most: int = MAX_SHOWN) -> list[str]:
    """Lines about a summary, model, score, statistics or scaler of `n_bytes` bytes.

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
    return [*lines, f"Size: {n_bytes:,} bytes. It holds no code."]


def _summary(file: SummaryFile, most: int) -> Iterator[str]:
    summary, guard = file.summary, file.guard
    yield f"A summary of client {summary.client!r}, for one round of federated clustering."
    yield f"Rows at the client (complete ones): {summary.n_samples:,}, told exactly."
    if file.n_used < summary.n_samples:
        yield f"Only a random sample of {file.n_used:,} of them was clustered."
    yield from _origin(file.method, file.params, file.columns, file.scaler, most)
    yield f"Centers: {len(summary.centers)}, each the mean of some rows. Seed: {file.seed}."
    sent = [n for n in ("radii", "counts", "sse", "tensors") if _is_sent(getattr(summary, n))]
    yield "Sent with the centers: " + (", ".join(sent) or "nothing else") + "."
    if summary.sse is not None:
        units = "" if file.scaler is None else ", scaled"
        yield f"(sse: the summed squared distance of a center's rows to it{units})"
    yield from _centers(summary.centers, file.columns, file.scaler, most, summary)
    yield from _tensors(summary.tensors, most)
    size = guard["min_cluster_size"]
    if size > 1:
        yield (
            f"Guard, as the sender says: no center stands for fewer than {size} rows ("
            f"{summary.merged} merged into their nearest neighbor); counts: {guard['counts']}."
        )
    else:
        yield f"Guard, as the sender says: none; counts: {guard['counts']}."
    yield from _weights(summary.tensors)
    yield "What could be inferred:"
    yield "- how many rows the client has, and where in space they gather."
    if summary.radii is not None:
        yield (
            "- a radius is the largest distance of a row of that cluster to its center, "
            "or half the distance to the nearest center."
        )
    yield from _exposed(file)
    yield (
        "- who knows all rows of a cluster but one can work out the last: "
        "this is not differential privacy."
    )


def _exposed(file: SummaryFile) -> Iterator[str]:
    summary, guarded = file.summary, file.guard["min_cluster_size"] > 1
    if not guarded:
        yield "- without a guard any center may be a single row of the data, to the last digit."
    alone = 0 if summary.counts is None else int((summary.counts == 1).sum())
    if alone:
        yield f"- {alone} center(s) with a count of 1: a cluster of one row IS that row."
    rows = "several equal rows" if guarded else "one row, or several equal ones,"
    for what, values in (("a radius", summary.radii), ("an sse", summary.sse)):
        points = 0 if values is None else int((values == 0).sum())
        if points:
            yield f"- {points} center(s) with {what} of 0: {rows} with exactly these values."


def _is_sent(values: object) -> bool:
    return values is not None and (not isinstance(values, Mapping) or bool(values))


def _model(file: ModelFile, most: int) -> Iterator[str]:
    yield f"A model of {len(file.model.centers)} clusters."
    names = ", ".join(file.clients)
    yield f"Made from {len(file.clients)} clients: {names}; {file.n_samples:,} rows in all."
    if file.partly:
        yield f"Not in every round: {', '.join(file.partly)}."
    yield from _origin(file.model.method, file.model.params, file.columns, file.scaler, most)
    yield from _centers(file.model.centers, file.columns, file.scaler, most)
    yield from _k_curve(file.model)
    yield from describe_support(file.model, most)
    yield from _labels(file.model)
    yield from _weights(file.model.tensors)
    yield "What could be inferred: where the rows of all clients together gather; who took part."
    support = support_of(file.model)
    if support is not None and (support["clients"] == 1).any():
        alone = int((support["clients"] == 1).sum())
        yield f"- {alone} cluster(s) held by one client alone: size and place are that client's."


def _k_curve(model: Model) -> Iterator[str]:
    """How the number of clusters was found, where it was."""
    curve = k_curve_of(model)
    if curve is None:
        return
    told = (
        f"Number of clusters: {len(model.centers)}, of the largest index up to {curve['k'].max()}"
    )
    second = runner_up(curve)
    yield told + (f"; runner-up {second}." if second else ".")
    best = np.argsort(-curve["index"], kind="stable")[: min(5, len(curve["k"]) - 1)]
    yield "  k: index, objective of the best: " + "; ".join(
        f"{curve['k'][i]}: {curve['index'][i]:.6g}, {curve['objective'][i]:.6g}" for i in best
    )


def describe_support(model: Model, most: int = MAX_SHOWN) -> Iterator[str]:
    """What speaks for each cluster, where the model says."""
    support = support_of(model)
    if support is None:
        return
    yield "Support of each cluster (margin: 0 is one with its neighbor, 1 far from all others):"
    if knows_no_counts(model):
        yield "  (not every client told how many rows its centers stand for: rows are guesses)"
    for i, (clients, points, spread, margin) in enumerate(zip(*support.values(), strict=True)):
        if i == most:
            yield f"  ... and {len(model.centers) - most} more"
            return
        yield (
            f"  {i}: {int(clients)} clients, {int(points):,} rows, spread {spread:.6g}, "
            f"margin {margin:.2f}"
        )


def _labels(model: Model) -> Iterator[str]:
    """Which rule suits the labels, where the model says."""
    skew = model.tensors.get("skew")
    if skew is not None and skew.size == 1 and not knows_no_counts(model):
        rule = "by local centers (assign --local)" if skew.item() >= SKEWED else "by the nearest"
        yield f"Who holds a row tells {skew.item():.2f} bits about its cluster: label rows {rule}."


def _weights(tensors: Tensors) -> Iterator[str]:
    """What a network that was trained on the rows gives away, where there is one."""
    sizes = [tensor.size for name, tensor in tensors.items() if name.startswith("weights.")]
    if sizes:
        yield (
            f"Weights of a network: {sum(sizes):,} numbers, trained on the images. Who studies "
            "them may learn what some images look like: this is not differential privacy."
        )


def _tensors(tensors: Tensors, most: int) -> Iterator[str]:
    """Numbers of other kinds; those of a network are too many to read."""
    for name, tensor in tensors.items():
        if not name.startswith("weights."):
            numbers = [f"{value:.6g}" for value in tensor.ravel()[:most].tolist()]
            more = "" if tensor.size <= most else f", ... and {tensor.size - most} more"
            yield f"  {name}: {', '.join(numbers)}{more}"


def _score(score: Score, most: int) -> Iterator[str]:
    yield f"A score of {score.client!r} for model {score.model}."
    yield f"Rows: {int(score.counts.sum()):,}; summed squared distance: {score.sse.sum():.6g}."
    for i, (n, sse) in enumerate(zip(score.counts[:most], score.sse, strict=False)):
        yield f"  {i}: {int(n)} rows, summed squared distance {sse:.6g}"
    if len(score.counts) > most:
        yield f"  ... and {len(score.counts) - most} more"
    yield "What could be inferred: how many rows of the client fall into each cluster."
    if (score.counts == 1).any():
        yield "- a cluster with one row: its squared distance is that row's own."


def _stats(stats: Stats) -> Iterator[str]:
    yield f"Column statistics of client {stats.client!r}, for a common scaler."
    yield f"Rows: {stats.n_samples:,}. Per column, the mean and the sum of squared deviations:"
    for name, mean, squares in zip(stats.columns, stats.mean, stats.sum_of_squares, strict=True):
        yield f"  {name}: mean {mean:.6g}, sum of squares {squares:.6g}"
    yield "What could be inferred: mean and spread of each column at this client."
    if stats.n_samples <= 2:
        yield "- of one row the mean IS that row; of two, mean and spread give both values."


def _scaler(scaler: Scaler) -> Iterator[str]:
    yield f"A scaler for {len(scaler.columns)} columns, fingerprint {scaler.fingerprint}."
    yield from _scaled(scaler, len(scaler.columns))
    yield "What could be inferred: mean and standard deviation of each column over all clients."


def _scaled(scaler: Scaler, most: int) -> Iterator[str]:
    columns = zip(scaler.columns, scaler.mean, scaler.deviation, strict=True)
    for name, mean, deviation in islice(columns, most):
        yield f"  {name}: less {mean:.6g}, divided by {deviation:.6g}"


def _origin(
    method: str, params: object, columns: tuple[str, ...], scaler: Scaler | None, most: int
) -> Iterator[str]:
    yield f"Method: {method}, with {params if isinstance(params, str) else dict(params)}."  # type: ignore[call-overload]
    yield f"Columns ({len(columns)}): {', '.join(columns)}."
    if scaler is None:
        yield "Not scaled."
        return
    yield f"Scaled by {scaler.fingerprint}, which is in the file; centers in original units below."
    yield from _scaled(scaler, most)


def _centers(
    centers: Floats,
    columns: tuple[str, ...],
    scaler: Scaler | None,
    most: int,
    summary: Summary | None = None,
) -> Iterator[str]:
    shown = centers if scaler is None else scaler.unscale(centers)
    for i, center in enumerate(shown[:most]):
        pairs = zip(columns[:most], center, strict=False)
        line = f"  {i}: " + ", ".join(f"{name} {value:.6g}" for name, value in pairs)
        yield line + ("" if summary is None else _with_center(summary, i))
    if len(centers) > most:
        yield f"  ... and {len(centers) - most} more; --all shows them"
    if len(columns) > most:
        yield f"  (the first {most} of {len(columns)} columns are shown)"
    yield "  (shown with 6 digits; the file has 16)"


def _with_center(summary: Summary, i: int) -> str:
    """What was sent with one center."""
    line = "" if summary.radii is None else f"; radius {summary.radii[i]:.6g}"
    line += "" if summary.counts is None else f"; {int(summary.counts[i])} rows"
    return line + ("" if summary.sse is None else f"; sse {summary.sse[i]:.6g}")
