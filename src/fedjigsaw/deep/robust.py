"""Averages of networks that a minority of lying clients cannot take over.

From four clients on, what a client sends is limited relative to the others:

- A client that claims more than 20 times the median number of images counts as a median one.
- An update (the weights minus those before) that is more than 10 times as long as the median one is
  shortened to that length (norm clipping; Sun et al. 2019). The same for batch-norm statistics, at
  30 times.

Weights that are not finite cost a client its place. If nothing is conspicuous, the summaries are
used as they are: honest runs are the same bit for bit.

These limits bound what a liar can do in a round; within them, it can still pull. Beyond that there
are rules that ignore extremes, at some cost if clients differ: the mean of each weight
without the 30 % smallest and largest values, or the median (Yin et al. 2018).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.deep.copies import Copies
from fedjigsaw.deep.heads import named
from fedjigsaw.errors import ConspicuousSiteWarning, MessageError, warn
from fedjigsaw.messages import Model, Summary
from fedjigsaw.trust.plausibility import LIARS, Note
from fedjigsaw.trust.received import MIN_SITES
from fedjigsaw.trust.site_reports import REASONS, site_tensors

STATISTICS = ("running_mean", "running_var")  # how the names of batch-norm statistics end
MANY = 20.0  # times the median number of images, from where on a client counts as a median one
LONGEST = {False: 10.0, True: 30.0}  # times the median length of an update; of statistics
BLOCK = 2**24  # numbers of several clients that are on the device at a time, as float64


def limited(
    summaries: Sequence[Summary], model: Model, copies: Copies
) -> tuple[list[Summary], Ints]:
    """Limit what clients claim. Return what is used, and a note for each client; warn of each.

    Weights that are not finite are left out. Summaries that are not conspicuous are returned as
    they are.

    Parameters
    ----------
    copies : of the clients' weights on the device; averaging them needs the same ones.
    """
    lengths = _lengths(summaries, model, copies)
    notes = np.zeros(len(summaries), dtype=np.int64)
    finite = np.isfinite(lengths[False]) & np.isfinite(lengths[True])
    notes[~finite] |= Note.NOT_FINITE
    if not finite.any():
        raise MessageError("The weights of all clients have NaN or infinity.")
    enough = finite.sum() >= MIN_SITES
    images = np.array([summary.n_samples for summary in summaries], dtype=np.float64)
    typical = int(np.median(images[finite]))
    notes[enough & finite & (images > MANY * typical)] |= Note.ROWS
    factors = {}
    for kind, most in LONGEST.items():
        longest = most * float(np.median(lengths[kind][finite]))
        with np.errstate(divide="ignore", invalid="ignore"):
            factors[kind] = np.where(lengths[kind] > longest, longest / lengths[kind], 1.0)
        notes[enough & finite & (factors[kind] < 1)] |= Note.LONG
    used = []
    for i in np.flatnonzero(finite).tolist():
        summary, note = summaries[i], int(notes[i])
        if note & Note.ROWS:
            summary = _as_typical(summary, typical)
        if note & Note.LONG:
            share = {kind: float(factors[kind][i]) for kind in factors}
            summary = _shortened(summary, model, share)
        used.append(summary)
    _warn(summaries, notes)
    return used, notes


def _lengths(summaries: Sequence[Summary], model: Model, copies: Copies) -> dict[bool, Floats]:
    """Return the length of each client's update of weights (False), and of statistics (True)."""
    n = len(summaries)
    squares = {kind: torch.zeros(n, dtype=torch.float64, device=copies.device) for kind in LONGEST}
    for name, before in named(model.tensors, "weights").items():
        # only statistics are sent to calibrate
        sent = [
            (i, s.tensors[f"weights.{name}"])
            for i, s in enumerate(summaries)
            if f"weights.{name}" in s.tensors
        ]
        if not sent:
            continue
        start = torch.from_numpy(before).to(copies.device).double()
        step = max(1, BLOCK // max(1, before.size))
        for first in range(0, len(sent), step):
            part = sent[first : first + step]
            updates = torch.stack([copies.of(array) for _, array in part]) - start
            places = torch.tensor([i for i, _ in part], device=copies.device)
            squares[name.endswith(STATISTICS)][places] += (
                updates.square().reshape(len(part), -1).sum(dim=1)
            )
    return {kind: np.sqrt(found.cpu().numpy()) for kind, found in squares.items()}


def _as_typical(summary: Summary, n_samples: int) -> Summary:
    """Return a summary that counts for fewer images."""
    tensors = dict(summary.tensors)
    if "report.sizes" in tensors:
        share = n_samples / summary.n_samples
        tensors["report.sizes"] = np.rint(tensors["report.sizes"] * share).astype(np.int64)
    return replace(summary, n_samples=n_samples, tensors=tensors)


def _shortened(summary: Summary, model: Model, shares: Mapping[bool, float]) -> Summary:
    """Return a summary with a share of its update of weights, and of statistics."""
    tensors = dict(summary.tensors)
    for name, sent in summary.tensors.items():
        share = shares[name.endswith(STATISTICS)]
        if name.startswith("weights.") and share < 1:
            before = model.tensors[name].astype(np.float64)
            tensors[name] = (before + share * (sent - before)).astype(np.float32)
    return replace(summary, tensors=tensors)


def _warn(summaries: Sequence[Summary], notes: Ints) -> None:
    for summary, note in zip(summaries, notes.tolist(), strict=True):
        if note:
            reasons = "; ".join(text for flag, text in REASONS.items() if note & flag)
            text = f"Client {summary.client!r} is conspicuous: {reasons}."
            warn(text, ConspicuousSiteWarning)


def reports(summaries: Sequence[Summary], notes: Ints) -> dict[str, np.ndarray]:
    """Return what a model keeps about each client, for people."""
    rows = np.array([summary.n_samples for summary in summaries], dtype=np.float64)
    table = np.stack([summary.tensors["report.sizes"] for summary in summaries])
    table = np.where((notes & Note.NOT_FINITE)[:, None] > 0, 0, table)
    return site_tensors(rows, table.astype(np.float64), notes, None)


def without_extremes(
    arrays: Sequence[np.ndarray], images: Sequence[int], rule: str, device: torch.device
) -> np.ndarray:
    """Return the mean of each number over the clients, without the extreme ones.

    Clients whose value is in the middle count by their numbers of images.

    Parameters
    ----------
    rule : {"trimmed", "median"}
        "trimmed" leaves out the smallest and the largest 30 % of the clients; "median" all but the
        middle one or two.

    Examples
    --------
    >>> sent = [np.float32([x]) for x in (1.0, 2.0, 4.0, 1e9)]
    >>> without_extremes(sent, [10, 30, 10, 10], "trimmed", torch.device("cpu")).tolist()
    [2.5]
    """
    n = len(arrays)
    dropped = int(LIARS * n) if rule == "trimmed" else (n - 1) // 2
    flat = [array.reshape(-1) for array in arrays]
    weights = torch.tensor(images, dtype=torch.float64, device=device)
    found = np.empty(len(flat[0]), dtype=np.float64)
    step = max(1, BLOCK // n)
    for start in range(0, len(found), step):
        part = slice(start, start + step)
        rows = torch.stack([torch.from_numpy(a[part]).to(device).double() for a in flat])
        found[part] = _middle(rows, weights, dropped).cpu().numpy()
    return found.reshape(arrays[0].shape)


def _middle(rows: Tensor, weights: Tensor, dropped: int) -> Tensor:
    values, order = rows.sort(dim=0)
    kept = slice(dropped, len(rows) - dropped)
    share = weights[order[kept]]
    return (values[kept] * share).sum(dim=0) / share.sum(dim=0)
