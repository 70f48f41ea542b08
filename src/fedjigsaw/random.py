"""Random numbers: one seed per run, one stream per client and round."""

from collections.abc import Sequence
from hashlib import shake_256
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

from fedjigsaw._typing import RandomState
from fedjigsaw.parameters import Rule, integer


def generator(rng: object, owner: str) -> np.random.Generator:
    """Return a generator, made from an integer if needed."""
    if isinstance(rng, np.random.Generator):
        return rng
    Rule("an integer >= 0 or a numpy Generator", integer(0).accepts).check("rng", owner, rng)
    return np.random.default_rng(int(rng))  # type: ignore[call-overload]


def resolve_seed(random_state: RandomState) -> int:
    """Return the seed of a run, on which all its random numbers depend."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    return int(random_state)


def stream(seed: int, round_number: int, client: str | None = None) -> np.random.Generator:
    """Return the generator of a client in one round; of the server if no name is given.

    It depends on the client's *name*, not on its position in a list: which other clients take part,
    and in which order, does not matter.

    Examples
    --------
    >>> a, b = (int(stream(0, 0, "berlin").integers(1000)) for _ in range(2))
    >>> a == b != int(stream(0, 0, "paris").integers(1000))
    True
    """
    name = "" if client is None else f" {client}"
    key = _Digest(f"{int(seed)} {int(round_number)}{name}")
    return np.random.Generator(np.random.PCG64(key))  # type: ignore[arg-type]


def streams(seed: int, round_number: int, clients: Sequence[str]) -> list[np.random.Generator]:
    """Return the generators of many clients, as :func:`stream` makes them."""
    return [stream(seed, round_number, client) for client in clients]


class _Digest(ISpawnableSeedSequence):
    """A seed sequence whose words are the digest of a text.

    NumPy's own hashing takes most of the time of a stream. Children have texts of their own.
    """

    def __init__(self, text: str) -> None:
        self.text, self.n_children = text, 0

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        digest = shake_256(self.text.encode()).digest(n_words * np.dtype(dtype).itemsize)
        return np.frombuffer(digest, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        first, self.n_children = self.n_children, self.n_children + n_children
        # names of clients have no line breaks
        return [_Digest(f"{self.text}\n{child}") for child in range(first, self.n_children)]
