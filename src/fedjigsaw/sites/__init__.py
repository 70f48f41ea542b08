"""One round by file: each site writes a summary, a coordinator makes a model, sites assign.

The functions behind the commands ``stats``, ``scaler``, ``summarize``, ``aggregate``, ``assign``
and ``score``. Rows are read from files in batches and never leave the function that reads them.
A whole round, from a notebook:

>>> import numpy as np
>>> from fedjigsaw import sites
>>> from fedjigsaw.io.tables import from_array
>>> rows = {"bern": np.repeat([[0.0], [9.0]], 5, axis=0), "oslo": np.repeat([[9.0]], 5, axis=0)}
>>> tables = {site: from_array(X) for site, X in rows.items()}  # or the path of a file
>>> summaries = {s: sites.summarize(t, 2, client=s) for s, t in tables.items()}  # at each site
>>> model = sites.aggregate(summaries, 2)  # at the coordinator
>>> [part.labels.to_pylist() for part in sites.assign(tables["oslo"], model)]  # at a site
[[1, 1, 1, 1, 1]]
"""

from fedjigsaw.columns.encoding import provisional
from fedjigsaw.sites.admission import read_summaries
from fedjigsaw.sites.aggregate import aggregate
from fedjigsaw.sites.assign import Assigned, assign
from fedjigsaw.sites.charge import Charge, Spend, free
from fedjigsaw.sites.compatibility import (
    check_different,
    check_fit_together,
    check_once,
    check_own,
    reorder,
)
from fedjigsaw.sites.drift import ALARM as _ALARM
from fedjigsaw.sites.drift import ClusterChange, Difference, compare, measure_noise
from fedjigsaw.sites.labels import write_labels
from fedjigsaw.sites.lineage import Lineage
from fedjigsaw.sites.preparation import Progress, open_data, prepare, quiet
from fedjigsaw.sites.prepared import schema_bounds
from fedjigsaw.sites.proposal import Proposal, propose_schema
from fedjigsaw.sites.proposed_toml import proposal_to_toml
from fedjigsaw.sites.region import aggregate_region
from fedjigsaw.sites.schema_apply import Applied, apply_schema
from fedjigsaw.sites.schema_changes import Changes
from fedjigsaw.sites.schema_check import ColumnCheck, FileCheck, check_file
from fedjigsaw.sites.score import mean_squared_distance, merge_scores, score
from fedjigsaw.sites.stats import (
    common_scaler,
    measure,
    merge_statistics,
    scaler_of_bounds,
    unlike_units,
    untold,
)
from fedjigsaw.sites.succession import Succession, succeed
from fedjigsaw.sites.summarize import MAX_ROWS as _MAX_ROWS
from fedjigsaw.sites.summarize import summarize

__all__ = [
    "ALARM",
    "MAX_ROWS",
    "Applied",
    "Assigned",
    "Changes",
    "Charge",
    "ClusterChange",
    "ColumnCheck",
    "Difference",
    "FileCheck",
    "Lineage",
    "Progress",
    "Proposal",
    "Spend",
    "Succession",
    "aggregate",
    "aggregate_region",
    "apply_schema",
    "assign",
    "check_different",
    "check_file",
    "check_fit_together",
    "check_once",
    "check_own",
    "common_scaler",
    "compare",
    "free",
    "mean_squared_distance",
    "measure",
    "measure_noise",
    "merge_scores",
    "merge_statistics",
    "open_data",
    "prepare",
    "proposal_to_toml",
    "propose_schema",
    "provisional",
    "quiet",
    "read_summaries",
    "reorder",
    "scaler_of_bounds",
    "schema_bounds",
    "score",
    "succeed",
    "summarize",
    "unlike_units",
    "untold",
    "write_labels",
]

# numbers have no docstring of their own: the pages of the API show these
ALARM = _ALARM
"""Drift from which on :func:`compare` gives an alarm: twice what is usual by chance."""
MAX_ROWS = _MAX_ROWS
"""Rows of a file that :func:`summarize` clusters; of more, it takes a random sample."""
