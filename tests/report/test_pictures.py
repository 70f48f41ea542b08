import builtins

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.errors import ExtraError, ParameterError
from fedjigsaw.messages import Model
from fedjigsaw.methods import CLUSTERERS, make
from fedjigsaw.report import pictures
from report_files import k_findings

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def draw(grid):
    data, ids = grid
    names = ("feca", "jigsaw", "kfed")
    fitted = {name: make(name, 15, 0).fit(data.X, clients=ids) for name in names}
    return pictures.roadmap(fitted, data, ids)


@pytest.fixture(scope="module")
def figure(grid):
    return draw(grid)


def test_roadmap_shows_data_clients_messages_and_what_every_method_recovers(figure):
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 8
    assert "What Jigsaw recovers: 15 centers" in titles[2]
    assert "3 of 5 clients" in titles[3]
    assert titles[6:] == ["FeCA", "k-FED"]


@pytest.mark.parametrize(("place", "name"), [(2, "jigsaw"), (6, "feca"), (7, "kfed")])
def test_a_method_has_its_color(figure, place, name):
    from matplotlib.colors import to_hex

    rings = figure.axes[place].collections[-1]
    assert to_hex(rings.get_edgecolor()[0]).upper() == CLUSTERERS[name].color
    assert len(rings.get_offsets()) == 15


def test_every_mark_is_explained(figure):
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert "+ true center" in labels[2]
    assert "○ recovered center" in labels[2]
    assert "● sent" in labels
    assert "● center, larger for more rows, in a disc of their spread" in labels[1]


@pytest.mark.parametrize("suffix", MAGIC)
def test_formats(figure, suffix):
    assert pictures.render(figure, suffix).startswith(MAGIC[suffix])


@pytest.mark.parametrize("suffix", MAGIC)
def test_the_same_figure_gives_the_same_bytes(grid, suffix):
    first, second = (pictures.render(draw(grid), suffix) for _ in range(2))
    assert first == second


def test_unknown_format(figure):
    with pytest.raises(ParameterError, match="name of a picture"):
        pictures.render(figure, ".bmp")


def test_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def no_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ExtraError, match=r"pip install 'fedjigsaw\[plots\]'"):
        pictures.new_figure(1, 1)


def marked(axes):
    """The numbers of clusters that are marked."""
    return {int(k) for marks in axes.collections for k in marks.get_offsets()[:, 0]}


class TestKCurve:
    @pytest.fixture
    def fitted(self, grid):
        data, ids = grid
        return Jigsaw("auto", max_clusters=20, random_state=0).fit(data.X, clients=ids)

    def test_shows_every_k_the_choice_and_the_runner_up(self, fitted):
        figure = pictures.k_curve(fitted.model_)
        (index,) = figure.axes
        assert index.lines[0].get_xdata().tolist() == fitted.k_curve_["k"].tolist()
        assert index.lines[0].get_ydata().max() == fitted.k_curve_["index"].max() == 0
        assert marked(index) == {fitted.n_clusters_, fitted.k_runner_up_}
        told = figure.get_suptitle()
        assert f"k = {fitted.n_clusters_} (filled), confidence {fitted.k_confidence_:.2f}" in told
        assert f"runner-up {fitted.k_runner_up_} (open)" in told
        assert "best index" not in told

    def test_the_best_index_is_marked_if_it_was_not_chosen(self):
        curve = np.column_stack([np.arange(1, 7), np.ones(6), [-9000, -800, -70, -6, 0, -3]])
        tensors = {"k_curve": curve, **k_findings(3, runner_up=9).tensors()}
        figure = pictures.k_curve(Model(np.eye(3), "jigsaw", {}, None, tensors))
        (index,) = figure.axes
        assert marked(index) == {3, 5}
        told = figure.get_suptitle()
        assert "best index: 5 (cross), but not all its clusters have valleys" in told
        assert "runner-up 9" in told
        assert "open" not in told  # it is no mixture, so it has no index
        lowest, highest = index.get_ylim()
        assert lowest < -9000
        assert highest > 0
        heights = index.transData.transform([(1, y) for y in (0, -6, -70, -800, -9000)])[:, 1]
        assert (np.diff(heights) < -0.05 * index.bbox.height).all()  # none is lost at the bottom

    def test_a_model_without_one(self, grid):
        data, _ = grid
        with pytest.raises(ParameterError, match="The model has no curve over k"):
            pictures.k_curve(Jigsaw(3, random_state=0).fit(data.X).model_)

    def test_the_same_bytes(self, fitted):
        first, second = (pictures.render(pictures.k_curve(fitted.model_), ".png") for _ in range(2))
        assert first == second
        assert first.startswith(MAGIC[".png"])

    def test_one_cluster_only(self):
        fitted = Jigsaw("auto", random_state=0).fit([[1.0, 2.0]] * 9)
        assert pictures.render(pictures.k_curve(fitted.model_), ".png")
