"""The methods of a comparison: names, classes or estimators, each with a label and a color."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedjigsaw.errors import ParameterError, quote_names
from fedjigsaw.methods import CLUSTERERS, COLORS, find_for_rows, make, other_names
from fedjigsaw.parameters import is_integer

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer
    from fedjigsaw.privacy.dp import Privacy

COMMON = ("n_clusters", "random_state")  # parameters that every method has


@dataclass(frozen=True)
class Contender:
    """One method of a comparison.

    Parameters
    ----------
    label, color : how it is shown.
    name : its name in the table of methods, or that of its class.
    params : its own parameters that are not at their defaults.
    estimator : never fitted; every run fits a copy.
    privacy : the promise of every run, whose noise has the seed of the run; None has no noise.
    """

    label: str
    color: str
    name: str
    params: Mapping[str, Any]
    estimator: FederatedClusterer
    privacy: Privacy | None = None

    @property
    def pools_data(self) -> bool:
        """Whether raw rows leave the clients: a benchmark, not a federated method."""
        return bool(self.estimator.pools_data)

    @property
    def n_clusters(self) -> int | None:
        """The number of clusters that it is asked for; None if it is to find the number."""
        asked = self.estimator.n_clusters
        return int(asked) if is_integer(asked) else None

    def copy(self, seed: int) -> FederatedClusterer:
        """Return an estimator for one run."""
        from sklearn.base import clone

        made: FederatedClusterer = clone(self.estimator)
        if "random_state" in made.get_params(deep=False):
            made.set_params(random_state=seed)
        made.backend = self.estimator.backend
        return made


def contenders(methods: Any, n_clusters: int | str | None) -> list[Contender]:
    """Return the methods of a comparison, checked.

    Parameters
    ----------
    methods : list or mapping of labels to methods; None is all that support this number of
        clusters. A method is a name, a class, an estimator, or a pair of name or class and
        parameters.
    n_clusters : for all that have no number of their own.

    Raises
    ------
    ParameterError
        If a method cannot be made, or two have the same label.
    """
    if methods is None and n_clusters is not None:
        methods = supporting(n_clusters)
    made = [(label, _estimator(given, n_clusters)) for label, given in _listed(methods)]
    found = [_contender(label, estimator) for label, estimator in made]
    given = [label is not None for label, _ in made]
    return with_own_colors(_with_own_labels(found, given))


def named(params: Mapping[str, Mapping[str, Any]], n_clusters: int | str) -> list[Contender]:
    """Return methods of the table, by name, with the labels that they have there.

    Parameters
    ----------
    params : parameters of each method, such as those of :func:`params_by_method`.
    """
    found = []
    for name, own in params.items():
        made = _contender(find_for_rows(name).label, make(name, n_clusters, None, **own))
        found.append(replace(made, params=own))
    return found


def supporting(n_clusters: int | str) -> list[str]:
    """Return the methods that support this number of clusters; "auto" is only for some."""
    rules = {name: entry.cls.rules["n_clusters"] for name, entry in CLUSTERERS.items()}
    return [name for name, rule in rules.items() if rule.accepts(n_clusters)]


def params_by_method(
    names: Sequence[str], params: Mapping[str, Any], n_clusters: int | str
) -> dict[str, dict[str, Any]]:
    """Give every method the parameters that it has, and check them.

    Raises
    ------
    ParameterError
        If none of the methods has one of the parameters, or a value is not allowed.
    """
    chosen = {
        name: {p: v for p, v in params.items() if p in find_for_rows(name).own_parameters}
        for name in dict.fromkeys(names)
    }
    unknown = {p: v for p, v in params.items() if not any(p in own for own in chosen.values())}
    if unknown and len(chosen) > 1:
        raise ParameterError(
            f"None of {', '.join(chosen)} has a parameter {', '.join(map(repr, unknown))}. "
            "`fedjigsaw methods` lists the parameters of each method."
        )
    for name in names:
        make(name, n_clusters, 0, **chosen.get(name, {}), **unknown).check()
    return chosen


def changed(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that are not at their defaults."""
    defaults = inspect.signature(type(estimator)).parameters
    params: dict[str, Any] = estimator.get_params(deep=False)
    return {p: v for p, v in params.items() if not _same(v, defaults[p].default)}


def _same(value: Any, default: Any) -> bool:
    return value is default or bool(type(value) is type(default) and value == default)


def _listed(methods: Any) -> list[tuple[str | None, Any]]:
    """Return pairs of the given label, or None, and the method."""
    from fedjigsaw.estimator import FederatedClusterer

    if isinstance(methods, Mapping):
        pairs = list(methods.items())
    elif isinstance(methods, (str, type, FederatedClusterer)):
        pairs = [(None, methods)]
    elif isinstance(methods, Iterable):
        pairs = [(None, method) for method in methods]
    else:
        pairs = []
    if not pairs:
        raise ParameterError(
            "compare needs at least one method: a list such as ['jigsaw', 'feca', MyMethod(5)], or "
            f"a mapping of labels to methods; got {methods!r}."
        )
    for label, _ in pairs:
        if label is not None and not (isinstance(label, str) and label.strip()):
            raise ParameterError(f"The label of a method must be a text; got {label!r}.")
    return pairs


def _estimator(given: Any, n_clusters: int | str | None) -> FederatedClusterer:
    """Make a method and check its parameters."""
    from fedjigsaw.estimator import FederatedClusterer

    params: Mapping[str, Any] = {}
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
        given, params = given
    if isinstance(given, FederatedClusterer) and not params:
        made = _with_one_number(given, n_clusters)
    elif isinstance(given, str):
        own = {p: v for p, v in params.items() if p != "n_clusters"}
        made = make(given, _number(given, params, n_clusters), None, **own)
    elif isinstance(given, type) and issubclass(given, FederatedClusterer):
        own = {**params, "n_clusters": _number(given.__name__, params, n_clusters)}
        made = _instance(given, own)
    else:
        shown = given.__name__ if isinstance(given, type) else repr(given)
        raise ParameterError(
            "A method must be a name, a subclass of FederatedClusterer or an instance of one, or a "
            f"pair such as ('jigsaw', {{'n_init': 20}}); got {shown}. "
            f"Names are {', '.join([*CLUSTERERS, *other_names()])}."
        )
    made.check()
    return made


def _number(name: str, params: Mapping[str, Any], n_clusters: int | str | None) -> int | str:
    number: int | str | None = params.get("n_clusters", n_clusters)
    if number is None:
        raise ParameterError(
            f"compare needs n_clusters for {name!r}: the number of clusters, such as n_clusters=5."
        )
    return number


def _instance(cls: type[FederatedClusterer], params: Mapping[str, Any]) -> FederatedClusterer:
    try:
        return cls(**params)
    except TypeError as error:  # a parameter that it does not have, or a method that is missing
        raise ParameterError(f"Cannot make {cls.__name__}: {error}.") from error


def _with_one_number(given: FederatedClusterer, n_clusters: int | str | None) -> FederatedClusterer:
    """Return an estimator whose number of clusters does not differ from that of the others."""
    if n_clusters is not None and given.n_clusters != n_clusters:
        name = type(given).__name__
        raise ParameterError(
            f"{name} has n_clusters={given.n_clusters!r}, but compare has n_clusters="
            f"{n_clusters!r}. Give {name}(n_clusters={n_clusters!r}) or the class {name}; or leave "
            "n_clusters out of compare, so that each method has its own."
        )
    return given


def _contender(label: str | None, estimator: FederatedClusterer) -> Contender:
    entry = find_for_rows(estimator)
    shown = entry.label
    own = {p: v for p, v in changed(estimator).items() if p not in COMMON}
    if own:
        shown += f" ({', '.join(f'{p}={v!r}' for p, v in own.items())})"
    return Contender(label or shown, entry.color, entry.name, own, estimator)


def _with_own_labels(found: list[Contender], given: Sequence[bool]) -> list[Contender]:
    """Tell methods of one label apart by their numbers of clusters, or raise a ParameterError."""
    times = Counter(contender.label for contender in found)
    found = [
        contender
        if fixed or times[contender.label] == 1
        else replace(contender, label=f"{contender.label}, k = {contender.estimator.n_clusters}")
        for contender, fixed in zip(found, given, strict=True)
    ]
    times = Counter(contender.label for contender in found)
    twice = [label for label, number in times.items() if number > 1]
    if twice:
        raise ParameterError(
            f"Two methods are called {quote_names(twice)}. Give them labels: "
            "compare({'plain': 'jigsaw', 'mine': MyMethod(5)}, ...)."
        )
    return found


def with_own_colors(found: list[Contender]) -> list[Contender]:
    """Give every method a color of its own: that of the table to the first that has it."""
    taken = {contender.color for contender in found}
    spare = [color for color in COLORS if color not in taken] or list(COLORS)
    seen: set[str] = set()
    n_spare, colored = 0, []
    for contender in found:
        if contender.color in seen:
            contender = replace(contender, color=spare[n_spare % len(spare)])
            n_spare += 1
        seen.add(contender.color)
        colored.append(contender)
    return colored
