"""Names of clients that look alike."""

import pytest

from fedjigsaw._names import mixes_alphabets, skeleton

BERN = "bern"


@pytest.mark.parametrize(
    "twin",
    [
        "Bern",
        "BERN",
        " bern",
        "bern ",
        "\uff42\uff45\uff52\uff4e",  # full width
        "\U0001d41bern",  # a bold letter of mathematics
        "bern\ufe0f",  # a variation selector does not show
        "be\u034frn",
        "bern\u3164",  # nor does a filler
    ],
)
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


@pytest.mark.parametrize(
    "name",
    [
        "Bern 3",
        "Orl\xe9ans",
        "\u041c\u043e\u0441\u043a\u0432\u0430-2",
        "\u6771\u4eac\u30bf\u30ef\u30fc A",
        "\u03b2-site",
    ],
)
def test_not_mixed(name):
    assert not mixes_alphabets(name)
