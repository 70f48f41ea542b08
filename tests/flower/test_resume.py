"""A run for images keeps a checkpoint after every round, and goes on after a crash of the server."""

import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

pytest.importorskip("torch")

from fedjigsaw.deep import DeepFeCA, images
from fedjigsaw.deep.site import ImageSite
from fedjigsaw.errors import FederationError, MessageError, ParameterError, QuorumError
from fedjigsaw.flower import bundle, jobs, processes, resuming, work
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.progress import Progress
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import load_site
from fedjigsaw.io._codec import digest
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.journal import Journal
from flower_doubles import LocalGrid, context, engine_of, records_of

NAMES = ("bern", "lyon")
SETTINGS = {
    "network": "small", "n_rounds": 2, "local_epochs": 1, "batch_size": 32, "device": "cpu",
    "ema": 0.5, "server_momentum": 0.3, "clusterer": "jigsaw",
}  # fmt: skip
LAST = 4  # rounds are calibrate, cluster, train, cluster, train

pytestmark = pytest.mark.deep


class ServerCrashError(BaseException):
    """What no part of a run catches, as if the process had been killed."""


def method(**more):
    return DeepFeCA.from_settings({"n_clusters": 5, "random_state": 3, **SETTINGS, **more})


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Make a grid of two sites with images; some may connect late."""
    place = tmp_path_factory.mktemp("images")
    digits = images.load("digits").train[:120]
    for i, name in enumerate(NAMES):
        np.savez(place / f"{name}.npz", images=digits[i::2])

    def app(name):
        site = ImageSite(name, str(place / f"{name}.npz"), device="cpu", guard=Guard(1))
        return client_app(lambda context: site)

    return lambda **options: LocalGrid({name: app(name) for name in NAMES}, **options)


@pytest.fixture(scope="module")
def whole(grid):
    """The result of a run without a crash, and its transcript."""
    return federate(engine_of(grid(), method(), names=NAMES))


def run(grid, checkpoint, *, crash=None, deep=None, min_sites=None, **options):
    """Run until a round is asked for; return the result, if there is one, and the events."""
    events = []

    def tell(event, site, detail):
        events.append((event, site, detail))
        if crash is not None and event == "asked" and detail.startswith(f"round {crash} "):
            raise ServerCrashError

    engine = engine_of(grid, deep or method(), names=NAMES, tell=tell, **options)
    try:
        return federate(engine, checkpoint=checkpoint, min_sites=min_sites), events
    except ServerCrashError:
        return None, events


def asked(events):
    return [
        detail.split()[1] for event, site, detail in events if (event, site) == ("asked", "bern")
    ]


@pytest.mark.parametrize("crash", range(1, LAST + 1))
def test_after_a_crash_in_any_round_the_model_is_the_same(grid, whole, tmp_path, crash):
    path = tmp_path / "checkpoint"
    assert run(grid(), path, crash=crash)[0] is None
    (file, transcript), events = run(grid(), path)
    assert events[0] == ("resumed", "", f"after round {crash - 1}")
    assert asked(events) == [str(number) for number in range(crash, LAST + 1)]
    assert file == whole[0]
    rounds = [[replace(r, seconds=0) for r in t.rounds] for t in (transcript, whole[1])]
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize("other", [{"random_state": 4}, {"learning_rate": 0.01}])
def test_another_run_does_not_go_on_from_it(grid, tmp_path, other):
    path = tmp_path / "checkpoint"
    run(grid(), path, crash=1)
    with pytest.raises(ParameterError, match=f"run with {next(iter(other))}="):
        run(grid(), path, deep=method(**other))


def rewritten(path, change, *, checksum=False):
    """Change header and tensors of a checkpoint; with the old checksum, or one that fits."""
    with safe_open(path, framework="numpy") as file:
        about = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header = json.loads(about["progress"])
    change(header, arrays)
    about["progress"] = json.dumps(header)
    if not checksum:
        about["sha256"] = digest(about["progress"], arrays)
    safetensors.numpy.save_file(arrays, path, metadata=about)


def one_bit(header, arrays):
    arrays["tensor.weights.stem.weight"].view(np.uint8).flat[3] ^= 0x40


def test_a_changed_bit_is_told(grid, tmp_path):
    path = tmp_path / "checkpoint"
    run(grid(), path, crash=3)
    rewritten(path, lambda header, arrays: None, checksum=True)
    Progress.load(path)
    rewritten(path, one_bit, checksum=True)
    with pytest.raises(MessageError, match="it was changed, or its disk is damaged"):
        Progress.load(path)


@pytest.mark.parametrize(
    ("after", "name", "damage"),
    [
        (1, "tensor.weights.stem.weight", lambda a: a[1:]),
        (2, "tensor.head", lambda a: a[1:]),
        (3, "tensor.teacher.stem.weight", lambda a: a.reshape(-1)),
        (3, "tensor.server.velocity.weights.stem.weight", lambda a: a[:, :, :, :1]),
        (3, "tensor.weights.stem.weight", lambda a: a * np.float32(np.nan)),
    ],
)
def test_tensors_are_checked(grid, tmp_path, after, name, damage):
    """No site is asked."""
    path = tmp_path / "checkpoint"
    run(grid(), path, crash=after)
    Progress.load(path).check_same(method(), 3)

    def change(header, arrays):
        arrays[name] = np.ascontiguousarray(damage(arrays[name]))

    rewritten(path, change)
    with pytest.raises(MessageError, match=r"^The checkpoint is damaged\. The "):
        run(grid(), path)


# ------------------------------------------------------------------------------- changed images

POLICY = """
methods = ["deepfeca"]
rounds = 301
later_models = "any"
questions_per_day = 1000
questions_in_all = 10000
"""
CHANGED = "its data changed since the run began: put them back, or start without --resume"


@pytest.fixture
def kept(tmp_path):
    """Make a grid of sites with journals, whose images can be changed; returns it and a changer."""
    digits = images.load("digits").train[:120]
    places = {name: tmp_path / name for name in NAMES}

    def save(name, held):
        np.savez(places[name] / "images.npz", images=held)

    def app(name):
        options = {
            "kind": "images", "name": name, "folder": str(places[name]), "device": "cpu",
            "data": str(places[name] / "images.npz"), "accept_policy": True,
        }  # fmt: skip
        return client_app(lambda context: load_site(options))

    for i, name in enumerate(NAMES):
        places[name].mkdir()
        (places[name] / "policy.toml").write_text(POLICY)
        save(name, digits[i::2])
    return lambda: LocalGrid({name: app(name) for name in NAMES}), save, digits[1::2]


def one_pixel_more(held):
    changed = held.copy()
    changed[7, 0, 3, 3] ^= 1
    return changed


@pytest.mark.parametrize("change", [lambda held: held[:-1], one_pixel_more], ids=["fewer", "pixel"])
@pytest.mark.parametrize("crash", [1, 3])
def test_a_site_with_other_images_takes_no_part_in_a_resumed_run(kept, tmp_path, change, crash):
    grid, save, held = kept
    path = tmp_path / "checkpoint"
    run(grid(), path, crash=crash)
    save("lyon", change(held))
    with pytest.raises(QuorumError, match=f"'lyon' failed: {CHANGED}"):
        run(grid(), path)
    record = list(Journal(tmp_path / "lyon" / "journal.jsonl").records())[-1]
    assert record["kind"] == "refusal"
    assert "of this run was answered about other data, on 20" in record["reason"]


def test_once_the_images_are_back_the_run_goes_on(kept, tmp_path):
    grid, save, held = kept
    path = tmp_path / "checkpoint"
    run(grid(), path, crash=3)
    save("lyon", held[:-1])
    with pytest.raises(QuorumError):
        run(grid(), path)
    # of the same images, the file may be another one
    np.savez_compressed(tmp_path / "lyon" / "images.npz", images=held)
    assert run(grid(), path)[0] is not None


# ------------------------------------------------------------------------------------------- jobs


def test_another_seed_is_another_question_about_images(kept, tmp_path):
    """The seed chooses the network at the start and the views: answers for one are for no other."""
    grid = kept[0]
    for number, seed in enumerate((3, 4)):
        run(grid(), tmp_path / str(seed), deep=method(random_state=seed, min_cluster_size=5))
        answers = [r for r in records_of(tmp_path / "lyon") if r["kind"] == "answer"]
        assert len({record["key"] for record in answers}) == (number + 1) * (LAST + 1)


JOB = jobs.Job("deepfeca", 5, SETTINGS, 3, wait=0.0)


@pytest.fixture
def do(clinic, monkeypatch):
    """Have the server's half do a job in a folder; the folder."""
    home = clinic / "server"
    monkeypatch.setenv(processes.FOLDER, str(home))
    monkeypatch.setattr(work, "active_sites", lambda home, without: NAMES)

    def do_it(job, grid, folder=None):
        folder = folder or jobs.new_job_folder(home)
        job.save(folder)
        about = context()
        about.run_config["job"] = folder.name
        bundle.do_job(grid, about)
        return folder

    return do_it


def test_a_model_that_nobody_got_is_got_by_resuming(do, grid, clinic, control):
    """Its `run` was killed, and the server finished."""
    first = do(JOB, grid())
    control.work = lambda folder: do(JOB, LocalGrid({}), folder)  # no site is asked
    model, transcript = jobs.run_job(clinic / "server", JOB, resume=True)
    assert model.read_bytes() == (first / "model").read_bytes()
    assert len(transcript["rounds"]) == LAST + 1
    with pytest.raises(ParameterError, match="There is no checkpoint"):
        jobs.run_job(clinic / "server", JOB, resume=True)


@pytest.fixture
def stopped(clinic, grid):
    """Make the folder of a run that ended after two rounds, and has a checkpoint."""

    def make(job=JOB):
        folder = jobs.new_job_folder(clinic / "server")
        job.save(folder)
        run(grid(), folder / "checkpoint", crash=2, deep=job.make_method())
        jobs.write_end(folder, "lost", 8)
        return folder

    return make


def test_a_run_is_resumed_from_the_latest_one_with_the_same_options(clinic, stopped):
    home = clinic / "server"
    for name, job in (
        ("20260101-000000-00000000", JOB),
        ("20260102-000000-00000000", replace(JOB, timeout=9.0, without=["lyon"])),
        ("20260103-000000-00000000", replace(JOB, seed=4)),
        ("20260104-000000-00000000", JOB),  # has no checkpoint
    ):
        stopped(job).rename(home / "runs" / name)
    (home / "runs" / name / "checkpoint").unlink()
    assert resuming.unfinished(home, JOB) == home / "runs" / "20260102-000000-00000000"
    with pytest.raises(ParameterError, match="There is no checkpoint"):
        resuming.unfinished(home, replace(JOB, n_clusters=6))


@pytest.mark.parametrize("change", ["cut off", "another site", "another seed", "another shape"])
def test_a_checkpoint_that_cannot_be_used_stays_where_it_is(clinic, stopped, control, change):
    before, home = stopped(), clinic / "server"
    path = before / "checkpoint"
    found = Progress.load(path)
    if change == "cut off":
        path.write_bytes(path.read_bytes()[:1000])
    elif change == "another shape":
        tensors = {**found.model.tensors, "weights.stem.weight": np.zeros(3, np.float32)}
        replace(found, model=replace(found.model, tensors=tensors)).save(path)
    elif change == "another site":
        replace(found, sites={**found.sites, "evil": 3}).save(path)
    else:
        replace(found, seed=9).save(path)
    told = rf"{path}.*\. Start without --resume\.$"
    with pytest.raises((MessageError, ParameterError), match=told):
        jobs.run_job(home, JOB, resume=True)
    assert [folder.name for folder in (home / "runs").iterdir()] == [before.name]
    assert path.exists()


def test_a_run_that_goes_on_keeps_its_checkpoint(clinic, stopped, control):
    """Its `run` was killed; the server works on it."""
    before = stopped()
    (before / "result.json").unlink()
    control.alive = {7: before.name}
    with pytest.raises(FederationError, match=f"Run {before.name} has not ended: stop it with"):
        jobs.run_job(clinic / "server", JOB, resume=True)
    assert (before / "checkpoint").exists()
    control.alive = {}  # of a server that was started again
    jobs.run_job(clinic / "server", JOB, resume=True)
