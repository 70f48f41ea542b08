"""The paper's numbers, and its tables and figures as studies.

Published numbers come from ``paper_tables.json`` and are attached to the cells here, in the paper's
own units; pages and pictures need no second list.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.study import Plan, Study

SSETS = ("S1", "S2", "S3", "S4")
# name in the paper -> split, alpha
PAPER_SPLITS = {
    "iid": ("iid", 1.0),
    "dirichlet(1.0)": ("dirichlet", 1.0),
    "dirichlet(0.3)": ("dirichlet", 0.3),
    "dirichlet(0.1)": ("dirichlet", 0.1),
}
MAIN_SPLITS = ("iid", "dirichlet(0.3)", "dirichlet(0.1)")
SPLIT_TITLES = {
    "iid": "IID",
    "any": "any split",
    **{f"dirichlet({alpha})": f"Dirichlet({alpha})" for alpha in ("1.0", "0.3", "0.1")},
}
# name in the paper's tables -> method and parameters; k-FED gets its k' with the data set
PAPER_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "M-Avg": ("match", {}),
    "FFCMv1(Rd=1)": ("fuzzy", {"version": 1, "n_rounds": 1}),
    "FFCMv1(Rd=10)": ("fuzzy", {"version": 1, "n_rounds": 10}),
    "FFCMv2(Rd=1)": ("fuzzy", {"version": 2, "n_rounds": 1}),
    "FFCMv2(Rd=10)": ("fuzzy", {"version": 2, "n_rounds": 10}),
    "k-FED": ("kfed", {}),
    "FeCA": ("feca", {}),
    # not in the paper
    "Jigsaw": ("jigsaw", {}),
    "Jigsaw (detail=4)": ("jigsaw", {"detail": 4}),
}
CENTRALIZED: tuple[str, dict[str, Any]] = ("central", {"n_init": 1})


@cache
def paper_tables() -> dict[str, Any]:
    """Return every number of the paper's tables."""
    text = files("fedjigsaw.bench").joinpath("paper_tables.json").read_text()
    tables: dict[str, Any] = json.loads(text)
    return tables


def make_cell(
    dataset: str, split: str, method: str, params: Mapping[str, Any], k: int, **more: Any
) -> Cell:
    """Make a cell from the paper's name of a split; every client has at least k rows."""
    kind, alpha = PAPER_SPLITS[split]
    options: dict[str, Any] = {"split": kind, "alpha": alpha, "min_size": k, "params": dict(params)}
    return Cell(dataset, method, k, seed=0, **{**options, **more})


def published_number(value: Any) -> tuple[float, float | None]:
    """Return mean and standard deviation, if there is one, of a number as the file has it."""
    if isinstance(value, dict):
        return value["mean"], value["std"]
    return (value[0], value[1]) if isinstance(value, list) else (value, None)


def _compared(
    dataset: str,
    label: str,
    k: int,
    k_prime: int,
    splits: tuple[str, ...],
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> Iterator[Plan]:
    """Plan all methods on all splits of one data set.

    Parameters
    ----------
    tables : published numbers, as number -> method -> split -> value.
    """
    for name, (method, params) in PAPER_METHODS.items():
        if "detail" in params and k > 15:  # 400 centers per client are slow and too many
            continue
        own = {"n_local_clusters": k_prime} if name == "k-FED" else params
        for split in splits:
            published = {
                what: published_number(table[name][split])
                for what, table in tables.items()
                if name in table
            }
            cell = make_cell(dataset, split, method, own, k)
            yield Plan(f"{label}/{split}/{name}", cell, published)
    published = {
        what: published_number(table["Centralized"]["any"]) for what, table in tables.items()
    }
    cell = make_cell(dataset, "iid", *CENTRALIZED, k)
    yield Plan(f"{label}/any/Centralized", cell, published)


def _table1() -> Study:
    l2 = paper_tables()["table1_ssets_l2_e4"]["cells"]
    labels = paper_tables()["appendix_ssets_purity_nmi"]["cells"]
    plans = tuple(
        plan
        for name in SSETS
        for plan in _compared(
            name.lower(),
            name,
            15,
            5,
            MAIN_SPLITS,
            {"l2": l2[name], "purity": labels["purity"][name], "nmi": labels["nmi"][name]},
        )
    )
    about = "S1 to S4: center distance, purity and NMI of all methods (Table 1 and appendix)"
    numbers = ("l2", "purity", "nmi")
    return Study("table1", about, plans, numbers, extra=("centers", "label_rules"))


def table2() -> Study:
    cells = paper_tables()["table2_frozen_features"]["cells"]
    plans: list[Plan] = []
    for label, k, k_prime in (("CIFAR-10", 10, 3), ("CIFAR-100", 100, 10)):
        dataset = label.lower().replace("-", "") + "-features"
        tables = {
            what: {name: row[what] for name, row in cells[label].items()}
            for what in ("purity", "nmi")
        }
        plans += _compared(dataset, label, k, k_prime, tuple(PAPER_SPLITS), tables)
    about = "frozen CIFAR features: purity and NMI of all methods (Table 2)"
    return Study("table2", about, tuple(plans), ("purity", "nmi"), runs=3, extra=("label_rules",))


def _ablation() -> Study:
    cells = paper_tables()["appendix_ablation_one_fit_many"]["cells"]
    plans = []
    for n_init in (1, 10):
        for keep, name in ((True, "FeCA (keeping one-fit-many)"), (False, "FeCA")):
            cell = make_cell("s1", "iid", "feca", {"refine": not keep, "n_init": n_init}, 15)
            starts = "one start" if n_init == 1 else "ten starts"
            plans.append(Plan(f"{starts}/{name}", cell, {"mse": published_number(cells[name])}))
    about = "S1, IID: with and without dropping one-fit-many centers, for 1 and 10 starts"
    layout = ("column", "line")
    return Study("ablation", about, tuple(plans), ("mse",), layout, extra=("centers",))


def _radius() -> Study:
    cells = paper_tables()["appendix_radius_variants"]["cells"]
    plans = [
        Plan(
            f"{split}/{radius}",
            make_cell("s1", split, "feca", {"radius": radius}, 15),
            {"l2": published_number(cells[radius][split])},
        )
        for radius in ("theoretical", "empirical")
        for split in MAIN_SPLITS
    ]
    about = "S1: theoretical and empirical radii"
    return Study("radius", about, tuple(plans), layout=("column", "line"), corner="radius")


def _k_prime() -> Study:
    plans = [
        Plan(
            k_prime,
            make_cell("s1", "dirichlet(0.3)", "kfed", {"n_local_clusters": int(k_prime)}, 15),
            {what: published_number(value) for what, value in row.items()},
        )
        for k_prime, row in paper_tables()["appendix_kfed_k_prime"]["cells"].items()
    ]
    about = "S1, Dirichlet(0.3): the number of local clusters k' of k-FED"
    numbers = ("l2", "purity", "nmi")
    return Study("k-prime", about, tuple(plans), numbers, ("line",), "k'", extra=("label_rules",))


def _clients() -> Study:
    """With one client, the paper's number is that of plain k-means with one start."""
    plans = []
    for share, table in (
        (0.05, "appendix_clients_5pct_each"),
        (None, "appendix_clients_iid_split"),
    ):
        for n, value in paper_tables()[table]["cells"].items():
            method, params = CENTRALIZED if n == "1" else ("feca", {})
            used = 1.0 if share is None else round(share * int(n), 2)
            cell = make_cell("s1", "iid", method, params, 15, n_clients=int(n), share=used)
            held = "the M-th part each" if share is None else "5 % each"
            plans.append(Plan(f"{held}/{n}", cell, {"l2": published_number(value)}))
    about = "S1: 1 to 20 clients, with 5 % of the rows each and with the M-th part each"
    numbers, layout = ("l2", "purity_lloyd", "nmi_lloyd"), ("column", "line")
    return Study("clients", about, tuple(plans), numbers, layout, "M", extra=("after_lloyd",))


def _varying_k() -> Study:
    plans = []
    for row in paper_tables()["appendix_varying_k"]["cells"]:
        k, k_prime = row["k"], row["k_prime"]
        for split in MAIN_SPLITS:
            params = {"n_local_clusters": k_prime}
            cell = make_cell("s1", split, "feca", params, k, min_size=15)
            name = f"k={k}, k'={k_prime}/{split}"
            plans.append(Plan(name, cell, {"mse": published_number(row[split])}))
    about, layout = "S1: k and k' other than 15", ("line", "column")
    return Study("varying-k", about, tuple(plans), ("mse",), layout, "FeCA", extra=("centers",))


def _local_solutions() -> Study:
    plans = [
        Plan(f"{name}/{share:.0%}", make_cell(name.lower(), "iid", *CENTRALIZED, 15, share=share))
        for name in SSETS
        for share in (0.5, 0.75, 1.0)
    ]
    about = "S1 to S4: objective of plain k-means with one start, on 50, 75 and 100 % of the rows"
    numbers, layout = ("inertia",), ("line", "column")
    return Study(
        "local-solutions", about, tuple(plans), numbers, layout, "data", extra=("centers",)
    )


def _sigma() -> Study:
    plans = [Plan(split, make_cell("s1", split, "feca", {}, 15)) for split in MAIN_SPLITS]
    about = "S1: distance of received to true centers, in radii (below 0.5 suffices to group)"
    return Study("sigma", about, tuple(plans), (), ("line",), runs=3, extra=("sigma",))


BUILDERS: tuple[Callable[[], Study], ...] = (
    _table1, table2, _ablation, _radius, _k_prime, _clients, _varying_k, _local_solutions, _sigma,
)  # fmt: skip
