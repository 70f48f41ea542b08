"""One round by file with clusters that are not round, and rows of no cluster."""

import csv

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import Guard, Jigsaw, Privacy, sites
from fedjigsaw.io import formats
from fedjigsaw.number.shapes import NOISE

OFF = Guard(min_cluster_size=1)
SHAPED = {"shape": "elongated", "noise": True}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Three CSV files with two long clusters and a background, and their rows."""
    folder, rng = tmp_path_factory.mktemp("shapes"), np.random.default_rng(0)
    bars = [rng.normal((0, y), (10, 0.5), (600, 2)) for y in (0, 5)]
    X = np.concatenate([*bars, rng.uniform((-60, -30), (60, 30), (60, 2))])
    X = X[rng.permutation(len(X))].round(6)
    parts = {name: X[i::3] for i, name in enumerate(("bern", "lyon", "oslo"))}
    paths = [folder / f"{name}.csv" for name in parts]
    for path in paths:
        write_table(path, x=parts[path.stem][:, 0], y=parts[path.stem][:, 1])
    return paths, parts


@pytest.fixture(scope="module")
def made(places):
    paths, _ = places
    files = {path.name: sites.summarize(path, "auto", guard=OFF, seed=7) for path in paths}
    return files, sites.aggregate(files, "auto", seed=7, params=SHAPED)


def test_by_file_equals_in_python(places, made, tmp_path):
    paths, parts = places
    memory = Jigsaw("auto", random_state=7, **SHAPED).fit_clients(parts)
    assert memory.n_clusters_ == 2
    formats.save(made[1], tmp_path / "model")
    model = formats.load(tmp_path / "model", formats.ModelFile)
    assert model.model.centers.tobytes() == memory.cluster_centers_.tobytes()
    for name, tensor in memory.model_.tensors.items():
        assert model.model.tensors[name].tobytes() == tensor.tobytes(), name
    local = Jigsaw("auto", random_state=7, assign="local", **SHAPED).fit_clients(parts)
    for fitted, summaries in ((memory, {}), (local, made[0])):
        found = []
        for path in paths:
            for part in sites.assign(path, model, local=summaries.get(path.name)):
                found += part.labels.to_pylist()
        assert found == fitted.labels_.tolist()


def test_rows_of_no_cluster_are_counted_apart(places, made):
    paths, parts = places
    labels = {
        path.stem: np.concatenate([part.labels.to_numpy() for part in sites.assign(path, made[1])])
        for path in paths
    }
    scores = {path.name: sites.score(path, made[1]) for path in paths}
    profiled = sites.score(paths[0], made[1], profile=True)
    for path in paths:
        score, own = scores[path.name], labels[path.stem]
        assert score.n_noise == (own == NOISE).sum() > 10
        assert score.counts.tolist() == np.bincount(own[own >= 0]).tolist()
    total = sites.merge_scores(scores)
    assert total.n_noise == sum(score.n_noise for score in scores.values())
    assert total.n_rows + total.n_noise == sum(map(len, parts.values()))
    assert profiled.counts.tolist() == scores["bern.csv"].counts.tolist()
    assert profiled.n_noise == scores["bern.csv"].n_noise
    read = formats.decode(formats.encode(profiled))
    assert read.n_noise == profiled.n_noise
    inside = parts["bern"][labels["bern"] == 0]
    assert np.allclose(profiled.profile.mean[0], inside.mean(axis=0), atol=2)


def test_a_single_row_of_no_cluster_is_not_told_by_what_is_left(made, tmp_path):
    """All rows minus those of the clusters are the one row, so a cluster is hidden beside it."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal((0, y), (3, 0.3), (40 + y, 2)) for y in (0, 5)])
    rows = np.concatenate([rows, [[55.0, 28.0]]])
    write_table(tmp_path / "a.csv", x=rows[:, 0], y=rows[:, 1])
    score = sites.score(tmp_path / "a.csv", made[1], profile=True)
    assert (score.n_noise, score.n_rows) == (1, 85)
    assert score.profile.count.sum(axis=1).astype(bool).tolist() == [False, True]
    exact = sites.score(tmp_path / "a.csv", made[1], profile=True, guard=OFF)
    assert exact.profile.count.tolist() == [[40, 40], [45, 45]]


def test_under_privacy_rows_of_no_cluster_are_not_told(places, made):
    privacy = Privacy(
        epsilon=100.0, delta=1e-6, cells="own", bounds=([-60, -30], [60, 30]), insecure_seed=0
    )
    score = sites.score(places[0][0], made[1], profile=True, privacy=privacy)
    assert score.n_noise == 0
    exact = sites.score(places[0][0], made[1])
    assert np.abs(score.counts - exact.counts).max() < 10


def test_commands(places, run, tmp_path):
    paths, parts = places
    given, names = ["-p", "shape=elongated", "-p", "noise=true"], []
    for path in paths:
        names.append(tmp_path / f"{path.stem}.summary")
        run("summarize", path, "-k", "auto", "-o", names[-1])
    model, labels, page = (tmp_path / name for name in ("model", "labels.csv", "page.html"))
    assert run("aggregate", *names, "-k", "2", *given, "-o", model).exit_code == 0
    assert run("assign", paths[0], "--model", model, "-o", labels).exit_code == 0
    with labels.open() as file:
        found = [int(row["label"]) for row in csv.DictReader(file)]
    assert set(found) == {-1, 0, 1}
    assert len(found) == len(parts["bern"])
    shown = run("score", paths[0], "--model", model, "-o", tmp_path / "score").stdout
    assert f"{found.count(-1)} more rows are in no cluster" in shown
    assert run("report", model, tmp_path / "score", "-o", page).exit_code == 0
    assert f"{found.count(-1)} rows in no cluster (label -1)" in page.read_text()
