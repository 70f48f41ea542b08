"""A site that holds images: what it sends, and what it refuses."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fedjigsaw.deep import DeepFeCA
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.recipes import RECIPES
from fedjigsaw.deep.site import ImageSite
from fedjigsaw.deep.trainer import Trainer
from fedjigsaw.errors import DataError, MessageError, ParameterError
from fedjigsaw.messages import IMAGE_SIZE, Broadcast
from fedjigsaw.privacy.guard import Guard


@pytest.fixture(scope="module")
def data(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "bern.npz"
    np.savez(path, images=digits.train[:80])
    return str(path)


def first_model():
    """Return a model as it is after the first step, which tells how large the images are."""
    start = initial_model("small", 0)
    return replace(start, tensors={**start.tensors, IMAGE_SIZE: np.array([8, 8])})


def question(deep, number=0, model=None):
    return SimpleNamespace(
        method=deep.method, params=deep.configuration(), broadcast=Broadcast(number, 0, model)
    )


def site(data, size=1):
    return ImageSite("bern", data, device="cpu", guard=Guard(size))


def test_the_guard_of_a_site_holds_whatever_the_server_asks_for(small, data):
    deep = small(20, clusterer="jigsaw")
    model = first_model()
    centers = site(data, 6).answer(question(deep, 1, model))
    assert centers.summary.client == "bern"
    assert centers.summary.counts.min() >= 6
    assert len(centers.summary.centers) < 20
    assert centers.guard == {"min_cluster_size": 6, "counts": "exact"}
    stricter = small(20, clusterer="jigsaw", min_cluster_size=15)
    assert site(data, 6).answer(question(stricter, 1, model)).summary.counts.min() >= 15


def test_a_network_is_made_once_for_all_questions_of_a_run(small, data, monkeypatch):
    made, make = [], Trainer.__init__
    monkeypatch.setattr(Trainer, "__init__", lambda *args: made.append(1) or make(*args))
    start, bern = first_model(), site(data)
    deep, other = (small(k, clusterer="jigsaw") for k in (20, 10))
    first, again, of_other, last = (
        bern.answer(question(one, 1, start)).summary for one in (deep, deep, other, deep)
    )
    assert len(made) == 3
    assert first == again == last
    assert (len(first.centers), len(of_other.centers)) == (20, 10)


def is_coarse(values):
    """Tell whether numbers have few digits: steps of a guard are larger than this one here."""
    steps = np.ldexp(values, 12)
    return (steps == np.rint(steps)).all()


def test_counts_and_sums_leave_as_the_guard_of_the_site_lets_them(small, data):
    """Centers are rounded, too: with all digits, the mean of one image more shows the image."""
    start = first_model()
    asked = question(small(20, clusterer="jigsaw"), 1, start)
    exact, careful = (
        ImageSite("bern", data, device="cpu", guard=guard).answer(asked)
        for guard in (Guard(1), Guard(6, "rounded", sums=False))
    )
    assert not is_coarse(exact.summary.centers)
    assert exact.summary.sse is not None
    assert is_coarse(careful.summary.centers)
    assert careful.summary.sse is None
    assert set(careful.summary.counts % 6) == {0}
    assert careful.guard == {"min_cluster_size": 6, "counts": "rounded"}


def test_the_report_of_a_site_tells_no_more_than_its_guard_lets_it(small, data):
    start = first_model()
    centers = np.eye(20, start.centers.shape[1])
    model = replace(start, centers=centers, tensors={**start.tensors, "head": np.zeros(20, int)})
    asked = question(small(20, clusterer="jigsaw"), 2, model)
    exact, careful = (
        ImageSite("bern", data, device="cpu", guard=guard).answer(asked).summary.tensors
        for guard in (Guard(1), Guard(6, "rounded"))
    )
    sizes, told = exact["report.sizes"], careful["report.sizes"]
    assert sizes.sum() == 80
    assert (sizes % 6).any()
    assert (told[sizes < 6] == 0).all()
    assert set(told % 6) == {0}
    assert np.abs(told - sizes)[sizes >= 6].max() <= 3
    means = [sent["report.mean_projection"] for sent in (exact, careful)]
    assert not is_coarse(means[0])
    assert is_coarse(means[1])
    assert np.abs(means[0] - means[1]).max() < 0.1


def test_numbers_of_images_cannot_be_kept_back(data):
    with pytest.raises(ParameterError, match="'exact' or 'rounded' with images"):
        ImageSite("bern", data, guard=Guard(5, "none"))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_nothing_leaves_a_site_with_fewer_images_than_its_guard_asks_for(small, data, number):
    deep, few = small(3), site(data, 81)
    with pytest.raises(DataError, match="80 images, fewer than min_cluster_size = 81: nothing may"):
        few.answer(question(deep, number, first_model()))
    with pytest.raises(DataError, match="nothing may leave"):
        few.check()


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_site_answers_what_a_recipe_asks_first(data, recipe):
    """With images to validate on, as in "best", its files said more rows than there were."""
    settings = {**RECIPES[recipe], "network": "small", "device": "cpu", "random_state": 0}
    file = site(data, 5).answer(question(DeepFeCA.from_settings(settings)))
    assert file.n_used == file.summary.n_samples <= 80


@pytest.mark.parametrize(("share", "n_trained"), [(0.999, 5), (0.001, 75), (0.5, 40)])
def test_no_share_to_validate_on_singles_out_an_image(small, data, monkeypatch, share, n_trained):
    """The mean projection of one image is that of the image, and its loss is about it alone."""
    seen = []
    validate, calibrate = Trainer.validate, Trainer.calibrate
    monkeypatch.setattr(Trainer, "validate", lambda *own: seen.append(own[1]) or validate(*own))
    monkeypatch.setattr(Trainer, "calibrate", lambda *own: seen.append(own[1]) or calibrate(*own))
    deep = small(2, validation_share=share, n_rounds=1, batch_norm="recalibrate")
    start = first_model()
    centers = np.eye(2, start.centers.shape[1])
    model = replace(start, centers=centers, tensors={**start.tensors, "head": np.zeros(2, int)})
    kinds = [step.kind for step in deep.plan()]
    for kind, given in (("calibrate", None), ("train", model)):
        number = kinds.index(kind)
        sent = site(data, 5).answer(question(deep, number, given)).summary
        assert sent.n_samples == n_trained, kind
    assert [len(images) for images in seen] == [n_trained, 80 - n_trained]


def test_weights_that_are_not_finite_are_refused(small, data):
    deep = small(5)
    start = first_model()
    bad = {**start.tensors, "weights.stem_norm.bias": np.full(16, np.nan, np.float32)}
    with pytest.raises(MessageError, match="NaN or infinity in tensor 'weights.stem_norm.bias'"):
        site(data).answer(question(deep, 1, replace(start, tensors=bad)))


def test_the_site_decides_where_it_computes(small, data, monkeypatch):
    used = []
    summarize = DeepFeCA.summarize

    def spy(self, *args):
        config = self.configuration()
        used.append((config["device"], config["compile"]))
        return summarize(self, *args)

    monkeypatch.setattr(DeepFeCA, "summarize", spy)
    file = site(data).answer(question(small(5, device="cuda:7", compile=True)))
    assert used == [("cpu", False)]
    assert file.params["device"] == "cuda:7"  # as it was asked


def test_other_methods_and_unknown_parameters_are_refused(small, data):
    asked = question(small(5))
    asked.method = "feca"
    with pytest.raises(ParameterError, match="'bern' holds images: it can run deepfeca, not feca"):
        site(data).answer(asked)
    asked.method, asked.params = "deepfeca", {"colour": 3}
    with pytest.raises(ParameterError, match="'colour'"):
        site(data).answer(asked)


def test_bad_images_and_devices_are_found_before_the_first_question(tmp_path, data):
    (tmp_path / "a.npz").write_text("no images")
    with pytest.raises(DataError, match=r"a\.npz"):
        ImageSite("a", str(tmp_path / "a.npz"), device="cpu").check()
    with pytest.raises(ParameterError, match="min_cluster_size"):
        ImageSite("a", data, guard=Guard(0))
    for device in ("gpu7", "cuda:99"):
        with pytest.raises(ParameterError, match="torch device"):
            ImageSite("a", data, device=device).check()


def test_files_that_are_left_out_are_told_before_the_first_question(tmp_path):
    for i in range(5):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.png")
    here = ImageSite("a", str(tmp_path), device="cpu")
    assert here.check() is None
    (tmp_path / "6.heic").write_bytes(b"other")
    assert here.check() == "Left out 1 file: 1 .heic."
