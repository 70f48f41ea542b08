from dataclasses import replace

import pytest

from fedjigsaw.bench import verdicts
from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.study import Plan, Study

CELL = Cell("s1", "feca", 15, seed=0)
STUDY = Study(
    "toy",
    "a toy",
    (
        Plan("S1/iid/FeCA", CELL, {"l2": (1.0, 0.5), "nmi": (0.90, None)}),
        Plan("S1/dirichlet(0.3)/FeCA", CELL, {"l2": (2.0, 0.5)}),
        Plan("S1/any/Centralized", CELL, {"l2": (9.0, 1.0)}),
    ),
    numbers=("l2", "nmi"),
)
ROWS = [
    {"cell": "S1/iid/FeCA", "l2": 1e4, "nmi": 0.95},
    {"cell": "S1/iid/FeCA", "l2": 2e4, "nmi": 0.97},
    {"cell": "S1/dirichlet(0.3)/FeCA", "l2": 1e4, "nmi": 0.5},
    {"cell": "S1/any/Centralized", "l2": 11e4, "nmi": 0.5},
]


@pytest.mark.parametrize(
    ("number", "mean", "published", "sign"),
    [
        ("l2", 1.0, (2.5, 1.0), "▲"),  # smaller is better
        ("l2", 1.5, (2.5, 1.0), "✓"),
        ("l2", 3.5, (2.5, 1.0), "✓"),
        ("l2", 3.6, (2.5, 1.0), "▼"),
        ("nmi", 0.54, (0.5, None), "▲"),  # larger is better, and within 0.03 is within
        ("nmi", 0.53, (0.5, None), "✓"),
        ("nmi", 0.46, (0.5, None), "▼"),
        ("mse", 105.0, (100.0, None), "✓"),  # within a tenth
        ("mse", 89.0, (100.0, None), "▲"),
    ],
)
def test_verdict(number, mean, published, sign):
    assert verdicts.verdict(number, mean, published) == sign


def test_ours_beside_the_papers():
    found = verdicts.outcomes(STUDY, ROWS)
    iid = found["S1/iid/FeCA", "l2"]
    assert (iid.mean, iid.std, iid.runs) == (1.5, 0.5, 2)
    assert iid.as_row() == {
        "cell": "S1/iid/FeCA", "number": "l2", "mean": 1.5, "std": 0.5, "runs": 2,
        "paper": (1.0, 0.5), "verdict": "✓",
    }  # fmt: skip
    assert iid.text == "1.5 ± 0.5 (1.0 ± 0.5) ✓"
    assert found["S1/iid/FeCA", "nmi"].text == "0.96 (0.90) ▲"
    assert found["S1/dirichlet(0.3)/FeCA", "nmi"].text == "0.50 ± 0.00"  # nothing published


def test_a_large_error_is_written_as_the_paper_writes_its_own():
    study = Study("toy", "a toy", (Plan("S1", CELL, {"mse": (8738.6, None)}),), numbers=("mse",))
    (found,) = verdicts.outcomes(study, [{"cell": "S1", "mse": 10_012.3e6}]).values()
    assert found.text == "10012.3 (8738.6) ▼"


def test_tables():
    tables = verdicts.tables(STUDY, ROWS)
    assert list(tables) == ["S1, center distance, l2 / 1e4", "S1, NMI"]
    assert tables["S1, center distance, l2 / 1e4"].splitlines() == [
        "| method      | IID                      | Dirichlet(0.3)          |",
        "|-------------|--------------------------|-------------------------|",
        "| FeCA        | 1.5 ± 0.5 (1.0 ± 0.5) ✓  | 1.0 ± 0.0 (2.0 ± 0.5) ▲ |",
        "| Centralized | 11.0 ± 0.0 (9.0 ± 1.0) ▼ |                         |",
    ]


def test_a_table_that_is_only_half_there():
    tables = verdicts.tables(STUDY, ROWS[:2])
    assert tables["S1, NMI"].splitlines()[2:] == ["| FeCA   | 0.96 (0.90) ▲ |"]
    assert verdicts.tables(STUDY, []) == {}


def test_count_verdicts():
    assert verdicts.count_verdicts(STUDY, ROWS) == {"better": 2, "within": 1, "worse": 1}
    assert verdicts.count_verdicts(replace(STUDY, numbers=()), ROWS) == {
        "better": 0,
        "within": 0,
        "worse": 0,
    }
