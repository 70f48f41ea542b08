"""Networks for other programs, and networks of other libraries."""

import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedjigsaw.deep import backbones
from fedjigsaw.deep.checkpoint import Checkpoint
from fedjigsaw.deep.export import export
from fedjigsaw.errors import DataError, ExtraError, MessageError, ParameterError


def test_onnx_gives_the_same_features(small, few, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    method = small(n_rounds=1)
    state = next(method.train(few[0], clients=few[1]))
    method.load_model(state.model)
    path = tmp_path / "net.onnx"
    export(Checkpoint(method, state, {}), path)
    onnx.checker.check_model(onnx.load(path))
    (features,) = ReferenceEvaluator(str(path)).run(None, {"images": few[0][:5]})
    np.testing.assert_allclose(features, method.transform(few[0][:5]), atol=1e-4)
    for size, trained_on, expected in ((16, [8, 8], [16, 16]), (None, [48, 40], [48, 40])):
        tensors = {**state.model.tensors, "image_size": np.array(trained_on)}
        there = replace(state, model=replace(state.model, tensors=tensors))
        export(Checkpoint(method, there, {}), path, size=size)
        asked = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_value for dim in asked][2:] == expected
    export(Checkpoint(method, state, {}), tmp_path / "net.safetensors")


class Toy(nn.Module):
    """A network as torchvision's: a body, and a last layer named fc."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 1)
        self.fc = nn.Linear(4, 10)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in: the real library is no dependency, and its weights are large."""

    def get_model(name, weights):
        if name != "toy":
            raise ValueError(name)
        return Toy()

    made = types.ModuleType("torchvision")
    made.models = types.SimpleNamespace(get_model=get_model)
    monkeypatch.setitem(sys.modules, "torchvision", made)


def test_features_in_parts_are_those_of_all_images_at_once():
    images, progress = np.arange(7 * 3 * 8 * 8).reshape(7, 3, 8, 8).astype(np.uint8), []

    def extract(part):
        return part.reshape(len(part), -1).astype(np.float32)

    np.testing.assert_array_equal(
        backbones.in_parts(extract, images, 3, progress.append), extract(images)
    )
    assert progress == [3, 3, 1]


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_embed_with_weights_from_disk(torchvision, few, tmp_path, ending):
    from safetensors.torch import save_file

    toy = Toy()
    path = tmp_path / f"toy{ending}"
    if ending == ".pt":
        torch.save(toy.state_dict(), path)
    else:
        save_file(toy.state_dict(), path)
    features = backbones.embed(few[0][:3], "torchvision:toy", weights=path, device="cpu")
    assert features.shape == (3, 4)
    assert features.dtype == np.float32
    white = np.full((1, 3, 8, 8), 255, dtype=np.uint8)
    mean, deviation = (
        torch.tensor(v) for v in (backbones.IMAGENET_MEAN, backbones.IMAGENET_DEVIATION)
    )
    expected = toy.body(((1 - mean) / deviation).view(1, 3, 1, 1)).flatten().detach().numpy()
    found = backbones.embed(white, "torchvision:toy", weights=path, device="cpu")[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_weights_that_do_not_fit(torchvision, few, tmp_path):
    torch.save({"x": torch.zeros(1)}, tmp_path / "other.pt")
    (tmp_path / "broken.pt").write_bytes(b"no tensors")
    for name, message in (
        ("other.pt", "do not fit torchvision:toy"),
        ("broken.pt", "has neither safetensors nor tensors"),
    ):
        with pytest.raises(MessageError, match=message):
            backbones.embed(few[0], "torchvision:toy", weights=tmp_path / name)
    with pytest.raises(DataError, match="Cannot read .*none.pt: no such file"):
        backbones.embed(few[0], "torchvision:toy", weights=tmp_path / "none.pt")
    with pytest.raises(ParameterError, match="torchvision has no network 'x'"):
        backbones.embed(few[0], "torchvision:x", weights=tmp_path / "other.pt")


def test_weights_that_give_no_numbers(torchvision, few, tmp_path):
    """A file of features that are NaN would be found out much later."""
    toy = Toy()
    with torch.no_grad():
        next(toy.parameters()).fill_(torch.nan)
    torch.save(toy.state_dict(), tmp_path / "toy.pt")
    with pytest.raises(DataError, match=r"NaN or infinite: the weights in .*toy\.pt are damaged"):
        backbones.embed(few[0][:3], "torchvision:toy", weights=tmp_path / "toy.pt", device="cpu")


class Trap:
    def __reduce__(self):
        return print, ("code was run",)


def test_no_code_from_a_file_is_run(torchvision, few, tmp_path, capsys):
    torch.save({"x": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(MessageError, match="has neither safetensors nor tensors"):
        backbones.embed(few[0], "torchvision:toy", weights=tmp_path / "trap.pt")
    assert "code was run" not in capsys.readouterr().out


def test_a_missing_library(monkeypatch, few, tmp_path):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ExtraError, match="timm:resnet18 requires timm: pip install timm"):
        backbones.embed(few[0], "timm:resnet18", weights=tmp_path / "w.pt")


def test_networks_end_before_their_classifier():
    sequence = nn.Sequential(nn.Dropout(), nn.Linear(4, 10))
    network = nn.Module()
    network.classifier = sequence
    assert isinstance(backbones.without_classifier(network).classifier[-1], nn.Identity)
    with pytest.raises(ParameterError, match="Conv2d does not end in a linear"):
        backbones.without_classifier(nn.Conv2d(1, 1, 1))
