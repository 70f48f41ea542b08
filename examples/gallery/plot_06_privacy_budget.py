"""
What differential privacy costs
===============================

With ``privacy=Privacy(epsilon=...)`` everything that leaves a client is noisy, so that no single
row can be told from the outcome.
The more rows a client has, the less that costs.
"""

# %%
# Four clusters and three clients.
# The bounds of the columns are public: they come from knowledge of the field, never from the rows.
# ``insecure_seed`` makes the noise the same on every machine, which is good for pictures alone.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import Jigsaw, Privacy, metrics

rng = np.random.default_rng(0)
means = np.array([[0, 0], [8, 0], [0, 8], [8, 8]])
epsilons = [0.25, 0.5, 1, 2, 4]
sizes = {300: "#E69F00", 1_000: "#56B4E9", 10_000: "#0072B2"}

warnings.simplefilter("ignore")  # where noise drowns the rows, a warning says so
agreement = {size: np.empty((len(epsilons), 5)) for size in sizes}
for size, scores in agreement.items():
    y = rng.integers(4, size=3 * size)
    X = means[y] + rng.normal(size=(3 * size, 2))
    clients = np.repeat(["Bern", "Lyon", "Oslo"], size)
    for e, epsilon in enumerate(epsilons):
        for seed in range(5):
            privacy = Privacy(epsilon=epsilon, bounds=(-10, 20), cells="own", insecure_seed=seed)
            jigsaw = Jigsaw(4, random_state=0).fit(X, clients=clients, privacy=privacy)
            scores[e, seed] = metrics.ari(y, jigsaw.labels_)

print(Privacy(epsilon=1.0, bounds=(-10, 20)).sentence())

# %%
# Dots are single runs, lines their means.
figure, axes = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
for size, color in sizes.items():
    axes.plot(epsilons, agreement[size].mean(axis=1), color=color, label=f"{size:,} rows each")
    axes.scatter(np.repeat(epsilons, 5), agreement[size], s=18, color=color, alpha=0.6)
axes.set_xscale("log")
axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
axes.minorticks_off()
axes.set(
    xlabel="epsilon: more private on the left",
    ylabel="agreement with the true clusters (ARI)",
    ylim=(0.2, 1.03),
)
axes.set_title("Strong promises need many rows", loc="left")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower right")
plt.show()
