"""All studies: those of the paper, and further ones.

A study is a list of cells. Each cell is run once for every seed and gives one row each time.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from fedjigsaw.bench import (
    drift_cells,
    hard_cells,
    paper,
    peer_cells,
    privacy_cells,
    region_cells,
    shape_cells,
)
from fedjigsaw.bench.paper import (
    CENTRALIZED,
    MAIN_SPLITS,
    SSETS,
    make_cell,
    paper_tables,
    published_number,
)
from fedjigsaw.bench.privacy_attacks import attack_plans
from fedjigsaw.bench.privacy_audit import audit_plans
from fedjigsaw.bench.study import Plan, Study
from fedjigsaw.errors import ParameterError


@cache
def studies() -> dict[str, Study]:
    """Return all studies by name, those of the paper first, in its order."""
    made = (build() for build in (*paper.BUILDERS, *_BUILDERS))
    return {study.name: study for study in made}


def find(names: Sequence[str]) -> list[Study]:
    """Return studies by name; "all" is all of them."""
    known = studies()
    if "all" in names:
        return list(known.values())
    for name in names:
        if name not in known:
            raise ParameterError(
                f"Unknown table {name!r}. Choose all or one of {', '.join(known)}."
            )
    return [known[name] for name in dict.fromkeys(names)]


# ---------------------------------------------------------------------- studies besides the paper's


def _ssets() -> Study:
    """Ten times as many seeds as in the paper, since results on skewed splits vary a lot."""
    published = paper_tables()["table1_ssets_l2_e4"]["cells"]
    plans = [
        Plan(
            f"{name}/{split}",
            make_cell(name.lower(), split, "feca", {}, 15),
            {"l2": published_number(published[name]["FeCA"][split])},
        )
        for name in SSETS
        for split in MAIN_SPLITS
    ]
    about = "S1 to S4: FeCA with 100 seeds"
    return Study("ssets", about, tuple(plans), ("l2",), ("line", "column"), "FeCA", runs=100)


def _plain_ssets() -> Study:
    """Repeat a cell with scikit-learn's k-means, to compare backends."""
    plan = Plan("S1/dirichlet(0.3)", make_cell("s1", "dirichlet(0.3)", "feca", {}, 15))
    about = "S1, Dirichlet(0.3): FeCA with 100 seeds and scikit-learn's k-means (not in the paper)"
    return Study(
        "ssets-sklearn", about, (plan,), (), ("line", "column"), runs=100, backend="sklearn"
    )


def _starts() -> Study:
    """Repeat cells with one k-means start; the paper does not state its number of starts."""
    plans = [
        Plan(
            f"{name}/{split}/{label}",
            make_cell(name.lower(), split, method, {**params, "n_init": 1}, 15),
        )
        for name in SSETS
        for label, method, params in (
            ("M-Avg", "match", {}),
            ("k-FED", "kfed", {"n_local_clusters": 5}),
            ("FeCA", "feca", {}),
        )
        for split in MAIN_SPLITS
    ]
    about = "S1 to S4: one start of k-means at every client instead of ten (not in the paper)"
    return Study("starts", about, tuple(plans))


def _best() -> Study:
    """The best solution known of each S-set, to which objectives are related."""
    plans = [
        Plan(name, make_cell(name.lower(), "iid", "central", {"n_init": 200}, 15)) for name in SSETS
    ]
    about = "S1 to S4: the best objective of 200 starts on the pooled rows (not in the paper)"
    return Study("best", about, tuple(plans), (), ("line",), runs=1)


def _auto_k() -> Study:
    plans = [
        Plan(
            f"{name}/{split}",
            replace(make_cell(name.lower(), split, "jigsaw", {}, 15), n_clusters="auto"),
        )
        for name in SSETS
        for split in MAIN_SPLITS
    ]
    about = "S1 to S4: the number of clusters that Jigsaw finds (not in the paper)"
    layout = ("line", "column")
    return Study("auto-k", about, tuple(plans), (), layout, runs=20, extra=("k_doubt",))


def _auto_hard() -> Study:
    """Data of many kinds, of which some have no clusters, and others' methods beside it."""
    about = "the number of clusters that Jigsaw finds on 64 generated sets (not in the paper)"
    return Study("auto-hard", about, hard_cells.plans(), (), ("line", "column"), runs=1)


def _shapes() -> Study:
    """Clusters that are long, bent, or among background rows."""
    about = "labels by the shapes of clusters, on generated sets (not in the paper)"
    return Study("shapes", about, shape_cells.plans(), (), ("line", "column", "table"), runs=2)


def _regions() -> Study:
    """A server for each of ten regions, and one above them."""
    about = "1,000 clients over ten regions against one server (not in the paper)"
    return Study("regions", about, region_cells.plans(), (), ("line", "column", "table"), runs=1)


def _more_features() -> Study:
    """FeCA and Jigsaw on the CIFAR features with the seeds up to 9 that Table 2 leaves out."""
    plans = [
        replace(plan, published={})
        for plan in paper.table2().plans
        if plan.name.endswith(("/FeCA", "/Jigsaw"))
    ]
    about = "FeCA and Jigsaw in Table 2, seeds 3 to 9 (not in the paper)"
    extra = ("label_rules",)
    return Study("table2-more", about, tuple(plans), (), first_seed=3, extra=extra)


def _k_curve() -> Study:
    """One run each, with index and objective of every k, for a picture."""
    plans = [
        Plan(
            name,
            replace(make_cell(name.lower(), "dirichlet(0.1)", "jigsaw", {}, 15), n_clusters="auto"),
        )
        for name in SSETS
    ]
    about = "S1 to S4: how Jigsaw chooses k, for the picture (not in the paper)"
    return Study("k-curve", about, tuple(plans), (), ("line",), runs=1, extra=("k_curve",))


def _untuned() -> Study:
    """Data that no method was tuned on."""
    sets = {  # data set -> number of clusters, number of clients
        "rings": (12, 10), "cube": (12, 10), "heavy-tails": (12, 10), "unequal": (12, 10),
        "k50": (50, 10), "k100": (100, 3), "d512": (20, 10), "small-clients": (10, 500),
    }  # fmt: skip
    compared = {
        "FeCA": ("feca", {}),
        "Jigsaw": ("jigsaw", {}),
        "Jigsaw (detail=4)": ("jigsaw", {"detail": 4}),
        "Centralized": ("central", {"n_init": 10}),
    }
    plans = [
        Plan(
            f"{name}/{split}/{label}",
            make_cell(name, split, method, params, k, n_clients=n_clients, min_size=0),
        )
        for name, (k, n_clients) in sets.items()
        for split in ("iid", "dirichlet(0.3)")
        for label, (method, params) in compared.items()
    ]
    about = "other shapes, sizes, dimensions, numbers of clusters and clients (not in the paper)"
    return Study("untuned", about, tuple(plans), (), runs=3)


def _privacy() -> Study:
    """Jigsaw and other methods on the same rows, attacks on one site, and an audit."""
    about = "differential privacy: its cost, attacks and an audit (not in the paper)"
    numbers, layout = ("ratio",), ("table", "column", "line")
    plans = (*privacy_cells.plans(), *attack_plans(), *audit_plans())
    return Study("privacy", about, plans, numbers, layout, "data", runs=3, page="privacy")


def _drift() -> Study:
    """Weeks without change, and events: how often there is an alarm."""
    about = "alarms over weeks of the same population, and after events (not in the paper)"
    return Study("drift", about, drift_cells.plans(), (), ("line", "column"), runs=1)


def _peers() -> Study:
    """Further methods of others, by the objective of k-means."""
    about = "the objective of Jigsaw and of nine other methods on 13 splits (not in the paper)"
    return Study("peers", about, peer_cells.plans(), (), ("line", "column", "table"), runs=5)


def _truth() -> Study:
    """True centers and density of the S-sets, for pictures."""
    plans = [Plan(name, make_cell(name.lower(), "iid", *CENTRALIZED, 15)) for name in SSETS]
    about = "S1 to S4: true centers and density, for the pictures"
    return Study("data", about, tuple(plans), (), ("line",), runs=1, extra=("truth",))


_BUILDERS: tuple[Callable[[], Study], ...] = (
    _ssets, _plain_ssets, _starts, _truth, _best, _auto_k, _auto_hard, _shapes, _k_curve, _untuned,
    _more_features, _privacy, _drift, _regions, _peers,
)  # fmt: skip
