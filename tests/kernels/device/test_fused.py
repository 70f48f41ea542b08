"""The kernels by Triton, on a GPU if there is one, else in Triton's interpreter."""

import os

import pytest
import torch

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from fedjigsaw.kernels.device import fused, lloyd  # noqa: E402

DEVICE = "cuda" if ON_GPU else "cpu"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Small sizes reach every loop, and the interpreter is slow."""
    if not ON_GPU:
        blocks = {"QUICK": (16, 16, 4, 1), "EXACT": (16, 16, 4, 1)}
        sizes = {"COLUMNS": 16, "NARROW": 16, "SPLITS": 3, "FEWEST": 4, "SUM_ROWS": 4}
        for name, size in (blocks | sizes).items():
            monkeypatch.setattr(fused, name, size)


def draw(n, d, k):
    g = torch.Generator().manual_seed(n + d + k)
    rows, weights = torch.randn(n, d, generator=g), torch.rand(n, generator=g)
    return rows.to(DEVICE), rows[:k].clone().to(DEVICE), weights.to(DEVICE)


SIZES = [(40, 3, 5), (33, 16, 20), (20, 40, 17), (5, 2, 1)]
LARGE = [
    (100_000, 128, 1000),
    (5_000, 1024, 300),
    (70_000, 16, 100),
    (3_000, 5, 40_000),
    (999, 77, 1),
]


@pytest.mark.parametrize("size", SIZES + LARGE * ON_GPU)
def test_one_step_is_that_of_double_precision(size):
    rows, centers, weights = draw(*size)
    k = len(centers)
    labels, scores = fused.nearest(rows, centers)
    table = torch.cdist(rows.double(), centers.double())
    chosen = table.gather(1, labels.long()[:, None])[:, 0]
    norms = rows.square().sum(1)
    tolerance = 1e-5 * float(norms.max())  # of squared distances: single precision
    assert (chosen.square() <= table.min(dim=1).values.square() + tolerance).all()
    torch.testing.assert_close(norms - 2 * scores, chosen.square().float(), rtol=0, atol=tolerance)
    means, counts = fused.means(rows, labels, weights, centers)
    sums, expected = lloyd.label_sums(rows.double(), labels.long(), weights.double(), k)
    torch.testing.assert_close(counts.double(), expected, rtol=1e-5, atol=0)
    filled = expected > 0
    torch.testing.assert_close(
        means[filled].double(), (sums / expected[:, None])[filled], rtol=1e-4, atol=1e-5
    )
    for mine, again in zip(
        fused.step(rows, centers, weights), (means, counts, scores), strict=True
    ):
        assert torch.equal(mine, again)  # the same bits


def test_of_equally_near_centers_the_first_one_counts():
    rows = torch.zeros(3, 2, device=DEVICE)
    centers = torch.tensor([[3.0, 0.0]] + [[0.0, 1.0]] * 30, device=DEVICE)
    assert fused.nearest(rows, centers)[0].tolist() == [1, 1, 1]


def test_a_center_without_rows_stays():
    rows, weights = torch.tensor([[0.0], [2.0]], device=DEVICE), torch.ones(2, device=DEVICE)
    centers = torch.tensor([[0.5], [99.0]], device=DEVICE)
    means, counts, _ = fused.step(rows, centers, weights)
    assert means.tolist() == [[1.0], [99.0]]
    assert counts.tolist() == [2.0, 0.0]


def test_quick_products_are_close():
    rows, centers, _ = draw(*(LARGE[0] if ON_GPU else SIZES[1]))
    exact, quick = (fused.nearest(rows, centers, exact=exact)[1] for exact in (True, False))
    assert (exact - quick).abs().max() < 1e-2 * rows.square().sum(1).max()


def test_lloyd_ends_where_plain_torch_does(monkeypatch):
    n, k = (50_000, 64) if ON_GPU else (60, 4)
    g = torch.Generator().manual_seed(0)
    truth = 20 * torch.randn(k, 5, generator=g)
    rows = (truth.repeat(-(-n // k), 1)[:n] + torch.randn(n, 5, generator=g)).to(DEVICE)
    weights = torch.rand(n, generator=g).to(DEVICE)
    stop = torch.tensor(1e-6, device=DEVICE)
    found = []
    for is_fused in (False, True, True):
        monkeypatch.setattr(lloyd, "_is_fused", lambda *_, is_fused=is_fused: is_fused)
        found.append([part[0] for part in lloyd.lloyd(rows, rows[None, :k], weights, 20, stop)])
    plain, first, second = (
        float((rows - centers[labels]).double().square().sum(1) @ weights.double())
        for centers, labels, _ in found
    )
    assert first == pytest.approx(plain, rel=1e-6)
    assert second == first
    assert all(torch.equal(a, b) for a, b in zip(found[1], found[2], strict=True))
