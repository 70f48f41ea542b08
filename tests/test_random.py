import pickle
from hashlib import blake2b
from struct import unpack

import numpy as np
import pytest

from fedjigsaw.random import resolve_seed, stream, streams


def test_streams_differ_by_client_round_and_seed_but_not_by_call():
    def draw(*key):
        return stream(*key).integers(2**62)

    keys = [(0, 0, "a"), (0, 0, "b"), (0, 1, "a"), (1, 0, "a"), (0, 0), (0, 1)]
    assert len({draw(*key) for key in keys}) == len(keys)
    assert all(draw(*key) == draw(*key) for key in keys)


@pytest.mark.parametrize("seed", [0, 7, np.int64(2**62), 2**64 - 1, 2**130 + 5])
@pytest.mark.parametrize("client", [None, "berlin"])
def test_a_stream_is_that_of_numpys_seed_sequence(seed, client):
    digest = b"" if client is None else blake2b(client.encode(), digest_size=16).digest()
    key = (3, *unpack(f"<{len(digest) // 4}I", digest))
    expected = np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=key))
    assert stream(seed, 3, client).random(3).tolist() == expected.random(3).tolist()


@pytest.mark.parametrize("seed", [0, 7, np.int64(2**62), 2**64 - 1, 2**130 + 5])
@pytest.mark.parametrize("clients", [["oslo"], ["berlin", "paris", "東京", *map(str, range(100))]])
def test_streams_of_many_clients_are_those_of_each(seed, clients):
    for client, rng in zip(clients, streams(seed, 3, clients), strict=True):
        assert rng.bit_generator.state == stream(seed, 3, client).bit_generator.state


def test_streams_of_many_clients_spawn_as_those_of_each_and_can_be_pickled():
    """A method of someone else may do anything with its generator."""
    many, one = streams(1, 0, ["a", "b"])[1], stream(1, 0, "b")
    for _ in range(2):  # children are counted
        for child, expected in zip(many.spawn(2), one.spawn(2), strict=True):
            assert child.random() == expected.random()
    sequence, expected = many.bit_generator.seed_seq, one.bit_generator.seed_seq
    assert sequence.generate_state(5).tolist() == expected.generate_state(5).tolist()
    assert pickle.loads(pickle.dumps(many)).random() == one.random()


def test_seeds():
    assert resolve_seed(7) == 7
    assert resolve_seed(None) != resolve_seed(None)
    for source in (np.random.RandomState, np.random.default_rng):
        assert resolve_seed(source(3)) == resolve_seed(source(3))
        shared = source(3)
        assert resolve_seed(shared) != resolve_seed(shared)
