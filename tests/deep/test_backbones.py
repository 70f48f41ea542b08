"""Features by networks of other libraries, whose weights are files that nobody trusts."""

import sys
import types

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fedjigsaw.deep import backbones
from fedjigsaw.errors import DataError, ExtraError, MessageError, ParameterError


class Toy(nn.Module):
    """A network as timm makes them: a body, and a classifier that can be removed."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4))
        self.fc = nn.Linear(4, 10)

    def forward(self, x):
        return self.fc(self.body(x))

    def reset_classifier(self, n_classes):
        assert n_classes == 0
        self.fc = nn.Identity()


@pytest.fixture(autouse=True)
def _timm(monkeypatch):
    def create_model(name, pretrained):
        assert not pretrained  # nothing is downloaded
        if name != "toy":
            raise RuntimeError("Unknown model")
        return Toy()

    made = types.ModuleType("timm")
    made.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", made)


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_embed_with_weights_from_disk(few, tmp_path, ending):
    toy, path = Toy(), tmp_path / f"toy{ending}"
    (torch.save if ending == ".pt" else save_file)(toy.state_dict(), path)
    seen = []
    given = {"weights": path, "device": "cpu", "progress": seen.append}
    features = backbones.embed(few[0][:150], "timm:toy", **given)
    assert (features.shape, features.dtype, seen) == ((150, 4), np.float32, [100, 50])
    white = np.full((1, 3, 8, 8), 255, dtype=np.uint8)
    mean, deviation = (
        torch.tensor(v) for v in (backbones.IMAGENET_MEAN, backbones.IMAGENET_DEVIATION)
    )
    expected = toy.body(((1 - mean) / deviation).view(1, 3, 1, 1))[0].detach().numpy()
    np.testing.assert_allclose(backbones.embed(white, "timm:toy", **given)[0], expected, rtol=1e-4)


class Trap:
    def __reduce__(self):
        return print, ("code was run",)


def test_weights_that_do_not_fit_and_no_code_is_run(few, tmp_path, capsys):
    torch.save({"x": torch.zeros(1)}, tmp_path / "other.pt")
    torch.save({"x": Trap()}, tmp_path / "trap.pt")
    (tmp_path / "broken.pt").write_bytes(b"no tensors")
    refused = dict.fromkeys(("other.pt", "trap.pt", "broken.pt"), MessageError)
    for name, error in {**refused, "none.pt": DataError}.items():
        with pytest.raises(error, match=name):
            backbones.embed(few[0], "timm:toy", weights=tmp_path / name)
    assert "code was run" not in capsys.readouterr().out
    for model, given in (("timm:x", {"weights": tmp_path / "other.pt"}), ("timm:toy", {})):
        with pytest.raises(ParameterError, match="timm"):
            backbones.embed(few[0], model, **given)


def test_weights_that_give_no_numbers(few, tmp_path):
    """A file of features that are NaN would be found out much later."""
    state = {n: torch.full_like(t, torch.nan) for n, t in Toy().state_dict().items()}
    torch.save(state, tmp_path / "toy.pt")
    with pytest.raises(DataError, match=r"toy\.pt"):
        backbones.embed(few[0][:3], "timm:toy", weights=tmp_path / "toy.pt", device="cpu")


def test_a_missing_library(monkeypatch, few, tmp_path):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ExtraError, match="timm"):
        backbones.embed(few[0], "timm:resnet18", weights=tmp_path / "w.pt")
