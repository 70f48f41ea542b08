"""DeepFeCA over Flower, on a grid in this process: same bits, and what may leave a site of images."""

import numpy as np
import pytest

pytest.importorskip("torch")

from dataclasses import replace
from types import SimpleNamespace

from fedjigsaw.deep import DeepFeCA, images
from fedjigsaw.deep.site import ImageSite
from fedjigsaw.errors import QuorumError
from fedjigsaw.flower import records
from fedjigsaw.flower.agreement import OTHER_SIZE
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.engine import FlowerEngine
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.rounds import federate
from fedjigsaw.messages import Broadcast
from fedjigsaw.privacy.guard import Guard
from flower_doubles import LocalGrid

NAMES = ("bern", "lyon")
QUICK = {"network": "small", "n_rounds": 2, "local_epochs": 1, "batch_size": 32, "device": "cpu"}


pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def digits():
    return images.load("digits").train[:160], np.array(NAMES)[np.arange(160) % 2]


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    """What each site holds, as a file."""
    place = tmp_path_factory.mktemp("images")
    for name in NAMES:
        np.savez(place / f"{name}.npz", images=digits[0][digits[1] == name])
    return place


def image_site(folder, name, size=1):
    return ImageSite(name, str(folder / f"{name}.npz"), device="cpu", guard=Guard(size))


def run(folder, deep, min_sites=None, names=NAMES, first=None, **spoiled):
    """Name -> what becomes of the tensors that this site sends when it has trained.

    `first` is name -> what becomes of the tensors of its first answer.
    """

    def app(name):
        site = image_site(folder, name)

        def answer(question):
            assert question.shown is None  # weights of one site are not for the others
            file = site.answer(question)
            if name in spoiled and "report.loss" in file.summary.tensors:
                tensors = spoiled[name](dict(file.summary.tensors))
                file = replace(file, summary=replace(file.summary, tensors=tensors))
            if name in (first or {}) and not question.broadcast.round:
                tensors = first[name](dict(file.summary.tensors))
                file = replace(file, summary=replace(file.summary, tensors=tensors))
            return file

        return client_app(lambda context: SimpleNamespace(answer=answer))

    grid = LocalGrid({name: app(name) for name in names})
    engine = FlowerEngine(grid, deep, names=names, timeout=60, wait=0.0)
    return federate(engine, min_sites=min_sites)


def made(n_clusters, **settings):
    return DeepFeCA.from_settings({"n_clusters": n_clusters, **QUICK, **settings})


def question(deep, number=0, model=None):
    return Question(Broadcast(number, 0, model), deep.method, deep.configuration())


@pytest.mark.parametrize(
    "options",
    [
        {"clusterer": "feca"},
        {"clusterer": "jigsaw", "n_clusters": [6, 4], "ema": 0.5, "server_momentum": 0.3},
        {"clusterer": "fuzzy", "clusterer_params": {"n_rounds": 1}},
    ],
    ids=str,
)
def test_same_bits_as_in_process(digits, folder, options):
    deep = made(**{"n_clusters": 5, "random_state": 3} | options)
    file, transcript = run(folder, deep)
    inside = deep.fit(digits[0], clients=digits[1])
    assert file.model == replace(inside.model_, feature_names=file.columns)
    assert (file.clients, file.n_samples) == (NAMES, 160)
    assert len(transcript.rounds) == deep.total_rounds
    assert [r.bytes_up for r in transcript.rounds] == [
        r.bytes_up for r in inside.transcript_.rounds
    ]


SPOILED = {
    "shape": lambda t: {**t, "weights.stem.weight": t["weights.stem.weight"][:1]},
    "missing": lambda t: {n: a for n, a in t.items() if n != "weights.stem.weight"},
    "too large": lambda t: {**t, "weights.stem_norm.bias": np.full(16, 1e300)},
    "sizes": lambda t: {**t, "report.sizes": t["report.sizes"][1:]},
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize("name", NAMES)
def test_one_bad_site_does_not_end_the_run(folder, spoil, name):
    """Neither the first by name nor the last; the model is that of the other, and says so."""
    deep = made(5, n_rounds=1, random_state=0)
    file, transcript = run(folder, deep, min_sites=1, **{name: spoil})
    assert {f.client: f.reason for f in transcript.failures} == {name: "its answer is not valid"}
    assert file.partly == (name,)
    assert all(np.isfinite(tensor).all() for tensor in file.model.tensors.values())
    with pytest.raises(QuorumError, match=f"'{name}' failed: its answer is not valid"):
        run(folder, deep, **{name: spoil})


def test_training_that_diverges_is_told_as_such(folder):
    deep = made(5, learning_rate=1e30, random_state=0)
    with pytest.raises(QuorumError, match="'bern' failed: its training diverged: lower the lear"):
        run(folder, deep)


@pytest.fixture
def sizes(folder, tmp_path):
    """Two sites with small images, and one, the first by name, with large ones."""
    large = np.load(folder / "lyon.npz")["images"].repeat(2, axis=2).repeat(2, axis=3)
    np.savez(tmp_path / "aosta.npz", images=large)
    for name in NAMES:
        (tmp_path / f"{name}.npz").write_bytes((folder / f"{name}.npz").read_bytes())
    return tmp_path


OF_SIZE = f"{OTHER_SIZE}: 16 x 16 pixels, theirs 8 x 8; start it with their --size"


def test_a_site_with_images_of_another_size_does_not_end_the_run(sizes, folder):
    """It is named, and takes no part in later rounds, where nobody compares sizes."""
    deep, names = made(5, random_state=0), ("aosta", *NAMES)
    file, transcript = run(sizes, deep, 2, names)
    assert file.model == run(folder, deep)[0].model
    assert (file.clients, file.partly) == (NAMES, ())
    reasons = [failure.reason for failure in transcript.failures]
    assert {failure.client for failure in transcript.failures} == {"aosta"}
    assert reasons[0] == OF_SIZE
    assert len(reasons) == deep.total_rounds
    assert all(reason.startswith(records.REASONS["data"]) for reason in reasons[1:])
    with pytest.raises(QuorumError, match="'aosta' failed: the size of its images is not that of"):
        run(sizes, deep, None, names)


def test_a_site_that_lies_about_the_size_of_its_images_is_set_aside(folder):
    def lie(tensors):
        return {**tensors, "image_size": np.array([16, 16])}

    deep = made(5, n_rounds=1, random_state=0)
    (folder / "aosta.npz").write_bytes((folder / "lyon.npz").read_bytes())
    file, transcript = run(folder, deep, 2, ("aosta", *NAMES), {"aosta": lie})
    assert [failure.reason for failure in transcript.failures] == [OF_SIZE]
    assert file.partly == ("aosta",)
