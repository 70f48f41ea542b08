"""Missing values: how many rows of each column have none."""

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.io.formats import Score
from fedjigsaw.report.page.readings import missing_by_scaler
from fedjigsaw.report.page.run import Run

MANY = 0.1  # share of missing values from which on the page warns


def missing_shares(run: Run) -> dict[str, float]:
    """Return the share of rows without a value, of each column of which it is known.

    Profiles tell it; where they have noise, or are the sum of several sites whose guards may hide
    rows, and where there are none, the statistics of a schema do, of columns that were clustered.
    """
    scores = [score for score in run.scores if score.profile is not None]
    if not scores or run.noisy_profiles or run.is_merged:
        return missing_by_scaler(run)
    missing = missing_by_scaler(run)  # the guard rounds the rows of categories
    for column in scores[0].profile.numbers if scores[0].profile else ():
        rows, absent = np.sum([_of_site(score, column) for score in scores], axis=0)
        if rows:
            missing[column] = float(absent / rows)
    return missing


def _of_site(score: Score, column: str) -> tuple[int, int]:
    """Return the rows of a site whose values are known, and how many of them have none.

    A cluster whose values the guard hides is not known, unless the site shows no value at all.
    """
    assert score.profile is not None
    own = _values(score.profile, column)
    shown = np.any([_values(score.profile, name) > 0 for name in score.profile.numbers], axis=0)
    known = own > 0 if own.any() else shown
    rows = int(score.counts[known].sum())
    return rows, max(0, rows - int(own[known].sum()))


def _values(profile: Profile, column: str) -> Ints:
    """Return the rows with a value, of each cluster."""
    return profile.count[:, profile.numbers.index(column)]
