"""A server that survives liars, and pays nothing where nobody lies."""

import sys
import tracemalloc
from dataclasses import replace
from functools import partial
from time import process_time

import numpy as np
import pytest

from fedjigsaw import FeCA, Jigsaw, Summary
from fedjigsaw.bench.lies import LIES, LyingEngine, fit_among_liars
from fedjigsaw.datasets import Dataset, gaussian_grid
from fedjigsaw.engine import Client, aggregate_round
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast
from fedjigsaw.partition import dirichlet
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.trust.examination import PLACES, _places


@pytest.fixture(scope="module")
def grid() -> Dataset:
    return gaussian_grid(3000)


@pytest.fixture(scope="module")
def skewed(grid):
    return dirichlet(grid.y, 10, alpha=0.3, rng=0, min_size=15)


def blobs(k, n, *, width=0.02, seed=0):
    """Return rows of k round clusters on a circle, and their classes."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(k) / k
    y = np.arange(n) % k
    X = np.column_stack([np.cos(angles), np.sin(angles)])[y]
    return X + width * rng.standard_normal((n, 2)), y


def test_if_no_site_is_plausible_an_error_says_so():
    centers = 1e-3 * np.arange(8.0).reshape(4, 2)
    sites = [Summary(100, centers + i, radii=np.full(4, 10.0), client=f"c{i}") for i in range(5)]
    with pytest.raises(MessageError, match="No center of 5 clients is plausible.*robust=False"):
        FeCA(2).aggregate(sites, Broadcast(0, 0), np.random.default_rng(0))
    found = FeCA(2, robust=False).aggregate(sites, Broadcast(0, 0), np.random.default_rng(0))
    assert len(found.centers) > 0


def test_a_summary_of_very_many_centers_does_not_fill_the_memory():
    """They were compared pair by pair: a file of 700 kB took five gigabytes."""
    rng = np.random.default_rng(0)
    honest = [
        Summary(100, means + 1e-2, counts=[25] * 4, sse=[25.0] * 4, client=f"c{i}")
        for i, means in enumerate([np.array([[0, 0], [9, 0], [0, 9], [9, 9]], float)] * 4)
    ]
    many = 1e6 * rng.standard_normal((20_000, 2))
    ones = np.ones(20_000)
    liar = Summary(100_000, many, counts=5 * ones.astype(int), sse=ones, client="liar")
    tracemalloc.start()
    try:
        jigsaw = Jigsaw(4, random_state=0)
        found = aggregate_round(jigsaw, [*honest, liar], Broadcast(0, 0))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.centers)
    assert most < 0.5e9


CORNERS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])


def with_many_centers(n, away, k, *, n_liars=1):
    """Return the model of nine sites with four centers each, and of liars with n."""
    rng = np.random.default_rng(0)
    honest = [
        Summary(
            800, CORNERS + 0.1 * rng.standard_normal((4, 2)), counts=[200] * 4, sse=[400.0] * 4,
            client=f"c{i}",
        )
        for i in range(9)
    ]  # fmt: skip
    wide = 60 * rng.uniform(-1, 1, size=(n, 2)) + away
    ones = np.ones(n, dtype=int)
    liars = [Summary(n, wide, counts=ones, sse=2.0 * ones, client=f"l{i}") for i in range(n_liars)]
    return aggregate_round(Jigsaw(k, random_state=0), [*honest, *liars], Broadcast(0, 0))


@pytest.mark.parametrize(("n", "away", "k", "n_liars"), [
    (50, 0.0, 4, 1), (50, 1e15, 4, 1), (50, 1e15, "auto", 1), (700, 0.0, 4, 1),
    (700, 0.0, "auto", 1), (700, 1e15, "auto", 1), (1200, 0.0, 4, 2), (1200, 1e15, "auto", 2),
    (5000, 0.0, 4, 1), (5000, 0.0, "auto", 1), (5000, 1e15, 4, 1),
])  # fmt: skip
def test_a_site_of_many_centers_is_no_majority(n, away, k, n_liars):
    """Medians were those of all centers: a liar with most of them said what is usual."""
    found = with_many_centers(n, away, k, n_liars=n_liars)
    distances = np.linalg.norm(found.centers[:, None] - CORNERS, axis=2)
    assert len(found.centers) == 4
    assert distances.min(axis=0).max() < 0.5


@pytest.mark.parametrize("n", [40, 10_000])
def test_no_order_of_centers_hides_their_places(n):
    """Of very many centers, every third stood for all, and a liar could choose those."""
    centers = 1e3 * np.random.default_rng(0).standard_normal((n, 2))
    centers[::3] = 0
    assert _places(centers, 1.0) >= PLACES


def test_feca_takes_no_summary_of_very_many_centers():
    """Circles of one site are compared pair by pair: a file of 700 kB took 20 gigabytes."""
    many, one = (np.arange(n, dtype=float)[:, None] for n in (5_001, 5_000))
    feca = FeCA(2)
    feca.check_answer(Summary(10_000, one, radii=np.full(5_000, 0.1), client="c"), Broadcast(0, 0))
    with pytest.raises(MessageError, match="client 'c' must be at most 5000 for FeCA; got 5001"):
        feca.check_answer(
            Summary(10_000, many, radii=np.full(5_001, 0.1), client="c"), Broadcast(0, 0)
        )


class TestLies:
    @pytest.mark.parametrize("lie", [*LIES, "a+b", "b+c", "c+e"])
    @pytest.mark.parametrize("n_liars", [1, 3])
    def test_jigsaw_survives(self, grid, skewed, lie, n_liars):
        found = fit_among_liars(
            Jigsaw(15, random_state=0), grid, skewed, lie=lie, n_liars=n_liars, seed=0
        )
        assert found["honest_ratio"] < (1.3 if lie.endswith("d") else 1.1)
        assert found["accused"] == 0

    @pytest.mark.parametrize("factor", [30, 100])
    @pytest.mark.parametrize("n_sites", [5, 10])
    def test_large_sums_of_squares_do_not_draw_centers_together(self, grid, n_sites, factor):
        """True centers with sums that rows could have: such clusters are divided between all."""
        method = Jigsaw(15, random_state=0)
        shards = {f"{i:02}": grid.X[i::n_sites] for i in range(n_sites)}
        *honest, last = method.fit_clients(shards, guard=Guard()).summaries_
        rows = np.concatenate(list(shards.values())[:-1])

        def objective(*liars):
            found = aggregate_round(method, [*honest, *liars], Broadcast(0, 0))
            return (pairwise_distances(rows, found.centers).min(axis=1) ** 2).sum()

        assert objective(replace(last, sse=factor * last.sse)) <= 1.06 * objective()

    @pytest.mark.filterwarnings("ignore:Jigsaw found 2 of 15")
    @pytest.mark.parametrize("lie", ["a", "a'", "a''", "b", "c'"])
    def test_it_would_not_without_the_checks(self, grid, skewed, lie):
        method = Jigsaw(15, random_state=0, robust=False)
        found = fit_among_liars(method, grid, skewed, lie=lie, n_liars=3, seed=0)
        assert found["honest_ratio"] > 1.1

    @pytest.mark.parametrize("lie", LIES)
    def test_feca_survives(self, grid, skewed, lie):
        fit = partial(fit_among_liars, data=grid, clients=skewed, n_liars=3, seed=0)
        without = fit(FeCA(15, random_state=0), lie="none")["honest_ratio"]
        assert fit(FeCA(15, random_state=0), lie=lie)["honest_ratio"] < 1.1 * without

    @pytest.mark.parametrize("lie", ["a'", "a''", "b", "e"])
    def test_the_number_of_clusters_survives(self, grid, skewed, lie):
        method = Jigsaw("auto", random_state=0, max_clusters=25)
        engine = partial(LyingEngine, lie=lie, liars=["3"], seed=0, honest=[])
        method.fit(grid.X, clients=skewed, guard=Guard(), engine=engine, min_clients=1)
        assert method.n_clusters_ == 15
        engine = partial(LyingEngine, lie=lie, liars=["3"], seed=0, honest=[])
        method.set_params(robust=False).fit(
            grid.X, clients=skewed, guard=Guard(), engine=engine, min_clients=1
        )
        assert method.n_clusters_ != 15

    @pytest.mark.parametrize("n_liars", [2, 3])
    @pytest.mark.parametrize("away", [1, 4])
    def test_accomplices_do_not_confirm_each_other(self, grid, skewed, n_liars, away):
        """They send the same invented centers, some ranges of the data away."""
        sent = [
            Client(str(site), grid.X[skewed == site], Jigsaw(15), Guard()).answer(Broadcast(0, 0))
            for site in range(10)
        ]
        low, high = grid.X.min(axis=0), grid.X.max(axis=0)
        invented = np.random.default_rng(0).uniform(low, high, (15, 2)) + away * (high - low)
        lies = [replace(s, centers=invented[: len(s.centers)]) for s in sent[:n_liars]]
        model = aggregate_round(Jigsaw(15), [*lies, *sent[n_liars:]], Broadcast(0, 0))
        assert (model.tensors["site_notes"] > 0).tolist() == [i < n_liars for i in range(10)]
        assert (model.centers < high).all()

    @pytest.mark.parametrize("lie", ["a", "a'", "a''", "b", "c'"])
    def test_the_largest_influence_names_the_liar(self, grid, skewed, lie):
        method = Jigsaw(15, random_state=0)
        engine = partial(LyingEngine, lie=lie, liars=["7"], seed=0, honest=[])
        method.fit(grid.X, clients=skewed, guard=Guard(), engine=engine, min_clients=1)
        first, second = sorted(method.sites_, key=lambda site: -site.influence)[:2]
        assert first.client == "7"
        assert first.influence > 1.05 > second.influence
        assert first.reason


class TestHonest:
    @pytest.mark.parametrize("method", [Jigsaw, FeCA])
    @pytest.mark.parametrize("alpha", [0.1, 0.3, 100.0])
    def test_the_same_bits_as_without_checks(self, grid, method, alpha):
        clients = dirichlet(grid.y, 10, alpha=alpha, rng=1, min_size=15)
        with_checks, without = (
            method(15, random_state=1, n_init=3, robust=robust).fit(grid.X, clients=clients)
            for robust in (True, False)
        )
        assert (with_checks.cluster_centers_ == without.cluster_centers_).all()
        assert not any(site.reason for site in with_checks.sites_)

    @pytest.mark.parametrize("k", [3, 5, 15])
    @pytest.mark.parametrize("only", [False, True])
    @pytest.mark.parametrize("less", [0, 1])
    def test_a_site_that_alone_holds_a_cluster_is_kept(self, k, only, less):
        """It is not a liar, whether it holds other rows, too, and even if k is too small."""
        X, y = blobs(k, 150 * k)
        clients = np.random.default_rng(0).integers(0, 10, len(X))
        if only:
            clients[clients == 4] = 5
        clients[y == 0] = 4
        jigsaw = Jigsaw(k - less, random_state=0).fit(X, clients=clients, guard=Guard())
        (lone,) = [site for site in jigsaw.sites_ if site.client == "4"]
        assert (lone.reason, lone.set_aside) == ("", False)
        if not less:
            assert lone.alone == 1
            assert np.abs(jigsaw.cluster_centers_ - X[y == 0].mean(axis=0)).sum(axis=1).min() < 0.01

    @pytest.mark.parametrize("alone", [3, 4, 5])
    def test_a_large_site_that_alone_holds_many_clusters_is_kept(self, alone):
        """It has up to half of all rows."""
        X, y = blobs(10, 3000)
        clients = np.where(y < alone, 5, np.arange(len(X)) // 10 % 5)
        with_checks, without = (
            Jigsaw(10, random_state=0, robust=robust).fit(X, clients=clients, guard=Guard())
            for robust in (True, False)
        )
        assert not any(site.set_aside for site in with_checks.sites_)
        assert with_checks.inertia_ < 1.005 * without.inertia_

    def test_few_clusters_survive_random_centers_nearby(self):
        """One of ten sites sends three centers, each two ranges away."""
        X, _ = blobs(3, 1500)
        sent = [
            Client(str(site), X[site::10], Jigsaw(3), Guard()).answer(Broadcast(0, 0))
            for site in range(10)
        ]
        far = np.random.default_rng(0).uniform(4, 6, size=(3, 2))
        model = aggregate_round(
            Jigsaw(3), [replace(sent[0], centers=far), *sent[1:]], Broadcast(0, 0)
        )
        assert np.abs(model.centers).max() < 1.1

    def test_influence_is_finite_where_all_rows_lie_at_centers(self):
        X = np.repeat(np.eye(4), 50, axis=0)
        jigsaw = Jigsaw(4, random_state=0).fit(X, clients=np.arange(200) % 5)
        assert [site.influence for site in jigsaw.sites_] == [1.0] * 5

    def test_a_lone_cluster_counts_where_the_number_is_not_given(self):
        X, y = blobs(6, 900)
        clients = np.random.default_rng(0).integers(0, 8, len(X))
        clients[y == 0] = 4
        jigsaw = Jigsaw("auto", random_state=0, max_clusters=12).fit(X, clients=clients)
        assert jigsaw.n_clusters_ == 6
        assert not any(site.reason for site in jigsaw.sites_)

    def test_three_sites_are_no_majority(self):
        """The third is a liar for all that the others can know, or the only honest one."""
        X, y = blobs(6, 600)
        jigsaw = Jigsaw(6, random_state=0).fit(X, clients=y // 2)
        assert [site.reason for site in jigsaw.sites_] == ["", "", ""]
        assert [site.alone for site in jigsaw.sites_] == [2, 2, 2]

    def test_constant_columns_and_equal_rows(self):
        X = np.repeat([[0.0, 7.0], [1.0, 7.0]], 50, axis=0)
        jigsaw = Jigsaw(2, random_state=0).fit(X, clients=np.arange(100) % 5)
        assert jigsaw.cluster_centers_.tolist() == [[0.0, 7.0], [1.0, 7.0]]
        assert not any(site.reason for site in jigsaw.sites_)


class TestManySites:
    """A thousand sites, of which 200 send random centers."""

    def summaries(self, rng):
        true = rng.uniform(size=(15, 2))
        for number in range(1000):
            centers = true[rng.permutation(15)] + 0.01 * rng.standard_normal((15, 2))
            if number < 200:
                centers = rng.uniform(size=(15, 2))
            yield Summary(
                495, centers, counts=np.full(15, 33), sse=np.full(15, 0.06), client=f"{number:04d}"
            )

    def seconds(self, summaries, *, robust):
        """Return the processor time of the fastest of five aggregations."""
        times = []
        for _ in range(5):
            began = process_time()
            method = Jigsaw(15, random_state=0, robust=robust)
            aggregate_round(method, summaries, Broadcast(0, 0))
            times.append(process_time() - began)
        return min(times)

    def test_liars_are_found(self):
        summaries = list(self.summaries(np.random.default_rng(0)))
        model = aggregate_round(Jigsaw(15, random_state=0), summaries, Broadcast(0, 0))
        odd = model.tensors["site_notes"] > 0
        assert odd[:200].sum() > 100
        assert odd[200:].sum() == 0
        influence = model.tensors["site_influence"]
        assert influence[:200].mean() > influence[200:].mean() >= 1

    def test_the_checks_take_little_time(self):
        summaries = list(self.summaries(np.random.default_rng(0)))
        before = sys.gettrace()
        sys.settrace(None)  # measuring coverage takes time, too
        try:
            with_checks = self.seconds(summaries, robust=True)
            without = self.seconds(summaries, robust=False)
        finally:
            sys.settrace(before)
        assert with_checks < 3 * without


class TestLaterRounds:
    def test_a_far_answer_does_not_move_the_centers(self, grid, skewed):
        engine = partial(LyingEngine, lie="a", liars=["7"], seed=0, honest=[])
        jigsaw = Jigsaw(15, n_rounds=2, random_state=0)
        jigsaw.fit(grid.X, clients=skewed, guard=Guard(), engine=engine, min_clients=1)
        reach = np.abs(grid.X).max()
        assert np.abs(jigsaw.cluster_centers_).max() < reach
