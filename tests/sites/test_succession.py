from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import MessageError
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.page.build import build_report
from fedjigsaw.report.page.render import render_page
from fedjigsaw.report.page.run import read_run
from fedjigsaw.report.profiles import describe_clusters
from sites_models import model


class TestMatching:
    def test_a_new_cluster_shifts_no_other(self):
        old = model([0, 10, 20, 30])
        found, changes = sites.succeed(model([-9, 0.2, 10, 20.3, 30]), old)
        assert found.cluster_ids == (4, 0, 1, 2, 3)
        assert changes.new == (4,)
        assert changes.gone == ()

    def test_a_retired_id_is_never_used_again(self):
        first = model([0, 10, 20])
        second, changes = sites.succeed(model([0, 10]), first)
        assert changes.gone == (2,)
        assert (second.cluster_ids, second.next_id) == ((0, 1), 3)
        third, changes = sites.succeed(model([0, 10, 20]), second)
        assert third.cluster_ids == (0, 1, 3)
        assert changes.new == (3,)
        fourth, _ = sites.succeed(model([0]), third)
        assert sites.succeed(model([0, 50]), fourth)[0].cluster_ids == (0, 4)

    def test_a_far_cluster_is_not_the_same(self):
        """With the number of clusters given, one that is gone has no place to leave empty."""
        found, changes = sites.succeed(model([0, 10, 60]), model([0, 10, 20]))
        assert (changes.new, changes.gone) == ((3,), (2,))
        assert found.cluster_ids == (0, 1, 3)

    @pytest.mark.parametrize(("moved", "kept"), [(0.5, True), (1.9, True), (2.1, False)])
    def test_a_cluster_may_move_by_twice_its_spread(self, moved, kept):
        old, new = model([0, 100], spread=1.0), model([0, 100 + moved], spread=1.0)
        found, _ = sites.succeed(new, old)
        assert (found.cluster_ids == (0, 1)) is kept

    def test_splits_and_merges_are_told(self):
        one, two = model([0, 50], spread=[1, 6]), model([0, 46, 55], spread=1)
        found, changes = sites.succeed(two, one)
        assert (found.cluster_ids, changes.splits) == ((0, 1, 2), {1: (1, 2)})
        assert "Cluster 1 split into 1 and 2." in list(changes.sentences())
        _, changes = sites.succeed(one, two)
        assert (changes.merges, changes.gone) == ({1: (1, 2)}, (2,))
        assert "Clusters 1 and 2 merged into 1." in list(changes.sentences())

    def test_a_new_cluster_beside_an_old_one_is_no_split(self):
        _, changes = sites.succeed(model([0, 50, 56], spread=1), model([0, 50], spread=1))
        assert (changes.new, changes.splits) == ((2,), {})
        assert "New: cluster 2." in list(changes.sentences())

    def test_order_of_centers_does_not_matter(self, rng):
        centers = rng.normal(size=(9, 3)) * 10
        order = rng.permutation(9)
        found, changes = sites.succeed(model(centers[order] + 0.1), model(centers))
        assert found.cluster_ids == tuple(order)
        assert changes.is_calm

    def test_other_scalers_and_orders_of_columns(self):
        centers = np.array([[0.0, 5.0], [3.0, 1.0], [9.0, 9.0]])
        old = model(centers, columns=("a", "b"))
        scaler = Scaler(("b", "a"), np.array([4.0, 2.0]), np.array([3.0, 0.5]))
        turned = scaler.scale(centers[[2, 0, 1]][:, ::-1])
        new = model(turned, columns=("b", "a"), scaler=scaler)
        assert sites.succeed(new, old)[0].cluster_ids == (2, 0, 1)
        assert sites.succeed(old, new)[0].cluster_ids == (1, 2, 0)

    def test_other_columns(self):
        with pytest.raises(MessageError, match="'y'.*'x0'"):
            sites.succeed(model([0, 1], columns=("y",)), model([0, 1]))

    @pytest.mark.parametrize("which", [0, 1])
    def test_a_model_of_very_many_clusters_does_not_fill_the_memory(self, which):
        """A file of 300 kB, perhaps one that an operator sent, asked for a dozen gigabytes."""
        pair = [model([0, 10]), model([0, 10])]
        pair[which] = model(range(40_000))
        with pytest.raises(MessageError, match="40,000 clusters; at most 5,000"):
            sites.succeed(*pair)
        with pytest.raises(MessageError, match="at most 5,000"):
            sites.compare(*pair)

    def test_one_cluster(self):
        assert sites.succeed(model([7]), model([0]))[0].cluster_ids == (0,)
        assert sites.succeed(model([7], spread=1), model([0], spread=1))[0].cluster_ids == (1,)


class TestFiles:
    def test_usual_ids_leave_the_bytes_as_they_were(self):
        plain = model([0, 10])
        found, _ = sites.succeed(plain, model([0, 10]))
        assert formats.encode(found) == formats.encode(plain)

    def test_ids_are_read_back(self):
        file = replace(model([0, 10]), ids=(5, 2), next_id=9)
        again = formats.decode(formats.encode(file))
        assert (again.ids, again.next_id) == ((5, 2), 9)

    @pytest.mark.parametrize(
        ("ids", "next_id"),
        [((1,), 2), ((1, 1), 2), ((0, -1), 2), ((0, "1"), 2), ((0, 2), 2), ((0, 2**60), 2**61), ((True, 0), 2), ((0, 1), None)],
    )  # fmt: skip
    def test_bad_ids(self, ids, next_id):
        with pytest.raises(MessageError, match="id"):
            replace(model([0, 10]), ids=ids, next_id=next_id or -3)

    def test_bad_ids_in_a_file(self):
        content = formats.encode(replace(model([0, 10]), ids=(5, 2), next_id=9))
        for bad in (b"[5, 5]", b'["a"]', b"[[], 2"[:6]):
            with pytest.raises(MessageError):
                formats.decode(content.replace(b"[5, 2]", bad.ljust(6)))


class TestShown:
    """Every place that shows the number of a cluster shows its id."""

    @pytest.fixture
    def file(self):
        return replace(model([0, 10, 20], spread=1.0), ids=(7, 3, 5), next_id=8)

    @pytest.fixture
    def rows(self):
        return from_array(np.array([[0.0], [0.5], [10.0], [10.0], [10.0], [20.0]]), ("x0",))

    def test_labels(self, file, rows):
        (part,) = sites.assign(rows, file)
        assert part.labels.to_pylist() == [7, 7, 3, 3, 3, 5]

    def test_scores(self, file, rows):
        found = sites.score(rows, file, client="a")
        assert formats.decode(formats.encode(found)).cluster_ids == (7, 3, 5)
        merged = sites.merge_scores({"a": found, "b": replace(found, client="b")})
        assert merged.cluster_ids == (7, 3, 5)
        lines = describe(merged, 1)
        assert any(line.startswith("  3: 6 rows") for line in lines)

    def test_scores_with_different_ids(self, file, rows):
        one = sites.score(rows, file, client="a")
        with pytest.raises(MessageError, match="different cluster ids"):
            sites.merge_scores({"a": one, "b": replace(one, client="b", ids=(7, 3, 6))})

    def test_inspection(self, file):
        lines = describe(file, 1)
        assert [line.split(":")[0].strip() for line in lines if "x0" in line][1:] == ["7", "3", "5"]
        support = [line for line in lines if ", margin " in line]
        assert [line.split(":")[0].strip() for line in support] == ["7", "3", "5"]
        assert any("the next new cluster gets 8" in line for line in lines)

    def test_profiles(self, file, rows):
        found = sites.score(rows, file, client="a", profile=True, guard=Guard(1))
        described = describe_clusters(file, found, [found])
        assert [(one.cluster, one.nearest) for one in described] == [(7, 3), (3, 7), (5, 3)]
        assert described[1].sentence.startswith("Cluster 3, 3 rows")
        lines = describe(found, 1)
        assert any(line.startswith("  5: x0 20") for line in lines)

    def test_report_page(self, file, rows, tmp_path):
        formats.save(file, tmp_path / "model")
        formats.save(sites.score(rows, file, client="a"), tmp_path / "a.score")
        found = read_run([tmp_path / "model", tmp_path / "a.score"])
        page = build_report(found, today=date.today())
        nearest = [(row[0], row[-1]) for row in page.support.rows]
        assert nearest == [("Cluster 7", "3"), ("Cluster 3", "7"), ("Cluster 5", "3")]
        html = render_page(page).decode()
        assert all(f'id="cluster-{i}"' in html for i in (7, 3, 5))
        assert not any(f"cluster-{i}" in html or f"Cluster {i}<" in html for i in range(3))
