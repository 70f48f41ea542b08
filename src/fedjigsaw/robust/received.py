"""Put the summaries that a server received together, and refuse contradictions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import (
    CountsWarning,
    FewerClustersWarning,
    MessageError,
    counted,
    invalid,
    quote_names,
    warn,
)
from fedjigsaw.kernels.grouping import groups_by_size, means_of
from fedjigsaw.messages import LEFT_OUT, NOISE, OWN, QUANTIZATION, Summary
from fedjigsaw.privacy.summaries import center_noise, count_noise, seen_through
from fedjigsaw.validation import MAX_MAGNITUDE

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
    has_counts, has_sse : bool
        Whether all clients sent them.
    radii : array or None
        Radii, only if they replace the counts.
    noise : array
        Standard deviation of the noise on each coordinate of a center: 0 without differential
        privacy.
    n_sites : int
        Number of clients, of which some may have no cluster left.
    grain : array or None
        How coarse each column is, as most clients say that can tell; see
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
    has_counts: bool
    has_sse: bool
    radii: Floats | None
    noise: Floats
    n_sites: int
    grain: Floats | None = None
    left_out: float = 0.0
    mixed: npt.NDArray[np.bool_] | None = None
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

    def select(self, clusters: Ints | npt.NDArray[np.bool_]) -> "Received":
        """Return some of the clusters; sites keep their numbers."""
        return replace(
            self,
            centers=self.centers[clusters],
            counts=self.counts[clusters],
            sse=self.sse[clusters],
            owners=self.owners[clusters],
            radii=None if self.radii is None else self.radii[clusters],
            noise=self.noise[clusters],
        )

    def of_sites(self, chosen: npt.NDArray[np.bool_]) -> "Received":
        """Return the clusters of some sites; sites keep their numbers."""
        return self.select(chosen[self.owners])

    def joined(self, other: "Received") -> "Received":
        """Return the clusters of both; sites have the same numbers in both."""
        both = replace(
            self,
            centers=np.concatenate([self.centers, other.centers]),
            counts=np.concatenate([self.counts, other.counts]),
            sse=np.concatenate([self.sse, other.sse]),
            owners=np.concatenate([self.owners, other.owners]),
            radii=None
            if self.radii is None or other.radii is None
            else np.concatenate([self.radii, other.radii]),
            noise=np.concatenate([self.noise, other.noise]),
        )
        return both.select(np.argsort(both.owners, kind="stable"))

    def weighted(self, shares: Floats) -> "Received":
        """Return the clusters with a share of the rows of each site."""
        share = shares[self.owners]
        return replace(self, counts=self.counts * share, sse=self.sse * share)


def receive(summaries: Sequence[Summary], *, allow_radii: bool = False) -> Received:
    """Put the summaries together, and warn if counts are missing.

    Counts that are rounded, or those of a sample, are scaled to the client's number of rows. The
    rows of a client without counts are spread evenly over its centers.

    Parameters
    ----------
    allow_radii : bool
        Group by radius if no client sent counts and all sent radii.

    Examples
    --------
    >>> a = Summary(1000, [[0.0], [4.0]], counts=[3, 1], sse=[1.0, 0.0])
    >>> received = receive([a])
    >>> received.counts.tolist(), received.sse.tolist()
    ([750.0, 250.0], [250.0, 0.0])
    """
    sizes = np.array([len(summary.centers) for summary in summaries])
    owners = np.repeat(np.arange(len(summaries)), sizes)
    without = [summary.client for summary in summaries if summary.counts is None]
    counts, scale = _counts(summaries, owners, sizes)
    nobody = len(without) == len(summaries)
    left_out = [_left_out(summary) for summary in summaries]
    by_radius = allow_radii and nobody and all(s.radii is not None for s in summaries)
    if without:
        _warn_of_missing(without, len(summaries), by_radius)
    return Received(
        centers=np.concatenate([summary.centers for summary in summaries]),
        counts=counts,
        sse=_sse(summaries, owners, counts) * scale,
        owners=owners,
        has_counts=not without,
        has_sse=all(summary.sse is not None for summary in summaries),
        radii=np.concatenate([np.asarray(s.radii) for s in summaries]) if by_radius else None,
        noise=_noise(summaries, len(owners)),
        count_noise=float(np.median([count_noise(summary) for summary in summaries])),
        n_sites=len(summaries),
        grain=_grain(summaries),
        left_out=_sum_of_typical(left_out),
        mixed=np.array([n >= s.n_samples for n, s in zip(left_out, summaries, strict=True)]),
    )


def without_mixed(received: Received) -> Received:
    """Leave out sites whose clusters are mixtures of unlike rows, if there are others."""
    if received.mixed is None:
        return received
    others = received.of_sites(~received.mixed)
    return others if len(others.counts) else received


def final_group_means(received: Received, k: int) -> Floats:
    """Return the means of the k largest groups of centers by their radii, FeCA's rule.

    Warn if the choice of the groups was arbitrary.

    A local cluster of one row has the radius 0, so its center forms a group of its own. Of many
    such groups, nothing but their coordinates tells which come first.
    """
    assert received.radii is not None
    groups = groups_by_size(received.centers, received.radii)
    bare = [len(group) == 1 and received.radii[group[0]] == 0 for group in groups]
    chosen, others = sum(bare[:k]), sum(bare[k:])
    if chosen and others:
        clusters = f"{chosen} of {k} clusters {'is' if chosen == 1 else 'are'}"
        number = "one" if chosen == 1 else f"{chosen}"
        warn(
            f"{clusters} {number} of {chosen + others} centers of radius 0, chosen arbitrarily: "
            "local clusters of a single row cannot be grouped. Use fewer local clusters, or "
            "Jigsaw with counts.",
            FewerClustersWarning,
        )
    return means_of(received.centers, groups[:k])


def _counts(summaries: Sequence[Summary], owners: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """Return the rows of all clusters, and the scale of each client's sums of squares.

    Whole arrays, since there may be a hundred thousand clients.
    """
    told = np.array([summary.counts is not None for summary in summaries])
    sent = _of_all(summaries, "counts", 1.0)
    small = np.flatnonzero(sent < 1)
    if len(small):
        client = summaries[owners[small[0]]].client
        got = int(sent[small[0]])
        raise MessageError(invalid("counts", f"client {client!r}", "at least 1", got))
    totals = np.bincount(owners, sent, minlength=len(sizes))
    rows = np.array([float(summary.n_samples) for summary in summaries])
    wrong = np.flatnonzero(told & (totals > 2 * rows))  # a guard's rounding adds at most a third
    if len(wrong):
        summary = summaries[wrong[0]]
        raise MessageError(
            f"Client {summary.client!r} has {counted(summary.n_samples, 'row')}, but its counts "
            f"sum to {totals[wrong[0]]:.0f}."
        )
    scale = (rows / np.where(totals > 0, totals, 1))[owners]
    counts = sent * scale
    return counts, np.where(told[owners], counts / sent, 1.0)


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
    if any(part is None for part in parts):
        parts = [
            np.full(len(summary.centers), otherwise) if part is None else part
            for part, summary in zip(parts, summaries, strict=True)
        ]
    joined: Floats = np.concatenate(parts).astype(np.float64)
    return joined


def _noise(summaries: Sequence[Summary], n_centers: int) -> Floats:
    """Return the noise on each center; without differential privacy, no client tells of any."""
    if not any(NOISE in summary.tensors for summary in summaries):
        return np.zeros(n_centers)
    return np.concatenate([center_noise(summary) for summary in summaries])


def _grain(summaries: Sequence[Summary]) -> Floats | None:
    """Return the median of what clients say about each column, if at least half can tell."""
    told = [s for s in summaries if QUANTIZATION in s.tensors]
    if not told:
        return None
    known = [_tensor(summary, QUANTIZATION, summary.centers.shape[1]) for summary in told]
    columns = (column[column >= 0] for column in np.array(known).T)
    return np.array([np.median(c) if 2 * len(c) >= len(summaries) else 0.0 for c in columns])


def _left_out(summary: Summary) -> float:
    """Return how many rows a guard left out; those of a sample stand for more."""
    if LEFT_OUT not in summary.tensors:
        return 0.0
    told = _tensor(summary, LEFT_OUT, 1)
    if summary.counts is None:
        return 0.0
    left = float(np.clip(told[0], 0, summary.n_samples))
    if left == summary.n_samples:
        return left
    return summary.n_samples * left / (left + float(summary.counts.sum()))


def _sum_of_typical(numbers: Sequence[float]) -> float:
    """Return the sum, in which nobody counts more than three typical ones: a site may lie.

    Typical is what sites report that report anything: rows of a cluster may be at few sites.
    """
    told = [number for number in numbers if number > 0]
    if len(numbers) < MIN_SITES or not told:
        return float(sum(told))
    return float(np.minimum(told, 3 * np.median(told)).sum())


def _tensor(summary: Summary, name: str, size: int) -> Floats:
    """Return a tensor of a client that is not trusted: finite numbers, as many as expected."""
    tensor = summary.tensors[name].astype(np.float64)
    if tensor.shape != (size,) or not (np.abs(tensor) <= MAX_MAGNITUDE**2).all():
        allowed = f"{size} finite numbers"
        raise MessageError(invalid(name, f"client {summary.client!r}", allowed, tensor.shape))
    return tensor


def _warn_of_missing(without: Sequence[str], n_clients: int, by_radius: bool) -> None:
    who = f"{len(without)} of {n_clients} clients sent no counts ({quote_names(without, 5)})"
    what = (
        "centers are grouped by their radii, as FeCA does"
        if by_radius
        else "each of its centers gets an equal share of its rows"
        if len(without) == 1
        else "each of their centers gets an equal share of the client's rows"
    )
    warn(f"{who}; {what}.", CountsWarning)
