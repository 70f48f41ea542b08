"""Whole fits in one process, against k-means alone and against libraries on the pooled rows."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.cluster import KMeans

from fedjigsaw import FeCA, Jigsaw, KFed
from fedjigsaw._typing import Floats
from fedjigsaw.datasets import gaussian_grid
from fedjigsaw.kernels.kmeans import Problem, kmeans, kmeans_many
from fedjigsaw.threads import available_threads, one_thread
from measuring import (
    Row,
    alternate,
    faiss_centers,
    in_new_process,
    mixture,
    named,
    objective,
    peak_megabytes,
    seconds_of,
)

METHODS: dict[str, Any] = {"jigsaw": Jigsaw, "feca": FeCA, "kfed": KFed}
SCREEN = "fedjigsaw.robust.support.aggregate"  # what looks at sites


def overhead(n_clients: int = 1000, n_rows: int = 500, k: int = 15) -> Iterator[Row]:
    """Measure `FeCA.fit` on many small clients against k-means alone in a loop. Target: 1.3.

    The loop is on one thread; `fit` has all cores.
    """
    X = gaussian_grid(n_clients * n_rows).X
    clients = np.repeat(np.arange(n_clients), n_rows)

    def bare() -> None:
        with one_thread():
            for i, rows in enumerate(np.split(X, n_clients)):
                kmeans(rows, k, rng=np.random.default_rng(i))

    fit = partial(FeCA(k, random_state=0).fit, X, clients=clients)
    times = alternate({"fit": fit, "bare": bare}, repeats=7)
    yield {
        "n_clients": n_clients,
        "n_rows": n_rows,
        "seconds": times["fit"],
        "bare_seconds": times["bare"],
        "ratio": times["fit"] / times["bare"],
    }


def many_clients(
    jigsaw: Sequence[int] = (100, 1_000, 10_000, 100_000), others: int = 10_000
) -> Iterator[Row]:
    """Measure `fit` of many clients of 50 x 2, k = 15, and compiled k-means on their rows alone.

    Targets: 2 s for 10,000 clients; 20 s and 1.5 GB for 100,000.
    """
    for method, n_clients in [*(("jigsaw", n) for n in jigsaw), ("feca", others), ("kfed", others)]:
        yield in_new_process(fit_many, method, n_clients)


def fit_many(method: str, n_clients: int, n_rows: int = 50, k: int = 15) -> Row:
    """Fit a method on many clients, in a process of its own."""
    X = gaussian_grid(n_clients * n_rows).X
    clients = np.repeat(np.arange(n_clients), n_rows)
    model = METHODS[method](k, random_state=0)
    model.fit(X[: 20 * n_rows], clients=clients[: 20 * n_rows])  # load what was compiled
    sets = np.split(X, n_clients)

    def kernel() -> None:
        kmeans_many([Problem(rows, k, np.random.default_rng(i)) for i, rows in enumerate(sets)])

    whole = partial(model.fit, X, clients=clients)
    first, peak = seconds_of(whole), peak_megabytes()
    times = alternate({"whole": whole, "kernel": kernel}, 2 if n_clients < 10_000 else 1)
    seconds = min(first, times["whole"])
    return {
        "method": method,
        "n_clients": n_clients,
        "n_rows": n_rows,
        "seconds": seconds,
        "kernel_seconds": times["kernel"],
        "fit_ratio": seconds / times["kernel"],
        "peak_megabytes": peak,
    }


def pooled(n_rows: int = 1_000_000, n_clients: int = 20, d: int = 20, k: int = 20) -> Iterator[Row]:
    """Measure `fit` of a million rows in 20 clients against k-means on pooled rows. Target: 0.7."""
    X = mixture(np.random.default_rng(0), n_rows, d, k)
    clients = np.arange(len(X)) % n_clients
    found: dict[str, Floats] = {}

    def ours() -> None:
        found["ours"] = Jigsaw(k, random_state=0).fit(X, clients=clients).cluster_centers_

    def sklearn() -> None:
        found["sklearn"] = KMeans(k, n_init=10, random_state=0).fit(X).cluster_centers_

    def faiss() -> None:
        found["faiss"] = faiss_centers(X, k, available_threads())

    Jigsaw(k).fit(X[:2_000], clients=clients[:2_000])
    times = alternate({"ours": ours, "sklearn": sklearn}, repeats=2)
    if find_spec("faiss"):
        times["faiss"] = seconds_of(faiss)
    objectives = {name: objective(X, centers) for name, centers in found.items()}
    yield {
        "n_rows": len(X),
        **named(times),
        "ratio": times["ours"] / times["sklearn"],
        **named(objectives, "objective", 1 / objectives["sklearn"]),
    }


def sites(
    numbers: Sequence[int] = (5, 30, 50, 64, 65, 200), n_rows: int = 30_000, repeats: int = 5
) -> Iterator[Row]:
    """Measure `fit` of 30,000 rows of so many sites, over not looking at sites, and with liars.

    The second ratio is to the same detail without liars. Targets: 1.1 and 1.4.
    """
    X = mixture(np.random.default_rng(0), n_rows, 8, 12)
    for n_sites in numbers:
        clients = np.arange(len(X)) % n_sites

        def fit(clients: Any = clients, **options: Any) -> None:
            Jigsaw(12, random_state=0, **options).fit(X, clients=clients)

        def pass_through(fit: Callable[..., None] = fit) -> None:
            with patch(SCREEN, lambda method, *args: method.aggregate(*args)):
                fit()

        works: dict[str, Callable[[], None]] = {
            "fit": fit,
            "without": pass_through,
            "liars": partial(fit, liars=1),
            "fine": partial(fit, detail=3),
        }
        for work in works.values():
            work()
        times = alternate(works, repeats)
        yield {
            "n_sites": n_sites,
            **named(times),
            "ratio": times["fit"] / times["without"],
            "liars_ratio": times["liars"] / times["fine"],
        }
