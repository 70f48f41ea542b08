"""A complete method in one file: k-means at every client, then k-means over all received centers.

docs/own-method.md explains it. Run as it is, it compares itself with FeCA:
``python examples/new_method.py``. Commands use it with ``--plugin examples/new_method.py``.
"""

from collections.abc import Sequence

import numpy as np

from fedjigsaw.estimator import FederatedClusterer
from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.messages import Broadcast, Model, Summary


class KMeansOfCenters(FederatedClusterer):
    """Cluster the clients' centers once more, each counting as one point.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters, at every client and in the result.
    random_state : int, RandomState, Generator or None
        Seed of the run.
    """

    def summarize(self, X: np.ndarray, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Run at a client: return local centers, with their counts for the client's guard."""
        local = kmeans(X, self.n_clusters, rng=rng, backend=self.backend)
        counts = local.counts.astype(np.int64)
        return Summary(n_samples=len(X), centers=local.centers, counts=counts)

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Run at the server: cluster all received centers."""
        received = np.concatenate([summary.centers for summary in summaries])
        return self.make_model(kmeans(received, self.n_clusters, rng=rng).centers)


if __name__ == "__main__":  # this part stays behind
    from fedjigsaw import FeCA, datasets, metrics, partition

    data = datasets.load("gaussian-grid")
    clients = partition.dirichlet(data.y, 10, alpha=0.3, rng=0, min_size=15)
    for method in (KMeansOfCenters(15, random_state=0), FeCA(15, random_state=0)):
        method.fit(data.X, clients=clients)
        distance = metrics.center_l2(method.cluster_centers_, data.centers)
        print(f"{type(method).__name__:<16} l2 = {distance / 1e4:.2f} x 1e4")
