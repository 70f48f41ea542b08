"""What methods have in common whose clients search for clusters of their rows."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._rows import unweighted
from fedjigsaw._typing import Floats
from fedjigsaw.estimator import ASSIGN, FederatedClusterer
from fedjigsaw.kernels.kmeans import Problem, Solution, kmeans_many
from fedjigsaw.messages import LABELS, Broadcast, Summary
from fedjigsaw.parameters import Rule, integer, real, seed_source


class LocalSearch(FederatedClusterer):
    """Base of methods whose clients run k-means once and send what follows from it.

    Many clients are summarized in one call. One alone is the same call with one client, so the bits
    are the same. A method that says so (`takes_weights`, `takes_sparse`) gets rows with weights
    (:class:`~fedjigsaw._rows.Weighted`) and sparse rows as they are.
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1),
        "n_local_clusters": integer(1, or_none=True),
        "n_init": integer(1),
        "max_iter": integer(1),
        "tol": real(0),
        "assign": ASSIGN,
        "random_state": seed_source(),
    }  # of those parameters that a method has in its __init__
    n_init: int
    max_iter: int
    tol: float

    def n_local(self, n_rows: int) -> int:
        """Return the number of clusters that a client with `n_rows` rows looks for."""
        return int(getattr(self, "n_local_clusters", None) or self.n_clusters)

    def summaries_of(
        self, data: Sequence[Floats], found: Sequence[Solution], broadcasts: Sequence[Broadcast]
    ) -> list[Summary]:
        """Return what clients make of their clusters. `data` are rows, with weights if any."""
        return make_summaries(data, found)

    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Search for clusters, and return what follows from them."""
        return self.summarize_many([X], [broadcast], [rng])[0]

    def summarize_many(
        self,
        data: Sequence[Floats],
        broadcasts: Sequence[Broadcast],
        rngs: Sequence[np.random.Generator],
    ) -> list[Summary]:
        """Return the summaries of many clients."""
        n_local = cache(self.n_local)  # many clients have equally many rows
        problems = []
        for X, rng in zip(data, rngs, strict=True):
            rows, weights = unweighted(X)
            problems.append(Problem(rows, n_local(n_copies(X)), rng, weights))
        return self.summaries_of(data, self.search(problems, broadcasts), broadcasts)

    def search(
        self, problems: Sequence[Problem], broadcasts: Sequence[Broadcast]
    ) -> list[Solution]:
        """Return the clusters of each client."""
        options: dict[str, Any] = {name: getattr(self, name) for name in ("n_init", "max_iter")}
        return kmeans_many(problems, tol=self.tol, backend=self.backend, **options)


def n_copies(X: Any) -> int:
    """Return the number of rows of a client; a row of weight w is w rows."""
    rows, weights = unweighted(X)
    return int(rows.shape[0] if weights is None else weights.sum())


def make_summaries(
    data: Sequence[Floats],
    found: Sequence[Solution],
    tensors: Mapping[str, Sequence[np.ndarray]] | None = None,
    **fields: Sequence[np.ndarray],
) -> list[Summary]:
    """Return the centers, counts and sums of squares of each client's clusters, and more fields."""
    labels = [local.labels for local in found]
    return Summary.many(
        [n_copies(X) for X in data],
        [local.centers for local in found],
        counts=[local.counts for local in found],
        sse=[local.sse for local in found],
        tensors={LABELS: labels, **(tensors or {})},  # labels for the guard; they never leave
        **fields,
    )
