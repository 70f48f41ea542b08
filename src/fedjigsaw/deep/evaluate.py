r"""Evaluation of frozen features: a linear probe and nearest neighbors, both on the device.

The probe is multinomial logistic regression on standardized features,
:math:`\min_{W,b} \frac1n \sum_n CE(Wx_n + b, y_n) + \frac\lambda2 \|W\|^2`, solved by
L-BFGS: there is no learning rate to choose, and it takes seconds on a GPU. The best weight of the
penalty depends on the features, so it is chosen on a tenth of the training rows, never on test
rows. A result says if the steps did not suffice, or if a weight beyond those tried may be better.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedjigsaw.errors import DataError

DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)  # weights of the squared norm to choose from
STEPS = 200  # of L-BFGS, at most
LOSSES = STEPS * 5 // 4  # of the loss, at most
FEWEST_TO_CHOOSE = 100  # rows; with fewer, a tenth is too few to choose by
NEIGHBORS, SHARPNESS = 20, 10.0
_BLOCK = 2000
_SMALL = 2**22


class Probe(NamedTuple):
    """What a linear classifier found.

    Attributes
    ----------
    accuracy : float
        On the test rows.
    decay : float
        Weight of the penalty.
    held_out_accuracy : float or None
        On the training rows by which the penalty was chosen, if it was. Settings can be compared
        by it without looking at test rows.
    at_edge : bool
        Whether the smallest or the largest penalty was chosen: one beyond them may be better.
    converged : bool
        Whether the solver ended by itself, not after `STEPS` steps.
    """

    accuracy: float
    decay: float
    held_out_accuracy: float | None
    at_edge: bool
    converged: bool


def linear_probe(
    features: Any,
    labels: Any,
    test_features: Any,
    test_labels: Any,
    *,
    decay: float | None = None,
    device: Any = "cpu",
) -> Probe:
    """Train a linear classifier, and judge it on the test rows.

    Parameters
    ----------
    decay : float or None
        Weight of the penalty; None chooses it by :func:`choose_decay`.

    Examples
    --------
    >>> rows, test = [[0.0], [1.0], [2.0], [3.0]], [[0.5], [2.5], [9.0]]
    >>> linear_probe(rows, [0, 0, 1, 1], test, [0, 1, 0]).accuracy
    0.6666666666666666
    """
    x, y, test, answers, n_classes = _check(features, labels, test_features, test_labels, device)
    held_out = None
    if decay is None:
        decay, held_out = choose_decay(x, y, device=device)
    guesses, converged = _classify(x, y, test, n_classes, decay)
    at_edge = held_out is not None and decay in (DECAYS[0], DECAYS[-1])
    return Probe(_accuracy(guesses, answers), decay, held_out, at_edge, converged)


class Choice(NamedTuple):
    """The chosen weight of the penalty, and the accuracy on the held-out rows, or None."""

    decay: float
    accuracy: float | None


def choose_decay(features: Any, labels: Any, *, device: Any = "cpu") -> Choice:
    """Choose the weight of the penalty by the accuracy on a tenth of the rows, held out.

    Examples
    --------
    >>> choose_decay([[0.0], [1.0]], [0, 1])  # too few to choose
    Choice(decay=0.0001, accuracy=None)
    """
    x, y, _, _, n_classes = _check(features, labels, features, labels, device)
    if len(x) < FEWEST_TO_CHOOSE:
        return Choice(DECAYS[0], None)
    order = np.random.default_rng(0).permutation(len(x))  # they may be sorted by class
    held, rest = np.split(order, [len(order) // 10])
    known, test = (x[rest], y[rest]), x[held]
    scores = [_accuracy(_classify(*known, test, n_classes, d)[0], y[held]) for d in DECAYS]
    best = int(np.argmax(scores))
    return Choice(DECAYS[best], scores[best])


def _classify(
    x: Tensor, y: Tensor, test: Tensor, n_classes: int, decay: float
) -> tuple[Tensor, bool]:
    """Train a linear classifier; predict the classes of the test rows, and say if it converged."""
    mean, deviation = x.mean(0), x.std(0).clamp(min=1e-6)
    x, test = (x - mean) / deviation, (test - mean) / deviation
    weight = torch.zeros(n_classes, x.shape[1], device=x.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=x.device, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias],
        max_iter=STEPS,
        max_eval=LOSSES,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(F.linear(x, weight, bias), y) + decay / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with _threads_for(x):
        solver.step(closure)  # type: ignore[no-untyped-call]
    done = solver.state[weight]
    converged = done["n_iter"] < STEPS and done["func_evals"] < LOSSES
    with torch.no_grad():
        return F.linear(test, weight, bias).argmax(1), converged


@torch.no_grad()
def neighbors(
    features: Any, labels: Any, test_features: Any, test_labels: Any, *, device: Any = "cpu"
) -> float:
    """Classify test rows by their 20 nearest neighbors in angle, weighted; return the accuracy.

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
    """Use one thread for small problems: several would mostly wait for each other."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1 if x.numel() < _SMALL else usual)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _tensor(values: Any, kind: Any, device: Any) -> Tensor:
    return torch.as_tensor(
        values if isinstance(values, Tensor) else np.array(values, dtype=kind), device=device
    )


def _check(
    features: Any, labels: Any, test_features: Any, test_labels: Any, device: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    x, test = (_tensor(v, np.float32, device) for v in (features, test_features))
    y, answers = (_tensor(v, np.int64, device) for v in (labels, test_labels))
    if not len(x) or not len(test) or len(x) != len(y) or len(test) != len(answers):
        raise DataError(
            f"An evaluation needs training and test rows with a label each; got {len(y)} labels "
            f"for {len(x)} training rows and {len(answers)} labels for {len(test)} test rows."
        )
    if not torch.isfinite(x).all() or not torch.isfinite(test).all():
        raise DataError("The features to evaluate contain NaN or infinity.")
    return x, y, test, answers, int(max(y.max(), answers.max())) + 1


def _accuracy(guesses: Tensor, answers: Tensor) -> float:
    return float((guesses == answers).double().mean())
