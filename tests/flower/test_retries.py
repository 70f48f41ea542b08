"""Sites that were lost, late or not connected are asked again; others are not."""

import pytest

from fedjigsaw import FeCA, Jigsaw
from fedjigsaw.errors import QuorumError
from fedjigsaw.flower import agreement, records
from fedjigsaw.flower.retries import RetryingEngine
from fedjigsaw.flower.rounds import federate
from flower_doubles import NAMES, grid_of, site_app

pytestmark = pytest.mark.usefixtures("quick")


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


def test_a_site_that_connects_between_two_attempts(shards):
    grid = grid_of(shards)
    grid.late = {"oslo": 1}
    with pytest.raises(QuorumError, match="not connected"):
        federate(run_of(grid))
    grid.late = {"oslo": 3}  # it comes while the second attempt waits
    assert federate(run_of(grid, retries=1, wait=0.03))[0].clients == NAMES


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


def test_an_answer_of_another_kind_has_no_place_after_the_others(shards):
    other = flaky(shards["oslo"], [5], order=("a", "b", "c"))
    file, transcript = federate(run_of(grid_of(shards, oslo=other), retries=1), min_sites=2)
    assert file.clients == NAMES[:2]
    usual = ("x0", "x1", "x2")
    assert transcript.failures[0].reason == agreement.describe_columns(("a", "b", "c"), usual)
