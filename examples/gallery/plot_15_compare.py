"""
Compare methods, with error bars
================================

``fedjigsaw.compare`` runs methods on the same data, clients and seeds.
A method of your own is one of them.
"""

# %%
# A new method is two functions: what a client sends, and what the server makes of it.
# This one clusters the received centers as if each stood for as many rows.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import fedjigsaw
from fedjigsaw import Broadcast, FederatedClusterer, Model, Summary


class CentersOfCenters(FederatedClusterer):
    """k-means at every client, then k-means over all centers."""

    def summarize(self, X: np.ndarray, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        k = min(self.n_clusters, len(X))
        local = KMeans(k, n_init=3, random_state=int(rng.integers(2**31))).fit(X)
        return Summary(n_samples=len(X), centers=local.cluster_centers_)

    def aggregate(
        self, summaries: list[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        received = np.concatenate([summary.centers for summary in summaries])
        found = KMeans(self.n_clusters, n_init=5, random_state=int(rng.integers(2**31)))
        return self.make_model(found.fit(received).cluster_centers_)


# %%
# Five seeds; for each of them, the rows are dealt to ten skewed clients anew.
data = fedjigsaw.datasets.gaussian_grid(1500, rng=1)
found = fedjigsaw.compare(
    {
        "Jigsaw": "jigsaw",
        "FeCA": "feca",
        "k-FED": "kfed",
        "own method": CentersOfCenters,
    },
    data.X,
    y=data.y,
    clients="dirichlet",
    n_clients=10,
    alpha=0.5,
    n_clusters=15,
    seeds=5,
)
print(found)

# %%
# ``found.plot()`` draws all numbers and ``found.to_latex()`` writes a table for a paper.
# Here are two of the numbers: means, standard deviations, and a dot for each seed.
colors = dict(
    zip(found.frame["method"].unique(), ["#0072B2", "#D55E00", "#009E73", "#7a7a7a"], strict=True)
)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for panel, (number, title) in zip(
    axes,
    {
        "objective_ratio": "objective / pooled k-means",
        "ari": "agreement with the truth (ARI)",
    }.items(),
    strict=True,
):
    for place, (method, color) in enumerate(colors.items()):
        runs = found.frame.loc[found.frame["method"] == method, number]
        panel.scatter(runs, np.full(len(runs), place) + 0.18, s=16, color=color, alpha=0.5)
        panel.errorbar(
            runs.mean(), place, xerr=runs.std(), fmt="o", ms=8, capsize=4, color=color, lw=2
        )
    panel.axvline(1, color="black", lw=1, ls=":")
    panel.set_title(title)
    panel.spines[["top", "right"]].set_visible(False)
axes[0].set_yticks(range(len(colors)), list(colors))
axes[0].invert_yaxis()
plt.show()
