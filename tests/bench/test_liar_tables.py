"""The tables of docs/security.md: what they say about rows, and about rows that are missing."""

import pytest

from fedjigsaw.bench import liar_tables
from fedjigsaw.bench.lies import ABOUT


def rows_of(lie, ratios, *, method="jigsaw", dataset="gaussian-grid", n=1, **options):
    params = {"robust": False} if options.pop("plain", False) else {}
    return [
        {"method": method, "dataset": dataset, "params": params, "lie": lie, "n_liars": n,
         "seed": seed, "honest_ratio": ratio, "named": False, "accused": 0, **options}
        for seed, ratio in enumerate(ratios)
    ]  # fmt: skip


@pytest.fixture
def liars():
    return liar_tables.Liars(
        [
            *rows_of("none", [1.0, 1.0]),
            *rows_of("none", [1.0, 1.0], plain=True),
            *rows_of("b", [1.0, 1.5], named=True, accused=1),
            *rows_of("b", [3.0, 5.0], plain=True),
            *rows_of("c", [1.0, 1.0]),
            *rows_of("c", [1.0, 1.08], plain=True),  # raises it by 4 % on average
            *rows_of("d", [1.2, 1.2], n=2),
            *rows_of("d", [1.2, 1.2], n=2, plain=True),  # nothing to compare with
            *rows_of("b+c", [1.4, 1.6]),
            *rows_of("none", [1.5], method="feca"),
            *rows_of("b", [1.8], method="feca"),
        ]
    )


def test_each_lie_has_a_line_with_means_over_seeds(liars):
    lines = liar_tables.ratios_table(liars).splitlines()
    assert len(lines) == 2 + len(ABOUT)
    (line,) = [line for line in lines if line.startswith("| b: ")]
    assert line.split(" | ")[1:] == [
        "1.25 / – / –", "4.00 / – / –", "1.80 / – / –", "– / – / – |"
    ]  # fmt: skip


def test_cells_above_a_limit_are_counted_and_the_worst_is_named(liars):
    table = liar_tables.limits_table(liars)
    one, _, two, feca, *_ = table.splitlines()[2:]
    assert one.endswith("| 3 | 2 | 0 | 1.25 (15 Gaussians, lie b, 1 of 10) |")
    assert two.endswith("| 1 | 1 | 1 | 1.50 (15 Gaussians, lie b+c, 1 of 10) |")
    assert feca.endswith("| 1 | 1 | 0 | 1.20 (15 Gaussians, lie b, 1 of 10) |")  # over its own


def test_naming_is_asked_for_where_a_lie_does_harm(liars):
    text = liar_tables.naming(liars)
    assert "Without checks, 1 cells of one lie raise" in text
    assert "that of a liar in 2 of 2 runs" in text
    assert "worst" not in text
    assert "In 2 of all 12 runs with checks, an honest site" in text
    assert text.endswith("These are runs of Jigsaw, with 2 draws of rows and sites.")
    some = liar_tables.Liars(
        [
            *rows_of("none", [1.0], plain=True),
            *rows_of("d", [9.0], plain=True),
            *rows_of("d", [1.0, 1.0]),
        ]
    )
    assert "worst: 0 of 2 (15 Gaussians, lie d, 1 of 10)" in liar_tables.naming(some)


def test_without_rows_there_are_tables_all_the_same():
    liars = liar_tables.Liars([])
    assert "– / – / –" in liar_tables.ratios_table(liars)
    assert "| 0 | 0 | 0 |  |" in liar_tables.limits_table(liars)
    assert "0 of 0 runs" in liar_tables.naming(liars)


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1.00"), (123.4, "123"), (2.6e4, "3e4"), (7e151, "7e151")]
)
def test_numbers_are_short(value, text):
    liars = liar_tables.Liars(rows_of("b", [value]))
    assert f"| {text} / – / – |" in liar_tables.ratios_table(liars)
