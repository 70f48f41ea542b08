"""Sessions: what is followed from round to round, and what is evaluated."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import metrics
from fedjigsaw.deep import session as sessions
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.session import Session, evaluate
from fedjigsaw.errors import DataError
from fedjigsaw.io.rows import read_rows

FOLLOWED = ("loss", "validation_loss", "agreement", "nmi", "linear_accuracy")


@pytest.fixture
def make(small, digits, tmp_path):
    """Make a session on a few labeled images."""
    data = ImageSet(
        "few", digits.train[:240], digits.train_labels[:240],
        digits.test[:60], digits.test_labels[:60],
    )  # fmt: skip

    def session(n_rounds=3, out="run.st", **options):
        method = small(n_rounds=n_rounds, validation_share=0.1)
        given = {"eval_every": 0, **options}
        return Session(method, data, np.arange(240) % 3, {}, tmp_path / out, **given)

    return session


def test_every_row_has_all_settings(make):
    session = make()
    rows = list(session.run())
    assert [row["config"] for row in rows] == [session.method.configuration()] * 3
    assert ["linear_accuracy" in row for row in rows] == [False, False, True]
    assert {"probe_converged", "probe_at_edge"} <= rows[-1].keys()


def test_agreement_is_that_of_clusters_in_consecutive_rounds(make):
    session = make()
    rows, labels = [], []
    for row in session.run():
        rows.append(row)
        labels.append(session.method.predict(session.data.train))
    assert "agreement" not in rows[0]
    for t in (1, 2):
        assert rows[t]["agreement"] == metrics.nmi(labels[t], labels[t - 1])
    assert rows[1]["agreement"] != rows[2]["agreement"]


def test_a_resumed_run_goes_on_with_the_same_rows(make, tmp_path):
    rows = tmp_path / "rows.jsonl"
    whole = list(make(out="whole.st").run())
    run = make(rows=rows, save_every=1).run()
    first = next(run)
    run.close()
    rest = make(rows=rows)
    start = sessions.resume(rest)
    assert start.state.round == first["rounds"] == 1
    found = list(rest.run(start))
    assert [row["rounds"] for row in read_rows(rows)] == [1, 2, 3]
    for row, other in zip([first, *found], whole, strict=True):
        assert [row.get(n) for n in FOLLOWED] == [other.get(n) for n in FOLLOWED]
    with pytest.raises(DataError, match="row of another run"):
        sessions.check_rows(rows, {"split": "iid"}, rest.method, resuming=False)


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
    session = make(1)
    (row,) = replace(session, data=replace(session.data, train_labels=np.zeros(240, int))).run()
    assert "linear_accuracy" not in row
    with pytest.raises(DataError, match="few cannot be evaluated: .* two classes"):
        sessions.evaluate_checkpoint(session.out, data)
