"""Every example of the gallery runs as a script and leaves one picture with something on it."""

import runpy
from time import process_time

import numpy as np
import pytest

from pages_as_code import ROOT

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow

SCRIPTS = sorted((ROOT / "examples/gallery").glob("*.py"))
LONGEST = 20.0  # seconds of computing


@pytest.fixture(scope="module")
def warm():
    """Load, and compile where that was not done before, what all examples use."""
    from fedjigsaw import Jigsaw

    Jigsaw(2, random_state=0).fit(np.arange(40.0).reshape(20, 2), clients=[0, 1] * 10)


@pytest.fixture
def pyplot(monkeypatch):
    """Pyplot that draws into memory, with settings of its own and no figure."""
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda: None)  # Agg would warn that it shows nothing
    before = matplotlib.get_backend()
    pyplot.switch_backend("Agg")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield pyplot
        pyplot.close("all")
    pyplot.switch_backend(before)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] * (i > 0)) for i, path in enumerate(SCRIPTS)],
    ids=lambda path: path.stem,
)  # `make site` runs all of them, too
@pytest.mark.usefixtures("warm")
def test_it_leaves_one_picture(path, pyplot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    began = process_time()
    runpy.run_path(str(path), run_name="__main__")
    assert process_time() - began < LONGEST
    (number,) = pyplot.get_fignums()
    canvas = pyplot.figure(number).canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    assert np.mean(pixels.min(axis=-1) < 250) > 0.01, "the picture is empty"
    assert all(axes.get_title() or axes.get_title("left") or axes.get_xlabel() or
               axes.get_ylabel() for axes in pyplot.figure(number).axes)  # fmt: skip
    assert list(tmp_path.iterdir()) == []
