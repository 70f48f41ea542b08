"""Rows of the table of methods."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from zlib import crc32

from fedjigsaw.errors import ParameterError, invalid

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


def location_of(cls: type[Any]) -> str:
    """Return module and name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def row_of(
    cls: type[Any],
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
    label, color, about : None is an attribute of the class of that name, if it has one.
    source : None is the module of the class.
    """
    label = label or getattr(cls, "label", None) or cls.__name__
    color = color or getattr(cls, "color", None) or COLORS[crc32(name.encode()) % len(COLORS)]
    if not re.fullmatch("#[0-9A-Fa-f]{6}", str(color)):
        raise ParameterError(invalid("color", cls.__name__, "of the form '#AA4499'", repr(color)))
    about = about or getattr(cls, "about", None) or (cls.__doc__ or "").strip().partition("\n")[0]
    source = source or cls.__module__
    return Entry(name, location_of(cls), str(label), str(color), str(about), source, found=cls)
