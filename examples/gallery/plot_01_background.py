"""
Rows that belong to no cluster
==============================

Measurements go wrong, and some rows are like no others.
With ``noise=True``, rows that are likelier in an even background get the label -1, and no cluster
is pulled towards them.
"""

# %%
# Four clusters, and one row in five anywhere.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import Jigsaw, metrics

rng = np.random.default_rng(3)
means = np.array([[2, 2], [10, 3], [4, 10], [12, 11]])
y = np.concatenate([rng.integers(4, size=1600), np.full(400, -1)])
X = np.where(
    (y == -1)[:, None],
    rng.uniform((-2, -2), (16, 15), size=(2000, 2)),
    means[y] + rng.normal(scale=0.7, size=(2000, 2)),
)
clients = rng.integers(5, size=2000)

# %%
# The clients send the same either way; what is background is decided at the server.
plain = Jigsaw(n_clusters=4, random_state=0).fit(X, clients=clients)
careful = Jigsaw(n_clusters=4, noise=True, random_state=0).fit(X, clients=clients)
print(f"{np.mean(careful.labels_ == -1):.0%} of the rows are background; true: 20%")

# %%
# Gray rows are in no cluster.
figure, axes = plt.subplots(
    1, 2, figsize=(9.5, 4.4), sharex=True, sharey=True, layout="constrained"
)
for panel, (title, jigsaw) in zip(
    axes, {"noise=False": plain, "noise=True": careful}.items(), strict=True
):
    inside = jigsaw.labels_ >= 0
    panel.scatter(*X[~inside].T, s=7, color="#b8b8b8")
    panel.scatter(*X[inside].T, s=7, c=plt.get_cmap("Set2")(jigsaw.labels_[inside]))
    panel.scatter(*jigsaw.cluster_centers_.T, s=110, marker="X", color="black", edgecolor="white")
    panel.set_title(f"{title}: ARI {metrics.ari(y, jigsaw.labels_):.2f}")
    panel.set(xticks=[], yticks=[], aspect="equal")
plt.show()
