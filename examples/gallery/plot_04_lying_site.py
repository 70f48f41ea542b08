"""
A site that lies, or is mistaken
================================

One of ten sites mixes up its units.
The server sees only summaries, and still notices: a warning names the site, and ``liars=1`` lets
what it alone claims stand apart.
"""

# %%
# Ten sites with the same three clusters; the last one writes other numbers.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import Jigsaw, metrics

rng = np.random.default_rng(0)
means = np.array([[0, 0], [6, 1], [3, 6]])
y = rng.integers(3, size=2000)
X = means[y] + rng.normal(scale=0.8, size=(2000, 2))
clients = np.repeat([f"site {m}" for m in range(10)], 200)
wrong = clients == "site 9"
X[wrong] = X[wrong] * (3, -2) + (9, 8)

# %%
# By default every summary counts, and the strangest site is told.
fitted = {
    "liars=0": Jigsaw(3, random_state=0).fit(X, clients=clients),
    "liars=1": Jigsaw(3, liars=1, random_state=0).fit(X, clients=clients),
}
for site in fitted["liars=0"].sites_:
    if site.reason:
        print(f"{site.client}: {site.reason}")
print("Held by one site alone:", fitted["liars=1"].lone_clients_)

# %%
# The honest rows, and the centers that each setting finds; those of lone clusters are orange.
# On the right: how much worse the clusters fit all *other* sites with a site than without it.
figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), width_ratios=(1, 1, 0.9), layout="constrained")
for panel, (title, jigsaw) in zip(axes, fitted.items(), strict=False):
    panel.scatter(*X[~wrong].T, s=5, color="#b8b8b8")
    panel.scatter(*X[wrong].T, s=5, color="#D55E00", alpha=0.35)
    panel.scatter(*jigsaw.cluster_centers_.T, s=130, marker="X", color="black", edgecolor="white")
    panel.scatter(*jigsaw.lone_centers_.T, s=130, marker="X", color="#D55E00", edgecolor="white")
    score = metrics.ari(y[~wrong], jigsaw.labels_[~wrong])
    panel.set_title(f"{title}: ARI {score:.2f} for the other nine")
    panel.set(xticks=[], yticks=[])
reports = fitted["liars=0"].sites_
axes[2].barh(
    [site.client for site in reports],
    [site.influence - 1 for site in reports],
    left=1,
    color=["#D55E00" if site.reason else "#0072B2" for site in reports],
)
axes[2].invert_yaxis()
axes[2].set_title("Influence on the others")
axes[2].set_xlabel("objective with the site / without it")
axes[2].spines[["top", "right"]].set_visible(False)
plt.show()
