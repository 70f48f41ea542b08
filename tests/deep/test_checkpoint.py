"""Runs as files: round trip, another configuration, files that are none."""

import json
import os

import numpy as np
import pytest
import safetensors.numpy

from fedjigsaw.deep import CentralDeepCluster, checkpoint, images
from fedjigsaw.deep.checkpoint import Checkpoint
from fedjigsaw.errors import DataError, MessageError, ParameterError

ABOUT = {"dataset": "few", "split": "iid"}


@pytest.fixture(scope="module")
def trained(small, few):
    method = small([6, 4], n_rounds=2)
    return method, next(method.train(few[0], clients=few[1]))


@pytest.fixture
def saved(trained, tmp_path):
    (method, state), path = trained, tmp_path / "run.st"
    checkpoint.save(Checkpoint(method, state, ABOUT), path)
    return path, method, state


def rewritten(path, change, *, checksum=False):
    """Change header and arrays of a checkpoint; with the old checksum, or one that fits."""
    arrays = safetensors.numpy.load(path.read_bytes())
    with safetensors.safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["fedjigsaw"])
    change(header, arrays)
    if not checksum and isinstance(header, dict):
        header["sha256"] = checkpoint._digest(header, arrays)
    metadata = {"fedjigsaw": json.dumps(header)}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=metadata))


def test_round_trip(saved, few):
    path, method, state = saved
    loaded = checkpoint.load(path)
    assert loaded.state.model == state.model
    assert (loaded.state.round, loaded.state.seed) == (1, 0)
    assert loaded.state.numbers == state.numbers
    assert loaded.about == ABOUT
    assert loaded.method.get_params() == method.get_params()
    loaded.check_same(method, ABOUT, path)


def test_going_on_from_a_file_equals_no_interruption(saved, few, small):
    path, _, _ = saved
    loaded = checkpoint.load(path)
    rest = list(loaded.method.train(few[0], clients=few[1], start=loaded.state))
    whole = list(small([6, 4], n_rounds=2).train(few[0], clients=few[1]))
    assert rest[-1].model == whole[-1].model


def test_centralized_runs_know_that_they_are(small, few, tmp_path):
    method = small(cls=CentralDeepCluster, n_rounds=1)
    checkpoint.save(Checkpoint(method, next(method.train(few[0])), {}), tmp_path / "c.st")
    assert type(checkpoint.load(tmp_path / "c.st").method) is CentralDeepCluster


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0.3}, "Cannot resume .*run.st: it was trained with temperature=0.1, not"),
        ({"n_rounds": 9}, "n_rounds"),
        ({"random_state": 5}, "random_state"),
    ],
)
def test_another_configuration(saved, small, change, message):
    path, _, _ = saved
    other = small([6, 4], **{"n_rounds": 2, **change})
    with pytest.raises(ParameterError, match=message):
        checkpoint.load(path).check_same(other, ABOUT, path)


def test_other_data(saved):
    path, method, _ = saved
    with pytest.raises(ParameterError, match="it was trained with split='iid', not 'dirichlet'"):
        checkpoint.load(path).check_same(method, {**ABOUT, "split": "dirichlet"}, path)


def test_it_may_go_on_elsewhere(saved, small):
    path, _, _ = saved
    checkpoint.load(path).check_same(small([6, 4], n_rounds=2, device="auto"), ABOUT, path)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no file of ours", safetensors.numpy.save({"a": np.zeros(2)}),
        safetensors.numpy.save({"centers": np.zeros((1, 1))}, metadata={"fedjigsaw": "{}"}),
        safetensors.numpy.save({"centers": np.zeros((1, 1))}, metadata={"fedjigsaw": "[" * 9000}),
    ],
)  # fmt: skip
def test_files_that_are_no_checkpoint(tmp_path, content):
    path = tmp_path / "bad.st"
    path.write_bytes(content)
    with pytest.raises(MessageError, match=r"bad.st is not a checkpoint written by"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", 99),
        ("method", "x"),
        ("params", {"x": 1}),
        ("params", {"network": "vgg"}),
        ("params", {"batch_size": 10**12}),
        ("params", {"views": 10**12}),
        ("params", {"small_crops": 10**12}),
        ("params", {"n_rounds": 10**12}),
        ("params", {"local_epochs": 10**12}),
        ("round", -1),
        ("round", 0),
        ("round", 3),
        ("seed", "0"),
        ("numbers", 3),
        ("numbers", {"seconds": "long"}),
        ("numbers", {"loss": json.loads("[" * 50 + "]" * 50)}),
        ("about", {"split": json.loads("[" * 50 + "]" * 50)}),
        ("about", {"\x1b[2J": 1}),
    ],
)
def test_a_header_that_is_not_in_order(saved, name, value):
    path, _, _ = saved
    rewritten(path, lambda header, arrays: header.update({name: value}))
    with pytest.raises(MessageError, match="is not a checkpoint"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("centers", np.zeros((2**45, 0))),
        ("centers", np.zeros((10, 3))),
        ("centers", np.zeros((3, 32))),
        ("tensor.head", np.full(10, 2**60)),
        ("tensor.head", np.full(10, np.nan)),
        ("tensor.report.sizes", np.zeros((0, 2**50), int)),
        ("tensor.weights.stem.weight", np.zeros((16, 3, 3, 3), np.uint8)),
        ("tensor.\x1b[2J", np.zeros(3)),
    ],
)
def test_crafted_arrays_are_refused_before_anything_uses_them(saved, name, array):
    path, _, _ = saved
    rewritten(path, lambda header, arrays: arrays.update({name: array}))
    with pytest.raises(MessageError, match="is not a checkpoint"):
        checkpoint.load(path)


def test_a_changed_bit_is_told(saved):
    def one_bit(header, arrays):
        arrays["tensor.weights.stem.weight"].view(np.uint8).flat[3] ^= 0x10

    path, _, _ = saved
    rewritten(path, lambda header, arrays: None, checksum=True)
    checkpoint.load(path)
    rewritten(path, one_bit, checksum=True)
    with pytest.raises(MessageError, match=r"run\.st is not .* It was changed.* Name another file"):
        checkpoint.load(path)


VELOCITY, TEACHER = "server.velocity.weights.", "teacher."
VARIANCE = "weights.stem_norm.running_var"
SETTINGS = [{}, {"server_momentum": 0.5}, {"ema": 0.5}]


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def stopped(small, few, tmp_path_factory, request):
    """The checkpoint of a run that was stopped after the first of two rounds."""
    method = small([6, 4], n_rounds=2, **request.param)
    path = tmp_path_factory.mktemp("stopped") / "run.st"
    checkpoint.save(Checkpoint(method, next(method.train(few[0], clients=few[1])), ABOUT), path)
    checkpoint.load(path)
    return path


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda a: a[1:], "must be .* got .*of shape"),
        (lambda a: a.reshape(-1), "must be .* got .*of shape"),
        (lambda a: a.astype(np.int64), "must be .* got int64"),
        (lambda a: None, "must be .* got absent"),
        (lambda a: np.full_like(a, np.nan), "has NaN or infinity"),
    ],
)
def test_damaged_weights_are_told_when_a_file_is_read(stopped, tmp_path, damage, words):
    """Those of clients, and what the server adds."""
    with safetensors.safe_open(stopped, framework="numpy") as file:
        names = [n for n in file.keys() if n.endswith("stem.weight")]  # noqa: SIM118
    for name in names:
        path = tmp_path / "run.st"
        path.write_bytes(stopped.read_bytes())

        def change(header, arrays, name=name):
            found = damage(arrays.pop(name).copy())
            if found is not None:
                arrays[name] = found

        rewritten(path, change)
        tensor = name.removeprefix("tensor.")
        with pytest.raises(MessageError, match=rf"run\.st is not .*{tensor} .*{words}"):
            checkpoint.load(path)


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("weights.other", np.zeros(3, np.float32), "must be absent"),
        (f"{TEACHER}stem.weight", np.zeros((16, 3, 3, 3), np.float32), "must be absent"),
        (f"{VELOCITY}stem.weight", np.zeros((1, 1, 1, 1), np.float32), "must be absent"),
        (VARIANCE, np.full(16, -1, np.float32), "negative variance"),
        ("image_size", np.array([3, 1]), "image_size of the model"),
    ],
)
def test_what_a_run_does_not_have_is_told(saved, name, array, words):
    path, _, _ = saved

    rewritten(path, lambda header, arrays: arrays.update({f"tensor.{name}": array}))
    with pytest.raises(MessageError, match=words):
        checkpoint.load(path)


def test_a_truncated_checkpoint(saved):
    path, _, _ = saved
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(MessageError, match="is not a checkpoint.* or was cut off"):
        checkpoint.load(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.st")
    os.mkfifo(tmp_path / "images.npz")
    with pytest.raises(DataError, match="is a pipe or a device"):
        checkpoint.load(tmp_path / "run.st")
    with pytest.raises(DataError, match="is a pipe or a device"):
        images.load(tmp_path / "images.npz")


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="Cannot read .*none.st: no such file"):
        checkpoint.load(tmp_path / "none.st")


def test_the_weights_of_a_network_are_exported(saved, tmp_path):
    """Other programs read them by the names of the network's layers."""
    path, _, state = saved
    checkpoint.export(checkpoint.load(path), tmp_path / "net.safetensors")
    arrays = safetensors.numpy.load_file(tmp_path / "net.safetensors")
    kept = {n: a for n, a in state.model.tensors.items() if n.startswith("weights.")}
    assert arrays.keys() == {name.removeprefix("weights.") for name in kept}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, kept[f"weights.{name}"])
    with pytest.raises(ParameterError, match=r"\.onnx"):
        checkpoint.export(checkpoint.load(path), tmp_path / "net.onnx")
