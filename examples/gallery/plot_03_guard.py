"""
The guard: no center of a single patient
========================================

A center is a mean of rows, so the center of *one* row is that row.
The guard merges small groups before anything leaves, and it rounds what does.
By file and over a network it is on by default.
"""

# %%
# A clinic with two common groups, and one patient like no other.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import Guard, Jigsaw

rng = np.random.default_rng(2)
clinic = np.concatenate(
    [rng.normal((40, 2.0), (4, 0.3), size=(40, 2)), rng.normal((65, 5.0), (4, 0.3), size=(25, 2))]
)
patient = np.array([[88.0, 1.2]])
rows = np.concatenate([clinic, patient])

# %%
# The clinic looks for three clusters.
# ``summaries_`` has what would leave it, without a guard and with one.
warnings.simplefilter("ignore")  # a warning says that only two clusters are left
columns = np.array([10, 1])  # about equal scales
sent = {
    title: Jigsaw(3, random_state=0).fit(rows / columns, guard=guard).summaries_[0]
    for title, guard in {
        "without a guard": Guard(min_cluster_size=1),
        "with the guard: at least 5 rows": Guard(),
    }.items()
}
for title, summary in sent.items():
    print(
        f"{title}: {(summary.centers * columns).round(1).tolist()}, rows {summary.counts.tolist()}"
    )

# %%
# Each ring is a center that leaves, with the number of its rows.
figure, axes = plt.subplots(
    1, 2, figsize=(9.5, 4.2), sharex=True, sharey=True, layout="constrained"
)
for panel, (title, summary) in zip(axes, sent.items(), strict=True):
    panel.scatter(*clinic.T, s=14, color="#9a9a9a", label="rows, which stay")
    panel.scatter(*patient.T, s=40, color="#D55E00", label="an unusual patient")
    centers = summary.centers * columns
    panel.scatter(
        *centers.T, s=230, facecolor="none", edgecolor="#0072B2", linewidth=2, label="what leaves"
    )
    for center, count in zip(centers, summary.counts, strict=True):
        panel.annotate(
            f"{count} row{'s' * bool(count > 1)}", center, (15, 13), textcoords="offset points",
            color="#0072B2",
        )  # fmt: skip
    panel.set_title(title)
    panel.set(xlabel="age", xlim=(25, 98), ylim=(0.5, 6.2))
    panel.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("dose")
axes[0].legend(frameon=False, loc="upper left")
plt.show()
