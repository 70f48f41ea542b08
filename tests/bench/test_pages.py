from pathlib import Path

import pytest

from fedjigsaw.bench import pages
from fedjigsaw.bench.studies import paper_tables
from fedjigsaw.errors import DataError

ROOT = Path(__file__).parent.parent.parent


def test_every_number_and_picture_comes_from_a_row():
    for path, content in pages.build(ROOT).items():
        assert path.read_bytes() == content, (
            f"{path.name} is not what `make docs` makes of the rows"
        )


def test_rows_say_where_they_come_from():
    for path in (ROOT / "results").rglob("*.jsonl"):
        for row in pages.read_rows(path):
            assert {"version", "commit", "backend"} <= set(row), path
            assert row["commit"]
            assert not row["commit"].endswith("+"), f"{path}: made with uncommitted changes"


def test_fill_replaces_what_is_between_the_marks():
    text = "a <!-- n -->old<!-- /n --> b"
    assert pages.fill(text, "n", "new") == "a <!-- n -->new<!-- /n --> b"
    with pytest.raises(DataError, match="marks of a page"):
        pages.fill(text, "m", "new")


def test_the_papers_tables_are_complete():
    tables = paper_tables()
    assert "Jigsaw Game" in tables["source"]
    cells = tables["table1_ssets_l2_e4"]["cells"]
    assert cells["S1"]["FeCA"]["iid"] == {"mean": 1.0, "std": 0.1}
    assert all(len(cells[name]) == 8 for name in ("S1", "S2", "S3", "S4"))
