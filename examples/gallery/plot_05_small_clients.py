"""
From ten hospitals to a thousand phones
=======================================

The same 5,000 rows at ever more clients, until each has five.
"""

# %%
# Six clusters. A client has rows of two of them, mostly.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import FeCA, Jigsaw, KFed, errors, metrics, partition

rng = np.random.default_rng(0)
means = rng.uniform(0, 20, size=(6, 4))
y = rng.integers(6, size=5_000)
X = means[y] + rng.normal(scale=1.5, size=(5_000, 4))
numbers = [10, 50, 200, 1000]
methods = {"Jigsaw": (Jigsaw, "#0072B2"), "FeCA": (FeCA, "#D55E00"), "k-FED": (KFed, "#009E73")}

# %%
# All clients of a run are computed together, so that thousands of them take seconds.
# With a thousand, each local cluster is a single row, of which FeCA warns: it groups centers by
# radius, and these have none.
warnings.simplefilter("ignore", errors.FewerClustersWarning)
ratios: dict[str, list[float]] = {name: [] for name in methods}
for number in numbers:
    clients = partition.shards(y, number, rng=0, shards_per_client=2)
    for name, (method, _) in methods.items():
        fitted = method(6, random_state=0).fit(X, clients=clients)
        ratio = metrics.inertia_ratio(X, fitted.cluster_centers_, means)
        ratios[name].append(ratio)

# %%
# The k-means objective of all rows, relative to that of the true centers: 1 is perfect.
figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for name, (_, color) in methods.items():
    axes.plot(numbers, ratios[name], color=color, marker="o", label=name)
axes.set_xscale("log")
axes.set_yscale("log")
axes.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
axes.set_xticks(numbers, [f"{n:,}\n{5_000 // n:,}" for n in numbers])
axes.minorticks_off()
axes.axhline(1, color="black", lw=1, ls=":")
axes.set(xlabel="clients, and rows of each", ylabel="objective / that of the true centers")
axes.set_title("The same 5,000 rows at ever more clients", loc="left")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()
