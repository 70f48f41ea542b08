"""
How many clusters are there?
============================

Nobody has seen all rows, so nobody knows k.
``n_clusters="auto"`` finds it, and says how sure it is.
"""

# %%
# Two data sets: six clusters that lie apart, and four of which two overlap.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import Jigsaw, partition

rng = np.random.default_rng(4)
apart = np.array([[0, 0], [8, 0], [16, 1], [1, 8], [9, 9], [17, 8]])
close = np.array([[0, 0], [9, 1], [4, 8], [6.6, 8.6]])
sets = {}
for name, means in {"six, apart": apart, "four, two of them close": close}.items():
    y = rng.integers(len(means), size=2400)
    sets[name] = means[y] + rng.normal(size=(2400, 2)), partition.dirichlet(y, 8, alpha=1.0, rng=0)

# %%
# ``k_sentence_`` says the number and how sure it is; a doubtful one gives a warning, too.
fitted = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for name, (X, clients) in sets.items():
        fitted[name] = Jigsaw(n_clusters="auto", random_state=0).fit(X, clients=clients)
        print(f"{name}: {fitted[name].k_sentence_}")

# %%
# Below each set: how well every k explains what the clients sent.
# The best has 0; the scale is logarithmic below -10.
figure, axes = plt.subplots(
    2, 2, figsize=(9, 6), height_ratios=(1.5, 1), layout="constrained", squeeze=False
)
for column, (name, (X, _)) in enumerate(sets.items()):
    jigsaw, (above, below) = fitted[name], axes[:, column]
    above.scatter(*X.T, s=6, c=plt.get_cmap("Set2")(jigsaw.labels_), alpha=0.8)
    above.scatter(*jigsaw.cluster_centers_.T, s=90, marker="X", color="black", edgecolor="white")
    above.set(xticks=[], yticks=[], aspect="equal")
    above.set_title(f"{name}\nfound {jigsaw.n_clusters_}, confidence {jigsaw.k_confidence_:.2f}")
    k, index = jigsaw.k_curve_["k"], jigsaw.k_curve_["index"]
    shown = k <= 9
    below.plot(k[shown], index[shown], color="#0072B2", marker="o", ms=4)
    here = int(np.flatnonzero(k == jigsaw.n_clusters_)[0])
    below.scatter(k[here], index[here], s=130, color="#D55E00", zorder=3, label="chosen")
    below.set_yscale("symlog", linthresh=10)
    below.set(xlabel="number of clusters", xticks=range(1, 10))
    below.spines[["top", "right"]].set_visible(False)
axes[1, 0].set_ylabel("index (minus BIC)")
axes[1, 0].legend(frameon=False, loc="lower right")
plt.show()
