import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from builders import summary
from fedjigsaw import Broadcast, Failure, Model, Summary, Transcript
from fedjigsaw.errors import DataError, MessageError
from fedjigsaw.messages import Round, check_same_width

CENTERS = [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"n_samples": 0},
            f"n_samples of client 'a' must be an integer >= 1 and <= {2**40}; got 0",
        ),
        ({"n_samples": 2**40 + 1}, "n_samples of client 'a'"),
        ({"n_samples": 2.5}, "n_samples"),
        ({"merged": -1}, "merged of client 'a'"),
        ({"n_samples": "a"}, "n_samples"),
        ({"n_samples": None}, "n_samples"),
        ({"n_samples": float("nan")}, "n_samples"),
        ({"centers": [[1e200]]}, "a size above 1e.100"),
        ({"radii": [[1.0], [1.0, 2.0]]}, "radii"),
        ({"counts": [1e300, 1]}, "counts"),
        ({"tensors": {"w": [[1.0], [1.0, 2.0]]}}, "tensor 'w'"),
        ({"centers": [[np.nan, 1.0]]}, "centers of client 'a' .* NaN, infinity or a size above"),
        ({"centers": [1.0, 2.0]}, r"got shape \(2,\)"),
        ({"centers": np.empty((0, 2)), "radii": None}, "'a' has neither centers nor tensors"),
        ({"centers": np.empty((2, 0))}, r"got shape \(2, 0\)"),
        ({"centers": [[1.0], [1.0, 2.0]]}, "centers"),
        ({"centers": [["x"]]}, "centers"),
        ({"radii": [1.0]}, r"radii of client 'a' .* shape \(2,\)"),
        ({"radii": [-1.0, 1.0]}, "radii"),
        ({"radii": [np.inf, 1.0]}, "radii"),
        ({"radii": ["a", "b"]}, "radii"),
        ({"counts": [1.5, 2]}, "counts of client 'a'"),
        ({"counts": [-1, 2]}, "counts"),
        ({"sse": [np.nan, 0]}, "sse"),
        ({"centers": [[1.0, 1j]]}, "centers of client 'a' .*got complex128"),
        ({"tensors": [1.0]}, "tensors of client 'a'"),
        ({"tensors": {"w": ["text"]}}, "tensor 'w' of client 'a'"),
    ],
)
def test_a_malformed_summary_cannot_be_made(changes, words):
    with pytest.raises(MessageError, match=words):
        summary(**changes)


@pytest.mark.parametrize("client", [None, 7, np.zeros((0, 2)), ["a"]], ids=str)
def test_the_name_of_a_client_is_a_text(client):
    with pytest.raises(DataError, match="name of a client"):
        summary(client=client)


def test_the_method_of_a_model_is_a_text():
    with pytest.raises(MessageError, match="method of a model"):
        Model(CENTERS, method=None)


def test_many_summaries_are_those_made_one_by_one():
    sizes, rng = (3, 1, 2), np.random.default_rng(0)
    parts = {
        "centers": [rng.normal(size=(k, 2)) for k in sizes],
        "counts": [np.arange(1.0, k + 1) for k in sizes],
        "sse": [rng.random(k) for k in sizes],
    }
    tensors = {"labels": [np.arange(n) for n in (7, 8, 9)], "quantization": [np.ones((1, 2))] * 3}
    made = Summary.many([7, np.int64(8), 9], tensors=tensors, **parts)
    for i, one in enumerate(made):
        own = {name: values[i] for name, values in parts.items()}
        alone = Summary(7 + i, tensors={n: values[i] for n, values in tensors.items()}, **own)
        assert one == alone
        assert one.nbytes == alone.nbytes
        assert one.radii is None
        assert pickle.loads(pickle.dumps(one)) == alone
        with pytest.raises(ValueError, match="read-only"):
            one.centers[0] = 5.0
    parts["centers"][0][:] = 9.0
    assert made[0].centers[0, 0] != 9.0
    assert made[0].leaving("a", ("counts",), ()).sse is None
    assert Summary.many([], []) == []


def test_a_malformed_summary_cannot_be_made_among_many():
    good = {"n_samples": 9, "centers": CENTERS, "counts": [4, 5], "sse": [1.0, 0.0]}
    tensors = {"w": [[1.0], [2.0]]}
    assert len(Summary.many(**{name: [value] * 2 for name, value in good.items()})) == 2
    for name, bad in [
        ("n_samples", 0),
        ("n_samples", 2**40 + 1),
        ("n_samples", 8.5),
        ("centers", [[np.nan, 1.0], [0.0, 0.0]]),
        ("centers", [[0.0], [1.0]]),
        ("counts", [1.5, 2]),
        ("counts", [-1, 2]),
        ("counts", [4]),
        ("sse", [np.inf, 0.0]),
        ("sse", ["a", "b"]),
    ]:
        values = {n: [value, bad if n == name else value] for n, value in good.items()}
        with pytest.raises(MessageError, match=name):
            Summary.many(**values, tensors=tensors)
    two = {name: [value] * 2 for name, value in good.items()}
    shifted = two | {"counts": [[4], [5, 4, 5]]}  # as many in all, and of other centers
    with pytest.raises(MessageError, match="counts"):
        Summary.many(**shifted)
    with pytest.raises(MessageError, match="tensor 'w'"):  # it would become another dtype
        Summary.many(**two, tensors={"w": [np.ones(1), np.ones(1, int)]})
    with pytest.raises(MessageError, match="neither centers nor tensors"):
        Summary.many([1, 1], [np.ones((1, 2)), np.ones((0, 2))])


@pytest.mark.parametrize("name", ["a\nb", 5, None, "x" * 201])
def test_a_summary_needs_a_proper_name(name):
    with pytest.raises(DataError, match="printable"):
        summary(client=name)


@pytest.mark.parametrize("bad", [(-1, 0), (0, "x"), (0, 0, 5), (0.5, 0)])
def test_a_malformed_broadcast_cannot_be_made(bad):
    with pytest.raises(MessageError, match="of a broadcast"):
        Broadcast(*bad)


def test_messages_are_frozen_private_copies():
    mine = np.array(CENTERS)
    message = summary(centers=mine)
    mine[0, 0] = 99
    assert message.centers[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        message.centers[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        message.client = "b"
    with pytest.raises(TypeError, match="item assignment"):
        message.tensors["w"] = np.zeros(1)
    params = {"k": 1}
    model = Model(CENTERS, params=params)
    params["k"] = 2
    assert model.params == {"k": 1}


def test_what_is_frozen_already_is_shared():
    message = summary(tensors={"w": np.zeros(3)})
    again = replace(message, client="b")
    assert again.tensors["w"] is message.tensors["w"]
    view = np.zeros(3)[:2]
    view.setflags(write=False)  # its owner can still write
    assert summary(tensors={"w": view}).tensors["w"] is not view


def test_equality_is_bit_by_bit():
    assert summary() == summary()
    assert summary() != summary(radii=[1.0, np.nextafter(2.0, 3)])
    assert summary() != summary(radii=None)
    assert summary(tensors={"w": [1]}) != summary(tensors={"w": [1.0]})
    assert summary() != Model(CENTERS)
    assert Model(CENTERS, params={"k": 1}) != Model(CENTERS, params={"k": 1.0})


@pytest.mark.parametrize(
    "message",
    [
        summary(counts=[2, 3], sse=[0.1, 0.2], tensors={"w": np.arange(3)}),
        Model(CENTERS, "feca", {"n_clusters": 2}, ("x", "y")),
        Broadcast(1, 2, Model(CENTERS)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_round_trip_between_processes(message):
    assert pickle.loads(pickle.dumps(message)) == message


def test_size_counts_the_numbers():
    assert summary().nbytes == 2 * 8 + 4 * 8 + 2 * 8
    assert summary(counts=[1, 2], sse=[0, 0]).nbytes == 2 * 8 + 10 * 8
    assert Broadcast(0, 0).nbytes == 16
    assert Broadcast(0, 0, Model(CENTERS)).nbytes == 16 + 32


def test_model_has_one_name_per_column():
    with pytest.raises(MessageError, match="one per column, 2"):
        Model(CENTERS, feature_names=("x",))


def test_clients_with_different_columns_are_both_named():
    narrow = summary(centers=[[1.0]], radii=None, client="b")
    with pytest.raises(MessageError, match="client 'b'"):
        check_same_width([summary(), narrow])


def test_transcript_adds_up():
    failure = Failure("c", "gone")
    rounds = (
        Round(0, {"a": 10, "b": 20}, 32, (failure,), 0.5),
        Round(1, {"b": 5}, 100, (), 0.25),
    )
    transcript = Transcript(3, rounds)
    assert transcript.clients == ("a", "b")
    assert (transcript.bytes_up, transcript.bytes_down, transcript.seconds) == (35, 132, 0.75)
    assert transcript.failures == (failure,)
    assert transcript.to_dict()["rounds"][0]["failures"] == {"c": "gone"}


def test_a_summary_of_tensors_alone_needs_no_center():
    summary = Summary(5, np.empty((0, 2)), tensors={"weights": np.ones(3)})
    assert summary.centers.shape == (0, 2)
    assert summary.nbytes == 8 + 24 + 8


def test_a_model_gets_names_for_its_columns():
    model = Model([[1.0, 2.0]])
    assert model.with_feature_names(None) is model
    assert model.with_feature_names(["age", "dose"]).feature_names == ("age", "dose")
