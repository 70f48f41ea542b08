"""A federation whose sites prepare mixed columns by one scaler."""

import json
import logging

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import Jigsaw, sites
from fedjigsaw.columns.schema import Schema
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import load_site
from fedjigsaw.io import formats
from flower_doubles import NAMES, LocalGrid, engine_of

SCHEMA = Schema.from_dict(
    {
        "format": 1,
        "columns": {
            "age": {"range": [0, 120]},
            "sex": {"kind": "category", "categories": ["female", "male"]},
            "seen": {"kind": "date"},
        },
    }
)


def make(n, seed):
    rng = np.random.default_rng(seed)
    age = 30.0 + 40 * rng.integers(0, 2, n) + rng.normal(0, 2, n)
    return pd.DataFrame(
        {
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "sex": rng.choice(["female", "male", None], n),
        }
    )


@pytest.fixture
def clinic(tmp_path):
    """CSV files with columns in different orders, and the scaler that was sent to all sites."""
    paths = {name: tmp_path / f"{name}.csv" for name in NAMES}
    for i, path in enumerate(paths.values()):
        make(90, i).sample(frac=1, axis=1, random_state=i).to_csv(path, index=False)
    stats = {n: sites.measure(p, schema=SCHEMA, min_rows=5) for n, p in paths.items()}
    formats.save_scaler(sites.common_scaler(stats, schema=SCHEMA), tmp_path / "scaler.json")
    return paths, tmp_path / "scaler.json"


def options(name, data, scaler, **others):
    found = {"kind": "rows", "name": name, "data": str(data), "scaler": str(scaler), **others}
    return json.loads(json.dumps(found))


def test_sites_give_the_model_of_one_round_by_file(clinic):
    paths, scaler = clinic
    loaded = formats.load_scaler(scaler)
    apps = {}
    for name, path in paths.items():
        site = load_site(options(name, path, scaler))
        site.check()
        apps[name] = client_app(lambda context, site=site.site: site)
    method = Jigsaw(2, random_state=0)
    file, transcript = federate(engine_of(LocalGrid(apps), method))
    assert not transcript.failures
    summaries = {
        n: sites.summarize(p, 2, scaler=loaded, guard=site.site.guard) for n, p in paths.items()
    }
    by_file = sites.aggregate(summaries, 2)
    assert file.encoding == loaded.encoding
    assert file.columns == loaded.columns
    assert file.model.centers.tobytes() == by_file.model.centers.tobytes()
    (part,) = sites.assign(paths["oslo"], file)
    assert set(part.labels.to_pylist()) == {0, 1}


def test_a_bad_value_is_told_at_the_site_only(clinic, caplog):
    paths, scaler = clinic
    text = paths["oslo"].read_text()
    header = text.splitlines()[0].split(",")
    row = [
        "old" if name == "age" else "2020-01-01" if name == "seen" else "male" for name in header
    ]
    paths["oslo"].write_text(text + ",".join(row) + "\n")
    apps = {}
    for name, path in paths.items():
        site = load_site(options(name, path, scaler)).site
        apps[name] = client_app(lambda context, site=site: site)
    with caplog.at_level(logging.WARNING, logger="fedjigsaw"):
        file, transcript = federate(
            engine_of(LocalGrid(apps), Jigsaw(2, random_state=0)), min_sites=2
        )
    assert file.clients == ("bern", "lyon")
    assert "row 91, column 'age': 'old' is not a number" in caplog.text
    assert not any("old" in failure.reason for failure in transcript.failures)
