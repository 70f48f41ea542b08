"""
Regions: a summary of summaries
===============================

Hospitals report to a region, and regions to the country.
What a region sends is a summary like any other, so there may be any number of levels.
"""

# %%
# Thirty hospitals in three regions, and five clusters, of which each region misses one.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import metrics, sites
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array

rng = np.random.default_rng(0)
means = np.array([[0, 0], [9, 1], [4, 6], [0, 11], [10, 10]])
missing = {"north": 0, "center": 1, "south": 4}
rows, members = {}, {}
for region, without in missing.items():
    members[region] = [f"{region}-{i}" for i in range(10)]
    groups = np.delete(means, without, axis=0)
    for name in members[region]:
        rows[name] = groups[rng.integers(4, size=150)] + rng.normal(scale=0.9, size=(150, 2))
summaries = {name: sites.summarize(from_array(X), 5, client=name) for name, X in rows.items()}

# %%
# Each region makes one summary of its ten, and the country one model of three.
regions = {
    region: sites.aggregate_region({name: summaries[name] for name in names}, 5, client=region)[0]
    for region, names in members.items()
}
direct, through = sites.aggregate(summaries, 5), sites.aggregate(regions, 5)
X = np.concatenate(list(rows.values()))
ratio = metrics.inertia_ratio(X, through.model.centers, direct.model.centers)
print(f"objective through regions / direct: {ratio:.4f}")
for level, files in {"hospitals": summaries, "regions": regions}.items():
    total = sum(len(formats.encode(file)) for file in files.values())
    print(f"{len(files)} {level} send {total / 1000:.1f} kB")

# %%
# What travels at each level, and the model at the top.
colors = {"north": "#0072B2", "center": "#E69F00", "south": "#009E73"}
figure, (first, second, last) = plt.subplots(
    1, 3, figsize=(11, 4.9), sharex=True, sharey=True, layout="constrained"
)
for region, color in colors.items():
    for name in members[region]:
        first.scatter(*summaries[name].summary.centers.T, s=20, color=color, alpha=0.7)
    summary = regions[region].summary
    second.scatter(*summary.centers.T, s=summary.counts / 2, color=color, alpha=0.7, label=region)
last.scatter(*X.T, s=2, color="#c9c9c9")
last.scatter(
    *direct.model.centers.T, s=230, facecolor="none", edgecolor="black", lw=1.5, label="directly"
)
last.scatter(*through.model.centers.T, s=60, marker="X", color="#D55E00", label="through regions")
n_sent = [
    sum(len(file.summary.centers) for file in files.values()) for files in (summaries, regions)
]
first.set_title(f"30 hospitals send {n_sent[0]} centers")
second.set_title(f"3 regions send {n_sent[1]} centers")
last.set_title("The model of the country")
second.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3)
last.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
for panel in (first, second, last):
    panel.set(xticks=[], yticks=[], aspect="equal")
plt.show()
