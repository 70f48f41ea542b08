"""Names of clients that look alike."""

import pytest

from fedjigsaw._names import mixes_alphabets, skeleton

BERN = "bern"


@pytest.mark.parametrize(
    "twin",
    # full width; a bold letter of mathematics; signs that do not show
    ["Bern", "BERN", " bern", "bern ", "\uff42\uff45\uff52\uff4e", "\U0001d41bern", "bern\ufe0f",
     "be\u034frn", "bern\u3164"],
)  # fmt: skip
def test_twins(twin):
    assert twin.isprintable()
    assert skeleton(twin) == skeleton(BERN)


def test_signs():
    assert skeleton("site\u20111") == skeleton("site\u22121") == skeleton("site-1")
    assert skeleton("l\u2019x") == skeleton("l'x")
    assert skeleton("a   b") == skeleton("a b")


@pytest.mark.parametrize("other", ["berne", "bonn", "b\xe9rn", "bern2", "bern-1", ""])
def test_other_names_stay_other_names(other):
    assert skeleton(other) != skeleton(BERN)


@pytest.mark.parametrize("name", ["b\u0435rn", "ber\u03b7", "\u03b1bc", "x \u0431a"])
def test_mixed(name):
    assert mixes_alphabets(name)


@pytest.mark.parametrize("name", ["Bern 3", "Orléans", "Москва-2", "東京タワー A", "β-site"])
def test_not_mixed(name):
    assert not mixes_alphabets(name)
