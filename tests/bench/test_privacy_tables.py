"""The tables of docs/privacy.md about cost and peers."""

import pytest

from fedjigsaw.bench import privacy_tables
from fedjigsaw.bench.privacy_tables import Ratios


def rows_of(method, ratios, *, split="iid", n_columns=2, width="tight", epsilon=1.0, cells="own"):
    return [
        {"method": method, "n_columns": n_columns, "width": width, "split": split, "cells": cells,
         "epsilon": epsilon, "seed": seed, "ratio": ratio}
        for seed, ratio in enumerate(ratios)
    ]  # fmt: skip


@pytest.fixture
def ratios():
    return Ratios(
        [
            *rows_of("jigsaw", [1.0, 1.02]),
            *rows_of("jigsaw", [1.2, 1.4], split="dirichlet"),
            *rows_of("jigsaw", [1.1], width="s1", epsilon=4.0, cells="shared"),
            *rows_of("feddp", [1.1, 1.1]),
            *rows_of("google", [10.0]),
            *rows_of("laplace", [1.5]),
            *rows_of("laplace", [1.3], split="dirichlet"),
            {"attack": "something else", "seed": 0},
        ]
    )


def line_of(table, start):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_cost_shows_means_over_seeds_for_both_splits(ratios):
    table = privacy_tables.cost_table(ratios)
    assert line_of(table, "2 columns, tight")[1:] == ["– / –", "1.010 / 1.300", "– / –", "– / –"]
    assert "epsilon 1: the worst mean is 1.300 (2 columns, tight, Dirichlet(0.3))" in table
    assert "the worst run 1.400." in table
    assert "epsilon 4: no rows yet." in table


def test_s1_has_own_and_shared_cells(ratios):
    assert line_of(privacy_tables.s1_table(ratios), "shared cells")[1:] == ["– / –", "1.100 / –"]


def test_peers_are_side_by_side_and_pooled_ones_have_one_number(ratios):
    table = privacy_tables.peers_table(ratios)
    head, line = line_of(table, "data"), line_of(table, "2 columns, tight")
    found = dict(zip(head, line, strict=True))
    assert found["Jigsaw"] == "1.010 / 1.300"
    assert found["FedDP-KMeans"] == "1.100"
    assert found["Google, pooled"] == "10.0"
    assert found["Laplace noise at each site"] == "1.500 / 1.300"


def test_the_page_says_where_ours_is_not_ahead(ratios):
    lines = privacy_tables.comparison(ratios).splitlines()
    assert "- FedDP-KMeans: Jigsaw is ahead in 1 of 2 cells, and behind in 1:" in lines
    assert "  - 2 columns, tight, Dirichlet(0.3) (1.300 against 1.100)" in lines
    assert "- Google, pooled: Jigsaw is ahead in 2 of 2 cells." in lines
    assert "- Laplace noise at each site: Jigsaw is ahead in 1 of 2 cells." in lines  # level in one
    assert "- diffprivlib, pooled: Jigsaw is ahead in 0 of 0 cells." in lines
