"""The table of methods: a new one is a file of its own and a row here.

Everything that offers a choice of methods (command line, benchmarks, pictures, common tests) reads
this table, so a method looks the same, with the same color, wherever it is shown. Colors are from
the palette of Okabe and Ito, which color-blind readers can tell apart.
"""

from dataclasses import dataclass
from typing import Any

from fedjigsaw.base import FederatedClusterer
from fedjigsaw.errors import ParameterError, invalid
from fedjigsaw.methods.central import CentralKMeans
from fedjigsaw.methods.feca import FeCA
from fedjigsaw.methods.fuzzy import FuzzyCMeans
from fedjigsaw.methods.jigsaw import Jigsaw
from fedjigsaw.methods.kfed import KFed
from fedjigsaw.methods.match_averaging import MatchAveraging


@dataclass(frozen=True)
class Entry:
    """How a method is shown: its name in tables, its color in pictures, a line about it."""

    cls: type[FederatedClusterer]
    label: str
    color: str
    about: str
    source: str

    @property
    def own_parameters(self) -> tuple[str, ...]:
        """What can be set besides the number of clusters and the seed, which all methods have."""
        return tuple(p for p in self.cls.rules if p not in ("n_clusters", "random_state"))


METHODS = {
    entry.cls.method: entry
    for entry in (
        Entry(
            FeCA,
            "FeCA",
            "#D55E00",
            "one message per client: centers and radii, grouped at the server",
            "Xu et al. 2024",
        ),
        Entry(
            Jigsaw,
            "Jigsaw",
            "#0072B2",
            "one message per client: centers and counts, solved as weighted k-means at the server",
            "this project",
        ),
        Entry(
            KFed,
            "k-FED",
            "#009E73",
            "one message per client: few centers each, told apart farthest first",
            "Dennis et al. 2021",
        ),
        Entry(
            MatchAveraging,
            "M-Avg",
            "#E69F00",
            "one message per client: centers, paired one to one and averaged",
            "the baseline of Xu et al. 2024",
        ),
        Entry(
            FuzzyCMeans,
            "FFCM",
            "#CC79A7",
            "several rounds: fuzzy centers, averaged (version 1) or clustered (version 2)",
            "Stallmann and Wilbik 2022",
        ),
        Entry(
            CentralKMeans,
            "Centralized",
            "#000000",
            "no federation: raw rows leave the clients; the benchmark",
            "Lloyd 1982",
        ),
    )
}


DEFAULT = Jigsaw.method  # where a command or function is not told which


def make(
    name: str, n_clusters: int | str, random_state: Any = None, /, **params: Any
) -> FederatedClusterer:
    """An estimator by its name on the command line.

    Examples
    --------
    >>> make("feca", 15, 0, refine=False)
    FeCA(n_clusters=15, random_state=0, refine=False)
    """
    if name not in METHODS:
        raise ParameterError(
            invalid("name", "a method", "one of " + ", ".join(METHODS), repr(name))
        )
    entry = METHODS[name]
    unknown = set(params) - set(entry.own_parameters)
    if unknown:
        allowed = "among " + ", ".join(entry.own_parameters)
        got = ", ".join(sorted(unknown))
        raise ParameterError(invalid("parameters", entry.cls.__name__, allowed, got))
    return entry.cls(n_clusters=n_clusters, random_state=random_state, **params)
