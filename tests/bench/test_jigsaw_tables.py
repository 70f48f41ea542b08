"""Tables about S1 to S4, from made-up rows."""

from fedjigsaw.bench import jigsaw_tables
from fedjigsaw.bench.paper import SSETS


def test_k_on_the_ssets_is_counted_with_its_median_confidence():
    rows = [
        {"cell": f"{name}/{split}", "dataset": name.lower(), "n_found": found, "confidence": confidence}
        for name in ("S1", "S2", "S3", "S4")
        for split, found, confidence in (
            ("iid", 15, 0.9), ("iid", 14, 0.2), ("dirichlet(0.3)", 15, 0.7), ("dirichlet(0.1)", 16, 0.1),
        )
    ]  # fmt: skip
    table = jigsaw_tables.auto_table(rows).splitlines()
    assert table[2] == "| S1 | 1 of 2 | 1 of 1 | 0 of 1 | 2 of 4 | 0.45 |"
    assert len(table[:-2]) == 6
    assert table[-1].startswith(
        "Other answers, and their confidence: 14 on S1 (0.20), 16 on S1 (0.10)"
    )
    right = [{**row, "n_found": 15} for row in rows]
    assert len(jigsaw_tables.auto_table(right).splitlines()) == 6


def test_the_overview_is_relative_to_the_best_of_each_data_set():
    best = [{"cell": name, "inertia": 10.0 * n} for n, name in enumerate(SSETS, 1)]
    best += [{"cell": "S1", "inertia": 11.0}]  # not the smallest
    rows = [
        {"cell": f"{name}/{split}/Jigsaw", "inertia": 10.0 * n * ratio}
        for n, name in enumerate(SSETS, 1)
        for split, ratio in (("iid", 1.0), ("dirichlet(0.3)", 1.25), ("dirichlet(0.3)", 1.75))
    ]
    rows += [{"cell": f"{name}/any/Centralized", "inertia": 50.0} for name in SSETS]
    table = jigsaw_tables.overview_table(rows, best).splitlines()
    assert table[2] == "| Jigsaw | 1.000 | 1.500 | nan |"  # no rows yet
    assert table[-1] == "| Centralized | 2.604 | 2.604 | 2.604 |"  # of 5, 5/2, 5/3 and 5/4
    assert len(table) == 2 + len(jigsaw_tables.ONE_SHOT) + 1
