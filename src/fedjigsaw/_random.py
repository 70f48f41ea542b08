"""Random numbers: one seed per run, one stream per client and round."""

from hashlib import blake2b

import numpy as np

from fedjigsaw._typing import RandomState
from fedjigsaw.parameters import integer


def generator(rng: object, owner: str) -> np.random.Generator:
    """Return a generator, made from an integer if needed."""
    if isinstance(rng, np.random.Generator):
        return rng
    integer(0).check("rng", owner, rng)
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
    key = np.array([round_number], np.uint32)
    if client is not None:
        digest = blake2b(client.encode(), digest_size=16).digest()
        key = np.concatenate([key, np.frombuffer(digest, "<u4")])
    # as SeedSequence(seed, spawn_key=key) does it, in half the time: there are many clients
    seed = int(seed)
    words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(128, seed.bit_length()), 32)]
    sequence = np.random.SeedSequence(np.concatenate([np.array(words, np.uint32), key]))
    return np.random.Generator(np.random.PCG64(sequence))
