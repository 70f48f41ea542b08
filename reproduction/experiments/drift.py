"""False alarms in weeks without change, and events that are noticed.

A key is a population of eight Gaussian clusters in four columns at 20 sites. Every week each site
draws 250 new rows, and a model is made and compared with that of the week before. Then, after the
last week, each event happens once.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fedjigsaw import sites
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array
from reproduction.studies import Floats, Row

N_SITES, N_ROWS, N_CLUSTERS, N_COLUMNS = 20, 250, 8, 4
CLOSEST, NEW_CLOSEST = 3.0, 4.5  # distance of centers; the deviation of a cluster is about 1
NEW_SHARE = 0.03
HALVES = 2.2  # deviations that the halves of a split cluster move to each side
FIRST_SEED = 100  # constants were set on populations of other seeds
WIDTHS = {"far": 4.0, "near": 2.5}  # how far apart clusters are -> deviation of their centers
KINDS = {  # how clusters are spread over sites -> concentration of shares, whether sites are absent
    "alike": (0.0, False),
    "skewed": (0.5, False),
    "one missing": (0.5, True),
}


@dataclass(frozen=True)
class Population:
    """Clusters, and how many rows of each every site has.

    Attributes
    ----------
    centers : shape (k, d).
    deviation : shape (k,), in every column.
    mix : shape (n_sites, k), shares of the clusters at each site.
    """

    centers: Floats
    deviation: Floats
    mix: Floats
    width: float

    def week(self, rng: np.random.Generator, absent: int | None) -> dict[str, Floats]:
        """Return new rows of each site but an absent one."""
        found = {}
        for site in (site for site in range(N_SITES) if site != absent):
            labels = rng.choice(len(self.centers), size=N_ROWS, p=self.mix[site])
            noise = rng.normal(size=(N_ROWS, N_COLUMNS)) * self.deviation[labels][:, None]
            found[f"site{site:02d}"] = self.centers[labels] + noise
        return found


def population(seed: int, width: float, concentration: float) -> Population:
    """Draw a population: centers that are not too close, deviations and shares."""
    rng = np.random.default_rng(seed)
    while True:
        centers = rng.normal(size=(N_CLUSTERS, N_COLUMNS)) * width
        if _gaps(centers).min() > CLOSEST:
            break
    shares = rng.dirichlet(np.full(N_CLUSTERS, 5.0)) * 0.8 + 0.2 / N_CLUSTERS
    mix = np.tile(shares, (N_SITES, 1))
    if concentration:
        mix = rng.dirichlet(shares * N_CLUSTERS * concentration, size=N_SITES)
    return Population(centers, rng.uniform(0.7, 1.3, size=N_CLUSTERS), mix, width)


# ----------------------------------------------------------------------------------------- events


def appear(before: Population, rng: np.random.Generator) -> Population:
    """Add a cluster with 3 % of the rows of every site."""
    while True:
        center = rng.normal(size=N_COLUMNS) * before.width
        if np.linalg.norm(before.centers - center, axis=1).min() > NEW_CLOSEST:
            break
    added = np.full((N_SITES, 1), NEW_SHARE)
    return replace(
        before,
        centers=np.vstack([before.centers, center]),
        deviation=np.append(before.deviation, 1.0),
        mix=np.hstack([before.mix * (1 - NEW_SHARE), added]),
    )


def vanish(before: Population, rng: np.random.Generator) -> Population:
    """Remove a cluster; its rows become rows of the others."""
    return _without(before, int(rng.integers(N_CLUSTERS)))


def move(before: Population, rng: np.random.Generator) -> Population:
    """Move a cluster by half its spread."""
    i = int(rng.integers(N_CLUSTERS))
    centers = before.centers.copy()
    centers[i] += 0.5 * before.deviation[i] * np.sqrt(N_COLUMNS) * _direction(rng)
    return replace(before, centers=centers)


def split(before: Population, rng: np.random.Generator) -> Population:
    """Split a cluster into halves."""
    i = int(rng.integers(N_CLUSTERS))
    aside = HALVES * before.deviation[i] * _direction(rng)
    centers, mix = before.centers.copy(), before.mix.copy()
    centers[i] += aside
    mix[:, i] /= 2
    return replace(
        before,
        centers=np.vstack([centers, before.centers[i] - aside]),
        deviation=np.append(before.deviation, before.deviation[i]),
        mix=np.hstack([mix, mix[:, [i]]]),
    )


def merge(before: Population, rng: np.random.Generator) -> Population:
    """Merge the two closest clusters, halfway between them."""
    gaps = _gaps(before.centers)
    i, j = (int(place) for place in np.unravel_index(gaps.argmin(), gaps.shape))
    centers, mix = before.centers.copy(), before.mix.copy()
    centers[i] = (centers[i] + centers[j]) / 2
    mix[:, i] += mix[:, j]
    return _without(replace(before, centers=centers, mix=mix), j)


EVENTS = {"new": appear, "gone": vanish, "moved": move, "split": split, "merged": merge}


def _without(before: Population, i: int) -> Population:
    mix = np.delete(before.mix, i, axis=1)
    mix = np.where(mix.sum(axis=1, keepdims=True) > 0, mix, 1.0)
    return replace(
        before,
        centers=np.delete(before.centers, i, axis=0),
        deviation=np.delete(before.deviation, i),
        mix=mix / mix.sum(axis=1, keepdims=True),
    )


def _gaps(centers: Floats) -> Floats:
    gaps: Floats = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    return gaps


def _direction(rng: np.random.Generator) -> Floats:
    found: Floats = rng.normal(size=N_COLUMNS)
    return found / np.linalg.norm(found)


# -------------------------------------------------------------------------------------- the study


def weeks(kind: str, apart: str, n_clusters: int | str, weeks: int, seed: int) -> Row:
    """Return the alarms of one population over some weeks, and the drift of every event.

    Parameters
    ----------
    kind, apart : of :data:`KINDS` and :data:`WIDTHS`.
    n_clusters : the number of clusters that the coordinator gives, or "auto".
    """
    concentration, absences = KINDS[kind]
    rng = np.random.default_rng([seed, 1])
    calm = population(FIRST_SEED + seed, WIDTHS[apart], concentration)
    made = []
    for _ in range(weeks):
        absent = int(rng.integers(N_SITES)) if absences and rng.random() < 0.5 else None
        made.append(_model(calm.week(rng, absent), n_clusters))
    found = [_difference(before, after) for before, after in pairwise(made)]
    drifts = [difference.drift for difference in found if difference.drift is not None]
    events = {
        f"drift_{name}": _difference(
            made[-1], _model(change(calm, rng).week(rng, None), n_clusters)
        ).drift
        for name, change in EVENTS.items()
    }
    return {
        "alarms": sum(drift > sites.ALARM for drift in drifts),
        "unsettled": sum(not difference.succession.is_calm for difference in found),
        "largest": max(drifts),
        **events,
    }


Made = tuple[ModelFile, tuple[float, ...] | None]


def _model(rows: dict[str, Floats], k: int | str) -> Made:
    files = {site: sites.summarize(from_array(own), k, client=site) for site, own in rows.items()}
    made = sites.aggregate(files, k)
    return made, sites.measure_noise(files, made)


def _difference(before: Made, after: Made) -> sites.Difference:
    return sites.compare(before[0], after[0], old_noise=before[1], new_noise=after[1])
