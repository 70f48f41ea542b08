"""Weekly models by file: ids stay, a site joins, and only a new cluster alarms."""

import json

import numpy as np

from builders import write_table
from fedjigsaw.io import formats
from flower_clinic import BACKEND

MEANS = np.array(
    [[35, 118, 10], [52, 135, 25], [68, 150, 12], [74, 122, 40], [28, 105, 33], [45, 165, 55.0]]
)
SPREAD = np.array([4.0, 5.0, 3.0])


def rows_of(site, week, *, new):
    """A site's rows of a week: its own mixture of clusters, with the last one or without."""
    shares = np.random.default_rng([site, 1]).dirichlet(np.full(len(MEANS) - 1, 2.0))
    shares = np.append(shares * (0.9 if new else 1.0), 0.1 if new else 0.0)
    rng = np.random.default_rng([site, week, 2])
    return MEANS[rng.choice(len(MEANS), 300, p=shares)] + SPREAD * rng.normal(size=(300, 3))


def ids_by_cluster(path):
    """The id that a model gives to each cluster of the population; None if it has none."""
    file = formats.load(path, formats.ModelFile)
    apart = (((MEANS[:, None] - file.model.centers) / SPREAD) ** 2).sum(axis=2)
    return [file.cluster_ids[row.argmin()] if row.min() < 3 else None for row in apart]


def test_ids_stay_and_only_the_new_cluster_alarms(run, tmp_path, monkeypatch):
    monkeypatch.setenv(*BACKEND)
    last, ids, alarms = None, [], []
    for week in (1, 2, 3):
        summaries, model = [], tmp_path / f"{week}.model"
        for site in range(1, 5 if week == 1 else 6):
            data = rows_of(site, week, new=week > 1).T
            table = write_table(tmp_path / f"{site}.csv", **dict(zip("abc", data, strict=True)))
            summaries.append(tmp_path / f"{site}-{week}.summary")
            run("summarize", table, "-k", 8, "--client", site, "-o", summaries[-1])
        like = [] if last is None else ["--like", last]
        run("aggregate", *summaries, "-k", "auto", "-o", model, *like)
        if last is not None:
            done = run("diff", last, model, "--json", "--alarm", 2)
            assert json.loads(done.stdout)
            alarms.append(done.exit_code == 10)
        ids.append(ids_by_cluster(model))
        last = model
    assert alarms == [True, False]
    assert ids[0][:5] == ids[1][:5] == ids[2][:5]
    assert None not in ids[0][:5]
    assert (ids[0][5], ids[1][5]) == (None, ids[2][5])
    assert ids[1][5] is not None
