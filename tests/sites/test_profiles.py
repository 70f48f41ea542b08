"""Profiles that sites measure: exact over sites, guarded and private at each."""

import numpy as np
import pytest

from fedjigsaw import Guard, Model, Privacy, sites
from fedjigsaw.columns.profiles import Profile, check_describable
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io.formats import ModelFile, Score, encode
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.statistics import guard_profile
from fedjigsaw.sites.profiles import nearest_by_row

OFF = Guard(min_cluster_size=1)


def model_of(centers, scaler=None):
    columns = ("age", "dose")
    return ModelFile(Model(centers, "jigsaw", {}, columns), scaler, ("a",), 10)


def scored(rows, model, client="bern", **options):
    table = from_array(np.asarray(rows, dtype=float), ["age", "dose"])
    return sites.score(table, model, client=client, profile=True, **options)


def test_a_profile_by_hand_is_in_the_units_of_the_file():
    scaler = Scaler(("age", "dose"), np.array([50.0, 5.0]), np.array([10.0, 2.0]))
    model = model_of([[-1.0, 0.0], [1.0, 0.0]], scaler)
    profile = scored([[40, 5], [42, 7], [60, 5]], model, guard=OFF).profile
    assert profile.numbers == ("age", "dose")
    assert profile.count.tolist() == [[2, 2], [1, 1]]
    assert profile.mean.tolist() == [[41.0, 6.0], [60.0, 5.0]]
    assert profile.sum_of_squares.tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_sizes_and_distances_are_those_of_a_score_without_a_profile(rng):
    rows, model = rng.normal(size=(60, 2)), model_of([[-1.0, 0.0], [1.0, 0.0]])
    table = from_array(rows, ["age", "dose"])
    plain, found = sites.score(table, model, client="b"), scored(rows, model, "b", guard=OFF)
    assert found.counts.tolist() == plain.counts.tolist()
    assert found.sse.tolist() == plain.sse.tolist()
    guarded = scored(rows, model, "b")
    assert guarded.sse.sum() == pytest.approx(plain.sse.sum())


def test_merged_profiles_of_sites_are_that_of_the_pooled_rows(rng):
    rows = rng.normal(1e4, 3.0, (3000, 2)) * [1, 1e-3]
    model = model_of(rows[:4])
    parts = np.split(rows, [1, 40, 1500])  # a site of one row among them
    merged = sites.merge_scores(
        {str(i): scored(part, model, str(i), guard=OFF) for i, part in enumerate(parts)}
    )
    pooled = scored(rows, model, guard=OFF).profile
    labels = sites.merge_scores({"x": scored(rows, model, guard=OFF)}).counts
    assert merged.counts.tolist() == labels.tolist()
    assert merged.profile.count.tolist() == pooled.count.tolist()
    np.testing.assert_allclose(merged.profile.mean, pooled.mean, rtol=1e-9)
    np.testing.assert_allclose(merged.profile.sum_of_squares, pooled.sum_of_squares, rtol=1e-9)
    nearest = nearest_by_row(rows, model.model.centers)
    for c in range(4):
        own = rows[nearest == c]
        np.testing.assert_allclose(pooled.mean[c], own.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(pooled.sum_of_squares[c], own.var(axis=0) * len(own), rtol=1e-9)


def test_sites_without_a_profile_are_merged_all_the_same():
    model = model_of([[0.0, 0.0]])
    with_one = scored([[1, 1], [3, 3]], model, "a", guard=OFF)
    without = Score("b", with_one.model, np.array([5]), np.array([1.0]))
    merged = sites.merge_scores({"a": with_one, "b": without})
    assert merged.counts.tolist() == [7]
    assert merged.profile.count.tolist() == [[2, 2]]


def test_the_row_of_a_small_cluster_is_nowhere_in_the_file():
    rng = np.random.default_rng(0)
    alone = np.array([123.456789, 87.654321])
    rows = np.vstack([rng.normal(0, 1, (30, 2)), rng.normal(9, 1, (12, 2)), alone])
    model = model_of([[0.0, 0.0], [9.0, 9.0], [100.0, 100.0]])
    score = scored(rows, model)
    content, distance = encode(score), ((alone - 100) ** 2).sum()
    for value in (*alone, *alone**2, distance, np.sqrt(distance)):
        assert np.float64(value).tobytes() not in content
    assert not np.isclose(score.sse, distance).any()
    # nor is it the statistics of all rows, which the site has sent before, minus the profile
    stats = sites.measure(from_array(rows, ["age", "dose"]), client="bern")
    shown = (score.profile.count * score.profile.mean).sum(axis=0)
    left = stats.n_samples - score.profile.count.sum(axis=0)
    rest = (stats.mean * stats.n_samples - shown) / left
    assert left.tolist() == [13, 13]  # all rows but those of the largest cluster
    assert (np.abs(rest - alone) > 50).all()
    unguarded = encode(scored(rows, model, guard=OFF))
    assert np.float64(alone[0]).tobytes() in unguarded  # so the search would find it


def test_a_private_score_is_noisy_and_charged(rng):
    rows = np.vstack([rng.normal(20, 2, (4000, 2)), rng.normal(80, 2, (6000, 2))])
    model = model_of([[20.0, 20.0], [80.0, 80.0]])
    privacy, spent = Privacy(1.0, cells="own", bounds=(0, 100), insecure_seed=0), []
    score = scored(rows, model, privacy=privacy, spend=lambda *what: spent.append(what))
    assert [promise for promise, _ in spent] == [privacy]
    assert score.privacy == privacy
    assert score.counts.tolist() != [4000, 6000]
    assert score.counts == pytest.approx([4000, 6000], rel=0.02)
    assert score.profile.mean == pytest.approx(np.array([[20, 20], [80, 80]]), abs=0.5)
    exact = scored(rows, model).sse
    assert score.sse == pytest.approx(exact, rel=5)
    assert (score.sse != exact).all()
    merged = sites.merge_scores({"a": score, "b": scored(rows, model, "b")})
    assert merged.privacy is None  # one of the two promises nothing
    assert sites.merge_scores({"a": score}).privacy.epsilon == 1.0


def test_privacy_needs_a_profile():
    table = from_array([[1.0, 2.0]], ["age", "dose"])
    with pytest.raises(ParameterError, match="needs a profile"):
        sites.score(table, model_of([[0.0, 0.0]]), privacy=Privacy(1.0, cells="own", bounds=(0, 1)))


def test_labels_by_row_do_not_depend_on_other_rows(rng):
    centers = rng.normal(size=(7, 30))
    rows = np.vstack([rng.normal(size=(200, 30)), (centers[:-1] + centers[1:]) / 2])
    together = nearest_by_row(rows, centers)
    alone = [nearest_by_row(row[None], centers)[0] for row in rows]
    assert together.tolist() == alone
    nearest = np.linalg.norm(rows[:200, None] - centers, axis=2).argmin(axis=1)
    assert together[:200].tolist() == nearest.tolist()


def test_profiles_of_other_columns_are_not_merged():
    model = model_of([[0.0, 0.0]])
    ours = scored([[1, 1], [3, 3]], model, "a", guard=OFF)
    table = from_array([[1.0, 1.0]], ["age", "size"])
    other = ModelFile(Model([[0.0, 0.0]], "jigsaw", {}, table.columns), None, ("a",), 1)
    found = sites.score(table, other, client="b", profile=True, guard=OFF)
    forged = Score("b", ours.model, found.counts, found.sse, found.profile)
    with pytest.raises(MessageError, match="other columns cannot be merged"):
        sites.merge_scores({"a": ours, "b": forged})


def test_a_rounded_and_an_exact_profile_can_be_merged():
    """Rounded rows of levels may be more than a cluster has, in the merged score as well."""
    none = np.zeros((1, 0))
    levels = {"sex": ("f", "m")}

    def of(counts):
        return Profile((), none.astype(int), none, none, levels, {"sex": [counts]})

    guarded = guard_profile(of([3, 3]), np.array([6]), 5)
    scores = {
        "a": Score("a", "m", np.array([6]), np.zeros(1), guarded),
        "b": Score("b", "m", np.array([2]), np.zeros(1), of([1, 1])),
    }
    assert sites.merge_scores(scores).profile.level_counts["sex"].tolist() == [[6, 6]]


@pytest.mark.parametrize("privacy", [None, Privacy(1.0, cells="own", bounds=(0, 10))])
def test_a_model_of_very_many_clusters_does_not_fill_the_memory(privacy):
    """A file of 600 kB, perhaps one that a coordinator sent, asked for a dozen gigabytes."""
    model = model_of(np.arange(80_000.0).reshape(-1, 2))
    with pytest.raises(MessageError, match="40,000 .*5,000 clusters"):
        scored([[1, 2]], model, privacy=privacy)


def test_nor_do_very_many_categories_that_are_not_clustered():
    levels = {f"c{i}": [str(j) for j in range(1000)] for i in range(20)}
    with pytest.raises(MessageError, match="20,001"):
        check_describable(1000, ["age"], levels)
