"""The paper's figures, from the committed rows: every mark has its legend."""

from pathlib import Path

import pytest

from fedjigsaw.bench import figures
from fedjigsaw.bench.runner import result_file
from fedjigsaw.bench.studies import studies
from fedjigsaw.io.rows import read_rows

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def rows():
    return {name: read_rows(result_file(RESULTS, name)) for name in studies()}


def explained(figure):
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return {text.get_text() for legend in legends if legend for text in legend.get_texts()}


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("recovered", {"true center", "recovered center"}),
        ("s-sets", {"true center"}),
        ("varying-k", {"true center", "recovered center"}),
        ("ablation", {"true center", "recovered center"}),
        ("local-solutions", {"true center", "recovered center", "50% of the rows", "75% of the rows", "100% of the rows"}),
        ("sigma", {"a received center", "the largest", "0.5: enough to group"}),
    ],
)  # fmt: skip
def test_every_mark_is_in_a_legend(rows, name, marks):
    assert explained(figures.FIGURES[name](rows)) == marks


def test_the_chosen_k_is_in_a_legend(rows):
    assert explained(figures.k_curves(rows["k-curve"])) == {"chosen k", "best index"}
