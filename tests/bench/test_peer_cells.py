"""The study of other methods, its rows and its tables."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import Broadcast, Client
from fedjigsaw.bench import peer_cells, peer_tables
from fedjigsaw.bench.peer_cells import PEERS, SETS, PeerCell, PublishedMufc, best, federation
from fedjigsaw.bench.runner import key_of
from fedjigsaw.bench.studies import studies
from fedjigsaw.io.rows import read_rows

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("label", [label for label in PEERS if label != "Fed-HIRE"])
def test_a_row_says_how_good_and_how_costly(label):
    row = PeerCell("unequal", "iid", label).compute()
    assert json.loads(json.dumps(row)) == row
    assert 0.9999 < row["ratio"] <= row["ratio_local"] * 1.0001
    assert row["n_found"] == 12
    assert row["rounds"] == int(label.split()[-2] if label.endswith("rounds") else 1)
    assert row["bytes_per_client"] > 8 * 12 * 2


def test_all_methods_have_the_same_clients():
    rows, clients = federation("digits", "dirichlet(0.3)", 3)
    assert rows.shape == (1797, 64)
    assert clients.tolist() == federation("digits", "dirichlet(0.3)", 3)[1].tolist()
    assert clients.tolist() != federation("digits", "dirichlet(0.3)", 4)[1].tolist()
    assert set(clients) == set(range(10))


def test_the_reference_is_kmeans_on_the_pooled_rows():
    from sklearn.cluster import KMeans

    rows, _ = federation("unequal", "iid", 0)
    found = KMeans(12, n_init=20, random_state=0).fit(rows).inertia_
    assert 0.98 * found < best("unequal") <= found * 1.0001


def test_published_mufc_sends_bins_of_rows(rng):
    """What the method of the package does not: each center is a row, rounded to its bin."""
    X = rng.normal(size=(60, 2))
    sent = Client("a", X, PublishedMufc(4, bin_width=0.01)).answer(Broadcast(0, 0))
    rounded = {tuple(row) for row in (np.round(X / 0.01) * 0.01)}
    assert {tuple(center) for center in sent.centers} <= rounded
    assert sent.counts.sum() == 60


def test_without_celltype_its_cells_are_left_out_and_say_why(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDJIGSAW_DATA", str(tmp_path))
    text = PeerCell("celltype", "as published", "Jigsaw").lacks()
    assert "needs celltype/celltype.npz in the folder FEDJIGSAW_DATA" in text
    assert not PeerCell("digits", "iid", "Jigsaw").lacks()
    (tmp_path / "celltype").mkdir()
    arrays = {"X": np.arange(24.0).reshape(12, 2), "client": np.arange(12) % 3}
    np.savez(tmp_path / peer_cells.CELLTYPE, **arrays)
    assert not PeerCell("celltype", "as published", "Jigsaw").lacks()


def row(label, ratio, split="iid", **more):
    fields = {"dataset": "s1", "split": split, "label": label, "ratio": ratio, "rounds": 1}
    return {**fields, **more}


def test_the_table_has_mean_and_worst():
    rows = [row("Jigsaw", 1.0), row("Jigsaw", 1.02), row("FeCA", 1.5), row("FeCA", 2.5)]
    lines = peer_tables.ratio_table(rows).splitlines()
    assert lines[0].startswith("| method | celltype, as published | S1, IID | S1, Dirichlet(0.3) |")
    assert lines[2].startswith("| Jigsaw | – | 1.0100 (1.0200) | – |")
    assert lines[4].startswith("| FeCA | – | 2.00 (2.50) | – |")


def test_the_page_says_where_jigsaw_is_behind():
    """Methods of one round are compared with one another, and so are those of six."""
    rows = [row("Jigsaw", 1.01), row("FeCA", 1.0), row("Centralized, 1 start", 1.0)]
    six = [row("Jigsaw, 6 rounds", 1.001, rounds=6), row("Fed-Lloyd, 6 rounds", 1.0, rounds=6)]
    assert peer_tables.behind(rows) == "- S1, IID: Jigsaw 1.0100; FeCA 1.0000."
    text = "- S1, IID: Jigsaw, 6 rounds 1.0010; Fed-Lloyd, 6 rounds 1.0000."
    assert peer_tables.behind([row("Jigsaw", 1.01), *six]) == text
    assert peer_tables.behind([row("Jigsaw", 1.0), row("FeCA", 1.2)]) == "Nowhere in this table."


def test_the_page_says_how_far_from_the_best_and_at_what_cost():
    rows = [row("Jigsaw", 1.0, bytes_per_client=100), row("Jigsaw", 1.02, bytes_per_client=100)]
    rows.append(row("Jigsaw", 1.03, "dirichlet(0.3)", bytes_per_client=100))
    rows.append(row("Jigsaw, detail=4", 1.002, bytes_per_client=400))
    rows.append(row("Fed-Lloyd, 21 rounds", 1.001, bytes_per_client=900))
    words = peer_tables.in_words(rows)
    assert "Jigsaw with one round is at most 3.0 % above" in words
    assert "many centers, it is at most 0.2 %" in words
    assert "21 rounds is at most 0.1 %" in words
    assert "sends 9 times as much" in words


def test_the_table_of_costs_is_about_celltype():
    cost = {"ratio_local": 1.2, "rounds": 6, "bytes_per_client": 1234.5, "cpu_seconds": 0.25}
    rows = [{**row("MUFC", 1.05, "as published", **cost), "dataset": "celltype"}]
    last = peer_tables.cost_table(rows).splitlines()[-1]
    assert last == "| MUFC | 1.0500 | 1.20 | 6 | 1,234 | 0.25 |"


def test_ours_beside_the_authors_code():
    pairs = [("authors", 1.0), ("authors", 1.2), ("ours", 1.1)]
    rows = [{"label": "MUFC", "data": "celltype", "side": s, "ratio": r} for s, r in pairs]
    last = peer_tables.authors_table(rows).splitlines()[-1]
    assert last == "| MUFC | celltype | 1.1000 ± 0.1000 | 1.1000 ± 0.0000 | 2, 1 |"


def test_every_cell_has_its_rows():
    found = {key_of(r) for r in read_rows(RESULTS / "peers.jsonl")}
    study = studies()["peers"]
    n_splits = sum(len(splits) for _, _, splits in SETS.values())
    assert len(study.plans) == (len(PEERS) - 1) * n_splits + 3  # Fed-HIRE is on S1 alone
    assert found == {f"peers/{p.name}/{s}" for p in study.plans for s in range(study.runs)}


def test_ours_and_the_authors_code_agree():
    """Each mean is within two standard deviations of a run of the authors' code."""
    rows = read_rows(RESULTS / "peers-authors.jsonl")
    for key in {(r["label"], r["data"]) for r in rows}:
        group = [r for r in rows if (r["label"], r["data"]) == key]
        theirs, ours = (
            np.array([r["ratio"] for r in group if r["side"] == side])
            for side in ("authors", "ours")
        )
        assert min(len(theirs), len(ours)) >= 5
        assert abs(theirs.mean() - ours.mean()) < 2 * max(theirs.std(), 0.005), key
