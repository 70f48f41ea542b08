"""The commands of docs/sites.md run in order, and print what the page shows."""

import re

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from pages_as_code import ROOT, blocks, page, printed_by

PAGE = page("docs/sites.md")


def unsigned(lines):
    """Hide fingerprints: other processors may round the last digit differently."""
    return [re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", line) for line in lines]


def test_the_commands_print_what_the_page_shows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = printed_by(PAGE, run)
    shown = [line for line in "".join(blocks(PAGE, "text")).splitlines() if line != "..."]
    assert len(shown) > 50
    rest = iter(unsigned(printed))
    assert [line for line in unsigned(shown) if line not in rest] == []  # all, in this order

    labels = pa.parquet.read_table(tmp_path / "bern-labels.parquet")
    assert labels.column_names == ["row", "patient", "label", "distance"]
    assert labels["patient"].to_pylist()[:2] == ["bern-000", "bern-001"]
    assert pa.csv.read_csv(tmp_path / "lyon-labels.csv").num_rows == 400
    without = formats.load(tmp_path / "model-without-oslo", ModelFile)
    assert without.clients == ("bern", "lyon")
    by_regions = (tmp_path / "model-by-regions").read_bytes()
    assert by_regions == (tmp_path / "model").read_bytes()
