"""
Who holds what: ways to split a data set
========================================

Studies of federated clustering start from one table and deal it to clients.
How that is done decides what is easy and what is hard.
"""

# %%
# The handwritten digits of scikit-learn, dealt to twelve clients in four ways.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import datasets, partition

digits = datasets.load("digits")
splits = {
    "iid": partition.iid(len(digits.X), 12, rng=0),
    "dirichlet, alpha = 1": partition.dirichlet(digits.y, 12, alpha=1.0, rng=0),
    "dirichlet, alpha = 0.1": partition.dirichlet(digits.y, 12, alpha=0.1, rng=0, min_size=10),
    "shards, 2 per client": partition.shards(digits.y, 12, rng=0),
}

# %%
# One bar per client; colors are the ten digits.
figure, axes = plt.subplots(1, 4, figsize=(12, 4), sharey=True, layout="constrained")
shades = plt.get_cmap("tab10").colors
for panel, (title, clients) in zip(axes, splits.items(), strict=True):
    left = np.zeros(12)
    for digit in range(10):
        counts = np.bincount(clients[digits.y == digit], minlength=12)
        panel.barh(range(12), counts, left=left, color=shades[digit], height=0.82, label=digit)
        left += counts
    panel.set_title(title)
    panel.set_xlabel("rows")
    panel.spines[["top", "right"]].set_visible(False)
axes[0].set(ylabel="client", yticks=range(12))
axes[0].invert_yaxis()
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside right center", title="digit", frameon=False
)
plt.show()
