"""What a site answers, whatever a coordinator asks; and the two attacks on its rows."""

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import Guard, Jigsaw, Model
from fedjigsaw.engine import aggregate_round
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.flower import desk as module
from fedjigsaw.flower import earlier, records
from fedjigsaw.flower.records import Question, Shown, category
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import LateError, Site, TimeLimitedSite, load_site
from fedjigsaw.flower.tasks import Statistics
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import build
from fedjigsaw.records.policy import Policy, RefusedError
from flower_doubles import GROUPS, NAMES, engine_of, grid_of, patients, records_of, site_app


@pytest.fixture
def rows():
    return patients(400)


@pytest.fixture
def start(tmp_path, rows):
    """Start a site as `federation site` does; text is its policy."""
    home = tmp_path / "bern"
    home.mkdir()
    write_table(tmp_path / "bern.csv", age=rows[:, 0], dose=rows[:, 1])

    def load(text=None, **options):
        if text is not None:
            (home / "policy.toml").write_text(text)
        own = {"kind": "rows", "name": "bern", "data": str(tmp_path / "bern.csv")}
        own["accept_policy"] = True
        return load_site(json.loads(json.dumps({**own, "folder": str(home), **options})))

    load.home = home
    load.data = tmp_path / "bern.csv"
    return load


def ask(method="jigsaw", k=4, *, seed=0, number=0, model=None, shown=None, columns=None, **params):
    settings = build(method, {"n_clusters": k, **params, "random_state": seed}).configuration()
    return Question(Broadcast(number, seed, model), method, settings, 60.0, columns, shown)


def kinds(start):
    return [record["kind"] for record in records_of(start.home)]


# ------------------------------------------------------------------------------------ the attacks


def answers(site, questions):
    """What a coordinator gets who asks all of these; None for a refusal."""
    found = []
    for question in questions:
        try:
            found.append(site.answer(question).summary)
        except ParameterError:
            found.append(None)
    return found


def rows_of_a_moving_border(site, axis=0, n_questions=60):
    """Attack A: two models whose border lies on both sides of a row differ by that row."""
    borders = np.linspace(20, 85, n_questions)
    far = np.eye(2)[axis] * 1e4
    models = [
        Model([t * np.eye(2)[axis] - far, t * np.eye(2)[axis] + far], "jigsaw", {}, ("age", "dose"))
        for t in borders
    ]
    sent = answers(site, [ask(k=2, number=1, model=m, n_rounds=2) for m in models])
    sent = [s for s in sent if s is not None and len(s.centers) == 2 and s.counts is not None]
    claimed = []
    for before, after in pairwise(sent):
        if after.counts[0] - before.counts[0] == 1:
            row = after.counts[0] * after.centers[0] - before.counts[0] * before.centers[0]
            claimed.append(row)
    return claimed


def rows_of_many_runs(site, questions):
    """Attack B: clusters of n and n + 1 rows that differ by one row are known by their sums."""
    clusters = set()
    for sent in answers(site, questions):
        if sent is not None and sent.sse is not None:
            clusters |= {
                (int(n), float(sse), *center.tolist())
                for n, sse, center in zip(sent.counts, sent.sse, sent.centers, strict=True)
            }
    claimed = []
    for small, large in product(clusters, clusters):
        n = small[0]
        if large[0] == n + 1:
            row = (n + 1) * np.array(large[2:]) - n * np.array(small[2:])
            grown = small[1] + n / (n + 1) * ((row - np.array(small[2:])) ** 2).sum()
            if abs(grown - large[1]) <= 1e-9 * large[1]:
                claimed.append(row)
    return claimed


def n_recovered(claimed, rows):
    """How many rows are among those claimed, within a tenth of the spread of a group."""
    scale = np.array([2.0, 0.3])
    hits = {
        int(i)
        for row in claimed
        for i in np.flatnonzero((np.abs((rows - row) / scale) < 0.1).all(axis=1))
    }
    return len(hits)


MANY = [ask(k=k, seed=seed) for k in range(2, 12) for seed in range(12)]
OPEN = """
rounds = 9
later_models = "any"
questions_per_day = 100000
questions_in_all = 100000
"""


def test_attack_a_gets_no_row_by_default(start, rows):
    site = start()
    site.answer(ask(k=2))
    assert not rows_of_a_moving_border(site)
    assert kinds(start).count("refusal") == 60
    assert kinds(start).count("question") == 61


def test_attack_a_gets_no_row_even_where_any_model_is_answered(start, rows):
    claimed = rows_of_a_moving_border(start(OPEN))
    assert kinds(start).count("answer") == 60
    assert not claimed


def test_attack_a_works_without_a_guard(start, rows):
    """The attack is a real one: this is what the defaults stop."""
    claimed = rows_of_a_moving_border(start(OPEN + "least_cluster_size = 1"), n_questions=200)
    assert n_recovered(claimed, rows) >= 10


def test_attack_b_gets_no_row_by_default(start, rows):
    assert n_recovered(rows_of_many_runs(start(), MANY), rows) == 0
    assert kinds(start).count("question") == len(MANY)
    different = {record["key"] for record in records_of(start.home) if record["kind"] == "answer"}
    assert len(different) == Policy().questions_per_day


def test_attack_b_gets_no_row_however_often_it_may_ask(start, rows):
    more = [ask(k=k, n_init=n) for k in range(2, 12) for n in range(1, 7)]
    assert n_recovered(rows_of_many_runs(start(OPEN), more), rows) == 0
    [path] = (start.home / "groups").iterdir()
    assert np.bincount(np.load(path)).min() >= 5


def test_attack_b_works_without_a_guard(start, rows):
    more = [ask(k=k, n_init=n) for k in range(2, 12) for n in range(1, 7)]
    claimed = rows_of_many_runs(start(OPEN + "least_cluster_size = 1"), more)
    assert n_recovered(claimed, rows) > len(claimed) / 2  # most of what it claims are rows


# --------------------------------------------------------------------------------- same question


def test_the_seed_of_the_server_makes_no_other_answer(start):
    site = start()
    first = site.answer(ask(seed=0))
    for seed in range(1, 30):
        assert site.answer(ask(seed=seed)) == first
    repeated = [
        record.get("repeated") for record in records_of(start.home) if record["kind"] == "answer"
    ]
    assert repeated == [None] + [True] * 29


def test_the_same_question_gets_the_same_answer_after_others_and_after_a_restart(start):
    first = start().answer(ask(k=7))
    for k in (3, 4, 5, 6):
        start().answer(ask(k=k))
    assert start().answer(ask(k=7)) == first
    assert start("questions_per_day = 5").answer(ask(k=7)) == first


def test_the_order_of_columns_makes_no_other_answer(start):
    site = start("questions_in_all = 1")
    first, other = site.answer(ask()), site.answer(ask(columns=("dose", "age")))
    assert other.columns == ("dose", "age")
    assert other.summary.centers.tolist() == first.summary.centers[:, ::-1].tolist()
    with pytest.raises(DataError, match="differ from those of the run"):
        site.answer(ask(columns=("dose", "weight")))


def test_the_first_answer_is_that_of_the_library(start, rows):
    found = start().answer(ask(k=6))
    fitted = Jigsaw(6, random_state=0).fit_clients({"bern": rows}, guard=Guard())
    assert found.summary == fitted.summaries_[0]


# -------------------------------------------------------------------------------- every rule


def test_questions_are_counted_over_restarts_and_by_data_set(start, rows):
    text = "questions_per_day = 9\nquestions_in_all = 3"
    for k in (2, 3, 4):
        start(text).answer(ask(k=k))
    with pytest.raises(RefusedError, match="3 questions were answered about this data set"):
        start(text).answer(ask(k=5))
    write_table(start.data, age=rows[1:, 0], dose=rows[1:, 1])
    start(text).answer(ask(k=5))


def set_clock(monkeypatch, **ahead):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) + timedelta(**ahead)

    monkeypatch.setattr(earlier, "datetime", Later)


def test_questions_are_counted_by_day(start, monkeypatch):
    site = start("questions_per_day = 2")
    site.answer(ask(k=2))
    site.answer(ask(k=3))
    with pytest.raises(RefusedError, match="2 questions were answered within 24 hours"):
        site.answer(ask(k=4))

    set_clock(monkeypatch, hours=25)
    site.answer(ask(k=4))


def test_questions_that_count_for_no_rule_do_not_fill_the_journal(start, monkeypatch):
    """Refused, or answered as before: after some, nothing is written, and nothing leaves."""
    monkeypatch.setattr(earlier, "MAX_BEYOND", 5)
    site = start("questions_per_day = 2")
    first = site.answer(ask(k=2))
    for number in range(4):
        assert site.answer(ask(k=2, seed=number)) == first
    for _ in range(2):
        with pytest.raises(RefusedError, match="more than 100"):
            site.answer(ask(k=999))
    path = start.home / "journal.jsonl"
    honest = path.read_bytes()
    for question in [ask(k=999), ask(k=2), ask(k=3)] * 5:
        with pytest.raises(RefusedError, match="7 questions came within 24 hours"):
            site.answer(question)
    with pytest.raises(RefusedError, match="7 questions came within 24 hours"):
        site.do(Statistics())
    assert path.read_bytes().startswith(honest)
    assert path.stat().st_size < len(honest) + 500
    assert kinds(start).count("question") == 7
    assert kinds(start)[-1] == "note"
    set_clock(monkeypatch, hours=25)
    assert site.answer(ask(k=2)) == first


def test_other_columns_are_another_data_set(start):
    start("questions_in_all = 1").answer(ask(k=2))
    assert start("questions_in_all = 1", columns=["age"]).answer(ask(k=2)).columns == ("age",)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("methods = ['feca']", ask()),
        ("methods = ['jigsaw']", ask("feca")),
        ("[at_most]\nn_clusters = 3", ask(k=4)),
        ("[at_most]\nn_local_clusters = 3", ask(n_local_clusters=4)),
        ("[at_most]\ndetail = 1", ask(detail=2)),
        ("[at_most]\nn_local_clusters = 199", ask(k="auto")),
        ("[at_most]\nmax_clusters = 20", ask(k="auto", max_clusters=21)),
        ("[at_most]\nn_init = 9", ask()),
        ("[at_most]\nmax_iter = 299", ask()),
        ("rounds = 2", ask(n_rounds=3)),
        ("rounds = 1", ask("fuzzy", n_rounds=1)),
        ("rounds = 3", ask(number=0, model=Model(GROUPS, feature_names=("age", "dose")))),
        ("rounds = 3", ask(number=1)),
        ("rounds = 3", ask(number=1, model=Model(GROUPS, feature_names=("age", "dose")))),
    ],
)
def test_a_rule_refuses_and_the_journal_says_why(start, text, question):
    with pytest.raises(RefusedError) as caught:
        start(text).answer(question)
    assert records.category(caught.value) == "policy"
    asked, refusal = records_of(start.home)
    assert (asked["kind"], refusal["kind"], refusal["to"]) == ("question", "refusal", asked["n"])
    assert str(caught.value) in refusal["reason"]


def test_counts_and_sums_leave_as_the_policy_says(start):
    assert start().answer(ask(k=2)).summary.sse is not None
    assert start("sums = 'none'").answer(ask(k=2)).summary.sse is None
    counts = start("counts = 'rounded'").answer(ask(k=3)).summary.counts
    assert (counts % 5 == 0).all()
    assert start("counts = 'none'").answer(ask(k=3)).summary.counts is None
    assert start("counts = 'rounded'").answer(ask("feca")).summary.counts is None


def test_options_may_be_stricter_only(start):
    assert start(min_cluster_size=20).answer(ask(k=30)).summary.counts.min() >= 20
    assert start("least_cluster_size = 20").answer(ask(k=31)).guard["min_cluster_size"] == 20
    for options in ({"min_cluster_size": 4}, {"counts": "exact"}):
        with pytest.raises(ParameterError, match=r"policy\.toml"):
            start("counts = 'rounded'", **options)


# --------------------------------------------------------------------------------- later rounds


LATER = "rounds = 3\nquestions_per_day = 100\nquestions_in_all = 100"


@pytest.fixture
def second(start):
    """A site that answered round 0, and the honest question of round 1."""
    site = start(LATER)
    own = site.answer(ask(n_rounds=2))
    other = Site("lyon", from_array(patients(400, 1), ("age", "dose")), policy=OPEN_POLICY)
    files = (own, other.answer(ask(n_rounds=2)))
    return site, files, ask(number=1, model=derive(files), shown=Shown(None, files), n_rounds=2)


OPEN_POLICY = Policy(rounds=9, later_models="any")


def derive(files, number=0, before=None, **params):
    method = build("jigsaw", {"n_clusters": 4, "n_rounds": 2, "random_state": 0, **params})
    summaries = [file.summary for file in files]
    model = aggregate_round(method, summaries, Broadcast(number, 0, before))
    return model.with_feature_names(("age", "dose"))


def test_a_model_that_comes_from_what_is_shown_is_answered(second):
    site, _, question = second
    found = site.answer(question).summary
    assert found.counts.sum() == 400
    assert site.answer(question).summary == found


def refused(site, question, words):
    with pytest.raises(RefusedError, match=words):
        site.answer(question)


def test_any_other_model_is_refused(second):
    site, _, question = second
    model = question.broadcast.model
    for centers in (model.centers + 0.01, model.centers[:2], model.centers[::-1]):
        moved = replace(question.broadcast, model=replace(model, centers=centers))
        refused(site, replace(question, broadcast=moved), "does not come from the summaries shown")


def test_summaries_without_its_own_are_refused(second):
    site, (own, other), question = second
    changed = replace(own, summary=replace(own.summary, centers=own.summary.centers + 1e-9))
    for files in ((other,), (changed, other), (own, own, other)):
        shown = Shown(None, files)
        refused(site, replace(question, shown=shown), "answer of the round before is not among")
    refused(site, replace(question, shown=None), "does not show")


def test_invented_sites_that_break_the_method_are_refused(second):
    site, (own, other), question = second
    bad = replace(other, summary=replace(other.summary, counts=other.summary.counts * 0))
    refused(site, replace(question, shown=Shown(None, (own, bad))), "cannot be aggregated")


@pytest.mark.parametrize("name", ["jigsaw", "fuzzy"])
def test_an_honest_run_of_several_rounds_passes(tmp_path, name):
    """Over the engine: it shows what sites need, and with guards rows move in groups."""
    shards = {site: patients(400, i) for i, site in enumerate(NAMES)}
    policy = Policy(methods=("jigsaw", "fuzzy"), rounds=4, questions_per_day=99)
    apps = {}
    for site, X in shards.items():
        (tmp_path / site).mkdir()
        options = {"policy": policy, "folder": tmp_path / site, "guard": Guard()}
        apps[site] = site_app(site, X, **options)
    method = build(name, {"n_clusters": 4, "n_rounds": 3, "random_state": 0})
    file, transcript = federate(engine_of(grid_of(shards, **apps), method))
    assert not transcript.failures
    inside = method.fit_clients(shards, guard=Guard())
    ours = ((patients(400, 7)[:, None] - file.model.centers) ** 2).sum(axis=2).min(axis=1).sum()
    assert ours <= -1.02 * inside.score(patients(400, 7))


# -------------------------------------------------------------------------------------- journal


def test_the_journal_has_every_question_and_the_bytes_of_every_answer(start):
    site = start()
    file = site.answer(ask())
    with pytest.raises(RefusedError):
        site.answer(ask("fuzzy"))
    with pytest.raises(ParameterError):
        site.answer(replace(ask(), params={"color": "red"}))
    assert kinds(start) == ["question", "answer", "question", "refusal", "question", "failure"]
    record = records_of(start.home)[1]
    content = module.base64.b64decode(record["content"])
    assert formats.decode(content) == file
    assert record["answer"] == module.sha256(formats.encode(file)).hexdigest()


def test_a_site_whose_journal_was_changed_answers_nothing(start):
    site = start()
    site.answer(ask(k=2))
    path = start.home / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"round":0', b'"round":9'))
    with pytest.raises(RefusedError, match="Record 0 was changed"):
        site.answer(ask(k=3))


def becomes_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b""), becomes_a_pipe])
def test_a_site_whose_journal_is_gone_answers_nothing(start, lose):
    site = start()
    site.answer(ask(k=2))
    lose(start.home / "journal.jsonl")
    for _ in range(2):
        with pytest.raises(RefusedError, match="is missing or empty, but .*groups shows that"):
            site.answer(ask(k=3))
    (start.home / "groups").rename(start.home / "old groups")
    (start.home / "journal.jsonl").unlink(missing_ok=True)
    site.answer(ask(k=3))


@pytest.mark.parametrize(
    "lose", [Path.unlink, lambda place: os.truncate(place, 200), becomes_a_pipe]
)
def test_a_site_whose_groups_are_gone_gives_no_new_answer(start, lose):
    """A backup without them, for instance: two answers could differ by a single row."""
    site = start()
    first = site.answer(ask(k=2))
    (place,) = (start.home / "groups").glob("*.npy")
    kept = place.read_bytes()
    lose(place)
    with pytest.raises(RefusedError, match=r"npy is (missing|damaged), but the journal has ans"):
        site.answer(ask(k=3))
    assert site.answer(ask(k=2)) == first
    place.unlink(missing_ok=True)
    place.write_bytes(kept)
    site.answer(ask(k=3))


def question(method="feca", timeout=60.0):
    return Question(Broadcast(0, 0), method, {"n_clusters": 1}, timeout)


@pytest.mark.parametrize(
    "policy", ["rounds = 9", "rounds = [", "bounds = 2", 'privacy = "required"', "counts = 0"]
)
def test_a_policy_that_was_changed_is_told_to_the_server_as_one(tmp_path, policy):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "policy.toml").write_text(policy)  # while the site runs: each question reads it
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv")}
    with pytest.raises(ParameterError) as caught:
        load_site({**options, "folder": str(tmp_path)})
    assert category(caught.value) == "policy"


def test_the_decimal_sign_of_a_site_is_that_of_its_answers_and_labels(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n" + "7.470;1\n" * 8)
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv"), "labels": "l.csv"}
    with pytest.raises(DataError, match="7470"):
        load_site(options).check()
    for sign, value in ((".", 7.47), (",", 7470)):
        site = load_site({**options, "labels": str(tmp_path / "l.csv"), "decimal": sign})
        site.check()
        assert site.answer(question()).summary.centers[0, 0] == value


@pytest.mark.parametrize("method", ["deepfeca", "none"])
def test_a_site_of_rows_runs_methods_for_rows(method):
    with pytest.raises(ParameterError, match=f"holds rows: it can run feca, .*, not {method}"):
        Site("a", from_array([[1.0]])).answer(question(method))


def test_a_method_that_pools_rows_is_refused_at_the_site_too():
    with pytest.raises(ParameterError, match="cannot run in a federation"):
        Site("bern", from_array([[1.0]])).answer(question("central"))


def test_a_site_gives_up_when_the_server_no_longer_waits(monkeypatch):
    monkeypatch.setattr(Site, "answer", lambda self, question: time.sleep(60))
    with pytest.raises(LateError, match="within 0.1 s"):
        TimeLimitedSite(Site("a", Path("a.csv"))).answer(question(timeout=0.1))


def test_a_site_with_a_wrong_policy_does_not_start(start):
    with pytest.raises(ParameterError, match=r"policy\.toml has unknown keys: 'round'"):
        start("round = 3")
