"""The sets of sets.toml, each drawn anew from the seed of a run: no run sees rows of another."""

import tomllib
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from fedjigsaw.datasets import Dataset
from reproduction.experiments import shapes
from reproduction.experiments.shapes import BACKGROUND
from reproduction.studies import HERE, Ints

GAUSSIAN, NOTHING, OTHER = KINDS = ("Gaussian", "no structure", "other")
FIRST_SEED = 1000  # of the study; smaller ones were used to choose the rule
STRIPES = 10  # classes of data without structure, for splits by class


@dataclass(frozen=True)
class HardSet:
    """A set to be drawn.

    Parameters
    ----------
    name : short name, ending in the number of columns.
    k : true number of clusters; 1 if there is no structure.
    kind : one of :data:`KINDS`.
    about : what it looks like, for the table.
    draw, options : a function of the module shapes, and what it is told.
    held_out : whether it was written after the rule that chooses k was fixed.
    """

    name: str
    k: int
    kind: str
    about: str
    draw: str
    options: dict[str, Any]
    held_out: bool

    def rows(self, seed: int) -> Dataset:
        """Draw the rows; the class -1 is a background that belongs to no cluster."""
        rng = np.random.default_rng([crc32(self.name.encode()), seed])
        found = getattr(shapes, self.draw)(rng, **self.options)
        X, y = found if isinstance(found, tuple) else (found, np.zeros(len(found), dtype=np.int64))
        return Dataset(X, y, None, self.name)


def _sizes(told: str | list[int]) -> list[int]:
    """Return sizes, of which "8 x 375" is a short form."""
    if isinstance(told, list):
        return told
    n, size = told.split(" x ")
    return int(n) * [int(size)]


def _read() -> dict[str, HardSet]:
    found = {}
    for name, told in tomllib.loads((HERE / "sets.toml").read_text("utf-8")).items():
        options = dict(told.get("with", {}))
        if "sizes" in options:
            options["sizes"] = _sizes(options["sizes"])
        told = {"held_out": False, **told, "options": options}
        told.pop("with", None)
        found[name] = HardSet(name, **told)
    return found


HARD_SETS = _read()


def classes_of(data: Dataset, seed: int) -> Ints:
    """Return classes by which rows can be split unevenly over clients.

    Rows of the background are in a random class. Data without structure are cut into stripes along
    the first column, so that uneven clients see different parts of them.
    """
    rng = np.random.default_rng([seed, 1])
    if not data.y.any():
        order = np.lexsort((rng.random(len(data.y)), data.X[:, 0]))
        stripes = np.empty(len(order), dtype=np.int64)
        stripes[order] = np.arange(len(order)) * STRIPES // len(order)
        return stripes
    classes = data.y.copy()
    background = classes == BACKGROUND
    classes[background] = rng.integers(classes.max() + 1, size=background.sum())
    return classes
