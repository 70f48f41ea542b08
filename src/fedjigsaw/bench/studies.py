"""The paper's tables as data: which cells each study has, and what the paper says about them.

A study is a list of cells; a cell is run once for every seed and gives one row each time. Numbers
of the paper come from ``paper_tables.json`` and are attached to the cells here, in the paper's own
units, so that pages and pictures need no second list.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from fedjigsaw.bench.cells import MEASURES, Cell
from fedjigsaw.errors import ParameterError, invalid

# (mean, standard deviation or None) for each measured number
Published = Mapping[str, tuple[float, float | None]]
SSETS = ("S1", "S2", "S3", "S4")
# name in the paper -> split, alpha
SPLITS = {
    "iid": ("iid", 1.0),
    "dirichlet(1.0)": ("dirichlet", 1.0),
    "dirichlet(0.3)": ("dirichlet", 0.3),
    "dirichlet(0.1)": ("dirichlet", 0.1),
}
THREE = ("iid", "dirichlet(0.3)", "dirichlet(0.1)")
# name in the paper's tables -> method and parameters; k-FED gets its k' with the data set
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
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


@dataclass(frozen=True)
class Plan:
    """One cell of a table: what to run for each seed, and what the paper published for it."""

    name: str
    cell: Cell
    published: Published = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """One table or figure of the paper.

    Parameters
    ----------
    numbers : which measured numbers its tables show.
    layout : what the parts of its cells' names, cut at "/", are: table, column or line.
    corner : what its lines are, in a word or two.
    runs : how many seeds the paper took.
    first_seed : where its seeds begin, if it goes on with another study's.
    extra : further measures (:data:`fedjigsaw.bench.cells.MEASURES`) that its rows hold.
    """

    name: str
    about: str
    plans: tuple[Plan, ...]
    numbers: tuple[str, ...] = ("l2",)
    layout: tuple[str, ...] = ("table", "column", "line")
    corner: str = "method"
    runs: int = 10
    first_seed: int = 0
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert all(name in MEASURES for name in self.extra)


@dataclass(frozen=True)
class Job:
    """One cell with one seed: what a worker computes, and what makes one line of results."""

    study: str
    name: str
    cell: Cell
    extra: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.study}/{self.name}/{self.cell.seed}"

    def made(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with this job's key was computed from this very cell."""
        wanted = json.dumps(self.cell.describe(), sort_keys=True)
        told = {f.name: row[f.name] for f in fields(Cell) if f.name in row}
        return json.dumps(told, sort_keys=True) == wanted


@cache
def paper_tables() -> dict[str, Any]:
    """Every number of the paper's tables."""
    text = files("fedjigsaw.bench").joinpath("paper_tables.json").read_text()
    tables: dict[str, Any] = json.loads(text)
    return tables


@cache
def studies() -> dict[str, Study]:
    """All studies by name, in the order of the paper."""
    made = (build() for build in _BUILDERS)
    return {study.name: study for study in made}


def jobs_of(study: Study, runs: int | None = None) -> list[Job]:
    """All jobs of a study, seed by seed, so that an interrupted run has whole tables first."""
    return [
        Job(study.name, plan.name, replace(plan.cell, seed=seed), study.extra)
        for seed in range(study.first_seed, runs or study.runs)
        for plan in study.plans
    ]


def find(names: list[str]) -> list[Study]:
    """Studies by name; "all" is all of them."""
    known = studies()
    if "all" in names:
        return list(known.values())
    for name in names:
        if name not in known:
            allowed = "all or one of " + ", ".join(known)
            raise ParameterError(invalid("table", "reproduce", allowed, repr(name)))
    return [known[name] for name in dict.fromkeys(names)]


# ------------------------------------------------------------------------------------ the studies


def _cell(
    dataset: str, split: str, method: str, params: Mapping[str, Any], k: int, **more: Any
) -> Cell:
    kind, alpha = SPLITS[split]
    options: dict[str, Any] = {"split": kind, "alpha": alpha, "min_size": k, "params": dict(params)}
    return Cell(dataset, method, k, seed=0, **{**options, **more})


def _number(value: Any) -> tuple[float, float | None]:
    """A published number in any of the forms of the file: mean and std, or the mean alone."""
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
    """All methods on all splits of one data set; `tables`: number -> method -> split -> value."""
    for name, (method, params) in METHODS.items():
        if "detail" in params and k > 15:  # four times 100 centers a client: slow, and too fine
            continue
        own = {"n_local_clusters": k_prime} if name == "k-FED" else params
        for split in splits:
            published = {
                what: _number(table[name][split]) for what, table in tables.items() if name in table
            }
            cell = _cell(dataset, split, method, own, k)
            yield Plan(f"{label}/{split}/{name}", cell, published)
    published = {what: _number(table["Centralized"]["any"]) for what, table in tables.items()}
    cell = _cell(dataset, "iid", *CENTRALIZED, k)
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
            THREE,
            {"l2": l2[name], "purity": labels["purity"][name], "nmi": labels["nmi"][name]},
        )
    )
    about = "S1 to S4: center distance, purity and NMI of all methods (Table 1 and appendix)"
    numbers = ("l2", "purity", "nmi")
    return Study("table1", about, plans, numbers, extra=("centers", "label_rules"))


def _table2() -> Study:
    cells = paper_tables()["table2_frozen_features"]["cells"]
    plans: list[Plan] = []
    for label, k, k_prime in (("CIFAR-10", 10, 3), ("CIFAR-100", 100, 10)):
        dataset = label.lower().replace("-", "") + "-features"
        tables = {
            what: {name: row[what] for name, row in cells[label].items()}
            for what in ("purity", "nmi")
        }
        plans += _compared(dataset, label, k, k_prime, tuple(SPLITS), tables)
    about = "frozen CIFAR features: purity and NMI of all methods (Table 2)"
    return Study("table2", about, tuple(plans), ("purity", "nmi"), runs=3, extra=("label_rules",))


def _ablation() -> Study:
    cells = paper_tables()["appendix_ablation_one_fit_many"]["cells"]
    plans = []
    for n_init in (1, 10):
        for keep, name in ((True, "FeCA (keeping one-fit-many)"), (False, "FeCA")):
            cell = _cell("s1", "iid", "feca", {"refine": not keep, "n_init": n_init}, 15)
            starts = "one start" if n_init == 1 else "ten starts"
            plans.append(Plan(f"{starts}/{name}", cell, {"mse": _number(cells[name])}))
    about = "S1, IID: with and without dropping one-fit-many centers, for 1 and 10 starts"
    layout = ("column", "line")
    return Study("ablation", about, tuple(plans), ("mse",), layout, extra=("centers",))


def _radius() -> Study:
    cells = paper_tables()["appendix_radius_variants"]["cells"]
    plans = [
        Plan(
            f"{split}/{radius}",
            _cell("s1", split, "feca", {"radius": radius}, 15),
            {"l2": _number(cells[radius][split])},
        )
        for radius in ("theoretical", "empirical")
        for split in THREE
    ]
    about = "S1: theoretical and empirical radii"
    return Study("radius", about, tuple(plans), layout=("column", "line"), corner="radius")


def _k_prime() -> Study:
    plans = [
        Plan(
            k_prime,
            _cell("s1", "dirichlet(0.3)", "kfed", {"n_local_clusters": int(k_prime)}, 15),
            {what: _number(value) for what, value in row.items()},
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
            cell = _cell("s1", "iid", method, params, 15, n_clients=int(n), share=used)
            held = "the M-th part each" if share is None else "5 % each"
            plans.append(Plan(f"{held}/{n}", cell, {"l2": _number(value)}))
    about = "S1: 1 to 20 clients, with 5 % of the rows each and with the M-th part each"
    numbers, layout = ("l2", "purity_lloyd", "nmi_lloyd"), ("column", "line")
    return Study("clients", about, tuple(plans), numbers, layout, "M", extra=("after_lloyd",))


def _varying_k() -> Study:
    plans = []
    for row in paper_tables()["appendix_varying_k"]["cells"]:
        k, k_prime = row["k"], row["k_prime"]
        for split in THREE:
            params = {"n_local_clusters": k_prime}
            cell = _cell("s1", split, "feca", params, k, min_size=15)
            name = f"k={k}, k'={k_prime}/{split}"
            plans.append(Plan(name, cell, {"mse": _number(row[split])}))
    about, layout = "S1: k and k' other than 15", ("line", "column")
    return Study("varying-k", about, tuple(plans), ("mse",), layout, "FeCA", extra=("centers",))


def _local_solutions() -> Study:
    plans = [
        Plan(f"{name}/{share:.0%}", _cell(name.lower(), "iid", *CENTRALIZED, 15, share=share))
        for name in SSETS
        for share in (0.5, 0.75, 1.0)
    ]
    about = "S1 to S4: objective of plain k-means with one start, on 50, 75 and 100 % of the rows"
    numbers, layout = ("inertia",), ("line", "column")
    return Study(
        "local-solutions", about, tuple(plans), numbers, layout, "data", extra=("centers",)
    )


def _sigma() -> Study:
    plans = [Plan(split, _cell("s1", split, "feca", {}, 15)) for split in THREE]
    about = "S1: distance of received to true centers, in radii (below 0.5 is enough to group)"
    return Study("sigma", about, tuple(plans), (), ("line",), runs=3, extra=("sigma",))


def _starts() -> Study:
    """Not in the paper: what one start of k-means instead of ten does, to explain differences."""
    plans = [
        Plan(
            f"{name}/{split}/{label}",
            _cell(name.lower(), split, method, {**params, "n_init": 1}, 15),
        )
        for name in SSETS
        for label, method, params in (
            ("M-Avg", "match", {}),
            ("k-FED", "kfed", {"n_local_clusters": 5}),
            ("FeCA", "feca", {}),
        )
        for split in THREE
    ]
    about = "S1 to S4: one start of k-means at every client instead of ten (not in the paper)"
    return Study("starts", about, tuple(plans))


def _best() -> Study:
    """The best solution known of each S-set: what ratios are taken to."""
    plans = [
        Plan(name, _cell(name.lower(), "iid", "central", {"n_init": 200}, 15)) for name in SSETS
    ]
    about = "S1 to S4: the best objective of 200 starts on the pooled rows (not in the paper)"
    return Study("best", about, tuple(plans), (), ("line",), runs=1)


def _auto_k() -> Study:
    plans = [
        Plan(
            f"{name}/{split}",
            replace(_cell(name.lower(), split, "jigsaw", {}, 15), n_clusters="auto"),
        )
        for name in SSETS
        for split in THREE
    ]
    about = "S1 to S4: the number of clusters that Jigsaw finds by itself (not in the paper)"
    return Study("auto-k", about, tuple(plans), (), ("line", "column"), runs=20)


def _more_features() -> Study:
    """FeCA and Jigsaw on the CIFAR features with the seeds that Table 2 leaves out of ten."""
    plans = [
        replace(plan, published={})
        for plan in _table2().plans
        if plan.name.endswith(("/FeCA", "/Jigsaw"))
    ]
    about = "FeCA and Jigsaw in Table 2, seeds 3 to 9 (not in the paper)"
    extra = ("label_rules",)
    return Study("table2-more", about, tuple(plans), (), first_seed=3, extra=extra)


def _k_curve() -> Study:
    """One run each with all that it knew of every k, for a picture."""
    plans = [
        Plan(
            name,
            replace(_cell(name.lower(), "dirichlet(0.1)", "jigsaw", {}, 15), n_clusters="auto"),
        )
        for name in SSETS
    ]
    about = "S1 to S4: how Jigsaw chose k, for the picture (not in the paper)"
    return Study("k-curve", about, tuple(plans), (), ("line",), runs=1, extra=("k_curve",))


def _untuned() -> Study:
    """Data that no method was tuned on: data set -> number of clusters, number of clients."""
    sets = {
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
            _cell(name, split, method, params, k, n_clients=n_clients, min_size=0),
        )
        for name, (k, n_clients) in sets.items()
        for split in ("iid", "dirichlet(0.3)")
        for label, (method, params) in compared.items()
    ]
    about = "other shapes, sizes, dimensions, numbers of clusters and clients (not in the paper)"
    return Study("untuned", about, tuple(plans), (), runs=3)


def _truth() -> Study:
    """What pictures of the S-sets need to know of them: true centers and where the rows lie."""
    plans = [Plan(name, _cell(name.lower(), "iid", *CENTRALIZED, 15)) for name in SSETS]
    about = "S1 to S4 themselves: true centers and density, for the pictures"
    return Study("data", about, tuple(plans), (), ("line",), runs=1, extra=("truth",))


_BUILDERS: tuple[Callable[[], Study], ...] = (
    _table1, _table2, _ablation, _radius, _k_prime, _clients, _varying_k, _local_solutions, _sigma,
    _starts, _truth, _best, _auto_k, _k_curve, _untuned,
    _more_features,
)  # fmt: skip
