import json

import numpy as np
import pytest

from fedjigsaw import sites
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


def test_ids_stay_with_their_clusters(weeks, shell):
    first, second = weeks / "first", weeks / "second"
    assert shell("aggregate", *summaries(weeks, 1), "-k", 3, "-o", first).returncode == 0
    done = shell("aggregate", *summaries(weeks, 2), "-k", 4, "-o", second, "--like", first)
    assert f"After {first}: 3 clusters keep their ids. New: cluster 3." in " ".join(
        done.stdout.split()
    )
    (weeks / "new.csv").write_text("age,bmi\n0,0\n8,0\n8,9\n-7,5\n")
    labels = weeks / "labels.csv"
    found = []
    for model in (first, second):
        shell("assign", weeks / "new.csv", "--model", model, "-o", labels, "--force")
        found.append([int(line.split(",")[1]) for line in labels.read_text().split()[1:]])
    assert found[1] == [*found[0][:3], 3]
    again = shell(
        *("aggregate", *summaries(weeks, 2), "-k", 4, "-o", second, "--like", first),
        *("--force", "--json"),
    )
    values = json.loads(again.stdout)
    assert sorted(values["ids"]) == [0, 1, 2, 3]
    assert values["ids"] != [0, 1, 2, 3]
    assert values["succession"] == {
        "kept": [0, 1, 2], "new": [3], "gone": [], "splits": {}, "merges": {},
    }  # fmt: skip
    score = shell("score", weeks / "new.csv", "--model", second)
    assert f"Rows per cluster: {values['ids'][0]}: 1, {values['ids'][1]}: 1" in score.stdout


def test_the_old_model_is_read_first(weeks, shell):
    done = shell(
        "aggregate", *summaries(weeks, 1), "-k", 3, "-o", weeks / "m", "--like", weeks / "no"
    )
    assert done.returncode != 0
    assert "no such file" in done.stderr
    assert not (weeks / "m").exists()


def test_a_deep_model_follows_no_other(weeks, shell):
    first = weeks / "first"
    shell("aggregate", *summaries(weeks, 1), "-k", 3, "-o", first)
    shell("federation", "init", weeks / "clinic", "--sites", "a,b")
    done = shell(
        *("federation", "run", weeks / "clinic", "-k", 3, "-o", weeks / "m"),
        *("--method", "deepfeca", "--like", first),
    )
    assert "--like cannot be used with deepfeca" in " ".join(done.stderr.split())
