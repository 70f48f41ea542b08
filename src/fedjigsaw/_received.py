"""The local clusters of all clients in one place, as a server works with them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import (
    MessageError,
    counted,
    invalid,
)
from fedjigsaw.messages import LEFT_OUT, NOISE, OWN, QUANTIZATION, Summary
from fedjigsaw.privacy.summaries import center_noise, count_noise, seen_through
from fedjigsaw.validation import MAX_MAGNITUDE

Flags = npt.NDArray[np.bool_]
SHARE = "server.share"  # tensor by which the screen limits the rows that a summary counts for
MIN_SITES = 4  # of fewer sites, no majority can outvote a liar


@dataclass(frozen=True)
class Received:
    """All local clusters, one after the other.

    Attributes
    ----------
    counts, sse : array
        Number of rows and summed squared distance of each cluster, estimated if a client sent none.
    owners : array of int
        Number of the client of each cluster.
    noise : array
        Standard deviation of the noise on each coordinate of a center: 0 without differential
        privacy.
    n_sites : int
        Number of clients, of which some may have no cluster left.
    has_counts, has_sse : bool
        Whether all clients sent them.
    quantization : array or None
        Quantization variance of each column, as most clients report it that can tell; see
        :func:`~fedjigsaw.number.cells.quantization_variance`.
    left_out : float
        Number of rows that guards left out far from all others.
    mixed : array of bool or None
        Sites whose clusters are mixtures of unlike rows: they had too few that are alike.
    count_noise : float
        Standard deviation of the noise on the rows of a cluster at a typical site.
    cells : str
        Whether these are cells of each site, or the sum of those that all sites share.
    """

    centers: Floats
    counts: Floats
    sse: Floats
    owners: Ints
    noise: Floats
    n_sites: int
    has_counts: bool = True
    has_sse: bool = True
    quantization: Floats | None = None
    left_out: float = 0.0
    mixed: Flags | None = None
    count_noise: float = 0.0
    cells: str = OWN

    def seen(self, k: int) -> float:
        """Return how far so many clusters can be believed, for the noise on the counts."""
        if not self.count_noise:
            return 1.0
        signal = float(self.counts.sum()) / k / self.n_sites / self.count_noise
        return seen_through(signal, self.cells, self.centers.shape[1])

    @property
    def weights(self) -> Floats:
        r"""The counts, less where noise makes a center uncertain.

        The center of n rows whose coordinates have variance v has an error of variance v / n, and
        :math:`\tau^2` more with noise. So it tells as much as the center of
        :math:`n / (1 + n \tau^2 / v)` rows without noise.
        """
        if not self.noise.any():
            return self.counts
        spread = self.sse.sum() / (self.counts.sum() * self.centers.shape[1])
        if spread == 0:
            return self.counts
        weights: Floats = self.counts / (1 + self.counts * self.noise**2 / spread)
        return weights

    def weighed(self) -> "Received":
        """Return the clusters as so many rows as their weights say."""
        weights = self.weights
        if weights is self.counts:
            return self
        return replace(self, counts=weights, sse=self.sse * (weights / self.counts))

    def per_site(self, values: Floats) -> Floats:
        """Return the sum of the clusters' values for each site."""
        sums: Floats = np.bincount(self.owners, values, minlength=self.n_sites).astype(np.float64)
        return sums

    def select(self, clusters: Ints | Flags) -> "Received":
        """Return some of the clusters; sites keep their numbers."""
        names = ("centers", "counts", "sse", "owners", "noise")
        return replace(self, **{name: getattr(self, name)[clusters] for name in names})

    def limited(self, shares: Floats) -> "Received":
        """Return the clusters with a share of the rows of each site."""
        share = shares[self.owners]
        return replace(self, counts=self.counts * share, sse=self.sse * share)

    def without_mixed(self) -> "Received":
        """Leave out sites whose clusters are mixtures of unlike rows, if there are others."""
        if self.mixed is None or self.mixed[self.owners].all():
            return self
        return self.select(~self.mixed[self.owners])


def receive(summaries: Sequence[Summary]) -> Received:
    """Put the summaries together; contradictions are a MessageError.

    Counts that are rounded, or those of a sample, are scaled to the client's number of rows. The
    rows of a client without counts are spread evenly over its centers.

    Examples
    --------
    >>> a = Summary(1000, [[0.0], [4.0]], counts=[3, 1], sse=[1.0, 0.0])
    >>> received = receive([a])
    >>> received.counts.tolist(), received.sse.tolist()
    ([750.0, 250.0], [250.0, 0.0])
    """
    sizes = np.array([len(summary.centers) for summary in summaries])
    owners = np.repeat(np.arange(len(summaries)), sizes)
    counts, scale = _counts(summaries, owners)
    left_out = [_left_out(summary) for summary in summaries]
    noisy = any(NOISE in summary.tensors for summary in summaries)
    received = Received(
        centers=np.concatenate([summary.centers for summary in summaries]),
        counts=counts,
        sse=_sse(summaries, owners, counts) * scale,
        owners=owners,
        noise=np.concatenate([center_noise(s) for s in summaries])
        if noisy
        else np.zeros(len(owners)),
        n_sites=len(summaries),
        has_counts=all(summary.counts is not None for summary in summaries),
        has_sse=all(summary.sse is not None for summary in summaries),
        quantization=_quantization(summaries),
        left_out=_sum_of_typical(left_out),
        mixed=np.array([n >= s.n_samples for n, s in zip(left_out, summaries, strict=True)]),
        count_noise=float(np.median([count_noise(summary) for summary in summaries])),
    )
    if not any(SHARE in summary.tensors for summary in summaries):
        return received
    return received.limited(np.array([float(s.tensors.get(SHARE, [1.0])[0]) for s in summaries]))


def _counts(summaries: Sequence[Summary], owners: Ints) -> tuple[Floats, Floats]:
    """Return the rows of all clusters, and the scale of each client's sums of squares.

    Whole arrays, since there may be a hundred thousand clients.
    """
    known = np.array([summary.counts is not None for summary in summaries])
    sent = _of_all(summaries, "counts", 1.0)
    small = np.flatnonzero(sent < 1)
    if len(small):
        client = summaries[owners[small[0]]].client
        got = int(sent[small[0]])
        raise MessageError(invalid("counts", f"client {client!r}", "at least 1", got))
    totals = np.bincount(owners, sent, minlength=len(summaries))
    rows = np.array([float(summary.n_samples) for summary in summaries])
    wrong = np.flatnonzero(known & (totals > 2 * rows))  # a guard's rounding adds at most a third
    if len(wrong):
        summary = summaries[wrong[0]]
        raise MessageError(
            f"Client {summary.client!r} has {counted(summary.n_samples, 'row')}, but its counts "
            f"sum to {totals[wrong[0]]:.0f}."
        )
    counts = sent * (rows / np.where(totals > 0, totals, 1))[owners]
    return counts, np.where(known[owners], counts / sent, 1.0)


def _sse(summaries: Sequence[Summary], owners: Ints, counts: Floats) -> Floats:
    """Return the sums of squares as they were sent, 0 for clients that sent none."""
    sse = _of_all(summaries, "sse", 0.0)
    most = summaries[0].centers.shape[1] * (2 * MAX_MAGNITUDE) ** 2  # of one row
    largest = np.zeros(len(summaries))
    np.maximum.at(largest, owners, counts)
    wrong = np.flatnonzero(sse > most * largest[owners])
    if len(wrong):
        raise MessageError(
            f"Client {summaries[owners[wrong[0]]].client!r} sent a summed squared distance that is "
            "too large for its rows."
        )
    return sse


def _of_all(summaries: Sequence[Summary], name: str, otherwise: float) -> Floats:
    """Return one number per cluster of all clients, or `otherwise` where a client sent none."""
    parts = [getattr(summary, name) for summary in summaries]
    parts = [
        np.full(len(summary.centers), otherwise) if part is None else part
        for part, summary in zip(parts, summaries, strict=True)
    ]
    joined: Floats = np.concatenate(parts).astype(np.float64)
    return joined


def _quantization(summaries: Sequence[Summary]) -> Floats | None:
    """Return the median of what clients report for each column, if at least half can tell."""
    sent = [s for s in summaries if QUANTIZATION in s.tensors]
    if not sent:
        return None
    known = [_tensor(summary, QUANTIZATION, summary.centers.shape[1]) for summary in sent]
    columns = (column[column >= 0] for column in np.array(known).T)
    return np.array([np.median(c) if 2 * len(c) >= len(summaries) else 0.0 for c in columns])


def _left_out(summary: Summary) -> float:
    """Return how many rows a guard left out; those of a sample stand for more."""
    if LEFT_OUT not in summary.tensors:
        return 0.0
    sent = _tensor(summary, LEFT_OUT, 1)
    if summary.counts is None:
        return 0.0
    left = float(np.clip(sent[0], 0, summary.n_samples))
    if left == summary.n_samples:
        return left
    return summary.n_samples * left / (left + float(summary.counts.sum()))


def _sum_of_typical(numbers: Sequence[float]) -> float:
    """Return the sum, in which nobody counts more than three typical ones: a site may lie.

    Typical is what sites report that report anything: rows of a cluster may be at few sites.
    """
    positive = [number for number in numbers if number > 0]
    if len(numbers) < MIN_SITES or not positive:
        return float(sum(positive))
    return float(np.minimum(positive, 3 * np.median(positive)).sum())


def _tensor(summary: Summary, name: str, size: int) -> Floats:
    """Return a tensor of a client that is not trusted: finite numbers, as many as expected."""
    tensor = summary.tensors[name].astype(np.float64)
    if tensor.shape != (size,) or not (np.abs(tensor) <= MAX_MAGNITUDE**2).all():
        allowed = f"{size} finite numbers"
        raise MessageError(invalid(name, f"client {summary.client!r}", allowed, tensor.shape))
    return tensor
