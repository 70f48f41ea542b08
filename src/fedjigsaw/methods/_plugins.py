"""Methods of other packages: entry points of the group ``fedjigsaw.methods``, and own files.

Nothing is imported before a method is asked for by its name, or all of them are listed: a plugin
that is broken disturbs nobody else.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjigsaw._imports import import_freely
from fedjigsaw.errors import DataError, ExtraError, ParameterError, shorten

if TYPE_CHECKING:
    from types import ModuleType

    from fedjigsaw.estimator import FederatedClusterer

GROUP = "fedjigsaw.methods"
MAX_REASON = 300  # characters of the error of another package


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
