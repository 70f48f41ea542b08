"""DeepFeCA over Flower, on a grid in this process: same bits, and what may leave a site of images."""

import json
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from dataclasses import replace
from types import SimpleNamespace

from fedjigsaw import cli
from fedjigsaw.deep import DeepFeCA, checkpoint, images
from fedjigsaw.deep.recipes import RECIPES
from fedjigsaw.deep.site import ImageSite
from fedjigsaw.errors import MessageError, ParameterError, QuorumError
from fedjigsaw.flower import jobs, records
from fedjigsaw.flower.agreement import OTHER_SIZE
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.engine import FlowerEngine
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import load_site
from fedjigsaw.io import formats
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.policy import Policy
from fedjigsaw.report.inspection import describe
from flower_doubles import LocalGrid
from pages_as_code import blocks, page, section

NAMES = ("bern", "lyon")
QUICK = {"network": "small", "n_rounds": 2, "local_epochs": 1, "batch_size": 32, "device": "cpu"}


pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("quick")]


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


def test_a_site_that_tells_no_size_is_set_aside(folder):
    def silent(tensors):
        return {name: tensor for name, tensor in tensors.items() if name != "image_size"}

    deep = made(5, n_rounds=1, random_state=0)
    file, transcript = run(folder, deep, 1, first={"bern": silent})
    assert transcript.failures[0].client == "bern"
    assert file.model.tensors["image_size"].tolist() == [8, 8]


def test_a_site_of_images_by_options(folder):
    options = {"kind": "images", "name": "bern", "data": str(folder / "bern.npz"), "device": "cpu"}
    site = load_site(json.loads(json.dumps(options)))
    site.check()
    with pytest.raises(ParameterError, match="holds images"):
        site.answer(Question(Broadcast(0, 0), "feca", {"n_clusters": 3}))


def test_what_a_run_of_it_may_be():
    job = jobs.Job("deepfeca", [6, 4], {"network": "small"}, 7)
    assert job.make_method().configuration() == (
        DeepFeCA.from_settings(
            {"n_clusters": [6, 4], "network": "small", "random_state": 7}
        ).configuration()
    )
    too_large = {"ema": 0.9}  # two networks in one message
    for bad in (
        {"colour": 1}, {"network": "none"}, {"clusterer": "none"}, {"clusterer": "central"},
        {"n_clusters": 9}, {"random_state": 5}, too_large,
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            jobs.Job("deepfeca", 3, bad).make_method()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_rules_of_the_page_allow_a_whole_run_of_a_recipe(recipe):
    text = section(page("docs/federation.md"), "Images: a network that learns from all sites")
    (rules,) = blocks(text, "toml")
    policy = Policy.from_values(tomllib.loads(rules), "the page", known=["deepfeca"])
    deep = DeepFeCA.from_settings(RECIPES[recipe])
    last = deep.total_rounds - 1
    for number in (0, last):
        policy.check_question(
            "deepfeca",
            deep.configuration(),
            total_rounds=deep.total_rounds,
            number=number,
            model=number > 0,
        )


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_all_but_its_number_of_clusters(recipe, clinic, monkeypatch, tmp_path):
    asked = []

    def run(home, job, *_, **__):
        asked.append(job)
        raise QuorumError("seen")

    monkeypatch.setattr(jobs, "run_job", run)
    words = f"federation run {clinic} --method deepfeca -k 20,20 -p n_rounds=3 -o {tmp_path}/model"
    done = CliRunner().invoke(cli.app, [*words.split(), "--recipe", recipe])
    assert isinstance(done.exception, QuorumError), done.output
    expected = RECIPES[recipe] | {"n_clusters": [20, 20], "n_rounds": 3}
    found = asked[0].make_method().configuration()
    assert {name: found[name] for name in expected} == expected
    done = CliRunner().invoke(
        cli.app, [*words.replace("deepfeca", "jigsaw").split(), "--recipe", recipe]
    )
    assert "--recipe is for deepfeca" in str(done.exception)


def test_a_model_that_is_too_large_is_told_at_the_server(monkeypatch):
    monkeypatch.setattr(records, "MAX_MESSAGE_BYTES", 1000)
    model = Model(np.zeros((1, 1)), tensors={"weights.a": np.zeros(500, np.float32)})
    with pytest.raises(MessageError, match="at most 1000 bytes"):
        records.pack_question(
            Question(Broadcast(1, 0, replace(model, feature_names=("x",))), "deepfeca")
        )


def test_the_model_is_for_all_commands_of_deep(folder, tmp_path):
    deep = made(5, random_state=3)
    file, _ = run(folder, deep)
    path = tmp_path / "model"
    formats.save(file, path)
    assert "Weights of a network: " in "\n".join(describe(file, 0))
    loaded = checkpoint.load(path)
    assert loaded.state.model == file.model
    assert loaded.state.round == 2
    assert loaded.about == {"clients": list(NAMES), "n_images": 160, "image_size": [8, 8]}
    out = tmp_path / "features.npy"
    words = ["deep", "embed", "digits", "--model", path, "-o", out, "--device", "cpu"]
    done = CliRunner().invoke(cli.app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    expected = loaded.method.transform(images.load("digits").train)
    np.testing.assert_array_equal(np.load(out), expected)
    for words in (
        ["deep", "evaluate", path, "--data", "digits", "--device", "cpu"],
        ["deep", "export", path, "-o", tmp_path / "network.safetensors"],
    ):
        done = CliRunner().invoke(cli.app, list(map(str, words)))
        assert done.exit_code == 0, done.output


def test_a_model_with_weights_of_another_shape_is_no_checkpoint(folder, tmp_path):
    file, _ = run(folder, made(5, n_rounds=1, random_state=3))
    tensors = {**file.model.tensors, "weights.stem_norm.bias": np.zeros(3, np.float32)}
    formats.save(replace(file, model=replace(file.model, tensors=tensors)), tmp_path / "model")
    with pytest.raises(
        MessageError, match=r"model is not .* weights\.stem_norm\.bias .* got float32"
    ):
        checkpoint.load(tmp_path / "model")


def test_a_model_of_rows_is_no_checkpoint(tmp_path):
    path = tmp_path / "model"
    formats.save(formats.ModelFile(Model([[1.0]], "feca", {}, ("x",)), None, ("a",), 1), path)
    with pytest.raises(MessageError, match="written by `fedjigsaw deep train`"):
        checkpoint.load(path)
