r"""How good frozen features are: a linear probe and nearest neighbors, both on the device.

The probe is multinomial logistic regression on standardized features,
:math:`\min_{W,b} \frac1n \sum_n CE(Wx_n + b, y_n) + \frac\lambda2 \|W\|^2`, solved to the end by
L-BFGS: no rate, no schedule and no seed to choose, and seconds on a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedjigsaw.errors import DataError, complaint

DECAY = 1e-4  # the weight of the squared norm
NEIGHBORS, SHARPNESS = 20, 10.0
_BLOCK = 2000
_SMALL = 2**22


def linear_probe(
    features: Any, labels: Any, test_features: Any, test_labels: Any, *, device: Any = "cpu"
) -> float:
    """Share of test rows that a linear classifier, trained on the others, gets right.

    Examples
    --------
    >>> linear_probe([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[0.5], [2.5], [9.0]], [0, 1, 0])
    0.6666666666666666
    """
    x, y, test, answers, n_classes = _check(features, labels, test_features, test_labels, device)
    mean, deviation = x.mean(0), x.std(0).clamp(min=1e-6)
    x, test = (x - mean) / deviation, (test - mean) / deviation
    weight = torch.zeros(n_classes, x.shape[1], device=x.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=x.device, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias], max_iter=200, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(F.linear(x, weight, bias), y) + DECAY / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with _threads_for(x):
        solver.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        guesses = F.linear(test, weight, bias).argmax(1)
    return _accuracy(guesses, answers)


@torch.no_grad()
def neighbors(
    features: Any, labels: Any, test_features: Any, test_labels: Any, *, device: Any = "cpu"
) -> float:
    """Share of test rows that their 20 nearest neighbors by angle, weighted, get right.

    Examples
    --------
    >>> neighbors([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], [0, 0, 1], [[0.1, 1.0]], [1])
    1.0
    """
    x, y, test, answers, n_classes = _check(features, labels, test_features, test_labels, device)
    x, test = F.normalize(x, dim=1), F.normalize(test, dim=1)
    guesses = []
    for start in range(0, len(test), _BLOCK):
        cosines, near = (test[start : start + _BLOCK] @ x.T).topk(min(NEIGHBORS, len(x)), dim=1)
        votes = torch.zeros(len(near), n_classes, device=x.device)
        votes.scatter_add_(1, y[near], (cosines * SHARPNESS).exp())
        guesses.append(votes.argmax(1))
    return _accuracy(torch.cat(guesses), answers)


@contextmanager
def _threads_for(x: Tensor) -> Iterator[None]:
    """One thread for small problems: several would wait for each other most of the time."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1 if x.numel() < _SMALL else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _check(
    features: Any, labels: Any, test_features: Any, test_labels: Any, device: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    x, test = (
        torch.as_tensor(np.array(f, dtype=np.float32) if not isinstance(f, Tensor) else f).to(
            device
        )
        for f in (features, test_features)
    )
    y, answers = (
        torch.as_tensor(np.array(v, dtype=np.int64), device=device) for v in (labels, test_labels)
    )
    if not len(x) or not len(test) or len(x) != len(y) or len(test) != len(answers):
        allowed = "one per row, and some in both parts"
        got = f"{len(y)} for {len(x)} and {len(answers)} for {len(test)} rows"
        raise DataError(complaint("labels", "an evaluation", allowed, got))
    if not torch.isfinite(x).all() or not torch.isfinite(test).all():
        raise DataError(complaint("features", "an evaluation", "finite", "NaN or infinity"))
    return x, y, test, answers, int(max(y.max(), answers.max())) + 1


def _accuracy(guesses: Tensor, answers: Tensor) -> float:
    return float((guesses == answers).double().mean())
