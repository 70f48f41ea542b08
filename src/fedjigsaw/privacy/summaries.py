"""The private summary of a site, and what a server makes of it."""

import math
from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import (
    MessageError,
    NoiseWarning,
    ParameterError,
    invalid,
    warn_of_client,
)
from fedjigsaw.messages import SHARED, Broadcast, Model, Summary
from fedjigsaw.privacy.accounting import multiplier_for
from fedjigsaw.privacy.guarantee import Privacy, warn_of_large_delta
from fedjigsaw.privacy.mechanism import FLOOR, Search
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.releases import GRID, MAX_COLUMNS, MIN_RADIUS, Box, Cells, release_cells
from fedjigsaw.privacy.shared_cells import shared_summary

NOISE = "noise"  # tensor of a summary: deviation of the noise on counts and on coordinates
SPREAD = "support_spread"  # tensor of a model
MIN_STEPS = 16  # of the grid, within the bounds of a column
REACH = 2.0  # spreads of a model's cluster within which nearly all of its rows lie


@dataclass(frozen=True)
class PrivateRound:
    """What one site is to release in one round.

    Parameters
    ----------
    privacy : Privacy
        The promise for the whole run.
    n_rounds : int
        Rounds of the run, which share the budget equally.
    broadcast : Broadcast
    n_clusters, max_centers : int
        Fewest and most centers that the site looks for.
    n_cells : int
        Number of cells, where all sites share them.
    """

    privacy: Privacy
    n_rounds: int
    broadcast: Broadcast
    n_clusters: int
    max_centers: int
    n_cells: int

    def answer(self, rows: Floats, rng: np.random.Generator) -> Summary:
        """Release a summary, and warn the site if its delta is too large for its rows."""
        summary = self._release(rows, rng)
        warn_of_large_delta(self.privacy, summary.n_samples)
        return summary

    def _release(self, rows: Floats, rng: np.random.Generator) -> Summary:
        """Summarize rows: by a search for clusters, by shared cells, or by a model's clusters."""
        privacy, model, client = self.privacy, self.broadcast.model, self.broadcast.client
        if self.broadcast.round >= self.n_rounds:  # its share of the budget is spent
            allowed = f"below the number of rounds, {self.n_rounds}"
            raise ParameterError(invalid("round", "a question", allowed, self.broadcast.round))
        box = box_of(privacy, rows.shape[1])
        inside = _place(rows, box, client)
        noise = self.noise()
        multiplier = round_multiplier(privacy, self.n_rounds)
        if privacy.cells == SHARED:
            return shared_summary(inside, box, self.n_cells, multiplier, privacy, noise)
        if model is not None:
            return _own(_step(inside, box, model, multiplier, noise), box, client)
        search = Search(box, self.n_clusters, self.max_centers, multiplier, noise, rng)
        return _own(search.run(inside), box, client)

    def noise(self) -> Noise:
        """Return the noise of this answer. An audit puts its own in this place."""
        return Noise.for_answer(self.privacy, self.broadcast.round, self.broadcast.client)


def center_noise(summary: Summary) -> Floats:
    """Return the standard deviation of the noise on the coordinates of each center, 0 for none."""
    noise: Floats = _noise_of(summary)[:, 1]
    return noise


def count_noise(summary: Summary) -> float:
    """Return the typical standard deviation of the noise on the counts, 0 for none."""
    return float(np.sqrt((_noise_of(summary)[:, 0] ** 2).mean()))


def _noise_of(summary: Summary) -> Floats:
    n_centers = len(summary.centers)
    if NOISE not in summary.tensors:
        return np.zeros((n_centers, 2))
    noise = summary.tensors[NOISE].astype(np.float64)
    if noise.shape != (n_centers, 2) or not (np.isfinite(noise) & (noise >= 0)).all():
        allowed = f"two finite numbers >= 0 for each of its {n_centers} centers"
        raise MessageError(invalid(NOISE, f"client {summary.client!r}", allowed, noise.shape))
    return noise


def box_of(privacy: Privacy, n_columns: int) -> Box:
    """Return the public box of the rows."""
    if n_columns > MAX_COLUMNS:
        allowed = f"at most {MAX_COLUMNS} under differential privacy"
        raise ParameterError(invalid("number of columns", "the data", allowed, n_columns))
    box = Box.within(*privacy.limits(n_columns))
    if (box.half * GRID < MIN_STEPS).any():
        raise ParameterError(
            "The bounds of one column are far narrower than those of another (1 to 65,536), so "
            "it would not count. Scale the columns first (`fedjigsaw scaler --bounds`)."
        )
    return box


def round_multiplier(privacy: Privacy, n_rounds: int) -> float:
    """Return the multiplier of one round, such that all rounds together keep the promise."""
    return multiplier_for(privacy.epsilon, privacy.delta) * math.sqrt(n_rounds)


def _place(rows: Floats, box: Box, client: str) -> Floats:
    inside, n_outside = box.inside(rows)
    if n_outside:
        warn_of_client(
            client,
            f"{n_outside} of {len(rows)} rows are outside the bounds of Privacy and were clipped",
            "If there are many, the bounds are too narrow.",
            NoiseWarning,
        )
    return inside


def _step(rows: Floats, box: Box, model: Model, multiplier: float, noise: Noise) -> Cells:
    """Release sums over the clusters of a model; any model may be asked about."""
    centers = box.on_grid((model.centers - box.middle) / box.scale)
    spreads = model.tensors.get(SPREAD)
    radii = np.full(len(centers), float(np.linalg.norm(box.half)))
    if spreads is not None and spreads.shape == (len(centers),):
        # fmax and fmin take the other number where one is NaN
        radii = np.fmin(np.fmax(REACH * spreads / box.scale, MIN_RADIUS), radii)
    return release_cells(rows, centers, radii, multiplier, noise)


def _own(cells: Cells, box: Box, client: str) -> Summary:
    """Make the message of a site's own cells, without those that are hardly more than noise."""
    clear = cells.counts > FLOOR * cells.count_noise
    if not clear.any():  # something must leave: one center, where most rows seem to be
        clear[cells.counts.argmax()] = True
        warn_of_client(
            client,
            "too few rows for this epsilon, its summary is hardly more than noise",
            "Use a larger epsilon, or shared cells at all sites.",
            NoiseWarning,
        )
    kept = cells.select(clear)
    counts = np.maximum(np.rint(kept.counts), 1).astype(np.int64)
    centers = box.to_units(np.clip(kept.means(), -box.half, box.half))
    spread = kept.sum_noise / np.maximum(kept.counts, 1) * box.scale
    deviations = np.column_stack([np.full(len(counts), kept.count_noise), spread])
    return Summary(
        int(counts.sum()),
        centers,
        counts=counts,
        sse=kept.sse() * box.scale**2,
        tensors={NOISE: deviations},
    )
