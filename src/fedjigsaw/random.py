"""Random numbers: one seed per run, one stream per client and round."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise, permutations, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISpawnableSeedSequence

from fedjigsaw._typing import RandomState
from fedjigsaw.parameters import Rule, integer

Words = npt.NDArray[np.uint32]


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
    words = _words(seed, round_number)
    if client is not None:
        words = np.concatenate([words, np.frombuffer(_digest(client), "<u4")])
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def streams(seed: int, round_number: int, clients: Sequence[str]) -> list[np.random.Generator]:
    """Return the generators of many clients: the same as those of :func:`stream`, much faster.

    Most of the time of a stream goes into NumPy's hash of its seed, which is computed here for all
    clients in one step.
    """
    shared = _words(seed, round_number)
    digests = np.frombuffer(b"".join(map(_digest, clients)), "<u4").reshape(len(clients), -1)
    words = np.concatenate([np.tile(shared, (len(clients), 1)), digests], axis=1)
    return [
        np.random.Generator(np.random.PCG64(_Hashed(own, state)))  # type: ignore[arg-type]
        for own, state in zip(words, _hashed(words), strict=True)
    ]


def _words(seed: int, round_number: int) -> Words:
    """Return the numbers of which SeedSequence(seed, spawn_key=(round_number, ...)) is made.

    Without the key as such, a sequence takes half the time to make.
    """
    seed = int(seed)
    words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(128, seed.bit_length()), 32)]
    return np.array([*words, round_number], np.uint32)


def _digest(client: str) -> bytes:
    return blake2b(client.encode(), digest_size=16).digest()


class _Hashed(ISpawnableSeedSequence):
    """``SeedSequence(words)``, of which the numbers that seed a PCG64 are known already."""

    def __init__(self, words: Words, state: npt.NDArray[np.uint64]) -> None:
        self.words, self.state = words, state
        self._sequence: np.random.SeedSequence | None = None

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        if n_words == len(self.state) and dtype is np.uint64:
            return self.state
        return self._whole().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._whole().spawn(n_children)

    def _whole(self) -> np.random.SeedSequence:
        if self._sequence is None:  # kept, since it counts its children
            self._sequence = np.random.SeedSequence(self.words)
        return self._sequence


def _hashed(words: Words) -> npt.NDArray[np.uint64]:
    """Return ``SeedSequence(row).generate_state(4, np.uint64)`` of each row of at least four words.

    This is NumPy's algorithm, which it promises never to change, for all rows in one step.
    """
    columns = np.ascontiguousarray(words.T)
    keys = _keys(0x43B0D7E5, 0x931E8875)
    pool = [_scrambled(column, *next(keys)) for column in columns[:4]]
    for i, j in permutations(range(4), 2):
        pool[j] = _mixed(pool[j], _scrambled(pool[i], *next(keys)))
    for column in columns[4:]:
        pool = [_mixed(own, _scrambled(column, *next(keys))) for own in pool]
    keys = _keys(0x8B51F9DD, 0x58F38DED)
    state = [_scrambled(own, *next(keys)) for own in (*pool, *pool)]
    return np.column_stack(state).astype("<u4").view("<u8").astype(np.uint64)


def _keys(first: int, factor: int) -> Iterator[tuple[np.uint32, np.uint32]]:
    """Yield neighbors in the series of a number, its product with a factor, and so on."""
    series = accumulate(repeat(factor), lambda value, by: value * by % 2**32, initial=first)
    return pairwise(map(np.uint32, series))


def _scrambled(values: Words, key: np.uint32, factor: np.uint32) -> Words:
    return _folded((values ^ key) * factor)


def _mixed(values: Words, others: Words) -> Words:
    return _folded(values * np.uint32(0xCA01F9DD) - others * np.uint32(0x4973F715))


def _folded(values: Words) -> Words:
    return values ^ (values >> np.uint32(16))
