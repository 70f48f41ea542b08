"""A site that answers under differential privacy: what leaves, what it costs, what is refused."""

import json
import logging
import time
from dataclasses import replace

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import Jigsaw, Privacy
from fedjigsaw.errors import BudgetError, ParameterError, QuorumError
from fedjigsaw.flower import records
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.records import Question
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import LateError, load_site
from fedjigsaw.flower.tasks import Statistics
from fedjigsaw.io import formats
from fedjigsaw.io.readers import READERS
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.methods import build
from fedjigsaw.privacy.dp import multiplier_for
from fedjigsaw.records.journal import Journal
from fedjigsaw.records.ledger import LEDGER, Ledger
from fedjigsaw.records.policy import RefusedError
from fedjigsaw.sites.charge import Charge
from flower_doubles import NAMES, LocalGrid, engine_of

GROUPS = np.array([[25.0, 1.0], [45.0, 6.0], [80.0, 3.0]])
PROMISE = Privacy(2.0, cells="own", bounds=([0, 0], [120, 10]))


def patients(n, seed=0):
    rng = np.random.default_rng(seed)
    return GROUPS[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) * [2.0, 0.3]


def ask(k=3, *, seed=0, columns=None, method="jigsaw", **params):
    settings = build(method, {"n_clusters": k, **params, "random_state": seed}).configuration()
    return Question(Broadcast(0, seed), method, settings, 60.0, columns)


def written(folder, name, seed=0, n=1500, order=("age", "dose")):
    """The data of a site, and its folder."""
    rows = dict(zip(("age", "dose"), patients(n, seed).T, strict=True))
    write_table(folder / f"{name}.csv", **{column: rows[column] for column in order})
    (folder / name).mkdir()
    return folder / name


def load(home, policy="", limit=None, **options):
    """Start a site as `federation site` does."""
    if limit is not None:
        Ledger(home / LEDGER).set_limit(limit)
    (home / "policy.toml").write_text(policy)
    own = {"kind": "rows", "name": home.name, "data": f"{home}.csv", "accept_policy": True}
    own |= {"folder": str(home), "privacy": PROMISE.to_dict(), **options}
    return load_site(json.loads(json.dumps(own)))


@pytest.fixture
def home(tmp_path):
    return written(tmp_path, "bern")


def releases(home):
    return Ledger(home / LEDGER).read().releases


def journal(home):
    return list(Journal(home / "journal.jsonl").records())


class TestAnswers:
    def test_a_new_question_costs_and_the_same_again_does_not(self, home):
        site = load(home, limit=9)
        first = site.answer(ask())
        assert first.privacy == PROMISE
        (spent,) = releases(home)
        assert (spent.data_set, spent.what, spent.confirmed) == ("bern", "round 0 of jigsaw", True)
        assert spent.multiplier == multiplier_for(2.0, 1e-6)
        assert formats.encode(site.answer(ask(seed=7))) == formats.encode(first)
        other = site.answer(ask(columns=("dose", "age")))
        assert other.columns == ("dose", "age")
        assert other.summary.centers.tolist() == first.summary.centers[:, ::-1].tolist()
        assert other.privacy.bounds == ((0, 0), (10, 120))
        assert len(releases(home)) == 1
        site.answer(ask(k=4))
        assert len(releases(home)) == 2

    def test_all_of_it_is_noisy_and_groups_are_not_kept(self, home, caplog):
        with caplog.at_level(logging.INFO):
            narrow = {**PROMISE.to_dict(), "bounds": [[0, 0], [70, 10]]}
            file = load(home, privacy=narrow).answer(ask())
        assert file.summary.n_samples == file.n_used == file.summary.counts.sum()
        assert not (home / "groups").exists()
        *_, answer = journal(home)
        assert answer["privacy"]["epsilon"] == 2.0
        assert "rows are outside the bounds" in caplog.text  # the log of the site
        assert "Spent on 'bern' so far: epsilon 2 at delta 1e-06" in caplog.text
        assert "outside" not in json.dumps(answer)

    def test_a_limit_is_a_refusal_like_any_other(self, home):
        Ledger(home / LEDGER).set_limit(2.5)
        site = load(home)
        site.answer(ask())
        with pytest.raises(BudgetError) as caught:
            site.answer(ask(k=4))
        assert records.category(caught.value) == "policy"
        *_, refusal = journal(home)
        assert refusal["kind"] == "refusal"
        assert "does not allow this release" in refusal["reason"]
        assert len(releases(home)) == 1
        site.answer(ask())  # still free

    def test_a_ledger_that_is_gone_stops_the_site(self, home):
        site = load(home)
        site.answer(ask())
        (home / LEDGER).unlink()
        with pytest.raises(RefusedError, match="is missing or lacks releases, but the journal"):
            site.answer(ask(k=4))
        with pytest.raises(RefusedError, match="is missing or lacks releases, but the journal"):
            site.check()
        Ledger(home / LEDGER).set_limit(9)  # a new one does not know what was spent
        with pytest.raises(RefusedError, match="is missing or lacks releases, but the journal"):
            site.answer(ask(k=4))


class TestSameQuestion:
    """An answer with fresh noise to a question that was answered would tell more than it costs."""

    def test_a_changed_file_gets_the_answer_on_record(self, home, caplog):
        first = load(home, limit=9).answer(ask())
        written_again = home.with_suffix(".csv")
        written_again.write_text(written_again.read_text() + "50,5\n")
        assert formats.encode(load(home).answer(ask())) == formats.encode(first)
        assert len(releases(home)) == 1
        assert "The data changed since this question was answered" in caplog.text
        new = load(home, version="bern-2025").answer(ask())
        assert new.summary != first.summary
        assert len(Ledger(home / LEDGER).account("bern").releases) == 2

    def test_a_round_is_answered_for_one_model(self, home):
        rules = 'rounds = 3\nlater_models = "any"'
        site = load(home, rules, limit=99)
        question = ask(n_rounds=3)
        centers = site.answer(question).summary.centers[:3]

        def later(number, shift=0.0):
            broadcast = Broadcast(number, 0, Model(centers + shift))
            return replace(question, broadcast=broadcast)

        first = site.answer(later(1))
        with pytest.raises(RefusedError, match="round 1 of this run was answered for another"):
            site.answer(later(1, 1.0))
        assert formats.encode(site.answer(later(1))) == formats.encode(first)
        site.answer(later(2))
        with pytest.raises(RefusedError, match="round 1 of a run of 1, counted from 0"):
            site.answer(replace(later(1), params=ask().params))


class TestLimits:
    def test_without_a_limit_all_answers_together_keep_the_promise_of_one_run(self, home):
        site = load(home)
        notice = site.check()
        assert "Limit set: all answers together have at most epsilon 2 at delta 1e-06" in notice
        assert "Limit, set before: all answers together have at most epsilon 2" in site.check()
        site.answer(ask())
        with pytest.raises(BudgetError, match="the limit is epsilon 2 at delta 1e-06"):
            site.answer(ask(k=4))
        Ledger(home / LEDGER).set_limit(4)  # as set-limit does by default
        site.answer(ask(k=4))

    def test_the_ledger_beside_the_data_holds_as_well(self, home):
        data = home.with_suffix(".csv")
        beside = Ledger(data.with_name(LEDGER))
        beside.set_limit(2.5)
        charge = Charge.for_file(data, "summary")
        charge.spend(PROMISE, multiplier_for(2.0, 1e-6))
        site = load(home)
        assert "Limit, set before: all answers together have at most epsilon 2.5" in site.check()
        with pytest.raises(BudgetError, match="earlier releases have 2"):
            site.answer(ask())
        assert not releases(home)
        beside.set_limit(4)
        site.answer(ask())
        assert [r.what for r in charge.account().releases] == ["summary", "round 0 of jigsaw"]
        assert len({r.fingerprint for r in (*releases(home), *beside.read().releases)}) == 1

    @pytest.mark.parametrize("folder", [True, False])
    def test_nothing_exact_leaves_against_the_limit_of_the_data(self, home, folder):
        Ledger(home.with_name(LEDGER)).set_limit(3)
        site = load(home, privacy=None, folder=str(home) if folder else None)
        for call in (lambda: site.answer(ask()), lambda: site.do(Statistics())):
            with pytest.raises(BudgetError, match="it would leave without noise"):
                call()

    def test_a_site_that_is_late_says_nothing_about_its_data(self, home, monkeypatch):
        monkeypatch.setitem(READERS, ".csv", lambda path: time.sleep(60))
        with pytest.raises(LateError) as caught:
            load(home).answer(replace(ask(), timeout=0.2))
        assert records.category(caught.value) == "timeout"


class TestPolicy:
    def test_required(self, home):
        with pytest.raises(
            ParameterError, match="bern was not started: .*Give an epsilon .at most"
        ):
            load(home, 'privacy = "required"', privacy=None)
        with pytest.raises(ParameterError, match="with epsilon at most 1; got 2"):
            load(home, 'privacy = "required"')
        site = load(home, 'privacy = "required"\nlargest_epsilon = 2')
        assert site.answer(ask()).privacy == PROMISE


def clinic(folder, policy="", **promises):
    """Three sites behind their apps; the columns of one are in another order."""
    apps = {}
    for i, name in enumerate(NAMES):
        order = ("dose", "age") if name == "lyon" else ("age", "dose")
        home = written(folder, name, seed=i, order=order)
        promise = promises.get(name, PROMISE)
        if promise is not None:
            low, high = promise.limits(2)
            step = -1 if name == "lyon" else 1
            promise = {**promise.to_dict(), "bounds": [low[::step].tolist(), high[::step].tolist()]}
        site = load(home, policy, privacy=promise)
        apps[name] = client_app(lambda context, site=site: site)
    return LocalGrid(apps)


def far_from_truth(model):
    return (np.linalg.norm((GROUPS[:, None] - model.centers) / [120, 10], axis=2).min(1)).max()


class TestRuns:
    def test_every_site_pays_once(self, tmp_path):
        weak = Privacy(4.0, 1e-5, PROMISE.bounds, cells="own")
        engine = engine_of(clinic(tmp_path, oslo=weak), Jigsaw(3, random_state=0))
        file, _ = federate(engine)
        assert far_from_truth(file.model) < 0.02
        assert (file.privacy.epsilon, file.privacy.delta) == (4.0, 1e-5)
        assert [len(releases(tmp_path / name)) for name in NAMES] == [1, 1, 1]

    def test_rounds_share_the_budget(self, tmp_path):
        grid = clinic(tmp_path, "rounds = 3")
        method = Jigsaw(3, n_rounds=3, random_state=0)
        file, transcript = federate(engine_of(grid, method))
        assert len(transcript.rounds) == 3
        assert not transcript.failures
        assert far_from_truth(file.model) < 0.02
        for name in NAMES:
            account = Ledger(tmp_path / name / LEDGER).account(name)
            assert len(account.releases) == 3
            assert account.spent() == pytest.approx(2.0, abs=1e-4)

    def test_sites_that_were_not_told_which_cells_answer_nothing(self, tmp_path):
        unsaid = Privacy(4.0, bounds=PROMISE.bounds)
        grid = clinic(tmp_path, **dict.fromkeys(NAMES, unsaid))
        with pytest.raises(QuorumError, match="which cells"):
            federate(engine_of(grid, Jigsaw(3, random_state=0)))

    def test_shared_cells(self, tmp_path):
        unsaid = Privacy(4.0, bounds=PROMISE.bounds)
        other = Privacy(4.0, bounds=([0, 0], [100, 10]))
        grid = clinic(tmp_path, bern=unsaid, lyon=unsaid, oslo=other)
        engine = engine_of(grid, Jigsaw(3, random_state=0), cells="shared")
        file, transcript = federate(engine, min_sites=2)
        assert file.clients == ("bern", "lyon")
        assert [failure.client for failure in transcript.failures] == ["oslo"]
        assert file.privacy.cells == "shared"
        assert far_from_truth(file.model) < 0.1
