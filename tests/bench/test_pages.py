import json
from pathlib import Path

import pytest

from fedjigsaw.bench import pages
from fedjigsaw.errors import DataError

ROOT = Path(__file__).parent.parent.parent


def test_every_number_in_the_readme_comes_from_a_row():
    text = (ROOT / "README.md").read_text()
    assert pages.readme(text, ROOT / "results") == text


def test_rows_say_where_they_come_from():
    for path in (ROOT / "results").rglob("*.jsonl"):
        for row in pages.read_rows(path):
            assert {"version", "commit", "backend"} <= set(row), path
            assert row["commit"]
            assert not row["commit"].endswith("+"), f"{path}: made with uncommitted changes"


def deep_row(rounds, accuracy, **more):
    config = {"n_clusters": 10, "local_epochs": 5, "ema": 0.0, **more.pop("config", {})}
    return {
        "dataset": "cifar10", "split": "iid", "method": "feca", "rounds": rounds, "linear_accuracy": accuracy,
        "knn_accuracy": 0.25, "views_per_second": 50_000.0, "seconds": 90.0, "config": config, **more,
    }  # fmt: skip


def test_the_page_on_deepfeca_is_made_from_rows():
    text = (ROOT / "docs" / "deepfeca.md").read_text()
    assert pages.deepfeca(text, ROOT / "results") == text


def test_deep_tables(tmp_path):
    files = {
        "deep-a.jsonl": [{"rounds": 1, "loss": 2.0}, deep_row(10, 0.5), deep_row(20, 0.575)],
        "deep-b.jsonl": [
            deep_row(
                30,
                0.625,
                split="dirichlet",
                alpha=0.3,
                config={"n_clusters": [300, 300], "ema": 0.5},
            )
        ],
        "deep-c.jsonl": [deep_row(40, 0.8125, split="central", method="central")],
        "deep-d.jsonl": [{"rounds": 1, "loss": 2.0}],
        "other.jsonl": [deep_row(1, 0.1)],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = pages.deep_runs(tmp_path)
    assert list(runs) == ["deep-a", "deep-b", "deep-c"]
    quality = pages.quality_table(runs).splitlines()
    assert "| the paper, DeepFeCA | 55.3 | 63.7 | 59.9 | 80.9 |" in quality
    assert "| ours, FeCA, k = 10, 5 epochs a round | 57.5 (20 rounds) | - | - | - |" in quality
    assert (
        "| ours, FeCA, k = 300 in 2 heads, 5 epochs a round | - | 62.5 (30 rounds) | - | - |"
        in quality
    )
    assert any("81.2 (40 rounds) |" in line for line in quality)
    table = pages.runs_table(runs).splitlines()
    assert table[1].startswith("| run | configuration | rounds | ema | linear |")
    assert (
        "| deep-b | FeCA, k = 300 in 2 heads, 5 epochs a round | 30 | 0.5 | 62.5 | 25.0 | 50,000 | 1.5 |"
        in table
    )
    assert len(table) == 6


def test_fill_replaces_what_is_between_the_marks():
    text = "a <!-- n -->old<!-- /n --> b"
    assert pages.fill(text, "n", "new") == "a <!-- n -->new<!-- /n --> b"
    with pytest.raises(DataError, match="marks of a page"):
        pages.fill(text, "m", "new")


def test_the_papers_tables_are_complete():
    tables = pages.paper_tables()
    assert "Jigsaw Game" in tables["source"]
    cells = tables["table1_ssets_l2_e4"]["cells"]
    assert cells["S1"]["FeCA"]["iid"] == {"mean": 1.0, "std": 0.1}
    assert all(len(cells[name]) == 8 for name in ("S1", "S2", "S3", "S4"))


@pytest.mark.parametrize(
    ("mean", "word"), [(1.0, "better"), (2.0, "within one std"), (3.6, "worse")]
)
def test_verdict(mean, word):
    assert pages.verdict(mean, {"mean": 2.5, "std": 1.0}) == word
