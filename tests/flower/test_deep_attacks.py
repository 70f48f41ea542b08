"""A hostile coordinator and sites of images; a hostile site and the server of DeepFeCA."""

import resource
import tomllib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import pytest

pytest.importorskip("torch")

from fedjigsaw.deep import DeepFeCA, images
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.site import ImageSite
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.engine import FlowerEngine
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import load_site
from fedjigsaw.messages import IMAGE_SIZE, Broadcast, Model
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.policy import RefusedError
from flower_doubles import LocalGrid
from pages_as_code import blocks, page, section

pytestmark = pytest.mark.deep

NAMES = ("bern", "lyon", "oslo")
SMALL = {"network": "small", "n_rounds": 2, "local_epochs": 1, "batch_size": 32, "device": "cpu"}


@pytest.fixture(scope="module")
def digits():
    return images.load("digits").train[:150]


@pytest.fixture(scope="module")
def place(digits, tmp_path_factory):
    """The images of three sites."""
    place = tmp_path_factory.mktemp("images")
    for i, name in enumerate(NAMES):
        np.savez(place / f"{name}.npz", images=digits[i::3])
    return place


@pytest.fixture
def start(place, tmp_path):
    """Start a site that allows DeepFeCA by the rules of the page, and others before them."""
    text = section(page("docs/federation.md"), "Images: a network that learns from all sites")
    (rules,) = blocks(text, "toml")
    assert tomllib.loads(rules)["methods"] == ["deepfeca"]

    def make(others=""):
        (tmp_path / "policy.toml").write_text(others + rules)
        options = {"kind": "images", "name": "bern", "data": str(place / "bern.npz")}
        own = {"folder": str(tmp_path), "device": "cpu", "accept_policy": True}
        return load_site(options | own)

    return make


@pytest.fixture
def site(start):
    return start()


@contextmanager
def bounded(seconds, megabytes):
    """Fail if the block computes longer, or takes more memory than the process has and this."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + megabytes * 2**20
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    began = process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert process_time() - began < seconds


def ask(number=0, model=None, timeout=20.0, **settings):
    params = {"n_clusters": 5, "clusterer": "jigsaw", **SMALL, **settings}
    return Question(Broadcast(number, 0, model), "deepfeca", params, timeout)


FUZZY = {"clusterer": "fuzzy"}
TOO_MUCH = {
    "rounds": {"n_rounds": 10**6},
    "rounds of the clusterer": {**FUZZY, "clusterer_params": {"n_rounds": 10**12}},
    "epochs": {"local_epochs": 10**6},
    "batch": {"batch_size": 2**20},
    "views": {"views": 1000},
    "small crops": {"small_crops": 1000},
    "clusters": {"n_clusters": 10**9},
    "heads": {"n_clusters": [2] * 10**5},
    "local clusters": {"clusterer_params": {"n_local_clusters": 10**9}},
    "cells": {"clusterer_params": {"detail": 50}},
    "starts": {"clusterer_params": {"n_init": 10**9}},
    "iterations": {**FUZZY, "clusterer_params": {"max_iter": 10**9}},
    "clusters of the clusterer": {"clusterer_params": {"n_clusters": "auto"}},
    "seed of the clusterer": {"clusterer_params": {"random_state": 3}},
}


@pytest.mark.parametrize("settings", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_question_that_asks_for_too_much_is_refused_at_once(site, settings):
    with bounded(10, 300), pytest.raises((RefusedError, ParameterError)):
        site.answer(ask(**settings))


def weights(**changed):
    """The first network, with other centers or tensors."""
    start = initial_model("small", 0)
    width = start.centers.shape[1]
    rng = np.random.default_rng(0)
    centers = changed.pop("centers", rng.normal(size=(5, width)))
    known = {"head": np.zeros(len(centers), dtype=np.int64), IMAGE_SIZE: np.array([8, 8])}
    tensors = {**start.tensors, **known, **changed}
    tensors = {name: array for name, array in tensors.items() if array is not None}
    names = tuple(f"projection {i}" for i in range(centers.shape[1]))
    return Model(centers, "deepfeca", {}, names, tensors)


CRAFTED = {
    "NaN": weights(**{"weights.stem.weight": np.full((16, 3, 3, 3), np.nan, np.float32)}),
    "shape": weights(**{"weights.stem.weight": np.zeros((16, 3, 3, 2), np.float32)}),
    "missing": weights(**{"weights.stem.weight": None}),
    "more": weights(**{"weights.more": np.zeros(3, np.float32)}),
    "more centers than clusters": weights(centers=np.eye(32)[[0, 1, 2, 3, 4, 5, 6]]),
    "very many centers": weights(centers=np.tile(np.eye(32), (5000, 1))),
    "other width": weights(centers=np.eye(7)),
    "no heads": weights(head=None),
    "heads of another kind": weights(head=np.zeros(5)),
    "fewer heads": weights(head=np.zeros(3, dtype=np.int64)),
    "a head too many": weights(head=np.arange(5)),
    "no centers": weights(centers=np.zeros((0, 32))),
}


@pytest.mark.parametrize("model", CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_model_is_a_message_that_cannot_be_used(site, model):
    with bounded(10, 600), pytest.raises(MessageError):
        site.answer(ask(2, model))


@pytest.mark.parametrize("number", [1, 2])
def test_a_network_that_makes_no_numbers_of_images_is_refused(site, number):
    """In compiled k-means, NaN led to writes beyond the ends of arrays."""
    start = initial_model("small", 0).tensors
    large = {n: np.full(a.shape, 9e5, a.dtype) for n, a in start.items() if n.startswith("weights")}
    with pytest.raises(MessageError, match="gives NaN or infinity"):
        site.answer(ask(number, weights(**large)))


@pytest.mark.parametrize("clusterer", ["jigsaw", "feca"])
def test_counts_and_sums_leave_as_the_policy_lets_them(start, clusterer):
    """Whatever the method that clusters the projections needs."""
    stricter = start('counts = "rounded"\nsums = "none"\n')
    sent = stricter.answer(ask(1, weights(head=None), clusterer=clusterer)).summary
    assert sent.sse is None
    assert sent.counts is None or not (sent.counts % 5).any()
    sizes = stricter.answer(ask(2, weights(), clusterer=clusterer)).summary.tensors["report.sizes"]
    assert not (sizes % 5).any()
    with pytest.raises(ParameterError, match="'exact' or 'rounded' with images"):
        start('counts = "none"\n')


def test_a_model_as_it_should_be_is_answered(site):
    assert site.answer(ask(2, weights())).summary.n_samples == 50


# ---------------------------------------------------------------------------- hostile sites


def run(place, liar, settings=None):
    """A run of three sites, one of which changes its summaries by `liar`."""

    def app(name):
        held = ImageSite(name, str(place / f"{name}.npz"), device="cpu", guard=Guard(1))

        class Lying:
            def answer(self, question):
                file = held.answer(question)
                if name != "bern":
                    return file
                return replace(file, summary=liar(file.summary))

        return client_app(lambda context: Lying())

    grid = LocalGrid({name: app(name) for name in NAMES})
    deep = DeepFeCA.from_settings({"n_clusters": 5, "random_state": 0, **SMALL, **(settings or {})})
    engine = FlowerEngine(grid, deep, names=NAMES, timeout=60, wait=0.0)
    return federate(engine, min_sites=2)


def in_clustering(change):
    """A lie about centers, where there are some."""
    return lambda summary: change(summary) if len(summary.centers) else summary


def with_centers(summary, centers, **inner):
    """The summary with other centers, and other tensors of the only head."""
    rest = {"head": np.zeros(len(centers), dtype=np.int64), **inner}
    counts = None if summary.counts is None else np.ones(len(centers), dtype=np.int64)
    radii = None if summary.radii is None else np.ones(len(centers))
    sse = None if summary.sse is None else np.ones(len(centers))
    return replace(summary, centers=centers, counts=counts, radii=radii, sse=sse, tensors=rest)


LIES = {
    "huge centers": lambda s: with_centers(s, np.full(s.centers.shape, 1e300)),
    "long centers": lambda s: with_centers(s, 3 * np.eye(s.centers.shape[1])[:5]),
    "no width": lambda s: with_centers(s, np.zeros((5, 0))),
    "other width": lambda s: with_centers(s, np.eye(7)[:5]),
}
MANY = 6000  # centers, more than FeCA takes from a client


def many_centers(summary):
    rng = np.random.default_rng(0)
    centers = rng.uniform(-0.1, 0.1, size=(MANY, summary.centers.shape[1]))
    return with_centers(replace(summary, n_samples=MANY), centers)


def no_counts(summary):
    return replace(summary, counts=np.zeros_like(summary.counts))


# what the method that clusters the projections does not take
INNER_LIES = {
    "jigsaw, no counts": ("jigsaw", no_counts),
    "jigsaw, huge sums": ("jigsaw", lambda s: replace(s, sse=np.full_like(s.sse, 1e308))),
    "feca, many centers": ("feca", many_centers),
    "match, more than k centers": ("match", lambda s: with_centers(s, np.eye(32)[:6])),
    "fuzzy, negative squares": (
        "fuzzy",
        lambda s: with_centers(s, s.centers, **{"inner.0.sum_of_squares": np.full(32, -1.0)}),
    ),
    "mufc, no counts": ("mufc", no_counts),
}


def with_tensors(end, value):
    """A lie in all tensors whose names end so."""

    def lie(summary):
        tensors = {
            n: np.full(a.shape, value, a.dtype) if n.endswith(end) else a
            for n, a in summary.tensors.items()
        }
        return replace(summary, tensors=tensors)

    return lie


NUMBERS = {
    "negative variance": with_tensors("running_var", -1),
    "huge variance": with_tensors("running_var", 3e38),
    "huge mean": with_tensors("running_mean", 3e38),
    "NaN": with_tensors("weight", np.nan),
    "huge weights": with_tensors("weight", 3e38),
    "projections too long": with_tensors("mean_projection", 3e38),
}


ALL_LIES = {
    **{name: (None, lie) for name, lie in NUMBERS.items()},
    **{f"{c}, {name}": (c, lie) for c in ("feca", "jigsaw") for name, lie in LIES.items()},
    **INNER_LIES,
}


@pytest.mark.parametrize(("clusterer", "lie"), ALL_LIES.values(), ids=ALL_LIES)
def test_a_lie_costs_a_site_its_place_and_does_not_end_the_run(place, lie, clusterer):
    settings = {} if clusterer is None else {"clusterer": clusterer, "n_rounds": 1}
    if clusterer == "fuzzy":
        settings["clusterer_params"] = {"n_rounds": 1}
    with bounded(60, 600):
        file, transcript = run(place, lie if clusterer is None else in_clustering(lie), settings)
    assert {failure.client for failure in transcript.failures} == {"bern"}
    assert all(np.isfinite(tensor).all() for tensor in file.model.tensors.values())
