"""The server: Jigsaw against scikit-learn on the received centers, and FeCA's grouping."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fedjigsaw import Jigsaw
from fedjigsaw._typing import Floats
from fedjigsaw.engine import aggregate_round
from fedjigsaw.kernels.local_solutions import group_by_radius
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.threads import one_thread
from measuring import (
    Row,
    alternate,
    in_new_process,
    objective,
    peak_megabytes,
    seconds_of,
)

KINDS = {"blurred": 20.0, "alone": 100.0}  # spread of clusters among centers in [0, 100]
SIZES = (100, 1_000, 10_000)  # clients, each with 100 centers


def server(sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """Measure Jigsaw's server, d = 16, k = 100, against one start of k-means on received centers.

    "blurred" has clusters that overlap, "alone" has none to find. The last step of Jigsaw treats
    received centers as clouds of rows: `objective` is that of a row drawn from each cloud, over
    that of the one start. Target for a million centers: 15 s and 600 MB; objectives never above
    those of one start.
    """
    for kind in KINDS:
        for n_clients in sizes:
            yield in_new_process(serve, kind, n_clients)


def serve(kind: str, n_clients: int, k: int = 100) -> Row:
    """Aggregate the summaries of so many clients, in a process of its own."""
    from sklearn.cluster import KMeans

    _solve(received(10, 20.0, k), k)  # load libraries and compiled kernels
    summaries = received(n_clients, KINDS[kind], k)
    centers = np.concatenate([summary.centers for summary in summaries])
    counts = np.concatenate([np.asarray(s.counts, np.float64) for s in summaries])
    found: dict[str, Floats] = {}
    one = KMeans(k, n_init=1, random_state=0)

    def ours() -> None:
        found["ours"] = _solve(summaries, k).centers

    def sklearn() -> None:
        found["sklearn"] = one.fit(centers, sample_weight=counts).cluster_centers_

    before = peak_megabytes("VmRSS")
    first, extra = seconds_of(ours), peak_megabytes() - before
    times = alternate({"ours": ours, "sklearn": sklearn}, 2 if n_clients < 10_000 else 1)
    widths = np.sqrt(np.concatenate([np.asarray(s.sse) for s in summaries]) / counts)
    noise = np.random.default_rng(3).normal(0, 1 / np.sqrt(centers.shape[1]), centers.shape)
    rows = centers + widths[:, None] * noise
    values = {name: objective(rows, places, counts) for name, places in found.items()}
    seconds = min(first, times["ours"])
    return {
        "input": kind,
        "n_centers": len(centers),
        "seconds": seconds,
        "extra_megabytes": extra,
        "sklearn_seconds": times["sklearn"],
        "ratio": seconds / times["sklearn"],
        "objective": values["ours"] / values["sklearn"],
    }


def _solve(summaries: list[Summary], k: int) -> Model:
    return aggregate_round(Jigsaw(k), summaries, Broadcast(0, 0))


def grouping(sizes: Sequence[int] = (100, 1_000)) -> Iterator[Row]:
    """Measure FeCA's grouping at its worst: every center is a group of its own.

    Target: 5 s for 100,000 centers.
    """
    for n_clients in sizes:
        centers = np.concatenate([s.centers for s in received(n_clients, KINDS["alone"], 100)])
        radii = np.random.default_rng(0).uniform(1, 2, len(centers))
        with one_thread():
            seconds = seconds_of(partial(group_by_radius, centers, radii))
        yield {"n_centers": len(centers), "seconds": seconds}


def received(n_clients: int, width: float, k: int, d: int = 16) -> list[Summary]:
    """Simulate summaries: each client has some true clusters twice and others not at all."""
    rng = np.random.default_rng(1)
    true, made = rng.uniform(0, 100, (k, d)), []
    for i in range(n_clients):
        centers = true[rng.integers(k, size=k)] + rng.normal(0, width / 2, (k, d))
        counts = rng.integers(1, 200, k)
        sse = counts * width**2 * d / 4
        made.append(Summary(int(counts.sum()), centers, counts=counts, sse=sse, client=str(i)))
    return made
