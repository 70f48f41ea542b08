import json
from dataclasses import replace

import pytest
import safetensors.numpy

from fedjigsaw import sites
from fedjigsaw.errors import DataError, MessageError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.sites.lineage import Lineage, check_sidecar, fingerprint, sidecar
from sites_models import model


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "week2.model"
    formats.save(model([0, 10]), path)
    return path


def test_it_is_read_back(path):
    made, parent = model([0, 10]), model([0, 11])
    _, changes = sites.succeed(made, parent)
    difference = sites.compare(parent, made, old_noise=[0.1, 0.2])
    lineage = Lineage.of(
        made, parent=parent, run="r", succession=changes, difference=difference, noise=(0.1, 0.2)
    )
    lineage.save(path)
    assert Lineage.load(path) == lineage
    assert lineage.parent == fingerprint(parent)
    assert lineage.versions.keys() >= {"fedjigsaw", "python", "numpy"}
    assert lineage.drift == difference.drift
    assert lineage.made.endswith("+00:00")


def test_the_model_has_nothing_of_it(path):
    before = path.read_bytes()
    Lineage.of(model([0, 10]), noise=(1.0, 1.0)).save(path)
    assert path.read_bytes() == before


def test_a_model_is_known_by_the_bytes_of_its_file(tmp_path, path):
    """Another version may write the same model in other words: its scores are still its own."""
    content = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "np") as file:
        header = json.loads(file.metadata()["fedjigsaw"])
    metadata = {"fedjigsaw": json.dumps({**header, "of_another_version": 1}, indent=1)}
    safetensors.numpy.save_file(content, tmp_path / "other.model", metadata=metadata)
    other = formats.load(tmp_path / "other.model", formats.ModelFile)
    known = formats.fingerprint((tmp_path / "other.model").read_bytes())
    assert known != formats.fingerprint(path.read_bytes())
    assert fingerprint(other) == known
    rows = from_array([[0.0], [10.0]], list(other.columns))
    assert sites.score(rows, other, client="bern").model == known
    assert Lineage.of(model([0, 11]), parent=other).parent == known
    formats.save(other, tmp_path / "copy.model")
    assert (tmp_path / "copy.model").read_bytes() == (tmp_path / "other.model").read_bytes()
    changed = replace(other, n_samples=other.n_samples + 1)
    assert fingerprint(changed) not in (known, fingerprint(model([0, 10])))


def test_none_and_that_of_another_model(path):
    assert Lineage.load(path) is None
    Lineage.of(model([0, 99])).save(path)
    assert Lineage.load(path) is None


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"kind": "lineage", "format": 2}', "[" * 100_000, "CHANGED"]
)
def test_damaged(path, content):
    Lineage.of(model([0, 10]), noise=(1.0, 1.0)).save(path)
    if content == "CHANGED":
        values = json.loads(sidecar(path).read_text()) | {"noise": [-1, "x"]}
        content = json.dumps(values)
    sidecar(path).write_text(content)
    with pytest.raises(MessageError, match=r"week2\.model\.json.*not a lineage"):
        Lineage.load(path)


def test_a_file_of_others_is_kept(path):
    check_sidecar(path)
    Lineage.of(model([0, 10])).save(path)
    check_sidecar(path)
    sidecar(path).write_text('{"mine": 1}')
    with pytest.raises(DataError, match="it is no lineage"):
        check_sidecar(path)
