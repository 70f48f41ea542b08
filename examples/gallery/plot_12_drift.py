"""
What changed between two months
===============================

Cluster ids stay from model to model, and a number tells whether a change is more than chance.
"""

# %%
# Six sites and four groups of patients. In July there is a new group, and one has moved.
import matplotlib.pyplot as plt
import numpy as np

from fedjigsaw import sites
from fedjigsaw.io.tables import from_array

rng = np.random.default_rng(1)
june_groups = np.array([[25, 10], [45, 35], [65, 15], [80, 40]])
july_groups = np.array([[25, 10], [45, 35], [65, 21], [80, 40], [30, 52]])
names = ["bern", "graz", "lyon", "oslo", "rome", "turku"]
summaries = {}
for month, groups in {"june": june_groups, "july": july_groups}.items():
    summaries[month] = {
        site: sites.summarize(
            from_array(groups[rng.integers(len(groups), size=250)] + rng.normal(0, 3, (250, 2))),
            len(groups),
            client=site,
        )
        for site in names
    }

# %%
# The coordinator makes a model of each month; that of July keeps the ids of June.
# Resampling the sites tells how far clusters move by chance.
june = sites.aggregate(summaries["june"], 4)
july, changes = sites.succeed(sites.aggregate(summaries["july"], 5), june)
noise = sites.measure_noise(summaries["july"], july)
found = sites.compare(june, july, new_noise=noise)
print(f"kept {changes.kept}, new {changes.new}, gone {changes.gone}")
print(f"drift {found.drift:.1f}; alarm: {found.alarm}")

# %%
# Left: where clusters were and are. Right: each change, divided by what chance does.
figure, (place, size) = plt.subplots(
    1, 2, figsize=(10, 4.2), width_ratios=(1.4, 1), layout="constrained"
)
before, after = june.model.centers, july.model.centers
place.scatter(*before.T, s=160, facecolor="none", edgecolor="#7a7a7a", linewidth=2, label="June")
place.scatter(*after.T, s=60, color="#0072B2", label="July")
labels, drifts = [], []
for change in found.clusters:
    labels.append(f"{change.new}" + " (new)" * (change.old is None))
    drifts.append(change.drift)
    center = after[list(july.ids).index(change.new)]
    place.annotate(
        f"cluster {labels[-1]}", center, (12, 8), textcoords="offset points", color="#333333"
    )
    if change.old is not None:
        start = before[change.old]
        place.annotate("", center, start, arrowprops={"arrowstyle": "->", "color": "#D55E00"})
place.set(xlabel="age", ylabel="dose")
place.margins(0.18)
place.legend(frameon=False, loc="lower right")
place.set_title("Where clusters were, and where they are")
size.barh(labels, drifts, color=["#D55E00" if d > sites.ALARM else "#0072B2" for d in drifts])
size.axvline(sites.ALARM, color="black", lw=1, ls=":", label="alarm")
size.invert_yaxis()
size.set_xscale("symlog", linthresh=2)
size.set_xticks([0, 1, 2, 5, 10, 20, 50], ["0", "1", "2", "5", "10", "20", "50"])
size.set(xlabel="change / chance", ylabel="cluster")
size.legend(frameon=False, loc="upper right")
size.set_title("How much each of them changed")
for panel in (place, size):
    panel.spines[["top", "right"]].set_visible(False)
plt.show()
