"""Sessions: what is followed from round to round, and which round is kept."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import metrics
from fedjigsaw.deep import DeepFeCA, checkpoint
from fedjigsaw.deep import session as sessions
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.session import Session, better, evaluate
from fedjigsaw.deep.state import State
from fedjigsaw.errors import DataError, ParameterError


@pytest.fixture
def make(small, digits, tmp_path):
    """Make a session on a few labeled images."""
    data = ImageSet(
        "few", digits.train[:240], digits.train_labels[:240],
        digits.test[:60], digits.test_labels[:60],
    )  # fmt: skip

    def session(n_rounds=3, out="run.st", **options):
        method = small(n_rounds=n_rounds, validation_share=0.1)
        given = {"eval_every": 0, "keep": "best", **options}
        return Session(method, data, np.arange(240) % 3, {}, tmp_path / out, **given)

    return session


@pytest.fixture
def peak_at_two(monkeypatch):
    """Let round 2 have the most information, whatever the clients find."""
    train = DeepFeCA.train

    def peaked(self, *given, **more):
        for state in train(self, *given, **more):
            found = {1: 0.5, 2: 0.9}.get(state.round, 0.7)
            yield replace(state, numbers={**state.numbers, "information": found})

    monkeypatch.setattr(DeepFeCA, "train", peaked)


def state(t, information):
    return State(t, 0, None, {"information": information})


def test_the_first_of_equal_rounds_is_kept():
    found = None
    for one in (state(1, 0.1), state(2, 0.3), state(3, 0.3), state(4, 0.2)):
        found = better(found, one)
    assert found.round == 2


def test_every_row_has_all_settings(make):
    session = make(keep="last")
    rows = list(session.run())
    assert [row["config"] for row in rows] == [session.method.configuration()] * 3
    assert ["linear_accuracy" in row for row in rows] == [False, False, True]
    assert {"probe_converged", "probe_at_edge"} <= rows[-1].keys()


@pytest.mark.usefixtures("peak_at_two")
def test_the_best_round_is_kept_beside_the_last(make):
    session = make()
    rows = list(session.run())
    assert [row["best_round"] for row in rows] == [1, 2, 2]
    assert session.best_out.name == "run.best.st"
    best, last = (checkpoint.load(path) for path in (session.best_out, session.out))
    assert (best.state.round, last.state.round) == (2, 3)
    found = evaluate(best.method, session.data)
    assert rows[-1]["best_linear_accuracy"] == found["linear_accuracy"]
    assert rows[-1]["best_knn_accuracy"] == found["knn_accuracy"]
    assert rows[-1]["linear_accuracy"] == evaluate(last.method, session.data)["linear_accuracy"]
    assert session.method.model_ == last.state.model


def test_a_best_last_round_is_evaluated_once(make, monkeypatch):
    calls = []
    monkeypatch.setattr(sessions, "evaluate", lambda *_: calls.append(1) or {"linear_accuracy": 1})
    (row,) = make(n_rounds=1).run()
    assert (row["best_round"], row["best_linear_accuracy"], len(calls)) == (1, 1, 1)


@pytest.mark.usefixtures("peak_at_two")
def test_a_resumed_run_keeps_the_best_of_all_its_rounds(make):
    whole = list(make(4, "whole.st").run())
    run = make(4, save_every=1).run()
    for _ in range(3):
        next(run)
    run.close()
    resumed = make(4)
    rows = list(resumed.run(checkpoint.load(resumed.out)))
    assert [(r["rounds"], r["best_round"]) for r in rows] == [(4, 2)]
    assert rows[0]["agreement"] == whole[3]["agreement"]
    assert checkpoint.load(resumed.best_out).state.round == 2


@pytest.mark.usefixtures("peak_at_two")
def test_a_best_round_that_the_resumed_run_has_not_had_is_forgotten(make):
    session = make(save_every=1)
    list(session.run())
    start = checkpoint.load(session.out)
    early = replace(start, state=replace(start.state, round=1))
    assert session._best_before(start).round == 2
    assert session._best_before(early) is None


def test_the_last_round_alone_is_kept_unless_asked(make):
    session = make(1, keep="last")
    (row,) = session.run()
    assert session.best_out is None
    assert "best_round" not in row
    assert [path.name for path in session.out.parent.iterdir()] == ["run.st"]


def test_agreement_is_that_of_clusters_in_consecutive_rounds(make):
    session = make(keep="last")
    rows, labels = [], []
    for row in session.run():
        rows.append(row)
        labels.append(session.method.predict(session.data.train))
    assert "agreement" not in rows[0]
    for t in (1, 2):
        assert rows[t]["agreement"] == metrics.nmi(labels[t], labels[t - 1])
    assert rows[1]["agreement"] != rows[2]["agreement"]


def test_keeping_the_best_needs_images_to_validate_on(make):
    session = make()
    with pytest.raises(ParameterError, match="need images to validate on. Add -s validation_share"):
        replace(session, method=session.method.set_params(validation_share=0.0))


def labeled(digits, labels):
    labels = np.array(labels)
    return ImageSet("few", digits.train[: len(labels)], labels, digits.test[:0], None)


@pytest.mark.parametrize("labels", [[0, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1, 0, 1]])
def test_of_a_few_labeled_images_one_is_held_out(small, digits, labels):
    method, data = small(2), labeled(digits, labels)
    assert sessions.why_not_evaluated(data) is None
    found = evaluate(method.fit(data.train), data)
    assert found["linear_accuracy"] in (0.0, 1.0)


@pytest.mark.parametrize("labels", [[0], [0, 1], [3] * 9, [0, 0, 0, 0, 1]])
def test_one_class_cannot_be_evaluated(make, digits, labels):
    data = labeled(digits, labels)
    assert "two classes" in sessions.why_not_evaluated(data)
    assert evaluate(None, data) == {}
    session = make(1, keep="last")
    (row,) = replace(session, data=replace(session.data, train_labels=np.zeros(240, int))).run()
    assert "linear_accuracy" not in row
    with pytest.raises(DataError, match="few cannot be evaluated: .* two classes"):
        sessions.evaluate_checkpoint(session.out, data)
