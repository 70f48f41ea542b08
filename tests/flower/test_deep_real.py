"""A network learns from the images of real sites, by the recipe and the rules of the pages."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr")
pytest.importorskip("torch")

from fedjigsaw import cli
from fedjigsaw.deep import images
from fedjigsaw.deep.recipes import RECIPES
from fedjigsaw.flower import jobs
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from flower_clinic import BACKEND, PATIENCE, Clinic, members, wait_for
from pages_as_code import blocks, page, section

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.deep]

SITES = ("bern", "lyon")
TITLE = "Images: a network that learns from all sites"
QUICK = {"network": "small", "n_rounds": 2, "local_epochs": 1, "batch_size": 32}
FIT = """
import json, sys
from pathlib import Path
import numpy as np
from fedjigsaw.deep import DeepFeCA
from fedjigsaw.io import formats
folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
held = {name: np.load(folder / f"{name}.npz")["images"] for name in ("bern", "lyon")}
clients = np.repeat(list(held), [len(some) for some in held.values()])
fitted = DeepFeCA.from_settings(settings).fit(np.concatenate(list(held.values())), clients=clients)
names = [f"projection {i}" for i in range(fitted.model_.centers.shape[1])]
model = fitted.model_.with_feature_names(names)
formats.save(formats.ModelFile(model, None, (), 0), folder / "inside")
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Two sites with 100 and 80 digits, by the rules of the page."""
    clinic = Clinic(tmp_path_factory.mktemp("deep"), {})
    (policy,) = blocks(section(page("docs/federation.md"), TITLE), "toml")
    digits = images.load("digits").train[:180]
    try:
        clinic.start("server", "server", clinic.home)
        for name, held in zip(SITES, (digits[:100], digits[100:]), strict=True):
            data = clinic.folder / f"{name}.npz"
            np.savez(data, images=held)
            (clinic.home / name / "policy.toml").write_text(policy)
            words = ("--images", data, "--device", "cpu", "--accept-policy")
            clinic.start(name, "site", clinic.home / name, *words)
        for name in SITES:
            clinic.wait_to_say(name, "connected to the server")
        yield clinic
    finally:
        clinic.end()


def asked(*more):
    """Options of a run by the recipe, with a small network."""
    changed = [word for name, value in QUICK.items() for word in ("-p", f"{name}={value}")]
    recipe = ["--method", "deepfeca", "--recipe", "best", "-k", "6,4"]
    return [*recipe, *changed, "--without", "oslo", *more]


def fit_in_a_process(folder):
    """Train in one process of its own: in this one, other tests have used torch in other ways."""
    settings = {**RECIPES["best"], **QUICK, "n_clusters": [6, 4], "random_state": 0}
    settings |= {"device": "cpu", "min_cluster_size": 5}  # as the sites have it
    words = [sys.executable, "-c", FIT, str(folder), json.dumps(settings)]
    subprocess.run(words, check=True, timeout=PATIENCE, env=os.environ | dict([BACKEND]))
    return formats.load(folder / "inside", ModelFile).model


def said_by(*words):
    done = CliRunner().invoke(cli.app, [*map(str, words)])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return done.output


def test_the_best_recipe_makes_a_network_that_the_commands_of_deep_read(clinic):
    code, printed = clinic.run("network", *asked())
    assert code == 0, clinic.story(printed)
    assert "2 sites, 170 images -> 10 centers" in printed  # five of each site are to validate on
    path, features = clinic.folder / "network", clinic.folder / "features.npy"
    model = formats.load(path, ModelFile).model
    assert all(np.isfinite(tensor).all() for tensor in model.tensors.values())
    assert "report.validation_loss" in model.tensors
    said_by("deep", "embed", "digits", "--model", path, "-o", features, "--device", "cpu")
    assert np.load(features).shape == (1438, 64)
    found = said_by("deep", "evaluate", path, "--data", "digits", "--device", "cpu")
    assert float(re.search(r"Linear probe ([\d.]+)%", found)[1]) > 50
    said_by("deep", "export", path, "-o", clinic.folder / "network.safetensors")


@pytest.mark.long
def test_a_run_goes_on_after_the_server_was_killed(clinic):
    """With the result of a run in one process."""
    run = clinic.start_run("resumed", *asked())
    clinic.wait_to_say("run resumed", "asked lyon (round 3")
    server = clinic.parts.pop("server")
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    assert run.wait(PATIENCE) == 8, clinic.output("run resumed")
    assert "add --resume" in " ".join(clinic.output("run resumed").split())
    wait_for(lambda: not members(clinic.home / "server"), "what the server left behind")
    log = clinic.folder / "server.out"
    clinic.seen[log] = log.stat().st_size
    clinic.start("server", "server", clinic.home)
    clinic.wait_to_say("server", "Press Ctrl-C to end it")
    code, printed = clinic.run("resumed", *asked("--resume"))
    assert code == 0, clinic.story(printed)
    assert "after round 2" in printed
    assert "asked bern (round 2 " not in printed
    file = formats.load(clinic.folder / "resumed", ModelFile)
    inside = fit_in_a_process(clinic.folder)
    assert (file.clients, file.n_samples) == (SITES, 170)
    assert file.model == replace(inside, params=file.model.params)


@pytest.mark.long
def test_a_run_goes_on_after_its_client_was_killed(clinic):
    """Nobody takes its checkpoint; when it has ended, the model is there to be got."""
    options = asked("-p", "n_rounds=1")
    run = clinic.start_run("lost", *options)
    clinic.wait_to_say("run lost", "asked lyon (round 1")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    folder = max((clinic.home / "server" / "runs").iterdir())
    code, printed = clinic.run("early", *options, "--resume")
    assert code == 8, clinic.story(printed)
    assert f"Run {folder.name} has not ended" in " ".join(printed.split())
    wait_for((folder / "result.json").exists, "the end of the run")
    code, printed = clinic.run("got", *options, "--resume")
    assert code == 0, clinic.story(printed)
    assert "resumed (after round 3)" in printed
    assert "asked" not in printed
    models = [formats.load(path, ModelFile) for path in (clinic.folder / "got", folder / "model")]
    assert models[0] == models[1]


@pytest.mark.long
def test_a_run_that_lost_its_server_does_not_go_on_beside_another(clinic):
    """The server did not answer in time, and `run` wrote that it had ended."""
    options = asked("-p", "n_rounds=3")
    run = clinic.start_run("timed out", *options)
    clinic.wait_to_say("run timed out", "asked lyon (round 3")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    folder = max((clinic.home / "server" / "runs").iterdir())
    jobs.write_end(folder, "The server does not answer (ReadTimeout).", 8)
    code, printed = clinic.run("one", *options, "--resume")
    assert code == 0, clinic.story(printed)
    assert "resumed (after round 2)" in printed
    assert not (folder / "checkpoint").exists()
    events = (folder / "events.jsonl").read_text()
    assert "round 5 " not in events
    log = clinic.since(clinic.home / "server" / "server.log")
    assert f"run {folder.name} was stopped" in log
