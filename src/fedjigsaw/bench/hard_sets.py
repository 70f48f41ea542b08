"""Generated sets of the study "auto-hard", on which the number of clusters is to be found.

Every set is drawn anew from the seed of a run, so no run sees rows that another run has seen. The
sets "held out" were written after the rule that chooses k was fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.bench.hard_shapes import (
    BACKGROUND,
    Draw,
    Noise,
    all_scales,
    all_sizes,
    along_a_curve,
    answers,
    banana,
    blobs,
    correlated,
    counts,
    disk,
    elongated,
    equal,
    heaps,
    moons,
    nested,
    on_a_grid,
    one_hot,
    single,
    stick,
    whole_numbers,
    with_background,
    with_coin_tosses,
    with_noise_columns,
    zeros_and_ones,
)
from fedjigsaw.datasets import Dataset

GAUSSIAN, NOTHING, OTHER = KINDS = ("Gaussian", "no structure", "other")
FIRST_SEED = 1000  # of the study; smaller ones were used to choose the rule
STRIPES = 10  # classes of data without structure, for splits by class


@dataclass(frozen=True)
class HardSet:
    """A set to be drawn.

    Parameters
    ----------
    name : short name, ending in the number of columns.
    n_clusters : true number of clusters; 1 if there is no structure.
    kind : one of :data:`KINDS`.
    about : what it looks like, for the table.
    held_out : whether it was written after the rule that chooses k was fixed.

    Examples
    --------
    >>> data = HARD_SETS["eq8-5d"].draw(seed=0)
    >>> data.X.shape, HARD_SETS["eq8-5d"].n_clusters
    ((3000, 5), 8)
    """

    name: str
    n_clusters: int
    kind: str
    about: str
    rows: Draw
    held_out: bool = False

    def draw(self, seed: int) -> Dataset:
        """Draw the rows; the class -1 is a background that belongs to no cluster."""
        rng = np.random.default_rng([crc32(self.name.encode()), seed])
        X, y = self.rows(rng)
        return Dataset(X, y, None, self.name)


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


def _gaussian(name: str, k: int, about: str, rows: Draw) -> HardSet:
    return HardSet(name, k, GAUSSIAN, about, rows)


def _nothing(name: str, about: str, rows: Draw) -> HardSet:
    return HardSet(name, 1, NOTHING, about, rows)


def _other(name: str, k: int, about: str, rows: Draw) -> HardSet:
    return HardSet(name, k, OTHER, about, rows)


def _round(
    name: str,
    about: str,
    sizes: Sequence[int],
    n_columns: int,
    gap: float,
    width: float | Sequence[float] = 1.0,
) -> HardSet:
    rows = partial(blobs, sizes=sizes, n_columns=n_columns, gap=gap, width=width)
    return _gaussian(name, len(sizes), about, rows)


def _long(
    name: str,
    about: str,
    k: int,
    n_columns: int,
    n_rows: int,
    side: float,
    *,
    ratio: float = 8,
    parallel: bool = False,
    n_long: int = 1,
) -> HardSet:
    rows = partial(
        elongated,
        k=k,
        n_columns=n_columns,
        ratio=ratio,
        n_rows=n_rows,
        side=side,
        parallel=parallel,
        n_long=n_long,
    )
    return _gaussian(name, k, about, rows)


def _heaps(name: str, about: str, k: int, n_columns: int, gap: float, noise: Noise) -> HardSet:
    rows = partial(heaps, sizes=equal(k), n_columns=n_columns, gap=gap, noise=noise)
    return _other(name, k, about, rows)


def _noisy(name: str, sizes: Sequence[int], n_columns: int, gap: float, rim: float) -> HardSet:
    n_rows = 3000 - sum(sizes)
    rows = partial(
        with_background, sizes=sizes, n_columns=n_columns, gap=gap, n_rows=n_rows, rim=rim
    )
    return _other(name, len(sizes), f"{n_rows / 30:.0f} % background", rows)


_UNEQUAL = [2000] * 3 + [100] * 5
_SIZES6 = [5000, 2000, 800, 300, 100, 40]
_SIZES8 = [3000, 1500, 700, 300, 150, 80, 50, 30]
_WIDTHS5 = (0.5, 1.0, 2.0, 3.0, 4.0)
_100_TO_1 = [4000, 1000, 200, 40]

_KNOWN = (
    _round("eq8-5d", "equal sizes", equal(8), 5, 6),
    _round("over3-2d", "3.5 deviations apart", equal(3), 2, 3.5),
    _round("dev5-2d", "widths from 0.5 to 4", equal(5), 2, 14, _WIDTHS5),
    _round("b45-2d", "many", equal(45, 4500), 2, 6),
    _round("b45-10d", "many", equal(45, 4500), 10, 7),
    _round("b7-50d", "many columns", equal(7), 50, 9),
    _gaussian("round12-3d", 12, "whole numbers", whole_numbers),
    _round("two-3d", "5 deviations apart", equal(2), 3, 5),
    _gaussian("nested9-2d", 9, "three groups of three", nested),
    _round("line4-1d", "one column", equal(4), 1, 7),
    _round("line2-1d", "one column", equal(2), 1, 5),
    _round("line12-1d", "one column", equal(12), 1, 7),
    _gaussian("curve50-2d", 50, "small, along a curve", along_a_curve),
    _round("uneq8-2d", "2000 or 100 rows", _UNEQUAL, 2, 7),
    _round("sizes6-2d", "5000 to 40 rows", _SIZES6, 2, 8),
    _round("sizes8-5d", "3000 to 30 rows", _SIZES8, 5, 8),
    _gaussian("grid100-2d", 100, "on a grid", on_a_grid),
    _round("b60-4d", "many", equal(60, 4800), 4, 7),
    _round("b150-8d", "many", equal(150, 9000), 8, 7.5),
    _long("elong5-2d", "elongated 8:1", 5, 2, 600, 75),
    _long("elong4par-2d", "elongated 8:1, parallel", 4, 2, 750, 60, parallel=True),
    _long("elong6-5d", "elongated 8:1", 6, 5, 500, 45),
    _long("elong5-20d", "two long axes of 20", 5, 20, 600, 24, n_long=2),
    _round("b10-128d", "many columns", equal(10), 128, 10),
    _round("b16-512d", "many columns", equal(16, 3200), 512, 13),
    _nothing("unif-2d", "uniform", single(lambda r: r.uniform(size=(3000, 2)))),
    _nothing("unif-5d", "uniform", single(lambda r: r.uniform(size=(3000, 5)))),
    _nothing("unif-1d", "uniform", single(lambda r: r.uniform(size=(3000, 1)))),
    _nothing("normal-1d", "one Gaussian", single(lambda r: r.normal(size=(3000, 1)))),
    _nothing("normal-2d", "one Gaussian", single(lambda r: r.normal(size=(3000, 2)))),
    _nothing("normal-5d", "one Gaussian", single(lambda r: r.normal(size=(3000, 5)))),
    _nothing("normal-64d", "one Gaussian", single(lambda r: r.normal(size=(3000, 64)))),
    _nothing("normal-512d", "one Gaussian", single(lambda r: r.normal(size=(3000, 512)))),
    _nothing("corr-10d", "one elongated Gaussian", single(correlated)),
    _nothing("scales-6d", "columns of scale 1 to 100", single(all_scales)),
    _nothing("t3-4d", "Student's t, 3 degrees", single(lambda r: r.standard_t(3, size=(3000, 4)))),
    _nothing("lognorm-2d", "log-normal", single(lambda r: np.exp(0.7 * r.normal(size=(3000, 2))))),
    _nothing("expo-3d", "exponential", single(lambda r: r.exponential(size=(3000, 3)))),
    _nothing("disk-2d", "uniform disk", single(disk)),
    _nothing("binary-8d", "zeros and ones", single(zeros_and_ones)),
    _other("moons-2d", 2, "two half moons", moons),
    _other("irrel01-5d", 4, "two 0/1 columns mean nothing", with_coin_tosses),
    _other("2of20-20d", 5, "18 of 20 columns are noise", with_noise_columns),
    _noisy("noise5-2d", [570] * 5, 2, 8, rim=3),
    _noisy("noise5-5d", [570] * 5, 5, 8, rim=2),
    _other("onehot4-24d", 4, "one-hot categories", one_hot),
    _other("likert4-10d", 4, "answers from 1 to 5", answers),
    _heaps("t5-3d", "Student's t, 4 degrees", 5, 3, 12, lambda r, shape: r.standard_t(4, shape)),
    _heaps("squares4-2d", "uniform squares", 4, 2, 2.2, lambda r, shape: r.random(shape)),
)  # fmt: skip
_HELD_OUT = (
    _round("over6-4d", "4 deviations apart", equal(6), 4, 4),
    _gaussian("b20-64d", 20, "60 to 400 rows", all_sizes),
    _long("elong30-3d", "elongated 4:1", 30, 3, 150, 54, ratio=4),
    _round("100to1-3d", "4000 to 40 rows", _100_TO_1, 3, 9, (2.0, 1.0, 1.0, 0.5)),
    _round("b120-3d", "many", equal(120, 7200), 3, 7),
    _round("line30-1d", "one column", equal(30, 4500), 1, 8),
    _round("b5-256d", "many columns", equal(5), 256, 11),
    _nothing("unif-10d", "uniform", single(lambda r: r.uniform(size=(3000, 10)))),
    _nothing("gamma-6d", "gamma", single(lambda r: r.gamma(2, size=(3000, 6)))),
    _nothing("laplace-8d", "Laplace", single(lambda r: r.laplace(size=(3000, 8)))),
    _nothing("poisson-5d", "Poisson", single(counts)),
    _nothing("banana-2d", "bent", single(banana)),
    _nothing("stick-3d", "uniform along a line", single(stick)),
    _noisy("noise12-3d", [240] * 12, 3, 9, rim=2),
    _heaps("laplace6-4d", "Laplace", 6, 4, 12, lambda r, shape: r.laplace(size=shape)),
)  # fmt: skip
HARD_SETS: dict[str, HardSet] = {
    **{one.name: one for one in _KNOWN},
    **{one.name: replace(one, held_out=True) for one in _HELD_OUT},
}
