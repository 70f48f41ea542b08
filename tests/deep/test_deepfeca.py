"""The federated method: laws, collapse, every option, and that it learns."""

import pickle
from threading import get_ident

import numpy as np
import pytest
from sklearn.base import clone

from fedjigsaw import FeCA, Privacy
from fedjigsaw.deep import (
    Augmentation,
    CentralDeepCluster,
    DeepFeCA,
    Execution,
    Objective,
    Schedule,
)
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.session import evaluate
from fedjigsaw.engine import Client
from fedjigsaw.errors import (
    DataError,
    DivergedError,
    MessageError,
    ParameterError,
)
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.privacy.guard import Guard

FEDERATED = [name for name, entry in CLUSTERERS.items() if not entry.cls.pools_data]


def same(a, b):
    return a.model_ == b.model_


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns(digits, seed):
    """The probe of the trained network beats that of the untrained one by 2 points and more."""
    clients = np.random.default_rng(seed).permutation(np.arange(len(digits.train)) % 3)
    deep = DeepFeCA(
        [20, 20],
        objective=Objective(network="small"),
        augmentation=Augmentation(crop=0.5, flip=0.0, color=0.4),
        schedule=Schedule(n_rounds=4, local_epochs=2, batch_size=32),
        execution=Execution(device="cpu"),
        random_state=seed,
    )
    deep.load_model(initial_model("small", seed))
    untrained = evaluate(deep, digits)["linear_accuracy"]
    deep.fit(digits.train, clients=clients)
    assert evaluate(deep, digits)["linear_accuracy"] > untrained + 0.02
    assert deep.states_[-1]["loss"] < deep.states_[0]["loss"]


def test_the_same_seed_gives_the_same_bits(small, few):
    images, clients = few
    first = small().fit(images, clients=clients)
    assert same(first, small().fit(images, clients=clients))
    assert not same(first, small(random_state=1).fit(images, clients=clients))


def test_clients_in_any_order(small, few):
    images, clients = few
    order = np.argsort(clients[::-1], kind="stable")  # each client's images keep their order
    by_client = np.concatenate([np.flatnonzero(clients == m) for m in (2, 0, 1)])
    a = small().fit(images, clients=clients)
    assert len(order) == len(by_client)
    assert same(a, small().fit(images[by_client], clients=clients[by_client]))


@pytest.mark.parametrize("lanes", [2, 5])
def test_lanes_give_the_same_bits(small, few, lanes):
    images, clients = few
    a = small(n_rounds=2).fit(images, clients=clients)
    initial_model.cache_clear()  # so that all lanes ask for the first weights at once
    b = small(n_rounds=2, lanes=lanes)
    threads = set()
    prepare = b._prepare
    b._prepare = lambda shape: threads.add(get_ident()) or prepare(shape)
    b.fit(images, clients=clients)
    assert len(threads) == min(lanes, 3)
    assert a.model_.centers.tobytes() == b.model_.centers.tobytes()
    for name, tensor in a.model_.tensors.items():
        assert tensor.tobytes() == b.model_.tensors[name].tobytes(), name


def test_one_client_equals_centralized(small, few):
    images, clients = few
    central = small([6, 5], cls=CentralDeepCluster).fit(images, clients=clients)
    one = small([6, 5], clusterer="central").fit(images, clients=["pooled"] * len(images))
    assert central.model_.tensors.keys() == one.model_.tensors.keys()
    for name, array in central.model_.tensors.items():
        np.testing.assert_array_equal(array, one.model_.tensors[name])
    np.testing.assert_array_equal(central.model_.centers, one.model_.centers)


@pytest.mark.parametrize("stop", [1, 2])
def test_going_on_equals_no_interruption(small, few, stop):
    images, clients = few
    options = {"n_rounds": 3, "server_momentum": 0.5, "ema": 0.5}
    whole = list(small([6, 4], **options).train(images, clients=clients))
    run = small([6, 4], **options).train(images, clients=clients)
    states = [next(run) for _ in range(stop)]
    rest = list(small([6, 4], **options).train(images, clients=clients, start=states[-1]))
    assert [s.round for s in rest] == list(range(stop + 1, 4))
    assert rest[-1].model == whole[-1].model


@pytest.mark.parametrize("clusterer", FEDERATED)
def test_every_method_can_cluster(small, few, clusterer):
    images, clients = few
    params = {"n_rounds": 1} if clusterer in ("fuzzy", "lloyd") else {}
    deep = small([6, 4], clusterer=clusterer, clusterer_params=params, n_rounds=1)
    deep.fit(images, clients=clients)
    heads = deep.model_.tensors["head"]
    assert np.bincount(heads).tolist() == [6, 4]
    assert deep.states_[-1]["clusters"] == 10


@pytest.fixture(scope="module")
def plain(small, few):
    """The loss without any option."""
    images, clients = few
    return small().fit(images, clients=clients).model_.tensors["report.loss"]


@pytest.mark.parametrize(
    "option",
    [
        {"batch_norm": "recalibrate"}, {"ema": 0.9}, {"server_momentum": 0.9}, {"small_crops": 1},
        {"warmup_rounds": 1}, {"views": 1}, {"temperature": 0.2},
    ],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_every_option_trains_and_matters(small, few, plain, option):
    images, clients = few
    changed = small(**option).fit(images, clients=clients).model_
    assert all(np.isfinite(a).all() for a in changed.tensors.values())
    assert plain != changed.tensors["report.loss"]


# ------------------------------------------------------------------------------------- collapse


def test_collapse_is_reported_and_survived(small):
    """The same image everywhere: one projection, one cluster, and no crash."""
    images = np.full((60, 3, 8, 8), 77, dtype=np.uint8)
    deep = small(4, crop=1.0, color=0.0, grayscale=0.0).fit(images, clients=np.arange(60) % 3)
    last = deep.states_[-1]
    assert last["collapsed"]
    assert last["clusters_used"] == 1
    assert last["spread"] < 0.1
    assert np.isfinite(last["loss"])


def test_missing_centers_are_seeded_anew(small, few, monkeypatch):
    images, clients = few
    whole = FeCA.aggregate

    def only_one(self, *args):
        model = whole(self, *args)
        return self.make_model(np.repeat(model.centers[:1], 6, axis=0))  # all the same

    monkeypatch.setattr(FeCA, "aggregate", only_one)
    seeded, left = (
        small(6, n_rounds=1, reseed=r).fit(images, clients=clients).states_[-1]
        for r in (True, False)
    )
    assert left["clusters_used"] == 1
    assert left["collapsed"]
    assert seeded["clusters_used"] == 6
    assert not seeded["collapsed"]


# ------------------------------------------------------------------------------ messages, privacy


def test_what_leaves_a_client(small, few):
    images, _ = few
    deep = small([6, 5], min_cluster_size=5, clusterer="feca")
    first = Client("a", images, deep).answer(Broadcast(0, 0))
    statistics = {n for n in first.tensors if n.endswith(("running_mean", "running_var"))}
    assert set(first.tensors) == {*statistics, "image_size"}
    model = deep.aggregate([first], Broadcast(0, 0), np.random.default_rng(0))
    clustered = Client("a", images, deep).answer(Broadcast(1, 0, model))
    assert set(clustered.tensors) == {"head"}
    assert clustered.counts is None  # FeCA's server needs none
    assert clustered.radii is not None


@pytest.mark.parametrize("min_cluster_size", [1, 5])
@pytest.mark.parametrize("clusterer", FEDERATED)
def test_clusters_of_single_images_never_leave(small, few, clusterer, min_cluster_size):
    images = few[0][:60]
    deep = small([6, 5], min_cluster_size=min_cluster_size, clusterer=clusterer)
    for sender in (Client("a", images, deep), Client("a", images, deep, Guard(5))):
        first = sender.answer(Broadcast(0, 0))
        model = deep.aggregate([first], Broadcast(0, 0), np.random.default_rng(0))
        sent = sender.answer(Broadcast(1, 0, model)).tensors
        assert not [name for name, tensor in sent.items() if len(images) in tensor.shape], set(sent)


def test_small_clusters_are_merged_before_they_leave(small, few):
    images, _ = few
    deep = small([20, 20], min_cluster_size=30, clusterer="match")
    guarded = Client("a", images[:80], deep, Guard(min_cluster_size=30))
    first = guarded.answer(Broadcast(0, 0))
    model = deep.aggregate([first], Broadcast(0, 0), np.random.default_rng(0))
    clustered = guarded.answer(Broadcast(1, 0, model))
    assert len(clustered.centers) <= 4  # two heads, 80 images, 30 at least


def test_momentum_stays_at_the_server(small, few, monkeypatch):
    """Clients receive no more than without it, and it is there when a run goes on."""
    images, clients = few
    seen = []
    summarize = DeepFeCA.summarize

    def spy(self, X, broadcast, rng):
        seen.append(broadcast)
        return summarize(self, X, broadcast, rng)

    monkeypatch.setattr(DeepFeCA, "summarize", spy)
    deep = small(n_rounds=2, server_momentum=0.5)
    states = list(deep.train(images, clients=clients))
    names = {name for one in seen if one.model is not None for name in one.model.tensors}
    assert "weights.stem.weight" in names
    assert not [name for name in names if "velocity" in name]
    assert "server.velocity.weights.stem.weight" in states[-1].model.tensors
    plain = list(small(n_rounds=2).train(images, clients=clients))
    down = [[s.numbers["bytes_down"] for s in run] for run in (states, plain)]
    assert down[0] == down[1]
    assert not [n for n in deep.fit(images, clients=clients).model_.tensors if "velocity" in n]


# -------------------------------------------------------------------------------------- estimator


def test_it_is_an_estimator(small, few):
    images, clients = few
    deep = small(n_rounds=1).fit(images, clients=clients)
    again = pickle.loads(pickle.dumps(deep))
    np.testing.assert_array_equal(again.transform(images), deep.transform(images))
    labels = deep.predict(images)
    assert labels.shape == (240,)
    assert labels.max() < 6
    assert not hasattr(clone(deep), "model_")
    assert deep.configuration()["n_clusters"] == 6


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_clusters": 1}, "n_clusters of DeepFeCA"),
        ({"n_clusters": []}, "n_clusters of DeepFeCA"),
        ({"clusterer": "x"}, "clusterer of DeepFeCA"),
        ({"clusterer_params": {"x": 1}}, "FeCA has no parameter .x"),
        ({"clusterer_params": {"n_init": 0}}, "n_init of FeCA"),
        ({"clusterer_params": 3}, "clusterer_params of DeepFeCA"),
        ({"network": "vgg"}, "network of DeepFeCA"),
        ({"crop": 0}, "crop of DeepFeCA"),
        ({"ema": 1.0}, "ema of DeepFeCA"),
        ({"device": "toaster"}, "device of DeepFeCA"),
        ({"batch_size": 1}, "batch_size of DeepFeCA"),
    ],
)
def test_bad_parameters(few, params, message):
    with pytest.raises(ParameterError, match=message):
        DeepFeCA().set_params(**{"network": "small", **params}).fit(few[0])


def test_too_few_images_for_k(small, few):
    with pytest.raises(ParameterError, match="n_clusters of DeepFeCA"):
        small([4, 12]).fit(few[0][:10])


def test_pooled_clustering_of_several_clients_is_no_federation(small, few):
    with pytest.raises(ParameterError, match="'central' pools all images, so it cannot run over"):
        small(clusterer="central").fit(few[0], clients=few[1])


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((4, 3, 8, 8)),
        np.zeros((4, 8, 8), np.uint8),
        np.zeros((0, 3, 8, 8), np.uint8),
        np.zeros((4, 3, 7, 8), np.uint8),
    ],
)
def test_bad_images(small, bad):
    with pytest.raises(DataError, match="images of DeepFeCA"):
        small().fit(bad)


def test_it_makes_no_promise_that_it_cannot_keep(digits):
    """Weights leave without noise, so a client with privacy answers nothing."""
    client = Client("a", digits.train[:8], DeepFeCA(2), privacy=Privacy(1.0, bounds=(-1, 1)))
    with pytest.raises(ParameterError, match="weights leave without noise.*public network"):
        client.answer(Broadcast(0, 0))


@pytest.mark.parametrize(
    "learning_rate", [1e8, 1e30]
)  # finite weights without finite projections, or none
def test_training_that_diverges_says_what_to_change(small, few, learning_rate):
    deep = small(n_rounds=4, learning_rate=learning_rate)
    with pytest.raises(DivergedError, match="diverged in round .*learning rate.*warmup_rounds"):
        deep.fit(few[0], clients=few[1])


def test_weights_of_another_network_are_told(small, few):
    deep = small(n_rounds=1).fit(few[0], clients=few[1])
    deep.set_params(network="resnet18-half")
    with pytest.raises(MessageError, match="weights do not fit the network"):
        deep.transform(few[0])
    assert deep.set_params(network="small").transform(few[0]).shape == (240, 64)
