import pytest

from fedjigsaw import datasets
from fedjigsaw.errors import FedJigsawError


def test_how_k_was_chosen_as_a_picture(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = datasets.gaussian_grid(400, overlap=0.0, rng=3)
    (tmp_path / "a.csv").write_text(
        "x,y\n" + "\n".join(f"{x!r},{y!r}" for x, y in data.X.tolist()) + "\n"
    )
    run("summarize", "a.csv", "-k", "auto", "-o", "a.summary")
    run("aggregate", "a.summary", "-k", "auto", "-o", "model")
    run("inspect", "model", "--picture", "k.png")
    assert (tmp_path / "k.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FedJigsawError, match="is not a model"):
        run("inspect", "a.summary", "--picture", "k2.png")
