"""What was asked of speed and memory, and what was reached, from the rows of the benchmarks."""

from fedjigsaw.bench.speed_rows import ASKED, Row, Rows, part, size, table_of
from fedjigsaw.methods import CLUSTERERS


def targets_table(rows: Rows) -> str:
    """What was asked, what was reached."""
    lines = [
        [what, asked, reached, "yes" if done else "no"]
        for what, asked, reached, done in _targets(rows)
    ]
    return table_of(["what", "asked", "measured", "reached"], lines)


def _targets(rows: Rows) -> list[tuple[str, str, str, bool]]:
    found = []

    def compare(what: str, row: Row, key: str, most: float, unit: str = "") -> None:
        value = row[key]
        measured = _beside(value, most, 4 if "objective" in key else 2)
        found.append((what, f"at most {most:g}{unit}", f"{measured}{unit}", bool(value <= most)))

    for row in part(rows, "many_clients"):
        if row["method"] not in ASKED:
            continue
        title = f"{CLUSTERERS[row['method']].label}, {row['n_clients']:,} clients"
        seconds = {10_000: 2, 100_000: 20}.get(row["n_clients"])
        if seconds is not None:
            compare(title, row, "seconds", seconds, " s")
            compare(f"{title}: clients' part, of the kernel", row, "ratio", 1.5)
        if row["n_clients"] == 100_000:
            compare(f"{title}: memory", row, "peak_megabytes", 1500, " MB")
    for row in part(rows, "clients_part"):
        for name in ASKED:
            title = f"{CLUSTERERS[name].label}, clients of {size(row)}: of the kernel"
            compare(title, row, f"{name}_ratio", 1.5)
    for row in part(rows, "small_clients"):
        one, two, _ = (float(words.split()[-1]) for words in row["target"].split(","))
        reached = f"{_beside(row['ratio'], one, 1)} and {_beside(row['ratio_two'], two, 1)}"
        done = row["ratio"] >= one and row["ratio_two"] >= two
        asked = f"gain of {one:g}, and {two:g} on two threads"
        found.append((f"client of {size(row)}", asked, reached, done))
        compare(f"client of {size(row)}: objective", row, "objective", 1.002)
        if "intelex_ratio" in row:
            compare(f"client of {size(row)}: of intelex", row, "intelex_ratio", 1.05)
    for row in part(rows, "pooled"):
        compare("a million rows: of pooled k-means", row, "ratio", 0.7)
    for row in part(rows, "server"):
        title = f"server, {row['n_centers']:,} centers, {row['input']}"
        if row["n_centers"] == 1_000_000:
            compare(title, row, "seconds", 15, " s")
            compare(f"{title}: memory", row, "extra_megabytes", 600, " MB")
        compare(f"{title}: objective", row, "objective", 1.0)
        compare(f"{title}: objective of centers", row, "points_objective", 1.0)
    for row in part(rows, "grouping", n_centers=100_000):
        compare("FeCA's grouping, 100,000 alone", row, "seconds", 5, " s")
    for row in part(rows, "auto"):
        title = f'`"auto"`, {row["n_clients"]:,} clients of {row["n_rows"]:,} rows'
        compare(f"{title}: of k given", row, "ratio", 2)
    for row in part(rows, "gpu_lloyd"):
        if "ratio" in row:
            compare(f"GPU, {size(row)}: of flash-kmeans, float32", row, "ratio", 1.5)
    return found


def _beside(value: float, target: float, digits: int) -> str:
    """Write a number, with more digits if it would otherwise be rounded to the target.

    Examples
    --------
    >>> _beside(1.4, 1.5, 2), _beside(1.504, 1.5, 2)
    ('1.40', '1.504')
    """
    while value != target == float(f"{value:.{digits}f}"):
        digits += 1
    return f"{value:.{digits}f}"
