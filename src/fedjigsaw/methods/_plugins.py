"""Rows of the table of methods, and methods of other packages: entry points, and own files.

Nothing is imported before a method is asked for by its name, or all of them are listed: a plugin
that is broken disturbs nobody else.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from fedjigsaw._imports import import_freely
from fedjigsaw.errors import DataError, ExtraError, ParameterError, invalid, shorten

if TYPE_CHECKING:
    from types import ModuleType

    from fedjigsaw.estimator import FederatedClusterer

GROUP = "fedjigsaw.methods"
MAX_REASON = 300  # characters of the error of another package
# colors of methods that are no part of the package: what the palettes of Paul Tol have left
COLORS = ("#44AA99", "#CC6677", "#117733", "#AA4499", "#DDCC77", "#6699CC", "#661100", "#888888")


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
    found : type or None
        The class itself, of a method that is no part of the package.

    Examples
    --------
    >>> from fedjigsaw.methods import METHODS
    >>> METHODS["kfed"].label, METHODS["kfed"].own_parameters[0]
    ('k-FED', 'n_local_clusters')
    """

    name: str
    location: str
    label: str
    color: str
    about: str
    source: str
    data_kind: str = "rows"
    found: type[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def cls(self) -> type[Any]:
        """The class of the method; an ExtraError if it needs a package that is not installed."""
        if self.found is not None:
            return self.found
        module, _, name = self.location.partition(":")
        found: type[Any] = getattr(import_module(module), name)
        return found

    @property
    def own_parameters(self) -> tuple[str, ...]:
        """Parameters besides the number of clusters and the seed, which all methods have."""
        return tuple(p for p in self.cls.rules if p not in ("n_clusters", "random_state"))

    @classmethod
    def of(
        cls,
        method: type[Any],
        name: str,
        *,
        label: str | None = None,
        color: str | None = None,
        about: str | None = None,
        source: str | None = None,
    ) -> Entry:
        """Make the row of a method that is no part of the package.

        Parameters
        ----------
        label, color, about : None is an attribute of the method of that name, if it has one.
        source : None is the module of the method.
        """
        label = label or getattr(method, "label", None) or method.__name__
        color = (
            color or getattr(method, "color", None) or COLORS[crc32(name.encode()) % len(COLORS)]
        )
        if not re.fullmatch("#[0-9A-Fa-f]{6}", str(color)):
            allowed = "of the form '#AA4499'"
            raise ParameterError(invalid("color", method.__name__, allowed, repr(color)))
        first_line = (method.__doc__ or "").strip().partition("\n")[0]
        about = about or getattr(method, "about", None) or first_line
        texts = (str(label), str(color), str(about), source or method.__module__)
        return cls(name, location_of(method), *texts, found=method)


def location_of(cls: type[Any]) -> str:
    """Return module and name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


@dataclass(frozen=True)
class Plugin:
    """A method that another package offers; it is not imported yet.

    Parameters
    ----------
    name : name of the method: that of the entry point.
    location : module and class.
    package : name and version of the package.
    """

    name: str
    location: str
    package: str

    def load(self) -> type[FederatedClusterer]:
        """Import the class; whatever goes wrong is an ExtraError that names the package."""
        from importlib.metadata import EntryPoint

        import_freely()
        try:
            found = EntryPoint(self.name, self.location, GROUP).load()
        except (Exception, SystemExit) as error:
            raise ExtraError(self._broken(_reason(error))) from error
        if problem := why_no_method(found):
            raise ExtraError(self._broken(problem))
        cls: type[FederatedClusterer] = found
        return cls

    def _broken(self, problem: str) -> str:
        return (
            f"Method {self.name!r} of {self.package} cannot be loaded from {self.location}: "
            f"{problem}. Repair or uninstall that package."
        )


def plugins() -> dict[str, tuple[Plugin, ...]]:
    """Return what installed packages offer, by the name of the method."""
    return _scan(tuple(sys.path))


@lru_cache(maxsize=4)
def _scan(path: tuple[str, ...]) -> dict[str, tuple[Plugin, ...]]:
    from importlib.metadata import distributions

    found: dict[str, tuple[Plugin, ...]] = {}
    seen = set()
    for package in distributions():
        try:
            points = package.entry_points.select(group=GROUP)
            name = f"{package.metadata['Name']} {package.version}" if points else ""
        except Exception:  # the files of some package are damaged, which is not our business
            continue
        key = re.sub(r"[-_.]+", "-", name.partition(" ")[0]).lower()
        if not points or key in seen:  # the first of a name is the one that Python imports
            continue
        seen.add(key)
        for point in points:
            found[point.name] = (*found.get(point.name, ()), Plugin(point.name, point.value, name))
    return dict(sorted(found.items()))


def why_no_method(found: Any) -> str:
    """Say why something is not the class of a method; nothing if it is one."""
    from fedjigsaw.estimator import FederatedClusterer

    if not isinstance(found, type) or not issubclass(found, FederatedClusterer):
        name = getattr(found, "__name__", type(found).__name__)
        return f"{name} is not a subclass of fedjigsaw.FederatedClusterer"
    if isabstract(found):
        lacking = " and ".join(sorted(found.__abstractmethods__))
        return f"{found.__name__} does not define {lacking}"
    return ""


def classes_of(place: str) -> list[type[FederatedClusterer]]:
    """Run a Python file, or import a module, and return the methods that it defines.

    Parameters
    ----------
    place : a path that ends in ``.py``, or the name of a module.
    """
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise DataError(f"Cannot read {place}: no such file.", file=place)
    import_freely()
    try:
        module = _run_file(Path(place)) if is_file else import_module(place)
    except (Exception, SystemExit) as error:
        raise ParameterError(f"Cannot load the plugin {place}: {_reason(error)}.") from error
    from fedjigsaw.estimator import FederatedClusterer

    given = [
        found
        for found in dict.fromkeys(v for v in vars(module).values() if isinstance(v, type))
        if found.__module__ == module.__name__ and issubclass(found, FederatedClusterer)
    ]
    found = [cls for cls in given if not why_no_method(cls)]
    if given and not found:
        raise ParameterError(
            f"The plugin {place} has no method that can run: {why_no_method(given[0])}."
        )
    return found


def _run_file(path: Path) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    path, name = path.resolve(), path.stem
    there = getattr(sys.modules.get(name), "__file__", None) if name in sys.modules else str(path)
    if there != str(path) or name in sys.stdlib_module_names:  # never in place of another module
        name = f"fedjigsaw_plugin_{name}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # workers cannot import it by its name
    return module


def _reason(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".rstrip(": .")
    return shorten(" ".join(text.split()), MAX_REASON)
