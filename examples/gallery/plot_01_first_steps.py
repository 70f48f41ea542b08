"""
First steps: three hospitals, one model
=======================================

Three hospitals hold rows that may not leave.
Each of them sends one small summary, once, and the server finds the clusters of all rows.
"""

# %%
# Invented patients of four groups, with two measurements each.
# No hospital sees all groups: Bern has none of the fourth, Lyon none of the first, Oslo none of the
# second.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import Jigsaw

rng = np.random.default_rng(0)
groups = np.array([[0, 0], [7, 1], [2, 7], [9, 8]])
shares = {"Bern": [0.6, 0.3, 0.1, 0.0], "Lyon": [0.0, 0.4, 0.5, 0.1], "Oslo": [0.2, 0.0, 0.3, 0.5]}
rows = {
    site: groups[rng.choice(4, size=300, p=share)] + rng.normal(size=(300, 2))
    for site, share in shares.items()
}

# %%
# ``fit_clients`` runs the whole federation in this process: each client summarizes its rows, and
# the server sees the summaries alone.
jigsaw = Jigsaw(n_clusters=4, random_state=0).fit_clients(rows)
print(jigsaw.cluster_centers_.round(1))
print("rows in each cluster:", jigsaw.support_["points"])
print("bytes sent by all three:", jigsaw.transcript_.bytes_up)

# %%
# From left to right: what the hospitals hold, what leaves them, and what the server makes of it.
# A disc is one center that was sent; its radius is the spread of its rows.
colors = dict(zip(rows, ["#0072B2", "#E69F00", "#009E73"], strict=True))
X = np.concatenate(list(rows.values()))
figure, (held, sent, found) = plt.subplots(
    1, 3, figsize=(11, 4.2), sharex=True, sharey=True, layout="constrained"
)
for site, part in rows.items():
    held.scatter(*part.T, s=8, color=colors[site], alpha=0.6, label=site)
for summary in jigsaw.summaries_:
    for center, count, sse in zip(summary.centers, summary.counts, summary.sse, strict=True):
        spread = float(np.sqrt(sse / count))
        sent.add_patch(plt.Circle(center, spread, color=colors[summary.client], alpha=0.25, lw=0))
    sent.scatter(*summary.centers.T, s=summary.counts / 2, color=colors[summary.client])
found.scatter(*X.T, s=8, c=plt.get_cmap("Set2")(jigsaw.labels_), alpha=0.8)
found.scatter(*jigsaw.cluster_centers_.T, s=140, marker="X", color="black", edgecolor="white")
held.set_title("What three hospitals hold")
sent.set_title(f"What leaves: {sum(len(s.centers) for s in jigsaw.summaries_)} centers")
found.set_title("What the server finds")
held.legend(loc="lower center", ncols=3, markerscale=2.5, frameon=False)
held.set_ylim(bottom=-5)
for axes in (held, sent, found):
    axes.set(xticks=[], yticks=[], aspect="equal")
plt.show()
