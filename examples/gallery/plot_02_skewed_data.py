"""
Skewed data: where methods part ways
====================================

If all clients hold the same mixture, most methods find the clusters.
Real clients do not: each holds some clusters and misses others.
"""

# %%
# Fifteen clusters, ten clients.
# ``dirichlet`` deals each cluster to the clients in random shares: the smaller alpha, the fewer
# clusters a client has.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import FeCA, Jigsaw, KFed, MatchAveraging, datasets, metrics, partition

data = datasets.gaussian_grid(1500, rng=1)
alphas = [10, 3, 1, 0.3, 0.1]
methods = {
    "Jigsaw": (Jigsaw, "#0072B2"),
    "FeCA": (FeCA, "#D55E00"),
    "k-FED": (KFed, "#009E73"),
    "matched averages": (MatchAveraging, "#E69F00"),
}

# %%
# For each alpha and each of four seeds, measure the k-means objective of all rows, relative to that
# of the true centers: 1 is perfect.
ratios = {name: np.empty((len(alphas), 4)) for name in methods}
for a, alpha in enumerate(alphas):
    for seed in range(4):
        clients = partition.dirichlet(data.y, 10, alpha=alpha, rng=seed, min_size=20)
        for name, (method, _) in methods.items():
            fitted = method(15, random_state=seed).fit(data.X, clients=clients)
            ratios[name][a, seed] = metrics.inertia_ratio(
                data.X, fitted.cluster_centers_, data.centers
            )

# %%
# Lines are means, bands reach from the best to the worst of four runs.
figure, axes = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
places = np.arange(len(alphas))
for name, (_, color) in methods.items():
    runs = ratios[name]
    axes.plot(places, runs.mean(axis=1), color=color, marker="o", label=name)
    axes.fill_between(places, runs.min(axis=1), runs.max(axis=1), color=color, alpha=0.15, lw=0)
axes.axhline(1, color="black", lw=1, ls=":")
axes.set_xticks(places, [f"{alpha:g}" for alpha in alphas])
axes.set_yscale("log")
axes.set_yticks([1, 1.5, 2, 3, 5, 8], ["1", "1.5", "2", "3", "5", "8"])
axes.minorticks_off()
axes.set(
    xlabel="Dirichlet alpha: even data on the left, skewed data on the right",
    ylabel="objective / that of the true centers",
)
axes.set_title("Ten clients that hold ever fewer of the 15 clusters", loc="left")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="upper left")
plt.show()
