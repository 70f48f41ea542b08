"""Statistics, scores and labels over a grid in this process."""

from dataclasses import replace

import numpy as np
import pyarrow.csv
import pytest

from builders import write_table
from fedjigsaw import FeCA, Guard, Jigsaw, sites
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.errors import ParameterError, QuorumError
from fedjigsaw.flower import engine, job_tasks, records, tasks
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.jobs import Job
from fedjigsaw.flower.retries import RetryingEngine
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import Site, load_site
from fedjigsaw.flower.site_tasks import LabelFile
from fedjigsaw.flower.task_rounds import collect_scores, make_scaler, push_model
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array
from flower_doubles import LocalGrid, patients

NAMES = ("bern", "lyon", "nice", "oslo")
COLUMNS = ("age", "dose")


SHARDS = {name: patients(150 + 40 * i, seed=i) for i, name in enumerate(NAMES)}


@pytest.fixture
def made(tmp_path):
    """Make a site with a folder of its own."""

    def make(name, rows=None, columns=COLUMNS, **options):
        (tmp_path / name).mkdir(exist_ok=True)
        rows = SHARDS[name] if rows is None else rows
        table = from_array(rows, columns)
        return Site(name, table, folder=tmp_path / name, **options)

    make.home = tmp_path
    return make


def app_of(site):
    return client_app(lambda context: site)


def engine_of(apps, method=None, **options):
    method = Jigsaw(4, random_state=0) if method is None else method
    options = {"names": NAMES, "timeout": 60, "wait": 0.0} | options
    return RetryingEngine(LocalGrid(apps), method, **options)


@pytest.fixture
def apps(made):
    return {name: app_of(made(name)) for name in NAMES}


# ------------------------------------------------------------------------------------------- scale


def test_the_scaler_is_that_of_all_rows_within_their_sampling_error(apps):
    scaler = make_scaler(engine_of(apps))
    rows = np.concatenate(list(SHARDS.values()))
    error = rows.std(axis=0) / np.sqrt(len(rows))
    assert scaler.columns == COLUMNS
    assert (np.abs(scaler.mean - rows.mean(axis=0)) < 2 * error).all()
    assert (np.abs(scaler.deviation / rows.std(axis=0) - 1) < 0.05).all()


@pytest.mark.parametrize("method", [Jigsaw(4, random_state=0), FeCA(4, random_state=0)])
def test_a_scaled_run_is_that_of_files_with_this_scaler(made, method):
    """Without a guard bit for bit; the model has the scaler, and labels rows in its units."""
    apps = {name: app_of(made(name, guard=Guard(1))) for name in NAMES}
    run = engine_of(apps, method)
    run.scaler = make_scaler(run)
    file, _ = federate(run)
    options = {"scaler": run.scaler, "guard": Guard(1), "method": method.method}
    by_file = {
        name: sites.summarize(from_array(rows, COLUMNS), 4, client=name, **options)
        for name, rows in SHARDS.items()
    }
    assert formats.encode(file) == formats.encode(sites.aggregate(by_file, 4))
    assert file.scaler.fingerprint == run.scaler.fingerprint


def test_a_lie_about_statistics_does_not_make_the_scaler(apps):
    """Far from all others: set aside, as by file, and told."""
    lie = Stats("oslo", COLUMNS, 10**9, np.array([1e9, 1e9]), np.array([1.0, 1.0]))
    events = []
    liar = {"oslo": lambda message, context: tasks.pack_result(lie)}
    run = engine_of(apps | liar, tell=lambda *event: events.append(event))
    scaler = make_scaler(run)
    assert scaler.mean[0] < 100
    assert any(event[:2] == ("warning", "oslo") for event in events)


@pytest.mark.parametrize(("n_rows", "mean"), [(100, 1e100), (100, 1e41), (2**40, 0.0)])
def test_impossible_statistics_of_two_sites_cost_the_liar_its_place(apps, n_rows, mean):
    """Nobody is outvoted, but the other site would refuse the scaler, or the sum have no room."""
    lie = Stats("oslo", COLUMNS, n_rows, np.full(2, mean), np.ones(2))
    two = {"bern": apps["bern"], "oslo": lambda message, context: tasks.pack_result(lie)}
    run = engine_of(two, names=("bern", "oslo"))
    assert make_scaler(run, min_sites=1).mean[0] < 100
    with pytest.raises(QuorumError, match=f"oslo: {engine.INVALID_ANSWER}"):
        make_scaler(run)


def test_a_site_that_ignores_the_scaler_has_no_place(made, apps):
    """It answers, but in other units."""
    old = made("oslo")

    def app(message, context):
        question = replace(records.unpack_question(message.content), scaler=None)
        return records.pack_answer(old.answer(question))

    run = engine_of(apps | {"oslo": app})
    run.scaler = Scaler(COLUMNS, np.array([50.0, 2.0]), np.array([20.0, 1.0]))
    file, transcript = federate(run, min_sites=3)
    assert file.clients == NAMES[:3]
    assert transcript.failures[0].reason == engine.INVALID_ANSWER


def test_a_site_with_its_own_scaler_keeps_it(made, apps):
    own = Scaler(COLUMNS, np.zeros(2), np.ones(2))
    run = engine_of(apps | {"oslo": app_of(made("oslo", scaler=own))})
    with pytest.raises(QuorumError, match="oslo: it has a scaler of its own: run without --scale"):
        make_scaler(run)
    run.scaler = make_scaler(run, 3)
    assert "a scaler of its own" in federate(run, min_sites=3)[1].failures[0].reason


# ------------------------------------------------------------------------------------------- score


def scored(apps, method=None, *, scale=False, **options):
    run = engine_of(apps, method, **options)
    if scale:
        run.scaler = make_scaler(run)
    file, _ = federate(run)
    return file, collect_scores(run, file, 0)


@pytest.mark.parametrize("scale", [False, True])
def test_scores_are_those_of_files_up_to_rounding(made, apps, scale):
    file, found = scored(apps, scale=scale)
    assert tuple(found) == NAMES
    for name, rows in SHARDS.items():
        exact = sites.score(from_array(rows, COLUMNS), file, client=name)
        assert found[name].model == exact.model
        assert found[name].n_rows == len(rows)
        assert np.abs(found[name].counts - exact.counts).max() < 5
        assert np.isclose(found[name].sse.sum(), exact.sse.sum(), rtol=0.1)
    merged = sites.merge_scores(found)
    assert merged.n_rows == sum(map(len, SHARDS.values()))


def test_a_score_that_is_not_of_the_model_or_the_site_is_left_out(apps):
    file, found = scored(apps)
    good = found["oslo"]
    lies = [
        replace(good, client="bern"),
        replace(good, model="0" * 16),
        replace(good, counts=good.counts[:2], sse=good.sse[:2]),
        Stats("oslo", COLUMNS, 9, np.ones(2), np.ones(2)),
        file,
    ]
    for lie in lies:
        events = []

        def app(message, context, lie=lie):
            if message.metadata.message_type == "query.summary":
                return apps["oslo"](message, context)
            return records.pack({}, formats.encode(lie))

        run = engine_of(apps | {"oslo": app}, tell=lambda *event, all_=events: all_.append(event))
        again, _ = federate(run)
        assert tuple(collect_scores(run, again, 0)) == NAMES[:3]
        assert ("failed", "oslo", engine.INVALID_ANSWER) in events


# ------------------------------------------------------------------------------------------ assign


def test_a_site_that_wants_labels_writes_model_and_labels_and_says_done(made, apps, tmp_path):
    rows = SHARDS["oslo"]
    data = tmp_path / "oslo.csv"
    write_table(data, patient=[f"p{i}" for i in range(len(rows))], age=rows[:, 0], dose=rows[:, 1])
    labels = LabelFile(tmp_path / "labels.csv", ("patient",))
    (tmp_path / "oslo").mkdir(exist_ok=True)
    oslo = Site("oslo", data, columns=COLUMNS, folder=tmp_path / "oslo", labels=labels)
    oslo.check()
    sent = []

    def app(message, context):
        reply = app_of(oslo)(message, context)
        sent.append(reply.content)
        return reply

    events = []
    run = engine_of(apps | {"oslo": app}, tell=lambda *event: events.append(event))
    run.scaler = make_scaler(run)
    file, _ = federate(run)
    assert push_model(run, file) == ["oslo"]
    assert ("failed", "bern", records.REASONS["labels"] + records.SEE_LOG) in events
    written = pyarrow.csv.read_csv(labels.path)
    [expected] = [part.labels.to_pylist() for part in sites.assign(data, file)]
    assert written["label"].to_pylist() == expected
    assert written["patient"].to_pylist()[0] == "p0"
    assert formats.encode(formats.load(tmp_path / "oslo" / "last.model", ModelFile)) == (
        formats.encode(file)
    )
    assert sent[-1]["fedjigsaw"] == {"head": '{"format": 1, "done": true}'}
    left = {path.name for path in tmp_path.iterdir()} | {p.name for p in oslo.folder.iterdir()}
    assert not [name for name in left if ".new" in name]


@pytest.mark.parametrize(
    ("path", "words"), [("labels.txt", "end in"), ("none/x.csv", "no folder"), ("bern.csv", "data")]
)
def test_a_place_where_labels_cannot_be_is_told_at_the_start(tmp_path, path, words):
    rows = SHARDS["bern"]
    write_table(tmp_path / "bern.csv", age=rows[:, 0], dose=rows[:, 1])
    options = {"kind": "rows", "name": "bern", "data": str(tmp_path / "bern.csv")}
    site = load_site({**options, "labels": str(tmp_path / path)})
    with pytest.raises(ParameterError, match=words):
        site.check()


def test_the_tasks_of_a_job(apps):
    job = Job("jigsaw", 4, scale=True, score=True, min_sites=4)
    run = engine_of(apps)
    job_tasks.before(run, job)
    file, _ = federate(run)
    found = job_tasks.after(run, job, file)
    assert tuple(job_tasks.scores_from(found[job_tasks.SCORES])) == NAMES
    named = replace(job, like=job_tasks.model_text(replace(file, ids=(7, 3, 5, 1), next_id=8)))
    assert job_tasks.with_ids(file, named).cluster_ids == (7, 3, 5, 1)
    assert job_tasks.with_ids(file, job).cluster_ids == (0, 1, 2, 3)
