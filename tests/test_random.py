import pickle

import numpy as np
import pytest

from fedjigsaw.random import resolve_seed, stream, streams


def test_streams_differ_by_client_round_and_seed_but_not_by_call():
    def draw(*key):
        return stream(*key).integers(2**62)

    keys = [(0, 0, "a"), (0, 0, "b"), (0, 1, "a"), (1, 0, "a"), (0, 0), (0, 1)]
    assert len({draw(*key) for key in keys}) == len(keys)
    assert all(draw(*key) == draw(*key) for key in keys)


def test_a_stream_does_not_depend_on_the_version_of_numpy():
    drawn = [stream(seed, 0, "berlin").bit_generator.random_raw() for seed in (0, 7)]
    assert drawn == [10281086629662528922, 2096984529067687958]


def test_the_server_is_no_client_and_a_child_is_no_other_client():
    keys = [stream(0, 1), stream(0, 1, "None"), stream(0, 1, "a"), *stream(0, 1, "a").spawn(2)]
    keys += [stream(0, 11), stream(0, 1, "1"), stream(0, 1, "a 0"), *stream(0, 1, "a 0").spawn(2)]
    assert len({rng.integers(2**62) for rng in keys}) == len(keys)


def test_streams_are_uniform_and_independent():
    """Of neighbors in seed, round and name."""
    rows = np.array([rng.random(50) for rng in streams(0, 0, [f"site {i}" for i in range(4000)])])
    assert rows.mean() == pytest.approx(0.5, abs=0.003)
    assert rows.var() == pytest.approx(1 / 12, abs=0.002)
    correlation = np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]
    assert abs(correlation) < 0.01
    assert abs(np.corrcoef(rows.T) - np.eye(50)).max() < 0.08


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
