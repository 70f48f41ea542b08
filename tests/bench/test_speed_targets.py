"""A target is reached or not, whatever a number is rounded to."""

import pytest

from fedjigsaw.bench.speed_targets import targets_table
from speed_benchmarks import fitted, served


def test_a_target_that_was_missed_is_a_no():
    rows = [fitted(10_000, 2.5), served(1_000_000, 12.0), served(100_000, 1.0, "alone", 1.01)]
    lines = [line.strip("| ").split(" | ") for line in targets_table(rows).splitlines()[2:]]
    reached = {what: (measured, done) for what, _, measured, done in lines}
    assert reached["Jigsaw, 10,000 clients"] == ("2.50 s", "no")
    assert reached["Jigsaw, 10,000 clients: clients' part, of the kernel"] == ("1.20", "yes")
    assert reached["server, 1,000,000 centers, blurred"] == ("12.00 s", "yes")
    assert reached["server, 100,000 centers, alone: objective"] == ("1.0100", "no")


@pytest.mark.parametrize(
    ("ratio", "measured", "done"),
    [
        (1.5, "1.50", "yes"),
        (1.504, "1.504", "no"),
        (1.50004, "1.50004", "no"),
        (1.496, "1.496", "yes"),
        (1.56, "1.56", "no"),
    ],
)
def test_only_a_number_that_is_the_target_is_rounded_to_it(ratio, measured, done):
    rows = [fitted(10_000, 1.0) | {"ratio": ratio}]
    assert targets_table(rows).splitlines()[-1].endswith(f"at most 1.5 | {measured} | {done} |")


def test_only_a_gain_that_is_the_target_is_rounded_to_it():
    sizes = {"n_rows": 50, "n_columns": 2, "n_clusters": 5}
    gains = {"target": ">= 10, >= 20, x 1", "ratio": 9.97, "ratio_two": 20.31, "objective": 1.0}
    (line, _) = targets_table([{"benchmark": "small_clients", **sizes, **gains}]).splitlines()[2:]
    assert line.endswith("| 9.97 and 20.3 | no |")
