"""
Clusters that are not round
===========================

k-means cuts long clusters in the middle.
From the same summaries, the server can also fit long clusters, and join pieces that have no valley
between them.
"""

# %%
# Two half moons and two stripes, dealt to six clients.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from fedjigsaw import Jigsaw, metrics, partition

rng = np.random.default_rng(0)
moons, halves = make_moons(2400, noise=0.06, random_state=0)
stripes = np.concatenate([rng.normal((0.5, y), (0.9, 0.07), size=(800, 2)) for y in (-1.25, -1.65)])
X = np.concatenate([moons, stripes])
y = np.concatenate([halves, np.repeat([2, 3], 800)])
clients = partition.dirichlet(y, 6, alpha=2.0, rng=0)

# %%
# The number of clusters is found, too.
# It is in doubt where shapes do not fit, and a warning says so; here, the pictures do.
fitted = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for shape in ("round", "elongated", "any"):
        jigsaw = Jigsaw(n_clusters="auto", shape=shape, random_state=0)
        fitted[shape] = jigsaw.fit(X, clients=clients)

# %%
# Colors are labels. ARI compares them with the true ones: 1 is perfect.
figure, axes = plt.subplots(1, 3, figsize=(11, 4.4), sharex=True, sharey=True, layout="constrained")
for panel, (shape, jigsaw) in zip(axes, fitted.items(), strict=True):
    panel.scatter(*X.T, s=3, c=jigsaw.labels_, cmap="tab20")
    panel.set(xticks=[], yticks=[])
    score = metrics.ari(y, jigsaw.labels_)
    panel.set_title(f'shape="{shape}"\n{jigsaw.n_clusters_} clusters, ARI {score:.2f}')
plt.show()
