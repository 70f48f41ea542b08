"""The table of methods: a new method is a file of its own and a row here.

Everything that offers a choice of methods (command line, benchmarks, pictures, common tests) reads
this table, so a method has the same name and the same color wherever it is shown. Colors are from
the palette of Okabe and Ito, which color-blind readers can tell apart, and then of Tol's "muted".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedjigsaw.contract import FederatedMethod
from fedjigsaw.errors import ParameterError

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer


@dataclass(frozen=True)
class Entry:
    """A row of the table: where a method lives and how it is shown.

    Parameters
    ----------
    name : str
        Name on the command line.
    location : str
        Module and class. They are imported when they are first needed, since some methods need
        optional packages.
    label, color, about, source : str
        Name in tables, color in pictures, a line about the method, and its authors.
    data_kind : {"rows", "images"}
        What the method learns from.
    """

    name: str
    location: str
    label: str
    color: str
    about: str
    source: str
    data_kind: str = "rows"

    @property
    def cls(self) -> type[Any]:
        """The class of the method; an ExtraError if it needs a package that is not installed."""
        module, _, name = self.location.partition(":")
        found: type[Any] = getattr(import_module(module), name)
        return found

    @property
    def own_parameters(self) -> tuple[str, ...]:
        """Parameters besides the number of clusters and the seed, which all methods have."""
        return tuple(p for p in self.cls.rules if p not in ("n_clusters", "random_state"))


METHODS = {
    entry.name: entry
    for entry in (
        Entry(
            "feca",
            "fedjigsaw.methods.feca:FeCA",
            "FeCA",
            "#D55E00",
            "one round: each client sends centers and radii, which the server groups",
            "Xu et al. 2024",
        ),
        Entry(
            "jigsaw",
            "fedjigsaw.methods.jigsaw:Jigsaw",
            "Jigsaw",
            "#0072B2",
            "one round: each client sends centers and counts; weighted k-means at the server",
            "this project",
        ),
        Entry(
            "kfed",
            "fedjigsaw.methods.kfed:KFed",
            "k-FED",
            "#009E73",
            "one round: each client sends few centers; the server picks the farthest ones",
            "Dennis et al. 2021",
        ),
        Entry(
            "match",
            "fedjigsaw.methods.match_averaging:MatchAveraging",
            "M-Avg",
            "#E69F00",
            "one round: each client sends centers, which are matched one to one and averaged",
            "the baseline of Xu et al. 2024",
        ),
        Entry(
            "fuzzy",
            "fedjigsaw.methods.fuzzy:FuzzyCMeans",
            "FFCM",
            "#CC79A7",
            "several rounds: fuzzy centers, averaged (version 1) or clustered (version 2)",
            "Stallmann and Wilbik 2022",
        ),
        Entry(
            "lloyd",
            "fedjigsaw.methods.lloyd:FederatedLloyd",
            "Fed-Lloyd",
            "#882255",
            "several rounds: k-means itself, one step of Lloyd's algorithm in each",
            "NVIDIA FLARE; Garst and Reinders 2023",
        ),
        Entry(
            "dc",
            "fedjigsaw.methods.dckmeans:DCKMeans",
            "DC-k-means",
            "#999933",
            "one round: each client sends centers; k-means over them at the server",
            "Ginart et al. 2019",
        ),
        Entry(
            "mufc",
            "fedjigsaw.methods.mufc:Mufc",
            "MUFC",
            "#332288",
            "one round: each client sends bins of a grid with counts, for k-means at the server",
            "Pan et al. 2023",
        ),
        Entry(
            "central",
            "fedjigsaw.methods.central:CentralKMeans",
            "Centralized",
            "#000000",
            "no federation: raw rows leave the clients; the benchmark",
            "Lloyd 1982",
        ),
        Entry(
            "deepfeca",
            "fedjigsaw.deep:DeepFeCA",
            "DeepFeCA",
            "#56B4E9",
            "many rounds: learns a network from images; centers and weights travel",
            "Xu et al. 2024",
            data_kind="images",
        ),
    )
}
CLUSTERERS = {name: entry for name, entry in METHODS.items() if entry.data_kind == "rows"}
DEFAULT = "jigsaw"


def make(
    name: str, n_clusters: int | str, random_state: Any = None, /, **params: Any
) -> FederatedClusterer:
    """Make an estimator that clusters rows, by its name on the command line.

    Examples
    --------
    >>> make("feca", 15, 0, refine=False)
    FeCA(n_clusters=15, random_state=0, refine=False)
    """
    if name in METHODS and name not in CLUSTERERS:
        raise ParameterError(
            f"{METHODS[name].label} learns from {METHODS[name].data_kind}, not from rows of a "
            f"table. For those, use one of {', '.join(CLUSTERERS)}."
        )
    settings = {"n_clusters": n_clusters, "random_state": random_state}
    for given in settings.keys() & params.keys():
        flag = "-k" if given == "n_clusters" else "--seed"
        raise ParameterError(
            f"{given} was given twice. On the command line, set it with {flag}, not with -p."
        )
    settings |= params
    made: FederatedClusterer = _find(name, CLUSTERERS).cls.from_settings(settings)
    return made


def build(name: str, settings: Mapping[str, Any]) -> FederatedMethod:
    """Make any method from its name and its parameters, and check them.

    Parameters
    ----------
    name : str
        Name on the command line.
    settings : mapping
        Parameters by name, such as those of `FederatedMethod.configuration`.

    Examples
    --------
    >>> build("feca", {"n_clusters": 15, "refine": False})
    FeCA(n_clusters=15, refine=False)
    """
    made: FederatedMethod = _find(name, METHODS).cls.from_settings(settings)
    return made


def _find(name: str, table: Mapping[str, Entry]) -> Entry:
    if name not in table:
        raise ParameterError(f"Unknown method {name!r}. Choose one of {', '.join(table)}.")
    return table[name]
