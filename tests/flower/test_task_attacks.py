"""What a coordinator gets who chooses scalers and models, or asks before and after a change."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import Client, Guard, Model, Privacy, sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import DataError
from fedjigsaw.flower import records
from fedjigsaw.flower.records import Question, Shown
from fedjigsaw.flower.site import Site
from fedjigsaw.flower.site_tasks import LabelFile
from fedjigsaw.flower.tasks import Done, Labeling, Scoring, Statistics
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import build
from fedjigsaw.records.policy import OwnScalerError, Policy, PrivateError, RefusedError
from flower_doubles import GROUPS, patients, records_of

COLUMNS = ("age", "dose")
OFTEN = Policy(questions_per_day=999, questions_in_all=999)
ANY = replace(OFTEN, scores="any")


@pytest.fixture
def start(tmp_path):
    """Start a site with a folder; a second start goes on with its journal."""
    home = tmp_path / "bern"
    home.mkdir()

    def make(rows=None, **options):
        options = {"folder": home, "policy": OFTEN} | options
        return Site("bern", from_array(patients() if rows is None else rows, COLUMNS), **options)

    make.home = home
    return make


def kinds(start):
    return [record["kind"] for record in records_of(start.home)]


def ask(k=4, method="jigsaw", *, scaler=None, **params):
    settings = build(method, {"n_clusters": k, **params, "random_state": 0}).configuration()
    return Question(Broadcast(0, 0, None), method, settings, 60.0, None, None, scaler)


def score_of(centers, *, scaler=None, shown=None, number=1, k=4):
    model = Model(np.array(centers), "jigsaw", {}, COLUMNS)
    question = replace(ask(k=k, scaler=scaler), broadcast=Broadcast(number, 0, model), shown=shown)
    return Scoring(question, "0" * 16)


def scaler_of(mean, deviation):
    return Scaler(COLUMNS, np.array(mean, dtype=float), np.array(deviation, dtype=float))


# ------------------------------------------------------------------------------------- added rows


def answers_about(rows, folder, ks):
    """What a site with the default policy answers for several numbers of clusters."""
    folder.mkdir()
    site = Site("bern", from_array(rows, COLUMNS), folder=folder)
    return [site.answer(ask(k)).summary for k in ks]


def mean_of_sums(answers):
    """The sum of all rows, from answers about all of them; those of narrow clusters count more."""
    whole = [a for a in answers if a.counts.sum() == a.n_samples]
    sums = [a.counts @ a.centers for a in whole]
    return np.average(sums, axis=0, weights=[1 / a.sse.sum() for a in whole])


@pytest.mark.slow
@pytest.mark.parametrize("guard", [True, False])
def test_many_answers_before_and_after_do_not_give_an_added_row(tmp_path, guard, monkeypatch):
    """Ten questions are a day's: rounding errors of ten sums nearly cancel, but not enough."""
    hits, n_trials = 0, 20 if guard else 3
    if not guard:  # the attack is a real one
        monkeypatch.setattr(Guard, "round", lambda self, summary, sizes, rows: summary)
    for seed in range(n_trials):
        rows = patients(61, seed)
        after, before = (
            mean_of_sums(answers_about(some, tmp_path / f"{seed} {len(some)}", range(1, 11)))
            for some in (rows, rows[:-1])
        )
        hits += bool((np.abs(after - before - rows[-1]) < 0.1 * np.array([2.0, 0.3])).all())
    assert hits / n_trials <= 0.05 if guard else hits == n_trials


# ----------------------------------------------------------------------------------- statistics


def rows_by_subtraction(n_trials, n, **options):
    """How often a row that was added is found from statistics before and after."""
    hits = 0
    for seed in range(n_trials):
        rows = patients(n, seed)
        before, after = (
            Site("bern", from_array(some, COLUMNS), **options).do(Statistics())
            for some in (rows[:-1], rows)
        )
        claimed = n * after.mean - (n - 1) * before.mean
        spread = rows.std(axis=0)
        hits += bool((np.abs(claimed - rows[-1]) < 0.1 * spread).all())
    return hits / n_trials


@pytest.mark.parametrize("n", [12, 60, 300])
def test_an_added_row_is_not_found_by_subtracting_statistics(n):
    assert rows_by_subtraction(100, n) <= 0.05
    assert rows_by_subtraction(5, n, guard=Guard(1)) == 1  # the attack is a real one


def test_statistics_are_one_question_however_often_and_under_any_order(start):
    site = start(policy=Policy(questions_in_all=2))
    first = site.do(Statistics())
    for _ in range(3):
        assert start(policy=Policy(questions_in_all=2)).do(Statistics()).mean.tolist() == (
            first.mean.tolist()
        )
    site.answer(ask(k=2))
    with pytest.raises(RefusedError, match="2 questions were answered about this data set"):
        site.answer(ask(k=3))
    assert kinds(start) == ["question", "answer"] * 5 + ["question", "refusal"]


def test_few_rows_tell_nothing(start):
    for task in (Statistics(), score_of(GROUPS)):
        with pytest.raises(DataError, match="4 rows, fewer than 5"):
            start(patients(4), policy=ANY).do(task)


def test_a_policy_may_allow_no_statistics_and_no_scores(start):
    site = start(policy=Policy(statistics="none", scores="none"))
    for task in (Statistics(), score_of(GROUPS)):
        with pytest.raises(RefusedError, match='= "none"'):
            site.do(task)
    assert kinds(start) == ["question", "refusal"] * 2


# -------------------------------------------------------------------------------- chosen scalers


def shifted(n):
    """Scalers that put the grid of rounding elsewhere, or stretch it, and cluster the same."""
    rng = np.random.default_rng(1)
    for _ in range(n):
        stretch = 2 ** rng.uniform(-1, 1)
        yield scaler_of(rng.uniform(-1, 1, 2) * [20, 3], np.array([20.0, 1.2]) * stretch)


def errors(found, rows):
    """How far each column's mean of the claimed means is from the truth, in sampling errors."""
    return np.abs(np.mean(found, axis=0) - rows.mean(axis=0)) / (
        rows.std(axis=0) / len(rows) ** 0.5
    )


@pytest.mark.parametrize("extreme", [1e-307, 1e-98, 0.9e-40, 1.1e40, 1e100])
@pytest.mark.parametrize("number", ["mean", "deviation"])
def test_no_scaler_makes_rows_overflow(start, extreme, number):
    """Whether a sum or a row overflows tells it digit by digit, in failures that nobody counts."""
    own = {"mean": [40.0, 2.0], "deviation": [20.0, 1.2]}
    chosen = scaler_of(**{**own, number: [extreme, 1.0]})
    if number == "mean" and extreme < 1:
        start().answer(ask(scaler=chosen))
        return
    for task in (ask(scaler=chosen), ask(k=100, scaler=chosen)):
        with pytest.raises(RefusedError, match="a number of the scaler"):
            start().answer(task)
    with pytest.raises(RefusedError, match="a number of the scaler"):
        start(policy=ANY).do(score_of(GROUPS, scaler=chosen))


def test_scalers_choose_no_digit(start):
    """Rounded elsewhere each time, many answers about the same rows would give the exact mean."""
    rows, site = patients(), start()
    found, squares, naive = [], [], []
    for scaler in shifted(40):
        summary = site.answer(ask(k=1, scaler=scaler)).summary
        found.append(scaler.unscale(summary.centers[0]))
        squares.append(float(summary.sse[0] * (scaler.deviation**2)[0]))
        plain = Client("bern", scaler.scale(rows), build("jigsaw", {"n_clusters": 1}), Guard())
        naive.append(scaler.unscale(plain.answer(Broadcast(0, 0)).centers[0]))  # in scaled units
    assert np.allclose(found, found[0], rtol=1e-9)
    assert np.allclose(squares, squares[0], rtol=1e-9)
    assert len({tuple(center.round(6)) for center in naive}) > 20
    assert errors(naive, rows).max() < 0.1 < errors(found, rows).max()


def test_a_scaler_does_not_make_another_data_set(start):
    site = start(policy=Policy(questions_in_all=5))
    for scaler in list(shifted(5)):
        site.answer(ask(scaler=scaler))
    with pytest.raises(RefusedError, match="5 questions were answered about this data set"):
        site.answer(ask(scaler=scaler_of([0, 0], [1, 9])))
    with pytest.raises(RefusedError, match="5 questions"):
        site.answer(ask(k=3))
    assert len(list((start.home / "groups").iterdir())) == 1


def test_a_radius_is_told_for_one_scaler(start):
    """The radius of FeCA may be the distance of one row: in other units it has other digits."""
    site, scalers = start(), list(shifted(3))
    for k in (3, 4, 5):
        site.answer(ask(k=k, method="feca", scaler=scalers[0]))
    for scaler in scalers[1:]:
        with pytest.raises(RefusedError, match="for another scaler of the server"):
            site.answer(ask(method="feca", scaler=scaler))
        site.answer(ask(scaler=scaler))  # jigsaw has no radius
    site.answer(ask(k=6, method="feca", scaler=scalers[0]))


def test_a_site_keeps_its_own_scaler(start):
    site = start(scaler=scaler_of([50, 2], [20, 1]))
    for call in (
        lambda: site.do(Statistics()),
        lambda: site.answer(ask(scaler=scaler_of([0, 0], [1, 1]))),
        lambda: site.do(score_of(GROUPS, scaler=scaler_of([0, 0], [1, 1]))),
    ):
        with pytest.raises(OwnScalerError) as caught:
            call()
        assert records.category(caught.value) == "scaler"


@pytest.mark.parametrize(
    "change", [{"mean": ["x", 1]}, {"deviation": [0, 1]}, {"mean": [1e999, 1]}]
)
def test_a_scaler_that_is_none_is_no_question(change):
    content = records.pack_question(ask(scaler=scaler_of([0, 0], [1, 1])))
    head, _ = records.unpack(content)
    head["scaler"] |= change
    with pytest.raises(records.MessageError):
        records.unpack_question(records.pack(head, None))


# ---------------------------------------------------------------------------------- chosen models


def moving_border(site, n=40, axis=0):
    """Scores of models whose border between two clusters moves over the rows."""
    low, high = (20, 85) if axis == 0 else (0, 5)
    far = np.eye(2)[axis] * 1e3
    found = []
    for t in np.linspace(low, high, n):
        middle = t * np.eye(2)[axis]
        found.append(site.do(score_of([middle - far, middle + far])))
    return found


def differences(found):
    """All numbers of rows by which a cluster of one score is larger than that of another."""
    counts = [int(score.counts[0]) for score in found]
    return {abs(a - b) for a, b in combinations(counts, 2)}


def test_models_of_the_coordinators_choice_are_refused_by_default(start):
    site = start()
    own = site.answer(ask())
    for shown in (None, Shown(None, (own,))):
        with pytest.raises(RefusedError):
            site.do(score_of(GROUPS, shown=shown))
    with pytest.raises(RefusedError, match="not that of the last round"):
        site.do(score_of(GROUPS, shown=Shown(None, (own,)), number=0))
    assert kinds(start) == ["question", "answer"] + ["question", "refusal"] * 3


def test_a_border_that_moves_over_rows_singles_out_no_row(start):
    site = start(policy=ANY)
    found = moving_border(site) + moving_border(site, axis=1)
    assert kinds(start).count("answer") == 80
    for axis in (found[:40], found[40:]):
        assert not differences(axis) & {1, 2, 3, 4}
        assert len(differences(axis)) > 3
    [path] = (start.home / "groups").iterdir()
    assert np.bincount(np.load(path)).min() >= 5


def test_the_border_works_without_a_guard(start):
    assert 1 in differences(moving_border(start(policy=ANY, guard=Guard(1))))


def test_scores_and_summaries_share_their_groups(start):
    """A score may split what summaries left together, in parts of five rows and no fewer."""
    site = start(policy=ANY)
    for k in (3, 5, 8):
        site.answer(ask(k=k))
    moving_border(site, 20)
    for k in (4, 7):
        site.answer(ask(k=k))
    [path] = (start.home / "groups").iterdir()
    assert np.bincount(np.load(path)).min() >= 5


def test_centers_of_the_coordinators_choice_choose_no_digit(start):
    """The same clusters, and other centers: distances to them would give the exact means."""
    rows, site = patients(), start(policy=ANY)
    rng = np.random.default_rng(0)
    base = np.array([[40.0, -1e3], [40.0, 1e3]])  # the border is at dose 0: all rows are above
    means = []
    for _ in range(30):
        shift = rng.uniform(-20, 20)
        one, two = (site.do(score_of(base + np.array([shift + d, 0]))).sse[1] for d in (0.0, 7.0))
        # sum (x - c)^2 - sum (x - c - 7)^2 = 14 n (mean - c) - 49 n
        means.append((one - two + 49 * len(rows)) / (14 * len(rows)) + 40.0 + shift)
    assert np.allclose(means, means[0], rtol=1e-9)
    exact, step = rows[:, 0].mean(), rows[:, 0].std() / len(rows) ** 0.5
    assert abs(means[0] - exact) > 0.01 * step


def test_every_other_model_is_a_question_and_the_same_one_is_free(start):
    site = start(policy=replace(ANY, questions_in_all=2))
    first = site.do(score_of(GROUPS))
    assert site.do(score_of(GROUPS)).sse.tolist() == first.sse.tolist()
    site.do(score_of(GROUPS + 1))
    with pytest.raises(RefusedError, match="2 questions"):
        site.do(score_of(GROUPS + 2))
    with pytest.raises(RefusedError, match="2 questions"):
        site.do(Statistics())


def test_counts_and_sums_of_scores_are_as_the_policy_says(start):
    rounded = start(policy=replace(ANY, counts="rounded")).do(score_of(GROUPS))
    assert (rounded.counts % 5 == 0).all()
    for rule in ({"counts": "none"}, {"sums": "none"}):
        with pytest.raises(RefusedError, match="sizes and sums"):
            start(policy=replace(ANY, **rule)).do(score_of(GROUPS))


# ----------------------------------------------------------------------------------- privacy, labels


def test_under_differential_privacy_nothing_is_told_that_the_ledger_does_not_have(tmp_path):
    rows, home = patients(), tmp_path / "bern"
    home.mkdir()
    write_table(tmp_path / "bern.csv", age=rows[:, 0], dose=rows[:, 1])
    promise = Privacy(1.0, 1e-6, (np.array([0.0, 0.0]), np.array([120.0, 8.0])))
    site = Site("bern", tmp_path / "bern.csv", folder=home, policy=ANY, privacy=promise)
    site.check()
    before = (home / "privacy-ledger.jsonl").read_bytes()
    for call in (
        lambda: site.do(Statistics()),
        lambda: site.do(score_of(GROUPS)),
        lambda: site.answer(ask(scaler=scaler_of([0, 0], [1, 1]))),
    ):
        with pytest.raises(PrivateError) as caught:
            call()
        word = records.category(caught.value)
        assert "fedjigsaw scaler --bounds" in records.REASONS[word]
    assert (home / "privacy-ledger.jsonl").read_bytes() == before
    labeled = replace(site, labels=LabelFile(tmp_path / "labels.csv"))
    file = ModelFile(Model(GROUPS, feature_names=COLUMNS), None, ("bern",), 9)
    assert labeled.do(Labeling(file)) == Done()  # labels do not leave


def test_a_model_for_labels_chooses_no_columns(start, tmp_path):
    """Whether a column is there, and has numbers only, would show in done or not, uncounted."""
    path = tmp_path / "rows.csv"
    age, dose = patients().T
    write_table(path, age=age, dose=dose, hiv=np.zeros(200))
    labels = LabelFile(tmp_path / "labels.csv")
    site = Site("bern", path, columns=COLUMNS, folder=start.home, labels=labels)
    for columns in (("age", "hiv"), ("age", "cancer"), ("age",)):
        model = Model(GROUPS[:, : len(columns)], "jigsaw", {}, columns)
        with pytest.raises(DataError, match="columns of the model are not those of this site"):
            site.do(Labeling(ModelFile(model, None, ("bern",), 200)))
    fits = ModelFile(Model(GROUPS[:, ::-1], "jigsaw", {}, COLUMNS[::-1]), None, ("bern",), 200)
    assert site.do(Labeling(fits)) == Done()


def test_questions_that_fail_count_but_not_twice(start, monkeypatch):
    """Whether one fails may depend on the rows, so many of them would tell about these."""
    site = start(policy=Policy(questions_in_all=2))

    def fail(*arguments, **options):
        raise ValueError("too far away")

    with monkeypatch.context() as patched:
        patched.setattr(sites, "summarize", fail)
        for scaler in (scaler_of([0, 0], [1, 1]), scaler_of([0, 0], [1, 1]), None):
            with pytest.raises(ValueError, match="too far away"):
                site.answer(ask(scaler=scaler))
        with pytest.raises(RefusedError, match="2 questions were answered about this data set"):
            site.answer(ask(k=3))
    site.answer(ask())  # as after a failure that has passed
    assert kinds(start)[-4:] == ["question", "refusal", "question", "answer"]


def test_sizes_tell_the_cluster_of_an_added_row(tmp_path):
    """It is not defended: where clusters are narrow, their center is close to the row."""
    rows = patients(201)
    after, before = (
        answers_about(some, tmp_path / str(len(some)), [4])[0] for some in (rows, rows[:-1])
    )
    nearest = ((after.centers[:, None] - before.centers) ** 2).sum(axis=2).argmin(axis=1)
    grown = np.flatnonzero(after.counts != before.counts[nearest])
    assert len(grown) == 1
    assert np.allclose(after.centers[grown[0]], rows[-1], atol=3 * np.array([2.0, 0.3]))


def test_a_scaler_for_other_columns_chooses_none(start):
    """A site without --columns uses all of its columns, not those that a scaler names."""
    one = Scaler(("age",), np.array([50.0]), np.array([20.0]))
    with pytest.raises(DataError, match="is for 'age'; this site has 'age', 'dose'"):
        start().answer(ask(scaler=one))
