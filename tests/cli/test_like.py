import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedjigsaw import sites
from fedjigsaw.cli import app
from fedjigsaw.errors import DataError, FedJigsawError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array


@pytest.fixture
def weeks(tmp_path, rng):
    """Write summaries of two sites in two weeks; there is a new cluster in the second one."""
    places = np.array([[0.0, 0.0], [8.0, 0.0], [8.0, 9.0], [-7.0, 5.0]])
    for week, k in ((1, 3), (2, 4)):
        for site in ("bern", "oslo"):
            rows = np.repeat(places[:k], 40, axis=0) + rng.normal(size=(40 * k, 2))
            table = from_array(rows, ("age", "bmi"))
            made = sites.summarize(table, k, client=site)
            formats.save(made, tmp_path / f"{site}-{week}.summary")
    return tmp_path


def summaries(folder, week):
    return sorted(folder.glob(f"*-{week}.summary"))


@pytest.fixture
def call():
    """Run a command in this process; return its exit code and its words."""

    def run(*words):
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=True)
        if isinstance(done.exception, FedJigsawError):
            return done.exception.exit_code, str(done.exception)
        return done.exit_code, " ".join(done.output.split())

    return run


def labels(call, folder, model):
    (folder / "new.csv").write_text("age,bmi\n0,0\n8,0\n8,9\n-7,5\n")
    call("assign", folder / "new.csv", "--model", model, "-o", folder / "labels.csv", "--force")
    return [int(line.split(",")[1]) for line in (folder / "labels.csv").read_text().split()[1:]]


def test_ids_stay_with_their_clusters(weeks, call):
    first, second = weeks / "first", weeks / "second"
    assert call("aggregate", *summaries(weeks, 1), "-k", 3, "-o", first)[0] == 0
    make = ("aggregate", *summaries(weeks, 2), "-k", 4, "-o", second, "--like", first, "--force")
    assert "3 clusters keep their ids. New: cluster 3. Drift" in call(*make)[1]
    assert labels(call, weeks, second) == [*labels(call, weeks, first)[:3], 3]
    values = json.loads(call(*make, "--json")[1])
    assert sorted(values["ids"]) == [0, 1, 2, 3] != values["ids"]
    assert values["alarm"] is True
    assert values["succession"] == {
        "kept": [0, 1, 2], "new": [3], "gone": [], "splits": {}, "merges": {},
    }  # fmt: skip
    _, words = call("score", weeks / "new.csv", "--model", second)
    assert f"Rows per cluster: {values['ids'][0]}: 1, {values['ids'][1]}: 1" in words
    lineage = json.loads((weeks / "second.json").read_text())
    assert lineage["parent"] == json.loads((weeks / "first.json").read_text())["model"]
    assert len(lineage["noise"]) == 4
    lost = ("aggregate", *summaries(weeks, 1), "-k", 3, "-o", weeks / "m", "--like", weeks / "no")
    assert call(*lost)[0] == DataError.exit_code
    assert not (weeks / "m").exists()


def test_diff_and_its_alarm(weeks, call):
    first, second = weeks / "first", weeks / "second"
    call("aggregate", *summaries(weeks, 1), "-k", 3, "-o", first)
    call("aggregate", *summaries(weeks, 2), "-k", 4, "-o", second, "--like", first)
    code, words = call("diff", first, second, "--alarm", 2)
    assert (code, "New: cluster 3." in words) == (10, True)
    assert call("diff", first, second)[0] == 0
    assert call("diff", first, second, "--alarm", 10_000)[0] == 10  # a cluster is new
    values = json.loads(call("diff", first, second, "--json")[1])
    assert [one["new"] for one in values["clusters"]] == [0, 1, 2, 3]
    ages = [one["columns"]["age"]["after"]["value"] for one in values["clusters"]]
    assert ages == pytest.approx([0, 8, 8, -7], abs=0.5)
    again = json.loads(call("diff", second, second, "--json")[1])
    assert (again["drift"], again["alarm"]) == (0, False)


def test_noise_that_nobody_measured(weeks, call):
    first, second = weeks / "first", weeks / "second"
    call("aggregate", *summaries(weeks, 1), "-k", 3, "-o", first)
    call("aggregate", *summaries(weeks, 2), "-k", 4, "-o", second)
    code, words = call("diff", first, second)
    assert (code, "is not known" in words) == (0, True)
    assert call("diff", first, first, "--alarm", 2)[0] == 2
    assert call("diff", first, second, "--alarm", 2)[0] == 10  # a cluster is new
    (weeks / "june").mkdir()
    for path in summaries(weeks, 2):
        path.rename(weeks / "june" / path.name)
    assert call("diff", first, second, "--alarm", 2, "--summaries", weeks / "june")[0] == 10
    assert call("diff", first, second, "--summaries", weeks)[0] == 4  # of the other week


def test_nothing_is_lost_beside_a_model(weeks, call):
    (weeks / "first.json").write_text("{}")
    make = ("aggregate", *summaries(weeks, 1), "-k", 3, "-o", weeks / "first", "--force")
    assert call(*make)[0] == DataError.exit_code
    assert (weeks / "first.json").read_text() == "{}"
    assert not (weeks / "first").exists()


@pytest.mark.federation
def test_a_federation_keeps_ids_without_asking_anyone(weeks, call):
    pytest.importorskip("flwr")
    clinic = weeks / "clinic"
    assert call("federation", "init", clinic, "--sites", "bern,oslo")[0] == 0
    made = []
    for week, k in ((1, 3), (2, 4)):
        assert call("federation", "keep", clinic, *summaries(weeks, week))[0] == 0
        made.append(weeks / f"week{week}.model")
        like = ("--like", made[0]) if week == 2 else ()
        run = ("federation", "run", clinic, "-k", k, "-o", made[-1], "--ask", "none", *like)
        code, words = call(*run)
        assert code == 0, words
    assert f"After {made[0]}: 3 clusters keep their ids. New: cluster 3. Drift" in words
    assert labels(call, weeks, made[1]) == [*labels(call, weeks, made[0])[:3], 3]
    lineage = json.loads((weeks / "week2.model.json").read_text())
    (folder,) = [f for f in (clinic / "server" / "runs").iterdir() if f.name == lineage["run"]]
    assert (folder / "model").exists()
    assert call("diff", *made, "--alarm", 2)[0] == 10
    code, words = call("inspect", weeks / "week2.model.json")
    assert (code, "tells where a model is from. Give the model beside it." in words) == (4, True)
