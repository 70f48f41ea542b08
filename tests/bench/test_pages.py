from pathlib import Path

import pytest

from fedjigsaw.bench import pages
from fedjigsaw.bench.paper import paper_tables
from fedjigsaw.errors import DataError
from fedjigsaw.io.rows import read_rows

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_every_number_and_picture_comes_from_a_row():
    for path, content in pages.build(ROOT).items():
        assert pages.same_content(path.read_bytes(), content), (
            f"{path.name} is not what `make docs` makes of the rows"
        )


def test_a_picture_may_differ_by_rounding_and_nothing_else():
    svg = (
        '<?xml ?><g clip-path="url(#p0123456789)"/><text>1.0</text>'
        '<clipPath id="p0123456789"><rect y="420.208942"/></clipPath>'
    )
    rounded = svg.replace("p0123456789", "pabcdefabcd").replace("420.208942", "420.208943")
    assert pages.same_content(svg.encode(), rounded.encode())
    for changed in (
        rounded.replace("1.0", "1.1"),
        rounded.replace("1.0", "1.0001"),
        rounded.replace("420.2089", "420.2088"),
        svg.replace("url(#p0123456789)", "url(#pabcdefabcd)"),  # refers to nothing
        svg.replace("<text>", "<text >"),
    ):
        assert not pages.same_content(svg.encode(), changed.encode())
    assert not pages.same_content(b"420.208942", b"420.208943")  # a page is compared as it is


def test_rows_say_where_they_come_from():
    for path in (ROOT / "results").rglob("*.jsonl"):
        for row in read_rows(path):
            assert {"version", "commit", "backend"} <= set(row), path
            assert row["commit"]
            assert not row["commit"].endswith("+"), f"{path}: made with uncommitted changes"


def test_fill_replaces_what_is_between_the_marks():
    text = "a <!-- n -->old<!-- /n --> b"
    assert pages.fill(text, "n", "new") == "a <!-- n -->new<!-- /n --> b"
    with pytest.raises(DataError, match="needs one <!-- m --> and one <!-- /m -->"):
        pages.fill(text, "m", "new")


def test_the_papers_tables_are_complete():
    tables = paper_tables()
    assert "Jigsaw Game" in tables["source"]
    cells = tables["table1_ssets_l2_e4"]["cells"]
    assert cells["S1"]["FeCA"]["iid"] == {"mean": 1.0, "std": 0.1}
    assert all(len(cells[name]) == 8 for name in ("S1", "S2", "S3", "S4"))
