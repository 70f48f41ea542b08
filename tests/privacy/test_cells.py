"""Own or shared cells are chosen once, by public numbers, and drowned data are told beforehand."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Broadcast, Client, Jigsaw, Privacy, Summary, sites
from fedjigsaw._received import receive
from fedjigsaw.errors import (
    MessageError,
    NoiseWarning,
    ParameterError,
    UncertainNumberWarning,
)
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.summaries import CellsError, Expected
from fedjigsaw.sites.admission import check_answer

K, N_SITES = 15, 10


def problem(n, seed=0, k=K):
    """Rows of k groups on a grid, spread like those of the S-sets, and the site of each."""
    rng = np.random.default_rng(seed)
    places = np.array([[x, y] for x in range(4) for y in range(4)], dtype=float)[:k] / 2 - 0.75
    rows = places[rng.integers(k, size=n)] + 0.05 * rng.normal(size=(n, 2))
    return np.clip(rows, -1, 1), rng.integers(N_SITES, size=n)


def private(**changes):
    return Privacy(**{"epsilon": 1.0, "bounds": (-1, 1), "insecure_seed": 0, **changes})


def fitted(n, privacy, k=K):
    rows, clients = problem(n)
    return Jigsaw(k, random_state=0).fit(rows, clients=clients, privacy=privacy)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "cells"), [(5_000, "shared"), (100_000, "own")])
def test_a_fit_chooses_by_the_rows_that_are_expected(n, cells):
    plain = Jigsaw(K, random_state=0).fit(problem(n)[0]).inertia_
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseWarning)
        model = fitted(n, private(rows=n))
    assert {("cells" in s.tensors) for s in model.summaries_} == {cells == "shared"}
    assert model.inertia_ < 1.3 * plain


def test_the_rows_that_are_there_choose_nothing():
    """With one row more or less, another kind of answer would leave."""
    with pytest.raises(CellsError):
        fitted(5_000, private())
    with pytest.raises(CellsError):
        Client("bern", problem(300)[0], Jigsaw(3), privacy=private()).answer(Broadcast(0, 0))
    for n in (300, 30_000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fitted(n, private(rows=100_000), k=3)
        assert all("noise" in summary.tensors for summary in model.summaries_)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_noise_that_drowns_the_clusters_is_told_before_anything_leaves(epsilon):
    rows, clients = problem(5_000)
    told: list[bool] = []

    class Asked(Jigsaw):
        def summarize_privately(self, *args):
            told.append(bool(caught))
            return super().summarize_privately(*args)

    privacy = private(cells="own", epsilon=epsilon)
    with pytest.warns(NoiseWarning) as caught:
        Asked(K, random_state=0).fit(rows, clients=clients, privacy=privacy)
    assert told == [True] * N_SITES
    assert [warning.category for warning in caught].count(NoiseWarning) == 1


def test_few_rows_are_drowned_in_shared_cells_too():
    with pytest.warns(NoiseWarning), pytest.raises(MessageError):
        fitted(500, private(epsilon=0.5, rows=500))


def test_the_choice_follows_each_public_number():
    base = Expected(n_rows=20_000, n_sites=10, n_clusters=10, n_columns=2)
    one = private()
    assert base.cells(one) == "own"
    for harder in (
        replace(base, n_rows=5_000),
        replace(base, n_sites=40),
        replace(base, n_clusters=40),
    ):
        assert harder.cells(one) == "shared"
    assert base.cells(private(epsilon=0.2)) == "shared"
    assert replace(base, n_sites=40, n_rounds=3).cells(one) == "own"
    assert base.cells(private(unit="site")) == "shared"


def test_by_file_it_must_be_said_before_anything_is_spent():
    spent = []
    table = from_array(problem(500)[0], ["x", "y"])
    with pytest.raises(CellsError):
        sites.summarize(table, 3, client="a", privacy=private(), spend=lambda *a: spent.append(a))
    assert not spent
    with pytest.warns(NoiseWarning):
        sites.summarize(table, K, client="a", privacy=private(cells="own"))


def test_a_question_says_it():
    rows = problem(3000, k=3)[0]
    client = Client("bern", rows, Jigsaw(3), privacy=private())
    shared = client.answer(Broadcast(0, 0, cells="shared"))
    own = client.answer(Broadcast(0, 0, cells="own"))
    assert ("cells" in shared.tensors, "noise" in own.tensors) == (True, True)
    with pytest.raises(CellsError):
        replace(client, privacy=private(cells="own")).answer(Broadcast(0, 0, cells="shared"))
    with pytest.raises(MessageError):
        Broadcast(0, 0, cells="other")


def test_files_that_differ_in_it_are_refused():
    table = from_array(problem(3000, k=3)[0], ["x", "y"])
    files = {
        name: sites.summarize(table, 3, client=name, privacy=private(cells=cells, epsilon=5))
        for name, cells in {"bern": "own", "oslo": "shared"}.items()
    }
    with pytest.raises(MessageError):
        sites.aggregate(files, 3)


class TestTensors:
    """A tensor that an answer should not have is the fault of its own sender."""

    def liar(self, name="cells"):
        table = np.ones((3, 4))
        tensors = {name: table, "cell_noise": np.ones(2)}
        return Summary(60, np.eye(3)[:, :2], counts=[20] * 3, sse=[1.0] * 3, tensors=tensors)

    def files(self):
        rows = np.random.default_rng(0).normal(size=(60, 2))
        table = from_array(rows, ["x0", "x1"])
        good = {name: sites.summarize(table, 3, client=name) for name in ("bern", "lyon", "oslo")}
        summary = replace(self.liar(), client="zug")
        return good | {"zug": replace(good["bern"], summary=summary)}

    @pytest.mark.parametrize("name", ["cells", "other"])
    def test_it_is_refused(self, name):
        with pytest.raises(MessageError):
            check_answer(Jigsaw(3), self.liar(name), Broadcast(0, 0))

    def test_honest_sites_go_on_without_it(self):
        with pytest.warns(UserWarning, match="zug"):
            model = sites.aggregate(self.files(), 3, min_sites=3)
        assert model.clients == ("bern", "lyon", "oslo")

    def test_its_sender_is_named(self):
        with pytest.raises(MessageError, match="zug"):
            sites.aggregate(self.files(), 3)

    def test_a_summary_without_cells_is_no_answer_to_a_question_for_them(self):
        rows = problem(3000, k=3)[0]
        client = Client("bern", rows, Jigsaw(3), privacy=private())
        own = client.answer(Broadcast(0, 0, cells="own"))
        with pytest.raises(MessageError):
            check_answer(Jigsaw(3), own, Broadcast(0, 0, cells="shared"))


class TestNumberOfClusters:
    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [1.0, 2.0])
    def test_noise_that_hides_clusters_makes_it_unsure(self, epsilon):
        for seed in range(1, 5):
            rows, clients = problem(5_000, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = Jigsaw("auto", random_state=seed).fit(
                    rows,
                    clients=clients,
                    privacy=private(epsilon=epsilon, cells="own", insecure_seed=seed),
                )
            assert model.n_clusters_ == K or model.k_confidence_ < 0.5

    def test_it_is_told(self):
        with pytest.warns(UncertainNumberWarning):
            fitted(5_000, private(cells="own"), k="auto")

    def test_with_enough_rows_it_is_sure(self):
        model = fitted(100_000, private(cells="own"), k="auto")
        assert (model.n_clusters_, model.k_confidence_ > 0.9) == (K, True)


def test_rows_left_out_at_few_sites_count():
    """Most sites left nothing out: the others' rows may still be a cluster."""

    def summary(name, left):
        tensors = {"left_out": np.array([left])} if left else {}
        return Summary(100, [[0.0]], counts=[100 - left], tensors=tensors, client=name)

    few = [summary(str(i), 40 if i < 2 else 0) for i in range(6)]
    assert receive(few).left_out == pytest.approx(80)
    liar = [summary(str(i), 10 if i < 5 else 0) for i in range(6)] + [summary("z", 99)]
    assert receive(liar).left_out == pytest.approx(5 * 10 + 30)


def test_one_warning_of_clipped_rows_names_the_sites():
    rows, clients = problem(3_000, k=3)
    rows[:300] = 7.0
    with pytest.warns(NoiseWarning) as told:
        Jigsaw(3, random_state=0).fit(rows, clients=clients, privacy=private(cells="own"))
    clipped = [w.message for w in told if "outside the bounds" in str(w.message)]
    assert [message.clients for message in clipped] == [tuple(map(str, range(N_SITES)))]


def test_expected_rows_are_checked():
    with pytest.raises(ParameterError, match="rows of Privacy"):
        private(rows=0)
