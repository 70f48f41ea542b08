"""No site alone decides the number of clusters; each lie is one that worked before."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.engine import Client, aggregate_round
from fedjigsaw.errors import UncertainNumberWarning
from fedjigsaw.messages import Broadcast, Summary
from fedjigsaw.partition import dirichlet
from fedjigsaw.trust.counting import MANY_CELLS, for_counting
from fedjigsaw.trust.received import receive

PLACES = 12.0 * np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2], [1, 2]])


@pytest.fixture(scope="module")
def honest():
    rng = np.random.default_rng(3)
    rows = PLACES[rng.integers(0, 8, 3000)] + rng.normal(size=(3000, 2))
    return [
        Client(f"site{m}", rows[m::10], Jigsaw("auto")).answer(Broadcast(0, 0)) for m in range(10)
    ]


def found(summaries):
    return len(aggregate_round(Jigsaw("auto"), summaries, Broadcast(0, 0)).centers)


def test_honest_sites(honest):
    assert found(honest) == 8


@pytest.mark.parametrize("n_rows", [10_000, 2**30])
def test_a_copy_of_a_summary_with_very_many_rows(honest, n_rows):
    assert found([*honest, replace(honest[0], client="liar", n_samples=n_rows)]) == 8


@pytest.mark.parametrize("n_rows", [10**6, 2**40])
def test_one_cell_of_very_many_rows(honest, n_rows):
    liar = Summary(n_rows, PLACES[:1], counts=[n_rows], sse=[0.0], client="liar")
    assert found([*honest, liar]) == 8


def test_no_cell_counts_for_more_than_twenty_typical_ones(honest):
    # as wide as the others' cells, for a narrow one counts less
    liar = Summary(2000, PLACES[:1], counts=[2000], sse=[2000.0], client="liar")
    received = receive([*honest, liar])
    used = for_counting(received, limited=True)
    assert used.counts.max() == 20 * np.median(received.counts)
    assert (for_counting(received, limited=False).counts == received.counts).all()


def test_a_crowd_of_cells_hides_nobody(honest):
    rng = np.random.default_rng(0)
    cells = PLACES[0] + rng.normal(size=(20_000, 2))
    ones = np.ones(20_000, dtype=np.int64)
    liar = Summary(20_000, cells, counts=ones, sse=np.zeros(20_000), client="liar")
    used = for_counting(receive([*honest, liar]), limited=True)
    assert np.bincount(used.owners).max() <= MANY_CELLS
    assert used.per_site(used.counts)[-1] == pytest.approx(8 * 300)
    assert found([*honest, liar]) == 8


def test_rows_left_out_by_one_site(honest):
    liar = replace(honest[0], tensors={**honest[0].tensors, "left_out": np.array([299])})
    assert receive([liar, *honest[1:]]).left_out == 0


def test_one_liar_among_sites_of_unlike_rows():
    """All others are mixed, and the liar is set aside: what is left is used."""
    tensors = {"left_out": np.array([12])}
    mixed = [
        Summary(12, [[float(m)]], counts=[12], sse=[9.0], client=str(m), tensors=tensors)
        for m in range(4)
    ]
    liar = Summary(12, [[1e50]], counts=[12], sse=[0.0], client="liar")
    with pytest.warns(UncertainNumberWarning):
        assert found([*mixed, liar]) == 1


def test_a_site_alone_does_not_set_the_grain(honest):
    unknown = {"grain": np.array([-1.0, -1.0])}
    silent = [replace(s, tensors=unknown) for s in honest]
    liar = replace(honest[0], client="liar", tensors={"grain": np.array([1e9, 1e9])})
    assert receive([*silent, liar]).grain.tolist() == [0.0, 0.0]


class TestNarrowSites:
    """One liar of five sends true places, many rows, and next to no sums of squares."""

    @staticmethod
    def sites(seed):
        rng = np.random.default_rng(seed)
        rows = PLACES[rng.integers(0, 8, 1000)] / 2 + rng.normal(size=(1000, 2))
        method = Jigsaw("auto")
        return [Client(f"site{m}", rows[m::4], method).answer(Broadcast(0, 0)) for m in range(4)]

    @staticmethod
    def its_cells(site):
        """Return the summary of a site with twelve times the rows, all of them at centers."""
        counts = 12 * site.counts
        rows = int(counts.sum())
        return replace(site, client="liar", n_samples=rows, counts=counts, sse=1e-6 * counts)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_heaps_are_no_clusters(self, seed):
        honest = self.sites(seed)
        assert found([*honest, self.its_cells(honest[0])]) == 8

    def test_heaps_at_some_of_the_true_places_are_no_clusters(self):
        liar = Summary(3000, PLACES[:3] / 2, counts=[1000] * 3, sse=[1e-3] * 3, client="liar")
        assert found([*self.sites(0), liar]) == 8

    def test_site_and_cells_count_as_typical_ones(self):
        honest = self.sites(0)
        received = receive([*honest, self.its_cells(honest[0])])
        used = for_counting(received, limited=True)
        assert used.per_site(used.counts)[-1] <= 250
        assert used.counts[used.owners == 4].max() <= np.median(used.counts)
        others = received.owners < 4
        assert used.counts[others].tolist() == received.counts[others].tolist()

    def test_a_site_with_the_spread_of_the_others_counts_as_often_as_before(self):
        honest = self.sites(0)
        counts = 4 * honest[0].counts
        large = replace(honest[0], n_samples=1000, counts=counts, sse=4 * honest[0].sse)
        received = receive([large, *honest[1:]])
        used = for_counting(received, limited=True)
        assert used.counts.tolist() == received.counts.tolist()

    @pytest.mark.parametrize("n_columns", [1, 2, 5])
    def test_an_honest_site_that_spends_its_cells_on_one_cluster_is_not_narrow(self, n_columns):
        rng = np.random.default_rng(0)
        places = np.zeros((8, n_columns))
        places[:, 0] = 6 * np.arange(8)
        kinds = [rng.integers(0, 8, 500) for _ in range(4)] + [np.zeros(1000, dtype=int)]
        sites = [
            Client(
                f"site{m}", places[kind] + rng.normal(size=(len(kind), n_columns)), Jigsaw("auto")
            )
            for m, kind in enumerate(kinds)
        ]
        received = receive([site.answer(Broadcast(0, 0)) for site in sites])
        used = for_counting(received, limited=True)
        assert used.counts.tolist() == received.counts.tolist()

    @pytest.mark.parametrize("seed", [1, 6])
    def test_skewed_sites_are_not_narrow(self, load_or_skip, seed):
        """Most sites hold few of the clusters of S3."""
        data = load_or_skip("s3")
        clients = dirichlet(data.y, 10, alpha=0.1, rng=seed, min_size=15)
        assert Jigsaw("auto", random_state=seed).fit(data.X, clients=clients).n_clusters_ == 15

    @pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
    @pytest.mark.parametrize("share", [0.1, 1e-2, 1e-4])
    def test_any_share_of_the_true_variance(self, seed, share):
        honest = self.sites(seed)
        liar = self.its_cells(honest[0])
        variance = honest[0].sse.sum() / honest[0].counts.sum()
        assert found([*honest, replace(liar, sse=share * variance * liar.counts)]) == 8

    def test_narrow_clusters_of_one_site_only_are_kept(self):
        rng = np.random.default_rng(0)
        rows = [100, 100] + 0.01 * rng.normal(size=(1000, 2))
        alone = Client("alone", rows, Jigsaw("auto")).answer(Broadcast(0, 0))
        received = receive([*self.sites(0), alone])
        used = for_counting(received, limited=True)
        assert used.counts.tolist() == received.counts.tolist()

    def test_steps_are_not_narrow(self):
        """A site of one rounded value has no sums of squares, and steps say why."""
        honest = [replace(s, tensors={"grain": np.ones(2)}) for s in self.sites(0)]
        one = Summary(900, PLACES[:1] / 2, counts=[900], sse=[0.0], client="one")
        used = for_counting(receive([*honest, one]), limited=True)
        assert used.counts[-1] == 20 * np.median(used.counts)

    def test_where_nobody_has_any_spread_nobody_is_narrow(self):
        honest = [replace(s, sse=np.zeros(len(s.centers))) for s in self.sites(0)]
        received = receive(honest)
        used = for_counting(received, limited=True)
        assert used.counts.tolist() == received.counts.tolist()
