r"""Lloyd's iterations of large problems on a GPU, in kernels by Triton.

The table of rows and centers is never written: each program finds the nearest centers of a block of
rows in registers. Rows are then sorted by their labels, and each cluster is added up in parts of
fixed sizes, one after the other: without atomic additions, two runs give the same bits.

The score of a center is :math:`x \cdot c - \|c\|^2 / 2`: half of the row's squared norm minus half
of the squared distance. The nearest center has the largest one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# rows and centers of a program of `_nearest`, its warps and stages, as measured on an H200
QUICK = (256, 64, 8, 3)
EXACT = (128, 64, 8, 2)
COLUMNS = 128  # of rows that a program of `_nearest` keeps; of `_sums`, at once
NARROW = 32  # columns at once of rows with more than that
SINGLE = "tf32x3"  # three products of TensorFloat-32 have the digits of single precision
SPLITS, FEWEST = 64, 64  # parts of a cluster at most, and rows of a part at least
SUM_ROWS, SUM_WARPS = 32, 4  # rows at once of a program of `_sums`, and its warps
SMALL = 2**15  # labels below it are sorted as 16-bit integers, in half the time


@triton.jit(do_not_specialize=["n", "k"])
def _nearest(
    rows,
    centers,
    norms,
    labels,
    scores,
    n,
    k,
    d,
    ROWS: tl.constexpr,
    CENTERS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Find the nearest center of each row of a block, and its score."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    row_at = rows + i[:, None] * d + column[None, :]
    if WHOLE:
        x = tl.load(row_at, mask=(i[:, None] < n) & (column[None, :] < d), other=0.0)
    best = tl.full((ROWS, CENTERS), float("-inf"), tl.float32)
    found = tl.zeros((ROWS, CENTERS), tl.int32)
    for start in range(0, k, CENTERS):
        j = start + tl.arange(0, CENTERS)
        center_at = centers + j[None, :].to(tl.int64) * d + column[:, None]
        if WHOLE:
            c = tl.load(center_at, mask=(j[None, :] < k) & (column[:, None] < d), other=0.0)
            product = tl.dot(x, c, input_precision=PRECISION)
        else:
            product = tl.zeros((ROWS, CENTERS), tl.float32)
            for first in range(0, d, COLUMNS):
                left = d - first
                x = tl.load(
                    row_at + first, mask=(i[:, None] < n) & (column[None, :] < left), other=0.0
                )
                c = tl.load(
                    center_at + first, mask=(j[None, :] < k) & (column[:, None] < left), other=0.0
                )
                product = tl.dot(x, c, product, input_precision=PRECISION)
        score = product - 0.5 * tl.load(norms + j, mask=j < k, other=float("inf"))[None, :]
        better = score > best
        best = tl.where(better, score, best)
        found = tl.where(better, start, found)
    top = tl.max(best, axis=1)
    found += tl.arange(0, CENTERS)[None, :]
    label = tl.min(tl.where(best == top[:, None], found, k), axis=1)
    tl.store(labels + i, label, mask=i < n)
    tl.store(scores + i, top, mask=i < n)


@triton.jit
def _part_of(starts, cluster, SPLITS: tl.constexpr, FEWEST: tl.constexpr):
    """Return where the rows of a cluster begin and end, and the size of its parts."""
    begin, end = tl.load(starts + cluster), tl.load(starts + cluster + 1)
    return begin, end, tl.maximum((end - begin + SPLITS - 1) // SPLITS, FEWEST)


@triton.jit
def _sums(
    rows,
    weights,
    order,
    starts,
    sums,
    counts,
    d,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SPLITS: tl.constexpr,
    FEWEST: tl.constexpr,
):
    """Add up the rows of one part of a cluster, some columns of them."""
    cluster, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    begin, end, size = _part_of(starts, cluster, SPLITS, FEWEST)
    first = begin + split * size
    if first < end:
        last = tl.minimum(first + size, end)
        total = tl.zeros((COLUMNS,), tl.float32)
        mass = tl.zeros((ROWS,), tl.float32)
        for start in range(first, last, ROWS):
            place = start + tl.arange(0, ROWS)
            i = tl.load(order + place, mask=place < last, other=0)
            w = tl.load(weights + i, mask=place < last, other=0.0)
            inside = (place[:, None] < last) & (column[None, :] < d)
            x = tl.load(rows + i[:, None] * d + column[None, :], mask=inside, other=0.0)
            total += tl.sum(x * w[:, None], axis=0)
            mass += w
        part = cluster * SPLITS + split
        tl.store(sums + part * d + column, total, mask=column < d)
        tl.store(counts + part, tl.sum(mass, axis=0))  # the same one from all blocks of columns


@triton.jit
def _means(
    sums,
    counts,
    starts,
    centers,
    means,
    masses,
    d,
    COLUMNS: tl.constexpr,
    SPLITS: tl.constexpr,
    FEWEST: tl.constexpr,
):
    """Add up the parts of a cluster; its mean is the new center. An empty one keeps its center."""
    cluster = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin, end, size = _part_of(starts, cluster, SPLITS, FEWEST)
    n_parts = (end - begin + size - 1) // size
    total = tl.zeros((COLUMNS,), tl.float32)
    mass = 0.0
    for split in range(n_parts):
        part = cluster * SPLITS + split
        total += tl.load(sums + part * d + column, mask=column < d, other=0.0)
        mass += tl.load(counts + part)
    old = tl.load(centers + cluster * d + column, mask=column < d, other=0.0)
    mean = tl.where(mass > 0, total / tl.where(mass > 0, mass, 1.0), old)
    tl.store(means + cluster * d + column, mean, mask=column < d)
    tl.store(masses + cluster, mass)


def nearest(rows: Tensor, centers: Tensor, *, exact: bool = True) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row, as a 16 or 32-bit integer, and its score.

    Of several nearest centers it is the first one. Without `exact`, products are those of
    TensorFloat-32.
    """
    rows, centers = rows.contiguous(), centers.contiguous()
    (n, d), k = rows.shape, len(centers)
    labels = rows.new_empty(n, dtype=torch.int16 if k < SMALL else torch.int32)
    scores = rows.new_empty(n)
    width = _width(d) if d <= COLUMNS else NARROW
    n_rows, n_centers, n_warps, n_stages = EXACT if exact else QUICK
    _nearest[(triton.cdiv(n, n_rows),)](
        rows,
        centers,
        centers.square().sum(1),
        labels,
        scores,
        n,
        k,
        d,
        n_rows,
        n_centers,
        width,
        d <= width,
        SINGLE if exact else "tf32",
        num_warps=n_warps,
        num_stages=n_stages,
    )
    return labels, scores


def step(
    rows: Tensor, centers: Tensor, weights: Tensor, *, exact: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Move each center to the mean of its rows.

    Returns
    -------
    The new centers, the weights of their rows, and the scores of the rows at the old ones.
    """
    labels, scores = nearest(rows, centers, exact=exact)
    return *means(rows, labels, weights, centers), scores


def means(rows: Tensor, labels: Tensor, weights: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted mean of the rows of each label, or its old center, and its weight."""
    rows, centers = rows.contiguous(), centers.contiguous()
    k, d = centers.shape
    ordered, order = torch.sort(labels, stable=True)
    places = torch.arange(k + 1, dtype=labels.dtype, device=rows.device)
    starts = torch.searchsorted(ordered, places)
    sums, counts = rows.new_empty(k, SPLITS, d), rows.new_empty(k, SPLITS)
    found, masses = torch.empty_like(centers), rows.new_empty(k)
    width = _width(d)
    n_blocks, sizes = triton.cdiv(d, width), (width, SPLITS, FEWEST)
    _sums[(k, SPLITS, n_blocks)](
        rows, weights, order, starts, sums, counts, d, SUM_ROWS, *sizes, num_warps=SUM_WARPS
    )
    _means[(k, n_blocks)](sums, counts, starts, centers, found, masses, d, *sizes, num_warps=1)
    return found, masses


def _width(d: int) -> int:
    """Return how many columns a program takes at once."""
    return max(16, min(COLUMNS, int(triton.next_power_of_2(d))))
