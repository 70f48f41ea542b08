"""
Tables of numbers, categories and gaps
======================================

Real tables have categories, yes and no, and missing values.
``FederatedPreparation`` turns them into numbers that all sites share, from statistics alone.
"""

# %%
# Invented patients of three groups at four sites; some ages are missing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from fedjigsaw import FederatedPreparation, Jigsaw

rng = np.random.default_rng(0)
n = 900
group = rng.integers(3, size=n)
table = pd.DataFrame(
    {
        "age": rng.normal(np.array([34, 58, 72])[group], 6).round(),
        "glucose": rng.normal(np.array([185, 98, 190])[group], 14).round(),
        "bmi": rng.normal(np.array([23, 26, 33])[group], 2.5).round(1),
        "smoker": rng.random(n) < np.array([0.15, 0.9, 0.2])[group],
        "ward": np.array(["diabetes", "lung", "heart"])[
            np.where(rng.random(n) < 0.85, group, rng.integers(3, size=n))
        ],
    }
)
table.loc[rng.random(n) < 0.08, "age"] = np.nan
site = rng.choice(["Bern", "Lyon", "Oslo", "Rome"], size=n)

# %%
# Preparation and clustering are two steps of a pipeline; each gets the site of every row.
pipeline = make_pipeline(FederatedPreparation(), Jigsaw(3, random_state=0))
pipeline.fit(table, federatedpreparation__clients=site, jigsaw__clients=site)
preparation, jigsaw = pipeline[0], pipeline[-1]

# %%
# Centers can be read back in the units of the table.
centers = preparation.inverse_transform(jigsaw.cluster_centers_).to_pandas()
print(centers.round(1).to_string())

# %%
# Color: how far the mean of a cluster is from that of all rows, in the common scale.
# Numbers and words: the center in the units of the table.
names = list(centers.columns)
features = list(preparation.get_feature_names_out())
figure, axes = plt.subplots(figsize=(8.5, 3.6), layout="constrained")
shades = np.array(
    [
        [
            max(
                (row[j] for j, f in enumerate(features) if f == name or f.startswith(f"{name}:")),
                key=abs,
            )
            for name in names
        ]
        for row in jigsaw.cluster_centers_
    ]
)
image = axes.imshow(shades, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
for i, record in enumerate(centers.itertuples(index=False)):
    for j, value in enumerate(record):
        text = f"{value:.0f}" if isinstance(value, float) else str(value)
        dark = abs(shades[i, j]) > 1
        axes.text(j, i, text, ha="center", va="center", color="white" if dark else "black")
axes.set_xticks(range(len(names)), names)
sizes = jigsaw.support_["points"]
axes.set_yticks(range(3), [f"cluster {i}\n{size} rows" for i, size in enumerate(sizes)])
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
axes.set_title("Three groups of patients, in the units of their tables", loc="left")
figure.colorbar(image, label="from the mean of all rows", shrink=0.9)
plt.show()
