"""The engine over a grid in this process: same bits, failures that hurt nobody else, retries."""

import errno
import os
import time
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.common.constant import ErrorCode

from fedjigsaw import CentralKMeans, FeCA, FuzzyCMeans, Jigsaw, MatchAveraging, sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import DataError, ParameterError, QuorumError
from fedjigsaw.flower import agreement, engine, patches, records
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.retries import RetryingEngine
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import Site
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import LEFT_OUT
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.inspection import describe
from fedjigsaw.sites.aggregate import with_reports
from flower_doubles import NAMES, OFF, OPEN, LocalGrid, engine_of, grid_of, site_app, unchecked

SECRET = "patient 4711"


@pytest.mark.parametrize(
    "clusterer",
    [
        FeCA(3, random_state=5),
        FeCA(3, n_local_clusters=2, radius="theoretical", refine=False, random_state=2**53),
        Jigsaw("auto", random_state=0),
        Jigsaw(3, n_rounds=3, random_state=0),
        FuzzyCMeans(3, version=2, n_rounds=2, random_state=0),
        *(
            entry.cls(3, random_state=1)
            for entry in CLUSTERERS.values()
            if not entry.cls.pools_data
        ),
    ],
    ids=repr,
)
def test_same_bits_as_in_process(shards, clusterer):
    inside = clusterer.fit_clients(shards)
    file, transcript = federate(engine_of(grid_of(shards), clusterer))
    columns = ("x0", "x1", "x2")
    told = with_reports(clusterer, inside.summaries_, inside.model_)
    assert file.model == replace(told, feature_names=columns)
    assert (file.clients, file.n_samples) == (NAMES, 360)
    assert len(transcript.rounds) == clusterer.total_rounds
    assert [r.bytes_up for r in transcript.rounds] == [
        r.bytes_up for r in inside.transcript_.rounds
    ]


def test_no_site_counts_as_many(shards):
    """A region stands for several sites, and only a coordinator can say of whom it takes one."""
    below = {"rome": shards["bern"][:60], "turin": shards["bern"][60:]}
    files = {n: sites.summarize(from_array(X), 3, client=n, guard=OFF) for n, X in below.items()}
    region, _ = sites.aggregate_region(files, 3, client="bern")
    grid = grid_of(shards, bern=lambda message, context: records.pack_answer(region))
    file, transcript = federate(engine_of(grid, Jigsaw(3, random_state=0)), min_sites=2)
    assert file.clients == ("lyon", "oslo")
    assert [failure.reason for failure in transcript.failures] == [engine.NO_REGION]


@pytest.mark.parametrize(
    "clusterer", [FeCA(3, random_state=0), FuzzyCMeans(3, n_rounds=2, random_state=0)]
)
def test_columns_may_come_in_any_order(shards, clusterer):
    """Who has them in another order is asked once more, and gives the same bits."""
    turned = site_app("oslo", shards["oslo"][:, [2, 0, 1]], order=["c", "a", "b"])
    others = {name: site_app(name, shards[name], order=["a", "b", "c"]) for name in NAMES[:2]}
    grid = LocalGrid({**others, "oslo": turned})
    file, _ = federate(engine_of(grid, clusterer))
    assert file.columns == ("a", "b", "c")
    inside = clusterer.fit_clients(shards)
    assert file.model.centers.tobytes() == inside.cluster_centers_.tobytes()
    assert len(grid.sent) == 3 * clusterer.total_rounds + 1


def explodes(context):
    raise RuntimeError(f"cannot read {SECRET} in /home/ada/patients.csv")


def refuses(context):
    raise DataError(f"{SECRET} is no number")


def tampered(change):
    """An app that spoils its own, correct answer."""

    def app(message, context):
        rows = np.random.default_rng(0).normal(size=(50, 3))
        question = records.unpack_question(message.content)
        site = Site("oslo", from_array(rows), guard=OFF, policy=OPEN)
        return change(site.answer(question))

    return app


def raises(message, context):
    raise ValueError(f"broken object {SECRET}")


BAD = {
    "raises": (client_app(explodes), records.REASONS["error"]),
    "data": (client_app(refuses), records.REASONS["data"]),
    "silent": (lambda message, context: None, "did not answer within 0.2 s"),
    "no record": (lambda message, context: RecordDict(), engine.INVALID_ANSWER),
    "broken object": (raises, engine.INVALID_ANSWER),
    "flower: lost": (lambda message, context: 5, patches.ERRORS[ErrorCode.NODE_UNAVAILABLE]),
    "flower: unknown": (lambda message, context: 77, engine.INVALID_ANSWER),
    "unknown word": (lambda message, context: records.pack_failure(SECRET), engine.INVALID_ANSWER),
    "other method": (
        tampered(lambda file: records.pack_answer(replace(file, method="central"))),
        engine.INVALID_ANSWER,
    ),
    "wrong width": (
        site_app("oslo", np.random.default_rng(0).normal(size=(50, 2))),
        agreement.OTHER_COLUMNS,
    ),
    "missing column": (site_app("oslo", np.ones((50, 3)), columns=("z",)), records.REASONS["data"]),
}


@pytest.mark.parametrize("case", BAD)
def test_one_bad_site_is_told_apart_and_hurts_nobody(shards, case, caplog):
    app, reason = BAD[case]
    clusterer = FeCA(3, random_state=5)
    events = []
    run = engine_of(
        grid_of(shards, oslo=app), clusterer, timeout=0.2, tell=lambda *event: events.append(event)
    )
    file, transcript = federate(run, min_sites=2)
    two = {name: shards[name] for name in NAMES[:2]}
    assert file.model.centers.tobytes() == clusterer.fit_clients(two).cluster_centers_.tobytes()
    assert file.clients == NAMES[:2]
    (failure,) = transcript.failures
    assert failure.client == "oslo"
    assert reason in failure.reason
    assert [event for event in events if event[0] == "failed"] == [
        ("failed", "oslo", failure.reason)
    ]
    assert SECRET not in str(transcript.to_dict()) + str(events)
    assert "/home" not in str(transcript.to_dict()) + str(events)


def test_too_few_is_an_error_that_names_who_was_missing(shards):
    run = engine_of(grid_of(shards, oslo=BAD["data"][0]), FeCA(3, random_state=5))
    with pytest.raises(QuorumError, match="'oslo' failed") as caught:
        federate(run)
    assert SECRET not in str(caught.value)


def lying(**lies):
    """An app whose answer to a question says what cannot be, under a guard that explains it."""

    def change(file):
        told = {name: lie(file.summary) for name, lie in lies.items()}
        guard = {**file.guard, "min_cluster_size": 2**30}
        lie = unchecked(file, summary=unchecked(file.summary, **told), guard=guard)
        SENT.append(records.pack_answer(lie))
        return SENT[-1]

    return tampered(change)


SENT = []


def far(number):
    return lambda summary: np.where(np.arange(len(summary.centers)) == 0, number, 9.0)


LIES = {
    "another site's name": (FeCA, {"client": lambda s: "bern"}),
    "no radii": (FeCA, {"radii": lambda s: None}),
    "no rows in a cluster": (Jigsaw, {"counts": far(0)}),
    "more rows in clusters than rows": (Jigsaw, {"counts": far(1000)}),
    "far more rows in clusters": (Jigsaw, {"counts": far(2**50)}),
    "a sum that overflows when it is squared": (Jigsaw, {"sse": far(1e250)}),
    "a center at the end of the world": (Jigsaw, {"centers": lambda s: s.centers * 1e290}),
    "more rows than a file can say": (Jigsaw, {"n_samples": lambda s: 2**53}),
    "no squares": (FuzzyCMeans, {"tensors": lambda s: {}}),
    "squares of other columns": (
        FuzzyCMeans,
        {"tensors": lambda s: {"sum_of_squares": np.ones(7)}},
    ),
    "more centers than asked for": (
        MatchAveraging,
        {"centers": lambda s: np.vstack([s.centers] * 2)},
    ),
}


@pytest.mark.parametrize("case", LIES)
def test_one_lie_costs_a_site_its_place_and_never_the_run(shards, case):
    kind, lies = LIES[case]
    events = []
    SENT.clear()
    run = engine_of(
        grid_of(shards, oslo=lying(**lies)),
        kind(3, random_state=5),
        tell=lambda *event: events.append(event),
    )
    file, _ = federate(run, min_sites=2)
    assert file.clients == NAMES[:2]
    assert SENT
    assert ("failed", "oslo", engine.INVALID_ANSWER) in events
    assert formats.decode(formats.encode(file)).clients == NAMES[:2]


def test_a_site_that_is_not_connected(shards):
    two = {name: shards[name] for name in NAMES[:2]}
    run = engine_of(grid_of(two), FeCA(3, random_state=5))
    file, transcript = federate(run, min_sites=2)
    assert file.clients == NAMES[:2]
    assert transcript.failures[0].reason == engine.NOT_CONNECTED
    with pytest.raises(QuorumError, match="'oslo' failed: it is not connected"):
        federate(engine_of(grid_of(two), FeCA(3, random_state=5)))


def test_a_site_that_connects_late_is_waited_for(shards):
    grid = grid_of(shards)
    grid.late = {"oslo": 3}
    events = []
    run = engine_of(
        grid,
        FeCA(3, random_state=5),
        timeout=60,
        wait=30.0,
        tell=lambda *event: events.append(event),
    )
    assert federate(run)[0].clients == NAMES
    assert events[0] == ("waiting", "oslo", "")
    assert ("asked", "oslo", "round 0") in events
    assert events[-1][0] == "answered"


def test_a_site_that_fails_later_did_take_part(shards):
    good = site_app("oslo", shards["oslo"])

    def tires(message, context):
        question = records.unpack_question(message.content)
        return good(message, context) if question.broadcast.round == 0 else 5

    clusterer = Jigsaw(3, n_rounds=2, random_state=0)
    run = engine_of(grid_of(shards, oslo=tires), clusterer)
    file, transcript = federate(run, min_sites=2)
    assert file.clients == NAMES
    assert [len(r.failures) for r in transcript.rounds] == [0, 1]
    assert file.partly == ("oslo",)
    assert "Not in every round: oslo." in describe(formats.decode(formats.encode(file)), 1)


@pytest.mark.parametrize(
    ("method", "options", "min_sites"),
    [
        (FeCA(3), {"timeout": 0}, None),
        (FeCA(3), {"wait": -1}, None),
        (FeCA(0), {}, None),
        (CentralKMeans(3), {}, None),
        (FeCA(3), {}, 4),
        (type("Own", (FeCA,), {"method": "own"})(3), {}, None),
    ],
)
def test_bad_parameters(shards, method, options, min_sites):
    with pytest.raises(ParameterError):
        federate(engine_of(grid_of(shards), method, **options), min_sites=min_sites)


def test_a_scaler_is_the_same_everywhere_or_the_site_is_left_out(shards):
    columns = ("a", "b", "c")
    scalers = [Scaler(columns, np.zeros(3), np.full(3, scale)) for scale in (2.0, 2.0, 3.0)]
    grid = LocalGrid(
        {
            name: site_app(name, shards[name], order=list(columns), scaler=scaler)
            for name, scaler in zip(NAMES, scalers, strict=True)
        }
    )
    run = engine_of(grid, FuzzyCMeans(3, n_rounds=1, random_state=0))
    file, transcript = federate(run, min_sites=2)
    assert file.clients == NAMES[:2]
    assert file.scaler.fingerprint == scalers[0].fingerprint
    assert {failure.reason for failure in transcript.failures} == {agreement.OTHER_SCALER}


def test_a_guard_that_left_out_rows_does_not_leave_out_the_site(shards):
    far = np.vstack([shards["oslo"], np.full((4, 3), 40.0)])
    guarded = {"guard": Guard(min_cluster_size=5)}
    grid = LocalGrid(
        {name: site_app(name, far if name == "oslo" else shards[name], **guarded) for name in NAMES}
    )
    run = engine_of(grid, Jigsaw("auto", random_state=0))
    file, transcript = federate(run)
    assert [name for name in NAMES if LEFT_OUT in run.files[name].summary.tensors] == ["oslo"]
    assert (file.clients, transcript.failures) == (NAMES, ())


def test_a_site_that_names_very_many_columns_does_not_keep_the_server_busy():
    """Nor does it fill its log: a name may be long, too."""
    usual = [f"gene {j}" for j in range(30_000)]
    started = time.process_time()
    told = agreement.describe_columns(["x" * 10**6, *(f"other {j}" for j in range(30_000))], usual)
    assert time.process_time() - started < 4
    assert len(told) < 1000


def test_nothing_leaves_that_cannot_be_kept(shards):
    def full(file):
        raise OSError("No space left on device")

    bern = client_app(lambda context: Site("bern", from_array(shards["bern"])), keep=full)
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    federate(engine, min_sites=2)
    assert set(engine.files) == {"lyon", "oslo"}


@pytest.mark.parametrize("allowed", [0, 1])
def test_the_server_is_told_that_a_site_cannot_write(
    shards, tmp_path, monkeypatch, caplog, allowed
):
    """Neither the question nor what leaves can be written: its data are not to blame."""
    left = [None] * allowed

    def full(descriptor):
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device", "/home/ada")
        left.pop()

    bern = client_app(
        lambda context: Site("bern", from_array(shards["bern"]), folder=tmp_path),
        keep=lambda file: formats.save(file, tmp_path / "last.summary"),
    )
    monkeypatch.setattr(os, "fsync", full)
    engine = engine_of(grid_of(shards, bern=bern), FeCA(3, random_state=5))
    _, transcript = federate(engine, min_sites=2)
    assert transcript.failures[0].reason == records.REASONS["disk"] + records.SEE_LOG
    [record] = [one for one in caplog.records if one.exc_info]
    plain = f"Cannot write {tmp_path / 'journal.jsonl'}: no space left on device."
    assert str(record.exc_info[1]) == plain


def run_of(grid, method=None, **options):
    method = FeCA(3, random_state=5) if method is None else method
    return RetryingEngine(grid, method, **{"names": NAMES, "timeout": 60, "wait": 0.0} | options)


def flaky(rows, failures, *, round_=0, **options):
    """A site that fails first: an error of Flower by its number, None for silence, or a record."""
    good, left = site_app("oslo", rows, **options), list(failures)

    def app(message, context):
        app.asked += 1
        number = records.unpack_question(message.content).broadcast.round
        return left.pop(0) if left and number == round_ else good(message, context)

    app.asked = 0
    return app


@pytest.mark.parametrize("error", [3, 4, 5, 8])
def test_a_lost_site_is_asked_again_and_gives_the_same_bits(shards, error):
    events = []
    app = flaky(shards["oslo"], [error, error])
    grid = grid_of(shards, oslo=app)
    run = run_of(grid, retries=2, tell=lambda *event: events.append(event))
    file, transcript = federate(run)
    inside = FeCA(3, random_state=5).fit_clients(shards)
    assert file.model.centers.tobytes() == inside.cluster_centers_.tobytes()
    assert (file.clients, file.partly, transcript.failures) == (NAMES, (), ())
    assert len(grid.sent) == 5  # the other two were asked once
    again = [event for event in events if event[0] == "again"]
    assert again == [("again", "oslo", f"attempt {n} of 3") for n in (2, 3)]


def test_a_late_site_is_asked_again(shards):
    silent, good = [True], site_app("oslo", shards["oslo"])

    def app(message, context):
        return None if silent[0] else good(message, context)

    def tell(event, site, detail):
        silent[0] = silent[0] and event != "again"

    run = run_of(grid_of(shards, oslo=app), retries=1, timeout=0.3, tell=tell)
    assert federate(run)[0].clients == NAMES


def test_a_site_that_refuses_is_not_asked_again(shards):
    for word in ("policy", "data", "error", "message"):
        app = flaky(shards["oslo"], [records.pack_failure(word)] * 9)
        file, transcript = federate(run_of(grid_of(shards, oslo=app), retries=3), min_sites=2)
        assert (app.asked, file.clients) == (1, NAMES[:2])
        assert transcript.failures[0].reason == records.REASONS[word] + records.SEE_LOG


def test_retries_end(shards):
    app = flaky(shards["oslo"], [5] * 9)
    file, transcript = federate(run_of(grid_of(shards, oslo=app), retries=3), min_sites=2)
    assert app.asked == 4
    assert file.clients == NAMES[:2]
    assert [failure.client for failure in transcript.failures] == ["oslo"]


def test_later_rounds_show_the_answers_of_all_attempts(shards):
    """Sites compute the model again from what is shown: an answer that came later is part of it."""
    method = Jigsaw(3, n_rounds=3, random_state=0)
    run = run_of(grid_of(shards, oslo=flaky(shards["oslo"], [5], round_=2)), method, retries=1)
    file, transcript = federate(run)
    assert not transcript.failures
    assert file.model.centers.tobytes() == method.fit_clients(shards).cluster_centers_.tobytes()
    assert {file.summary.client for file in run.shown.files} == set(NAMES)


def test_the_guard_is_the_sites_own(shards):
    strict = site_app("oslo", shards["oslo"], guard=Guard(min_cluster_size=121))
    run = engine_of(grid_of(shards, oslo=strict), FeCA(3, random_state=0))
    file, transcript = federate(run, min_sites=2)
    assert file.clients == NAMES[:2]
    assert transcript.failures[0].reason == records.REASONS["data"] + records.SEE_LOG
