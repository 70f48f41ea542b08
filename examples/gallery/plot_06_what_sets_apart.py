"""
What makes a cluster a cluster
==============================

``profile_`` compares each cluster with all rows, column by column, from what sites may send.
"""

# %%
# The wines of scikit-learn, as if four cellars had them, in a common scale.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from fedjigsaw import FederatedPreparation, Guard, Jigsaw

wine = load_wine(as_frame=True)
cellars = np.random.default_rng(0).choice(["north", "east", "south", "west"], size=len(wine.data))
preparation = FederatedPreparation().set_output(transform="pandas")
columns = wine.data.rename(columns=lambda name: name.replace("_of_diluted_wines", ""))
rows = preparation.fit_transform(columns, clients=cellars)

# %%
# The guard holds for profiles, too: nothing is told about fewer than five rows of a site.
jigsaw = Jigsaw(3, random_state=0).fit(rows, clients=cellars, guard=Guard())
profile = jigsaw.profile_
print(profile.groupby("cluster").first().round(2).to_string())

# %%
# For each cluster, the columns that differ most from all wines.
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharex=True, layout="constrained")
for cluster, panel in enumerate(axes):
    part = profile[profile["cluster"] == cluster]
    part = part.reindex(part["difference"].abs().sort_values().index)[-6:]
    colors = np.where(part["difference"] > 0, "#D55E00", "#0072B2")
    panel.hlines(part["column"], 0, part["difference"], color=colors, lw=2.5)
    panel.scatter(part["difference"], part["column"], color=colors, s=45, zorder=3)
    panel.axvline(0, color="black", lw=1)
    panel.set_title(f"cluster {cluster}: {jigsaw.support_['points'][cluster]} wines")
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
axes[1].set_xlabel("difference from all wines, in standard deviations")
plt.show()
