"""The table about S1 to S4 in docs/jigsaw.md, from made-up rows."""

from fedjigsaw.bench import jigsaw_tables


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
