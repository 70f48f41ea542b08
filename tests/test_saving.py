"""An estimator and a model file are the same model: saved, loaded, and used by the commands."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import fedjigsaw
from builders import write_table
from fedjigsaw import FeCA, FederatedPreparation, Jigsaw, Privacy, SerialEngine, sites
from fedjigsaw.errors import DataError, MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.methods import CLUSTERERS


@pytest.mark.parametrize("name", CLUSTERERS)
def test_every_method_predicts_the_same_after_a_round_trip(name, grid, tmp_path):
    data, ids = grid
    cls = CLUSTERERS[name].cls
    fitted = cls(15, random_state=0).fit(data.X, clients=ids)
    fitted.save(tmp_path / "model")
    for loaded in (cls.load(tmp_path / "model"), fedjigsaw.load(str(tmp_path / "model"))):
        assert type(loaded) is cls
        assert loaded.get_params() == fitted.get_params()
        assert loaded.model_.centers.tobytes() == fitted.model_.centers.tobytes()
        assert loaded.predict(data.X).tolist() == fitted.predict(data.X).tolist()
        assert loaded.score(data.X) == fitted.score(data.X)
        assert (loaded.transform(data.X) == fitted.transform(data.X)).all()
        assert loaded.n_features_in_ == 2
        assert not hasattr(loaded, "feature_names_in_")


def test_shapes_and_noise_are_kept(tmp_path, rng):
    X = np.concatenate([rng.normal(size=(200, 2)) * [8, 0.5] + [0, y] for y in (0, 6)])
    X = np.concatenate([X, rng.uniform(-30, 30, (40, 2))])
    fitted = Jigsaw(2, shape="elongated", noise=True, random_state=0).fit(X)
    fitted.save(tmp_path / "model")
    labels = Jigsaw.load(tmp_path / "model").predict(X)
    assert -1 in labels
    assert labels.tolist() == fitted.predict(X).tolist()


def test_what_a_model_says_is_kept(grid, tmp_path):
    data, ids = grid
    fitted = Jigsaw("auto", random_state=0).fit(data.X, clients=ids)
    fitted.save(tmp_path / "model")
    loaded = Jigsaw.load(tmp_path / "model")
    assert loaded.k_sentence_ == fitted.k_sentence_
    assert loaded.support_["points"].tolist() == fitted.support_["points"].tolist()
    assert loaded.sites_ == [replace(site, influence=None) for site in fitted.sites_]
    assert loaded.cluster_ids_.tolist() == list(range(fitted.n_clusters_))
    with pytest.raises(ParameterError, match="no profile_ .* loaded"):
        _ = loaded.profile_
    with pytest.raises(ParameterError, match="does not know what clients sent"):
        loaded.predict(data.X, clients=ids)


def test_saving_again_gives_the_same_bytes_and_a_fit_forgets_the_file(grid, tmp_path):
    data, ids = grid
    Jigsaw(15, random_state=0).fit(data.X, clients=ids).save(tmp_path / "a")
    loaded = Jigsaw.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded.fit(data.X[:300])
    assert loaded.transcript_.clients == ("0",)
    loaded.save(tmp_path / "c")
    assert formats.load(tmp_path / "c", ModelFile).clients == ("0",)


def test_names_of_columns_are_kept(tmp_path):
    frame = pd.DataFrame({"age": [1.0, 2.0, 50.0], "dose": [0.0, 1.0, 9.0]})
    Jigsaw(2, random_state=0).fit(frame).save(tmp_path / "model")
    loaded = Jigsaw.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["age", "dose"]
    assert loaded.predict(frame).tolist() == [0, 0, 1]
    with pytest.raises(DataError, match="feature names"):
        loaded.predict(frame[["dose", "age"]])


def test_a_model_of_the_commands_is_an_estimator(grid_sites, run, tmp_path):
    paths, data, ids = grid_sites
    stats = {str(path): sites.measure(path) for path in paths}
    scaler = sites.common_scaler(stats)
    summaries = {str(p): sites.summarize(p, 15, scaler=scaler) for p in paths}
    formats.save(sites.aggregate(summaries, 15), tmp_path / "model")
    run("assign", paths[0], "--model", tmp_path / "model", "-o", tmp_path / "labels.csv")
    labels = pyarrow.csv.read_csv(tmp_path / "labels.csv")["label"].to_pylist()
    loaded = fedjigsaw.load(tmp_path / "model")
    frame = pd.DataFrame(data.X, columns=["x", "y"])
    assert loaded.predict(frame[ids == 0]).tolist() == labels
    centers = pd.DataFrame(loaded.cluster_centers_, columns=["x", "y"])  # in the units of files
    assert loaded.predict(centers).tolist() == list(range(15))
    scored = sites.score(paths[0], formats.load(tmp_path / "model", ModelFile))
    assert loaded.score(frame[ids == 0]) == pytest.approx(-scored.sse.sum())


def test_a_preparation_and_its_model_are_one_file(run, tmp_path):
    table = pd.DataFrame(
        {"age": [20.0, 22.0, 60.0, 62.0] * 5, "sex": ["f", "m"] * 10, "dose": [1.0, None] * 10}
    )
    preparation = FederatedPreparation().fit(table)
    rows = preparation.transform(table)
    fitted = Jigsaw(2, random_state=0).fit(rows)
    fitted.save(tmp_path / "model", scaler=preparation.scaler_)
    loaded = fedjigsaw.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["age", "sex", "dose"]
    assert loaded.predict(table).tolist() == fitted.labels_.tolist()
    assert loaded.predict(table[["dose", "sex", "age"]]).tolist() == fitted.labels_.tolist()
    with pytest.raises(DataError, match="X of Jigsaw.predict has no column 'sex'"):
        loaded.predict(table[["age", "dose"]])
    table.to_csv(tmp_path / "table.csv", index=False)
    words = ["--model", tmp_path / "model", "-o", tmp_path / "labels.csv"]
    run("assign", tmp_path / "table.csv", *words)
    found = pyarrow.csv.read_csv(tmp_path / "labels.csv")["label"].to_pylist()
    assert found == fitted.labels_.tolist()
    narrow = FederatedPreparation().fit(table[["age"]]).scaler_
    with pytest.raises(ParameterError, match="scaler of save"):
        fitted.save(tmp_path / "other", scaler=narrow)


def test_the_promise_and_missed_rounds_are_in_the_file(tmp_path):
    privacy = Privacy(epsilon=50.0, cells="own", bounds=(0.0, 10.0), insecure_seed=0)
    rows = np.repeat([[1.0], [9.0]], 50, axis=0)
    Jigsaw(2, random_state=0).fit(rows, privacy=privacy).save(tmp_path / "model")
    assert formats.load(tmp_path / "model", ModelFile).privacy.epsilon == 50.0

    class Misses(SerialEngine):
        def ask(self, broadcast):
            replies = super().ask(broadcast)
            lost = fedjigsaw.Failure("a", "no answer")
            return [lost if r.client == "a" and broadcast.round else r for r in replies]

    shards = {"a": [[0.0], [1.0]], "b": [[0.5], [9.0], [8.0]]}
    two = Jigsaw(2, n_rounds=2, random_state=0)
    two.fit_clients(shards, engine=Misses, min_clients=1).save(tmp_path / "two")
    file = formats.load(tmp_path / "two", ModelFile)
    assert (file.clients, file.partly) == (("a", "b"), ("a",))


def test_a_file_is_not_overwritten_unasked(tmp_path):
    fitted = Jigsaw(2, random_state=0).fit([[0.0], [1.0], [9.0]])
    fitted.save(tmp_path / "model")
    with pytest.raises(DataError, match="model already exists"):
        fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model", overwrite=True)


@pytest.mark.parametrize("path", [None, 3, ["model"]])
def test_what_is_no_path_is_named(path):
    for use in (fedjigsaw.load, FeCA.load, FeCA(1).fit([[0.0], [1.0]]).save):
        with pytest.raises(ParameterError, match=r"path of (FeCA\.)?\w+"):
            use(path)


def test_files_that_are_not_the_right_model(tmp_path):
    FeCA(2, random_state=0).fit([[0.0], [1.0], [9.0]]).save(tmp_path / "feca")
    with pytest.raises(MessageError, match="is a model of method 'feca', not of Jigsaw"):
        Jigsaw.load(tmp_path / "feca")
    write_table(tmp_path / "rows.csv", x=[1.0, 2.0])
    for path, error in [("nothing", DataError), ("rows.csv", MessageError)]:
        with pytest.raises(error, match=path):
            fedjigsaw.load(tmp_path / path)
    evil = tmp_path / "evil"
    evil.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(MessageError, match="evil"):
        Jigsaw.load(evil)
    file = formats.load(tmp_path / "feca", ModelFile)
    for change, words in [
        ({"method": "poem"}, "other.*Unknown method 'poem'.*fedjigsaw.register, .*or install"),
        ({"method": "deepfeca"}, "DeepFeCA learns from images, not from rows"),
        ({"params": {"color": "red"}}, "other.*no parameter 'color'"),
    ]:
        other = ModelFile(_changed(file.model, **change), None, file.clients, file.n_samples)
        formats.save(other, tmp_path / "other", replace=True)
        with pytest.raises(MessageError, match=words):
            fedjigsaw.load(tmp_path / "other")


def _changed(model, **change):
    parts = {"method": model.method, "params": dict(model.params), **change}
    return fedjigsaw.Model(model.centers, **parts, feature_names=model.feature_names)
