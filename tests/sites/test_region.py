"""Laws of regions: what a hierarchy may change, and what it may not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Privacy, sites
from fedjigsaw.errors import MessageError, ParameterError, QuorumError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import encode
from fedjigsaw.io.regions import HEAD, is_merged, region_of, unpacked
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.trust import strange_sites

K, BOUNDS = 3, (-20.0, 60.0)


def rows(seed, n=60):
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [20.0, 5.0], [40.0, 0.0]])
    return centers[rng.integers(3, size=n)] + rng.normal(size=(n, 2))


def site(name, seed, k=K, method="jigsaw", columns=("a", "b"), **options):
    X = rows(seed, 40 + 10 * seed)
    table = from_array(X if columns == ("a", "b") else X[:, ::-1], columns=columns)
    return sites.summarize(table, k, method=method, client=name, **options)


def some_sites(n=6, **options):
    return {f"s{i}": site(f"s{i}", i, **options) for i in range(n)}


def region(name, files, k=K, **options):
    return sites.aggregate_region(files, k, client=name, **options)[0]


def regions(parts, k=K, **options):
    """Make a region of each part."""
    return {f"r{i}": region(f"r{i}", part, k, **options) for i, part in enumerate(parts)}


def through_file(file, tmp_path):
    path = tmp_path / f"{file.summary.client}.summary"
    formats.save(file, path)
    return formats.load(path, formats.SummaryFile)


def split(files, n):
    """Deal the sites to n regions."""
    return [{name: files[name] for name in list(files)[i::n]} for i in range(n)]


class TestOneRegionIsFlat:
    @pytest.mark.parametrize("n_centers", [3, 12, 100])
    @pytest.mark.parametrize("k", [3, "auto"])
    @pytest.mark.filterwarnings("ignore::fedjigsaw.errors.UncertainNumberWarning")
    def test_for_any_number_of_centers_bit_for_bit(self, k, n_centers, tmp_path):
        files = some_sites(5, k=k)
        north = through_file(region("north", files, k, n_centers=n_centers), tmp_path)
        assert encode(sites.aggregate({"n": north}, k)) == encode(sites.aggregate(files, k))
        assert len(north.summary.centers) <= n_centers

    @pytest.mark.parametrize("shape", ["elongated", "any"])
    def test_for_shapes(self, shape):
        files = some_sites(4, k="auto")
        north = region("north", files, 3, params={"shape": shape})
        flat, high = (sites.aggregate(f, 3, params={"shape": shape}) for f in (files, {"n": north}))
        assert encode(flat) == encode(high)

    @pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
    @pytest.mark.parametrize(
        ("epsilon", "options"),
        [(10.0, {"cells": "own"}), (10.0, {"cells": "shared"}), (100.0, {"unit": "site"})],
    )
    def test_under_differential_privacy(self, epsilon, options):
        for seed in (1, 2):  # of twelve seeds, one hides all clusters of a whole site
            privacy = Privacy(epsilon, bounds=BOUNDS, insecure_seed=seed, **options)
            files = some_sites(5, privacy=privacy)
            north = region("north", files, n_centers=K)
            assert encode(sites.aggregate({"n": north}, K)) == encode(sites.aggregate(files, K))

    def test_at_any_depth(self):
        files = some_sites()
        flat = encode(sites.aggregate(files, K))
        north = region("north", files, n_centers=4)
        europe = region("europe", {"n": north}, n_centers=4)
        world = region("world", {"e": europe}, n_centers=3)
        assert encode(sites.aggregate({"w": world}, K)) == flat

    @pytest.mark.filterwarnings("ignore::fedjigsaw.errors.ConspicuousSiteWarning")
    def test_where_a_site_is_strange(self):
        liar = site("s9", 9)
        far = replace(liar.summary, centers=liar.summary.centers * 1e6)
        files = {**some_sites(), "s9": replace(liar, summary=far)}
        north = region("north", files, n_centers=4)
        model = sites.aggregate({"n": north}, K)
        assert encode(model) == encode(sites.aggregate(files, K))
        assert len(strange_sites(model)) == 1

    def test_not_if_something_else_is_asked(self):
        files = some_sites()
        north = region("north", files, n_centers=12)
        assert len(sites.aggregate({"n": north}, 2).model.centers) == 2
        assert sites.aggregate({"n": north}, K, seed=1).clients == ("north",)


class TestAsTheyAreIsFlat:
    @pytest.mark.parametrize("n_regions", [1, 2, 3, 6])
    def test_for_any_number_of_regions(self, n_regions, tmp_path):
        files = some_sites()
        found = regions(split(files, n_regions), n_centers=100)
        found = {name: through_file(file, tmp_path) for name, file in found.items()}
        assert not any(is_merged(file.summary) for file in found.values())
        assert encode(sites.aggregate(found, K)) == encode(sites.aggregate(files, K))

    @pytest.mark.parametrize("method", ["feca", "kfed", "match", "jigsaw"])
    def test_for_every_method_of_one_round(self, method):
        files = some_sites(method=method)
        both = regions(split(files, 2), n_centers=100)
        assert encode(sites.aggregate(both, K)) == encode(sites.aggregate(files, K))

    def test_in_three_levels_beside_a_plain_site(self):
        files = some_sites(7)
        plain = {"s6": files.pop("s6")}
        first, second = split(files, 2)
        north = region("north", first, n_centers=50)
        europe = region("europe", {"n": north, **second}, n_centers=50)
        flat = sites.aggregate({**files, **plain}, K)
        assert encode(sites.aggregate({"e": europe, **plain}, K)) == encode(flat)

    @pytest.mark.filterwarnings("ignore::fedjigsaw.CountsWarning")
    def test_where_only_some_sites_send_counts(self):
        files = some_sites(4)
        files["s2"] = site("s2", 2, guard=Guard(counts="none"))
        north = region("north", files, n_centers=100)
        assert encode(sites.aggregate({"n": north}, K)) == encode(sites.aggregate(files, K))
        with pytest.raises(ParameterError, match="only with counts"):
            region("north", files, n_centers=K)

    def test_with_columns_in_another_order(self):
        files = {"s0": site("s0", 0), "s1": site("s1", 1, columns=("b", "a"))}
        other = region("other", {"s1": files["s1"]}, n_centers=50)
        both = sites.aggregate({"s0": files["s0"], "o": other}, K)
        assert encode(both) == encode(sites.aggregate(files, K))
        merged = region("other", {"s1": files["s1"]}, 2, n_centers=2)
        found = sites.aggregate({"s0": files["s0"], "o": merged}, 2)
        assert found.columns == ("a", "b")


class TestMerged:
    def test_counts_and_sums_add_up_exactly(self):
        files = some_sites(10)
        north = region("north", files, n_centers=4).summary
        sent = [file.summary for file in files.values()]
        assert north.counts.sum() == sum(s.counts.sum() for s in sent) == north.n_samples
        first = sum(s.counts @ s.centers for s in sent)
        np.testing.assert_allclose(north.counts @ north.centers, first, rtol=1e-12)

        def scatter(summaries):  # of all rows about the origin
            return sum(s.sse.sum() + s.counts @ (s.centers**2).sum(axis=1) for s in summaries)

        np.testing.assert_allclose(scatter([north]), scatter(sent), rtol=1e-12)

    def test_the_order_of_files_and_regions_does_not_matter(self):
        files = some_sites()
        backwards = dict(reversed(files.items()))
        one, two = (region("n", given, n_centers=4) for given in (files, backwards))
        assert encode(one) == encode(two)
        found = regions(split(files, 3), n_centers=4)
        backwards = dict(reversed(found.items()))
        assert encode(sites.aggregate(found, K)) == encode(sites.aggregate(backwards, K))

    def test_clear_clusters_are_found_through_three_levels(self):
        low = list(regions(split(some_sites(8), 4), n_centers=4).items())
        above = regions([dict(low[:2]), dict(low[2:])], n_centers=4)
        model = sites.aggregate({"w": above["r0"], "e": above["r1"]}, K)
        flat = sites.aggregate(some_sites(8), K)
        np.testing.assert_allclose(model.model.centers, flat.model.centers, atol=0.1)
        assert model.n_samples == flat.n_samples
        assert model.model.tensors["support_points"].sum() == flat.n_samples

    @pytest.mark.filterwarnings("ignore::fedjigsaw.errors.UncertainNumberWarning")
    def test_the_number_of_clusters_is_found_through_regions(self):
        merged = regions(split(some_sites(12, k="auto"), 4), "auto", n_centers=20)
        assert all(is_merged(file.summary) for file in merged.values())
        assert len(sites.aggregate(merged, "auto").model.centers) == K

    @pytest.mark.parametrize(("method", "n_centers"), [("feca", None), ("jigsaw", 2)])
    def test_what_cannot_be_merged(self, method, n_centers):
        """Centers without counts; to fewer centers than clusters."""
        with pytest.raises(ParameterError, match="n_centers=18|the number of clusters, 3"):
            region("north", some_sites(method=method), n_centers=n_centers)


@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.NoiseWarning")
class TestPromises:
    """A region must not promise more than its weakest site."""

    def test_the_weakest_site_decides(self):
        strong = Privacy(1.0, 1e-8, cells="own", bounds=BOUNDS)
        weak = Privacy(4.0, 1e-6, cells="own", bounds=(-30.0, 50.0))
        files = {"s0": site("s0", 0, privacy=strong), "s1": site("s1", 1, privacy=weak)}
        for n_centers in (K, 100):
            promise = region("north", files, n_centers=n_centers).privacy
            assert (promise.epsilon, promise.delta) == (4.0, 1e-6)
            assert promise.bounds == ((-30.0, -30.0), (60.0, 60.0))
        above = {"n": region("north", files), "s2": site("s2", 2, privacy=strong)}
        assert sites.aggregate(above, K).privacy.epsilon == 4.0

    def test_a_site_without_a_promise_or_with_a_seed_voids_it(self):
        promise = Privacy(1.0, cells="own", bounds=BOUNDS)
        private = site("s0", 0, privacy=promise)
        assert region("north", {"s0": private, "s1": site("s1", 1)}).privacy is None
        seeded = site("s1", 1, privacy=replace(promise, insecure_seed=7))
        north = region("north", {"s0": private, "s1": seeded})
        assert "Nothing is promised" in north.privacy.sentence()

    def test_privacy_of_rows_and_of_sites_do_not_become_privacy_of_sites(self):
        row = Privacy(1.0, bounds=BOUNDS, cells="shared")
        files = {name: site(name, i, privacy=row) for i, name in enumerate(("s0", "s1"))}
        assert region("north", files).privacy.unit == "row"
        whole = site("s0", 0, privacy=Privacy(1.0, bounds=BOUNDS, unit="site"))
        alone = region("north", {"s0": whole})
        assert alone.privacy.unit == "site"
        with pytest.raises(MessageError, match="shared cells"):
            sites.aggregate({"a": alone, "s1": files["s1"]}, K)

    def test_noise_adds_up_by_its_variance(self):
        shared = Privacy(8.0, bounds=BOUNDS, cells="shared", insecure_seed=3)
        tables = some_sites(4, privacy=shared)
        north = region("north", tables).summary
        sent = [file.summary.tensors["cells"] for file in tables.values()]
        np.testing.assert_allclose(north.tensors["cells"], np.sum(sent, axis=0))
        deviation = tables["s0"].summary.tensors["cell_noise"]
        np.testing.assert_allclose(north.tensors["cell_noise"], 2 * deviation)
        own = some_sites(4, privacy=Privacy(8.0, cells="own", bounds=BOUNDS, insecure_seed=3))
        merged = region("north", own, n_centers=K).summary
        typical = np.mean([f.summary.tensors["noise"][:, 1].mean() for f in own.values()])
        assert merged.tensors["noise"].shape == (K, 2)
        assert (merged.tensors["noise"][:, 1] < typical).all()  # a mean of several is better known

    def test_the_guard_is_that_of_the_weakest_site(self):
        files = some_sites(4, guard=Guard(10, "rounded"))
        assert region("n", files).guard == {"min_cluster_size": 10, "counts": "rounded"}
        files["s1"] = site("s1", 1, guard=Guard(2))
        assert region("n", files).guard == {"min_cluster_size": 2, "counts": "exact"}

    @pytest.mark.parametrize("n_centers", [K, 5, 100])
    def test_no_center_stands_for_fewer_rows_than_the_guard_says(self, n_centers):
        files = some_sites(8, k=9, guard=Guard(12))
        north = region("north", files, n_centers=n_centers)
        assert north.summary.counts.min() >= north.guard["min_cluster_size"] == 12

    def test_a_region_sends_no_number_that_no_site_has_sent(self):
        """Whatever merges, it is computed from the summaries alone: nothing else is at hand."""
        files = some_sites(4)
        again = {name: formats.decode(encode(file)) for name, file in files.items()}
        assert encode(region("n", again, n_centers=4)) == encode(region("n", files, n_centers=4))


class TestNobodyCountsTwice:
    @pytest.mark.parametrize("n_centers", [K, 100])
    def test_a_site_in_two_regions_is_an_error_at_any_level(self, n_centers):
        files = some_sites(4)
        north = region("north", files, n_centers=n_centers)
        south = region("south", {"s3": files["s3"]}, n_centers=n_centers)
        for above in ({"n": north, "s": south}, {"n": north, "3": files["s3"]}):
            with pytest.raises(MessageError, match="'s3' is in n and in [s3]"):
                sites.aggregate(above, K, min_sites=1)
        europe = region("europe", {"n": north})
        with pytest.raises(MessageError, match="every site counts once"):
            sites.aggregate({"e": europe, "s": south}, K)

    def test_a_site_with_the_name_of_a_region_is_an_error(self):
        files = some_sites(4)
        north = region("s9", files, n_centers=K)
        south = region("south", {"x": site("s9", 5)}, n_centers=100)
        with pytest.raises(MessageError, match="the same name, 's9'"):
            sites.aggregate({"n": north, "s": south}, K)


def forged(file, change, tensors=None, **fields):
    """Return the summary of a region whose head somebody has changed."""
    text = file.summary.tensors[HEAD].astype(np.uint8).tobytes().decode()
    head = json.loads(text)
    change(head)
    text = np.frombuffer(json.dumps(head).encode(), np.uint8).astype(np.uint16)
    tensors = {**file.summary.tensors, HEAD: text, **(tensors or {})}
    return replace(file, summary=replace(file.summary, tensors=tensors, **fields))


def put(*path, value):
    def change(head):
        place = head
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


class TestLies:
    """What a region says about its sites is checked, as far as it can be."""

    AS_THEY_ARE = (
        put("members", 0, 2, value=99),
        put("members", -1, 2, value=1),
        put("members", 0, 2, value=-1),
        put("members", 0, 2, value=10**30),
        put("members", 0, 1, value=10**9),
        put("members", 0, 1, value=0),
        put("members", 0, 1, value=2.5),
        put("members", 0, 0, value="s1"),
        put("members", 0, 0, value="other"),
        put("members", 0, 0, value="bell\a"),
        put("members", 0, 0, value="x" * 10_000),
        put("members", 0, value=[]),
        put("members", value=[]),
        put("members", value=7),
        put("members", value=None),
        put("sites", value=[]),
        put("sites", value=[["s0", 40], ["s0", 40]]),
        put("sites", value={"s0": 40}),
        put("sites", 0, 1, value=True),
        lambda head: head.pop("sites"),
    )

    @pytest.mark.parametrize("change", AS_THEY_ARE)
    def test_sites_that_contradict_the_summary(self, change):
        lie = forged(region("north", some_sites(3), n_centers=100), change)
        with pytest.raises(MessageError, match="north"):
            sites.aggregate({"n": lie, "s4": site("s4", 4)}, K)

    @pytest.mark.parametrize(
        "text",
        [
            np.zeros((2, 2), np.uint16),
            np.array([500], np.uint16),
            np.array([65.0]),
            np.frombuffer(b"[" * 100_000, np.uint8).astype(np.uint16),
            np.frombuffer(b"\xff\xfe", np.uint8).astype(np.uint16),
            np.frombuffer(b"[]", np.uint8).astype(np.uint16),
            np.frombuffer(b'{"sites": 1e999}', np.uint8).astype(np.uint16),
        ],
    )
    def test_a_head_that_is_no_text_of_a_region(self, text):
        north = region("north", some_sites(3), n_centers=100)
        lie = replace(north, summary=replace(north.summary, tensors={HEAD: text}))
        with pytest.raises(MessageError, match="cannot be read"):
            sites.aggregate({"n": lie, "s4": site("s4", 4)}, K)

    def test_a_region_that_lies_costs_its_place_and_not_the_model(self):
        lie = forged(region("north", some_sites(3), n_centers=100), self.AS_THEY_ARE[0])
        plain = {"s4": site("s4", 4), "s5": site("s5", 5)}
        with pytest.warns(match="takes no part"):
            model = sites.aggregate({"n": lie, **plain}, K, min_sites=2)
        assert encode(model) == encode(sites.aggregate(plain, K))
        with pytest.raises(QuorumError):
            sites.aggregate({"n": lie, **plain}, K, min_sites=3)

    def test_regions_within_regions_are_taken_apart_and_may_not_be_nested(self):
        """A message that is a tree would make the reader walk it."""
        north = region("north", some_sites(2), n_centers=100)
        inner = {f"region.0.tensor.{n}": t for n, t in north.summary.tensors.items()}
        rows, centers = north.summary.n_samples, len(north.summary.centers)
        listed = [["north", rows, centers, 0]]
        lie = forged(north, put("members", value=listed))
        tensors = {HEAD: lie.summary.tensors[HEAD], **inner}
        with pytest.raises(MessageError, match="not taken apart"):
            unpacked([replace(lie.summary, tensors=tensors)])

    def test_tensors_of_no_site(self):
        north = region("north", some_sites(2), n_centers=100)
        for name in ("region.7.tensor.x", "region.x", "region.-1.counts"):
            with pytest.raises(MessageError, match="tensors of no site"):
                region_of(forged(north, lambda head: None, {name: np.zeros(1)}).summary)

    def test_a_model_that_is_none(self):
        north = region("north", some_sites(3), n_centers=4)
        centers = "region.model.region.centers"
        for value in (np.zeros((3, 7)), np.zeros(3), np.full((3, 2), np.nan)):
            with pytest.raises(MessageError):
                sites.aggregate({"n": forged(north, lambda head: None, {centers: value})}, K)
        for change in (put("model", value=None), put("model", "clients", value=["bad\n"])):
            with pytest.raises(MessageError):
                sites.aggregate({"n": forged(north, change)}, K)

    def test_more_rows_than_its_sites(self):
        north = region("north", some_sites(3), n_centers=4)
        with pytest.raises(MessageError, match="more rows than its sites"):
            region_of(forged(north, lambda head: None, n_samples=10**6).summary)

    def test_a_false_model_counts_only_where_the_region_is_alone(self):
        north = region("north", some_sites(3), n_centers=4)
        false = {"region.model.region.centers": np.full((3, 2), 1e6)}
        lie = forged(north, lambda head: None, false)
        plain = {"s4": site("s4", 4), "s5": site("s5", 5)}
        honest = sites.aggregate({"n": north, **plain}, K)
        assert encode(sites.aggregate({"n": lie, **plain}, K)) == encode(honest)


@pytest.mark.parametrize("forged", [np.zeros(0), np.array([-7.0]), np.array([1000.0])])
def test_a_site_that_claims_to_be_many_is_refused(forged):
    files = some_sites(3, privacy=Privacy(10.0, bounds=BOUNDS, cells="shared", insecure_seed=1))
    summary = files["s0"].summary
    files["s0"] = replace(
        files["s0"], summary=replace(summary, tensors={**summary.tensors, "region.sites": forged})
    )
    with pytest.raises(MessageError, match=r"region\.sites"):
        sites.aggregate(files, K)
    assert len(sites.aggregate(files, K, min_sites=2).clients) == 2
