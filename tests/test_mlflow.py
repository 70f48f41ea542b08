import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import sites
from fedjigsaw.errors import DataError
from fedjigsaw.io import formats
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.sites.lineage import Lineage, fingerprint, sidecar
from sites_models import model

mlflow = pytest.importorskip("mlflow")
flavor = pytest.importorskip("fedjigsaw.mlflow")


@pytest.fixture
def file():
    scaler = Scaler(("age", "bmi"), np.array([50.0, 25.0]), np.array([10.0, 5.0]))
    made = model([[-1.0, 0.0], [1.0, 1.0]], columns=("age", "bmi"), scaler=scaler)
    return replace(made, ids=(5, 2), next_id=6)


@pytest.fixture
def rows():
    return pd.DataFrame({"bmi": [25.0, 30.0, None], "other": ["a", "b", "c"], "age": [40, 61, 50]})


@pytest.fixture
def saved(file, tmp_path):
    flavor.save_model(file, tmp_path / "saved")
    return tmp_path / "saved"


def test_what_is_saved_is_loaded(file, saved):
    assert formats.encode(flavor.load_model(str(saved))) == formats.encode(file)


def test_rows_are_labeled_by_ids(saved, rows):
    found = mlflow.pyfunc.load_model(str(saved)).predict(rows)
    assert found["label"].tolist()[:2] == [5, 2]
    assert pd.isna(found["label"][2])
    assert found["distance"].tolist()[:2] == pytest.approx([0, 0.1])


def test_arrays_have_the_columns_of_the_model(file):
    found = flavor.Predictor(file).predict(np.array([[40.0, 25.0], [60.0, 30.0]]))
    assert found["label"].tolist() == [5, 2]


def test_no_file_has_code(saved):
    names = {path.name for path in saved.iterdir()}
    assert names == {"MLmodel", "model", "requirements.txt"}


def test_logged_with_its_lineage(file, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more packages
    path = tmp_path / "june.model"
    formats.save(file, path)
    parent = model([[-1.0, 0.0]], columns=("age", "bmi"))
    Lineage.of(file, parent=parent, run="r1").save(path)
    mlflow.set_tracking_uri(f"file:{tmp_path}/runs")
    with mlflow.start_run():
        info = flavor.log_model(path, name="patients")
    assert info.metadata["parent"] == fingerprint(parent)
    assert info.metadata["fingerprint"] == fingerprint(file)
    assert info.metadata["ids"] == "[5, 2]"
    found = mlflow.pyfunc.load_model(info.model_uri).predict(rows)
    assert found["label"].tolist()[:2] == [5, 2]
    assert flavor.load_model(info.model_uri).cluster_ids == (5, 2)


def test_the_lineage_goes_along(file, tmp_path):
    path = tmp_path / "june.model"
    formats.save(file, path)
    Lineage.of(file, run="r1").save(path)
    flavor.save_model(path, tmp_path / "saved")
    assert sidecar(tmp_path / "saved" / "model").exists()
    assert Lineage.load(tmp_path / "saved" / "model").run == "r1"


def test_nothing_is_overwritten(file, saved):
    with pytest.raises(DataError, match="already exists"):
        flavor.save_model(file, saved)


def test_without_the_extra():
    code = (
        "import sys; sys.modules['mlflow'] = None\n"
        "import fedjigsaw.mlflow as flavor\n"
        "try: flavor.load_model('x')\n"
        "except flavor.ExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'fedjigsaw[mlflow]'" in done.stdout


def test_labels_are_those_of_assign(file, rows):
    found = flavor.Predictor(file).predict(rows[:2])
    (part,) = sites.assign(flavor.from_frame(rows[:2]), file)
    assert found["label"].tolist() == part.labels.to_pylist()
