"""FeCA against the numbers of the paper (Table 1), on the real S-sets."""

from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import FeCA, metrics, partition
from fedjigsaw.io.rows import read_rows
from reproduction.studies import paper

pytestmark = pytest.mark.slow

IID_LIMITS = {"s1": 1.3, "s2": 2.2, "s3": 8.0, "s4": 5.5}
PUBLISHED = paper()["table1_ssets_l2_e4"]["cells"]


def mean_l2(data, alpha=None, n_seeds=10, **params):
    """Mean l2 / 1e4 over seeds, ten clients."""
    found = []
    for seed in range(n_seeds):
        if alpha is None:
            ids = partition.iid(len(data.X), 10, rng=seed)
        else:
            ids = partition.dirichlet(data.y, 10, alpha=alpha, rng=seed, min_size=15)
        fitted = FeCA(15, random_state=seed, **params).fit(data.X, clients=ids)
        found.append(metrics.center_l2(fitted.cluster_centers_, data.centers) / 1e4)
    return np.mean(found)


@pytest.mark.parametrize("name", IID_LIMITS)
def test_iid(load_or_skip, name):
    assert mean_l2(load_or_skip(name)) <= IID_LIMITS[name]


def limit(name, alpha):
    """One published standard deviation above the published mean."""
    theirs = PUBLISHED[name.upper()]["FeCA"][f"dirichlet({alpha})"]
    return theirs["mean"] + theirs["std"]


def in_cells(name, alpha):
    """Fifteen seeds; a hundred on S1 at 0.3, whose mean is so close that fewer would not tell."""
    close = (name, alpha) == ("s1", 0.3)
    return pytest.param(name, alpha, 100 if close else 15, marks=[pytest.mark.long] * close)


@pytest.mark.parametrize(
    ("name", "alpha", "n_seeds"), [in_cells(n, a) for n in IID_LIMITS for a in (0.3, 0.1)]
)
def test_dirichlet_is_within_one_standard_deviation_or_better(load_or_skip, name, alpha, n_seeds):
    assert mean_l2(load_or_skip(name), alpha, n_seeds=n_seeds) <= limit(name, alpha)


@pytest.mark.parametrize("alpha", [0.3, 0.1])
@pytest.mark.parametrize("name", IID_LIMITS)
def test_a_hundred_committed_seeds_are_within_one_standard_deviation_or_better(name, alpha):
    rows = read_rows(Path(__file__).parents[2] / "results" / "ssets.jsonl")
    found = [r["l2"] / 1e4 for r in rows if (r["dataset"], r.get("alpha")) == (name, alpha)]
    assert len(found) == 100
    assert np.mean(found) <= limit(name, alpha)


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
def test_refinement_pays_where_clients_end_in_local_solutions(load_or_skip):
    """The paper's ablation: with one start per client, keeping one-fit-many centers ruins S1."""
    data = load_or_skip("s1")
    assert mean_l2(data, n_init=1) < 2 < 5 < mean_l2(data, n_init=1, refine=False)
