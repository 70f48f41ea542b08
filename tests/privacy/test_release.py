"""A guard and differential privacy are two releases with one interface: what leaves a client."""

import inspect

import numpy as np
import pytest

from fedjigsaw import Broadcast, Client, Guard, Jigsaw, Privacy, Summary
from fedjigsaw.engine import MadeError

ROWS = np.random.default_rng(0).normal(size=(400, 2))
NOISY = Privacy(2.0, bounds=(-4, 4), cells="own", insecure_seed=0)


def test_both_have_the_same_steps():
    for step in ("ready", "summarize", "leaving"):
        one, other = (inspect.signature(getattr(kind, step)) for kind in (Guard, Privacy))
        assert one == other


def test_noise_takes_the_place_of_a_guard():
    guarded, noisy = (
        Client("a", ROWS, Jigsaw(2), Guard()),
        Client("a", ROWS, Jigsaw(2), Guard(), NOISY),
    )
    assert (guarded.release, noisy.release) == (Guard(), NOISY)
    for client, has_noise in ((guarded, False), (noisy, True)):
        sent = client.answer(Broadcast(0, 0))
        assert (sent.client, "noise" in sent.tensors) == ("a", has_noise)


@pytest.mark.parametrize(("half", "privacy"), [("summarize", None), ("summarize_privately", NOISY)])
def test_what_a_method_made_is_checked_by_both(half, privacy):
    """Centers with other columns than the rows do not leave."""

    class Narrow(Jigsaw):
        pass

    setattr(Narrow, half, lambda *args: Summary(400, [[0.0]], counts=[400]))
    with pytest.raises(MadeError, match=rf"Narrow\.{half} must return centers"):
        Client("a", ROWS, Narrow(2), Guard(), privacy).answer(Broadcast(0, 0))
