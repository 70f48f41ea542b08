"""Warnings point at the line of the user, whatever lies between it and their cause."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedjigsaw
from doubles import FailsOnNegative
from fedjigsaw import FeCA, Jigsaw, Summary, sites
from fedjigsaw.engine import (
    Broadcast,
    Client,
    SerialEngine,
    aggregate_round,
    run_rounds,
)
from fedjigsaw.errors import (
    CountsWarning,
    FailedRunsWarning,
    FewerClustersWarning,
    UncertainNumberWarning,
)
from fedjigsaw.io.tables import from_array

ONES = np.ones((6, 2))
DOUBTFUL = np.random.default_rng(0).uniform(size=(12, 2))
UNCOUNTED = [Summary(9, [[0.0], [7.0]], client=name) for name in "ab"]
SOURCE = Path(fedjigsaw.__file__).parent


def clients(method, rows):
    return [Client(name, rows, method) for name in "ab"]


def merge():
    with pytest.raises(fedjigsaw.FedJigsawError, match="only with counts"):
        Jigsaw(2).merge(UNCOUNTED, 2)


CALLS = {
    "fit": (lambda: FeCA(3).fit(ONES), FewerClustersWarning),
    "fit in doubt": (lambda: Jigsaw("auto").fit(DOUBTFUL), UncertainNumberWarning),
    "fit_predict": (lambda: Jigsaw(3).fit_predict(ONES), FewerClustersWarning),
    "fit_predict in doubt": (
        lambda: Jigsaw("auto").fit_predict(DOUBTFUL, engine=SerialEngine),
        UncertainNumberWarning,
    ),
    "fit_transform": (lambda: Jigsaw("auto").fit_transform(DOUBTFUL), UncertainNumberWarning),
    "fit_clients": (lambda: Jigsaw("auto").fit_clients([DOUBTFUL]), UncertainNumberWarning),
    "a pipeline": (
        lambda: make_pipeline(StandardScaler(), Jigsaw("auto")).fit(DOUBTFUL),
        UncertainNumberWarning,
    ),
    "a grid search": (
        lambda: GridSearchCV(Jigsaw("auto"), {"detail": [1]}, cv=2).fit(DOUBTFUL),
        UncertainNumberWarning,
    ),
    "merge": (merge, CountsWarning),
    "aggregate": (
        lambda: Jigsaw(2).aggregate(UNCOUNTED, Broadcast(0, 0), np.random.default_rng(0)),
        CountsWarning,
    ),
    "aggregate_round": (
        lambda: aggregate_round(Jigsaw(2), UNCOUNTED, Broadcast(0, 0)),
        CountsWarning,
    ),
    "run_rounds": (
        lambda: run_rounds(
            Jigsaw("auto"), SerialEngine(clients(Jigsaw("auto"), DOUBTFUL[:6])), seed=0
        ),
        UncertainNumberWarning,
    ),
    "compare": (  # it hides the others, since its rows say the same
        lambda: fedjigsaw.compare(
            ["jigsaw", FailsOnNegative], -ONES, clients=[0, 1] * 3, seeds=1, n_clusters=1
        ),
        FailedRunsWarning,
    ),
    "files": (
        lambda: sites.aggregate({"a": sites.summarize(from_array(ONES), 3, client="a")}, 3),
        FewerClustersWarning,
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_warning_points_at_the_line_of_the_user(call):
    function, category = CALLS[call]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    found = [w.filename for w in caught if issubclass(w.category, category)]
    assert set(found) == {__file__}


@pytest.mark.slow
def test_no_module_warns_by_itself():
    """Another `stacklevel` would be wrong for some engine or entry point."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called != "warnings.warn" or path.name == "errors.py", path
