import builtins

import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.errors import ExtraError, ParameterError
from fedjigsaw.methods import make
from fedjigsaw.report import pictures

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

    def test_a_model_without_one(self, grid):
        data, _ = grid
        with pytest.raises(ParameterError, match="The model has no curve over k"):
            pictures.k_curve(Jigsaw(3, random_state=0).fit(data.X).model_)
