"""The picture of who holds what."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from fedjigsaw.errors import DataError
from fedjigsaw.report.holdings import plot

CLIENTS = np.array(["Bern", "Bern", "Oslo", "Oslo", "Oslo", "Lyon"])
CLASSES = np.array([7, 7, 7, 9, 9, 8])


def test_cells_and_bars_are_the_counts():
    figure = plot(CLIENTS, CLASSES, title="three towns")
    left, right = figure.axes
    (cells,) = left.collections
    assert cells.get_array().filled(0).tolist() == [[2, 0, 0], [0, 1, 0], [1, 0, 2]]
    assert [text.get_text() for text in left.get_yticklabels()] == ["Bern", "Lyon", "Oslo"]
    assert [text.get_text() for text in left.get_xticklabels()] == ["7", "8", "9"]
    assert [bar.get_width() for bar in right.patches] == [2, 1, 3]
    assert sorted(text.get_text() for text in left.texts) == ["1", "1", "2", "2"]
    assert figure.get_suptitle() == "three towns"


def test_without_classes_there_are_only_sizes():
    (axes,) = plot(CLIENTS).axes
    assert [bar.get_width() for bar in axes.patches] == [2, 1, 3]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["Bern", "Lyon", "Oslo"]


@pytest.mark.parametrize(
    ("clients", "y", "words"),
    [
        ([], None, "clients of plot"),
        ([[1]], None, "clients of plot"),
        (["a", None], None, "clients of plot are missing, the first one in row 1"),
        ([1, 2], [1, "a"], "Cannot sort the y of plot"),
        ([1, 2], [1], "y of plot"),
    ],
)
def test_bad(clients, y, words):
    with pytest.raises(DataError, match=words):
        plot(clients, y)


def test_names_are_no_formulas():
    """A name is text: with two dollars, matplotlib would set it as one, or fail."""
    names = np.array(["$\\frac{$", "a$b$"])
    figure = plot(names, names, title=names[0])
    figure.canvas.draw()
    plot(names).canvas.draw()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        assert [text.get_text() for text in axis.get_ticklabels()] == sorted(names)
        assert not any(text.get_parse_math() for text in axis.get_ticklabels())
