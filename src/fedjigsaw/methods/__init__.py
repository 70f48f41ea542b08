"""The table of methods: a new method is a file of its own and a row here.

Everything that offers a choice of methods (command line, benchmarks, pictures, common tests) reads
this table, so a method has the same name and the same color wherever it is shown. Colors are from
the palette of Okabe and Ito, which color-blind readers can tell apart, and then of Tol's "muted".

Methods that are no part of the package join it by :func:`register`, or by an entry point of the
group ``fedjigsaw.methods`` in a package of their own. :func:`find` is the one place that is asked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from fedjigsaw.engine import FederatedMethod, default_name, own_name
from fedjigsaw.errors import ExtraError, FedJigsawError, ParameterError, did_you_mean, invalid
from fedjigsaw.methods._plugins import COLORS as COLORS
from fedjigsaw.methods._plugins import Entry as Entry
from fedjigsaw.methods._plugins import Plugin, classes_of, location_of, plugins, why_no_method
from fedjigsaw.partition import SPLITS

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer

T = TypeVar("T", bound="type[FederatedClusterer]")

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
"""Methods of the package, by their names on the command line."""
CLUSTERERS = {name: entry for name, entry in METHODS.items() if entry.data_kind == "rows"}
"""Those of them that cluster rows."""
DEFAULT = "jigsaw"
"""Name of the method that functions and commands use unless another one is given."""
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")  # it may become the name of a folder
_registered: dict[str, Entry] = {}


def make(
    method: str | type[FederatedClusterer] | FederatedClusterer,
    n_clusters: int | str | None = None,
    random_state: Any = None,
    /,
    **params: Any,
) -> FederatedClusterer:
    """Make an estimator that clusters rows, from its name on the command line.

    Parameters
    ----------
    method : the name of a method, its class, or an estimator, of which a copy is made.
    n_clusters, random_state, params : parameters of the new estimator, all of which may be named.

    Raises
    ------
    ParameterError
        If the method is unknown or learns from images, or if a parameter is wrong.

    Examples
    --------
    >>> from fedjigsaw.methods import make
    >>> make("feca", 15, 0, refine=False)
    FeCA(n_clusters=15, random_state=0, refine=False)
    """
    entry = find_for_rows(method)
    settings = {"n_clusters": n_clusters, "random_state": random_state}
    for name, flag in (("n_clusters", "-k"), ("random_state", "--seed")):
        if name in params and settings[name] is not None:
            raise ParameterError(
                f"{name} was given twice. On the command line, set it with {flag}, not with -p."
            )
    given = {} if isinstance(method, str | type) else method.get_params(deep=False)
    made: FederatedClusterer = _made(entry, {**given, **settings, **params})
    return made


def build(name: str, settings: Mapping[str, Any]) -> FederatedMethod:
    """Make any method from its name and its parameters, and check them.

    Parameters
    ----------
    name : its name on the command line.
    settings : parameters by name, such as those of `FederatedMethod.configuration`.

    Examples
    --------
    >>> from fedjigsaw.methods import build
    >>> build("feca", {"n_clusters": 15, "refine": False})
    FeCA(n_clusters=15, refine=False)
    """
    made: FederatedMethod = _made(find(name), settings)
    return made


def _made(entry: Entry, settings: Mapping[str, Any]) -> Any:
    check_liars(entry, settings)
    return entry.cls.from_settings(settings)


def check_liars(entry: Entry, settings: Mapping[str, Any]) -> None:
    """Raise a ParameterError if a method cannot protect the others from sites that lie."""
    if settings.get("liars") and "liars" not in entry.cls.rules:
        advice = ": use jigsaw" if entry.data_kind == "rows" else ""
        raise ParameterError(
            f"{entry.label} sends no counts and squares of local clusters, so nobody can tell who "
            f"supports what{advice}."
        )


# ---------------------------------------------------------------------------------- who is asked


def find(name: str) -> Entry:
    """Return the row of a method: of the package, registered, or of an installed package.

    Raises
    ------
    ParameterError
        If nobody knows the name.
    ExtraError
        If the package that has the method cannot be imported, or two packages have one.

    Examples
    --------
    >>> from fedjigsaw.methods import find
    >>> find("kfed").label, find("kfed").cls.__name__
    ('k-FED', 'KFed')
    """
    entry = METHODS.get(name) or _registered.get(name)
    if entry is not None:
        return entry
    offers = plugins().get(name, ())
    if len(offers) == 1:
        return _entry_of_plugin(offers[0])
    if offers:
        both = " and ".join(f"{offer.package} ({offer.location})" for offer in offers)
        raise ExtraError(f"Method {name!r} is in two packages: {both}. Uninstall one of them.")
    known = [*METHODS, *other_names()]
    words = (
        f"Unknown method {name!r}.",
        did_you_mean(str(name), known),
        f"Choose one of {', '.join(known)}. One of your own must be known here: "
        "fedjigsaw.register, --plugin FILE on the command line (not in a federation), or "
        "install its package.",
    )
    raise ParameterError(" ".join(filter(None, words)))


def find_for_rows(method: str | type[Any] | Any) -> Entry:
    """Return the row of a method that clusters rows, given its name, its class or an estimator.

    A class that was not registered has a row all the same.
    """
    if isinstance(method, str):
        if data_kind(method) == "rows":
            return find(method)
        raise ParameterError(
            f"{METHODS[method].label} learns from {data_kind(method)}, not from rows of a table. "
            f"For those, use one of {', '.join(CLUSTERERS)}."
        )
    cls: Any = method if isinstance(method, type) else type(method)
    if problem := why_no_method(cls):
        raise ParameterError(f"Cannot run this: {problem}.")
    for entry in (*METHODS.values(), *_registered.values()):
        if location_of(cls) == entry.location and entry.cls is cls:
            return entry
    return Entry.of(cls, default_name(cls) if cls.method in METHODS else cls.method)


def is_known(name: str) -> bool:
    """Tell whether there is a method of this name, without importing it."""
    if name in METHODS or name in _registered:
        return True
    return bool(NAME.fullmatch(name)) and name in plugins()


def data_kind(name: str) -> str:
    """Return what a method learns from, for messages: images, or the rows of a table.

    Examples
    --------
    >>> from fedjigsaw.methods import data_kind
    >>> data_kind("deepfeca"), data_kind("a method of another package")
    ('images', 'rows')
    """
    return METHODS[name].data_kind if name in METHODS else "rows"


def label_of(name: str) -> str:
    """Return how a method is called in tables; its name, if nobody here knows it."""
    try:
        return find(name).label
    except FedJigsawError:
        return name


def other_names() -> list[str]:
    """Return the names of methods that are no part of the package; none of them is imported."""
    return sorted({*_registered, *plugins()} - set(METHODS))


def others() -> dict[str, Entry | FedJigsawError]:
    """Return the methods that are no part of the package, or why one of them cannot be used."""
    found: dict[str, Entry | FedJigsawError] = {
        name: ExtraError(
            f"{' and '.join(offer.package for offer in offers)} has a method {name!r} too, which "
            "is ignored: a method of the package cannot be replaced."
        )
        for name, offers in plugins().items()
        if name in METHODS
    }
    for name in other_names():
        try:
            found[name] = find(name)
        except FedJigsawError as error:
            found[name] = error
    return dict(sorted(found.items()))


@lru_cache(maxsize=64)
def _entry_of_plugin(plugin: Plugin) -> Entry:
    """Import a method of another package. Its entry point gives it its name."""
    cls = plugin.load()
    own = own_name(cls) or plugin.name
    ours = _is_ours(location_of(cls))
    if ours or own != plugin.name or not NAME.fullmatch(plugin.name):
        why = f"but its class {cls.__name__} has the name {own!r}"
        why = "which is a class of fedjigsaw itself" if ours else why
        raise ExtraError(
            f"{plugin.package} has an entry point {plugin.name!r} ({plugin.location}), {why}. "
            "Names are lower case, and the same at both places."
        )
    cls.method = plugin.name
    return Entry.of(cls, plugin.name, source=plugin.package)


def _is_ours(location: str) -> bool:
    return any(entry.location == location for entry in METHODS.values())


# -------------------------------------------------------------------------------------- register


def register(
    cls: T,
    *,
    name: str | None = None,
    label: str | None = None,
    color: str | None = None,
    about: str | None = None,
) -> T:
    """Make a method known by its name: to `compare`, files and a federation.

    It is known in this process. A package that is installed makes its methods known everywhere, by
    an entry point of the group ``fedjigsaw.methods``.

    Parameters
    ----------
    cls : subclass of FederatedClusterer
    name : str or None
        Name on the command line, and in summaries and models. None is `method` of the class, or
        its class name in lower case: ``MyWard`` becomes ``my-ward``.
    label, color, about : str or None
        Name in tables, color in pictures such as ``"#AA4499"``, and a line about it. None is an
        attribute of the class of that name, if it has one; or else the name of the class, a color
        that follows from the name, and the first line of its docstring.

    Returns
    -------
    cls : the class, so that this can be a decorator.

    Examples
    --------
    >>> from fedjigsaw import Jigsaw, methods, register
    >>> class Quick(Jigsaw):
    ...     "Jigsaw with one start."
    >>> _ = register(Quick, name="quick-jigsaw")
    >>> methods.make("quick-jigsaw", 3)
    Quick(n_clusters=3)
    """
    if problem := why_no_method(cls):
        raise ParameterError(f"Cannot register this: {problem}.")
    name = name or own_name(cls) or default_name(cls)
    _check_name(name, location_of(cls))
    for entry in _registered.values():
        if entry.found is cls and entry.name != name:
            raise ParameterError(f"{cls.__name__} is registered as {entry.name!r} already.")
    row = Entry.of(cls, name, label=label, color=color, about=about)
    cls.method = name
    _registered[name] = row
    return cls


def register_all(place: str) -> None:
    """Run a Python file, or import a module, and register the methods that it defines.

    Parameters
    ----------
    place : a path that ends in ``.py``, or the name of a module. It runs code: only for places that
        the user names, never for one that came from elsewhere.

    Raises
    ------
    ParameterError
        If it cannot be run, or has neither a method that can run nor a split.
    """
    known = len(_registered) + len(SPLITS)
    was_imported = place in sys.modules  # and has registered its splits then
    found = classes_of(place)
    if not found and not was_imported and len(_registered) + len(SPLITS) == known:
        raise ParameterError(
            f"The plugin {place} has neither a method, which is a subclass of "
            "fedjigsaw.FederatedClusterer, nor a split that it registers. Is it another file?"
        )
    for cls in found:
        if all(entry.found is not cls for entry in _registered.values()):
            register(cls)


def _check_name(name: str, location: str) -> None:
    """Raise if a class of this location cannot have this name."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        allowed = "up to 40 of the signs a-z, 0-9, - and _, with a letter first"
        raise ParameterError(invalid("name", location, allowed, repr(name)))
    if name in METHODS or _is_ours(location):
        raise ParameterError(
            f"{name!r} is a method of the package, which cannot be replaced. "
            "Give yours another name: register(..., name='my-method')."
        )
    taken = [f"{offer.location} of {offer.package}" for offer in plugins().get(name, ())]
    # a cell of a notebook may define the same class again
    if name in _registered and _registered[name].location != location:
        taken = [_registered[name].location]
    for other in taken:
        if not other.startswith(f"{location} of "):
            raise ParameterError(
                f"Method {name!r} is {other} already; {location} needs another name."
            )
