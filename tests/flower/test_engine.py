"""The engine over a grid in this process: same bits, and failures that hurt nobody else."""

import json
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.common.constant import ErrorCode

from fedjigsaw import CentralKMeans, FeCA, FuzzyCMeans, Jigsaw, MatchAveraging, sites
from fedjigsaw.errors import DataError, ParameterError, QuorumError
from fedjigsaw.flower import agreement, engine, patches, records
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import Site
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.methods import CLUSTERERS
from fedjigsaw.report.inspection import describe
from fedjigsaw.sites.aggregate import with_reports
from flower_doubles import NAMES, OFF, OPEN, LocalGrid, engine_of, grid_of, site_app, unchecked

SECRET = "patient 4711"

pytestmark = pytest.mark.usefixtures("quick")


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


def spoil_head(file):
    packed = records.pack_answer(file)
    packed["fedjigsaw"]["head"] = json.dumps({"format": 99})
    return packed


def raises(message, context):
    raise ValueError(f"broken object {SECRET}")


BAD = {
    "raises": (client_app(explodes), records.REASONS["error"]),
    "data": (client_app(refuses), records.REASONS["data"]),
    "silent": (lambda message, context: None, "did not answer within 0.2 s"),
    "no record": (lambda message, context: RecordDict(), engine.INVALID_ANSWER),
    "broken object": (raises, engine.INVALID_ANSWER),
    "flower: raised": (
        lambda message, context: 2,
        patches.ERRORS[ErrorCode.CLIENT_APP_RAISED_EXCEPTION],
    ),
    "flower: lost": (lambda message, context: 5, patches.ERRORS[ErrorCode.NODE_UNAVAILABLE]),
    "flower: refuses": (lambda message, context: 7, patches.ERRORS[ErrorCode.INVALID_FAB]),
    "flower: unknown": (lambda message, context: 77, engine.INVALID_ANSWER),
    "unknown word": (lambda message, context: records.pack_failure(SECRET), engine.INVALID_ANSWER),
    "nan": (
        tampered(
            lambda file: records._pack(
                {},
                formats.encode(file).replace(
                    file.summary.centers[0, :1].tobytes(), np.array([np.nan]).tobytes()
                ),
            )
        ),
        engine.INVALID_ANSWER,
    ),
    "version": (tampered(spoil_head), engine.INVALID_ANSWER),
    "other site's name": (
        tampered(
            lambda file: records.pack_answer(
                replace(file, summary=replace(file.summary, client="bern"))
            )
        ),
        engine.INVALID_ANSWER,
    ),
    "other method": (
        tampered(lambda file: records.pack_answer(replace(file, method="central"))),
        engine.INVALID_ANSWER,
    ),
    "absurd counts": (
        tampered(
            lambda file: records.pack_answer(
                replace(
                    file,
                    summary=replace(file.summary, counts=np.full(len(file.summary.centers), 2**50)),
                )
            )
        ),
        engine.INVALID_ANSWER,
    ),
    "wrong width": (
        site_app("oslo", np.random.default_rng(0).normal(size=(50, 2))),
        agreement.OTHER_COLUMNS,
    ),
    "no radii": (
        tampered(
            lambda file: records.pack_answer(
                replace(file, summary=replace(file.summary, radii=None))
            )
        ),
        engine.INVALID_ANSWER,
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


@pytest.mark.parametrize("case", BAD)
def test_too_few_is_an_error_that_names_who_was_missing(shards, case):
    app, reason = BAD[case]
    run = engine_of(grid_of(shards, oslo=app), FeCA(3, random_state=5), timeout=0.2)
    with pytest.raises(QuorumError, match="'oslo' failed") as caught:
        federate(run)
    assert reason in str(caught.value)
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
    ("make", "message"),
    [
        (lambda grid: engine_of(grid, FeCA(3), timeout=0), "timeout of FlowerEngine"),
        (lambda grid: engine_of(grid, FeCA(3), wait=-1), "wait of FlowerEngine"),
        (lambda grid: federate(engine_of(grid, FeCA(0))), "n_clusters of FeCA"),
        (lambda grid: federate(engine_of(grid, CentralKMeans(3))), "cannot run in a federation"),
        (
            lambda grid: federate(engine_of(grid, FeCA(3)), min_sites=4),
            "at most the number of clients",
        ),
        (lambda grid: engine_of(grid, type("Own", (FeCA,), {"method": "own"})(3)), "one of feca"),
    ],
)
def test_bad_parameters(shards, make, message):
    with pytest.raises(ParameterError, match=message):
        make(grid_of(shards))
