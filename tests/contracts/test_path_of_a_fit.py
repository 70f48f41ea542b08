"""How far a reader must follow a fit: functions, modules and depth of calls, printed and bounded."""

import sys
from pathlib import Path

import numpy as np
import pytest

import fedjigsaw
from fedjigsaw import FeCA, Jigsaw

HOME = str(Path(fedjigsaw.__file__).parent)


def trace(method):
    """Return (file, function) of every call of the package in a fit of four clients, and stacks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + 6 * rng.integers(2, size=(400, 2))
    calls, stack, deepest = set(), [], []

    def watch(frame, event, argument):
        code = frame.f_code
        if not code.co_filename.startswith(HOME):
            return
        if event == "call":
            stack.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")
            if not code.co_name.startswith("<"):  # of a comprehension
                calls.add((code.co_filename, code.co_qualname))
            deepest[:] = max(deepest, stack, key=len)
        elif event == "return" and stack:
            stack.pop()

    method.fit(X, clients=np.arange(400) % 4)  # what is compiled or imported once
    sys.setprofile(watch)
    try:
        method.fit(X, clients=np.arange(400) % 4)
    finally:
        sys.setprofile(None)
    return calls, deepest


@pytest.mark.parametrize(
    ("method", "functions", "modules", "depth"),
    [(Jigsaw(4, random_state=0), 205, 30, 21), (FeCA(4, random_state=0), 145, 24, 16)],
    ids=["Jigsaw", "FeCA"],
)
def test_it_is_short(method, functions, modules, depth):
    calls, deepest = trace(method)
    files = {file for file, _ in calls}
    print(f"{len(calls)} functions in {len(files)} modules, {len(deepest)} deep:", *deepest)  # noqa: T201
    assert len(calls) <= functions
    assert len(files) <= modules
    assert len(deepest) <= depth
