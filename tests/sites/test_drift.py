from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import MessageError
from fedjigsaw.io.tables import from_array
from sites_models import model


class TestByHand:
    def test_drift_is_the_largest_change_over_the_noise(self):
        old, new = model([0, 10]), model([0.3, 10.1])
        found = sites.compare(old, new, old_noise=[0.1, 0.1], new_noise=[0.1, 0.1])
        assert found.drift == pytest.approx(0.3 / np.sqrt(0.02))
        assert found.alarm
        assert not sites.compare(old, new, old_noise=[0.2, 0.1], new_noise=[0.2, 0.1]).alarm

    def test_equal_models_have_no_drift(self):
        one = model([0, 10, 20], spread=1.0)
        assert sites.compare(one, one, old_noise=[0.1] * 3).drift == 0
        assert sites.compare(one, one, old_noise=[0.0] * 3).drift == 0

    def test_noise_of_one_model_stands_for_both(self):
        old, new = model([0, 10]), model([0.3, 10])
        for noise in ({"old_noise": [0.1, 0.1]}, {"new_noise": [0.1, 0.1]}):
            assert sites.compare(old, new, **noise).drift == pytest.approx(0.3 / np.sqrt(0.02))
        assert sites.compare(old, new).drift is None

    @pytest.mark.parametrize("new", [[0, 10, 15], [0], [0, 10, 20, 20.5], [5]])
    def test_clusters_that_appear_vanish_split_or_merge_count(self, new):
        old = model([0, 10], spread=1.0) if new != [0, 10, 20, 20.5] else model([0, 10, 20.25])
        for noise in (None, 0.01, 99.0):
            given = None if noise is None else [noise] * len(old.model.centers)
            assert sites.compare(old, model(new, spread=1.0), old_noise=given).alarm

    def test_sizes_do_not_count(self):
        old = model([0, 10], spread=1.0, points=[500, 500])
        new = model([0, 10], spread=1.0, points=[900, 100])
        found = sites.compare(old, new, old_noise=[0.1, 0.1])
        assert found.drift == 0
        assert found.clusters[0].shares == (0.5, 0.9)

    def test_spreads_count(self):
        found = sites.compare(
            model([0, 10], spread=1.0), model([0, 10], spread=[1, 1.5]), old_noise=[0.1, 0.1]
        )
        assert found.drift == pytest.approx(0.5 / np.sqrt(0.02))

    def test_other_units_of_some_columns_are_no_change_of_spread(self):
        """What was 1 long in both columns is now between 1 and 10 long; only more is a change."""
        scaler = Scaler(("x0", "x1"), np.zeros(2), np.array([1.0, 10.0]))
        old = model([[0, 0], [10, 10]], spread=5.0)
        for spread, change in ((0.5, 0), (1.0, 0), (5.0, 0), (7.0, 2), (0.4, 1)):
            new = model([[0, 0], [10, 1]], spread=spread, scaler=scaler)
            found = sites.compare(old, new, old_noise=[1.0, 1.0])
            assert found.clusters[0].change == pytest.approx(change)

    def test_a_shaky_new_model_does_not_hide_a_change(self):
        old, new = model([0, 10]), model([0, 13])
        found = sites.compare(old, new, old_noise=[0.1, 0.1], new_noise=[9.0, 9.0])
        assert found.drift == pytest.approx(3 / np.hypot(0.1, 0.3))

    def test_each_cluster_is_described(self):
        old = replace(model([0, 10, 20], spread=1.0), ids=(4, 2, 7), next_id=8)
        new = model([0.5, 10, 40], spread=1.0)
        found = sites.compare(old, new, old_noise=[0.1] * 3)
        assert [(c.old, c.new) for c in found.clusters] == [(4, 0), (2, 1), (7, None), (None, 2)]
        assert [round(c.change, 3) for c in found.clusters] == [0.5, 0, 10, 20]
        assert found.succession.gone == (7,)
        assert found.succession.new == (2,)

    def test_noise_follows_the_units(self):
        old, scaler = model([[0.0], [10.0]]), Scaler(("x0",), np.zeros(1), np.array([5.0]))
        new = model([[0.06], [2.0]], scaler=scaler)  # 0.3 and 10
        found = sites.compare(old, new, new_noise=[0.02, 0.02])
        assert found.drift == pytest.approx(0.3 / (0.1 * np.sqrt(2)), rel=0.05)

    def test_noise_of_another_model(self):
        with pytest.raises(MessageError, match="noise is that of 3 clusters"):
            sites.compare(model([0, 1]), model([0, 1]), old_noise=[1, 1, 1])


def summarized(rng, places, *, n_sites=12, k=None, sizes=None, factors=()):
    """Return the summaries of one week, of sites with about 100 rows each.

    Parameters
    ----------
    factors : of the rows of the first sites.
    """
    places = np.asarray(places, dtype=float)
    sizes = np.ones(len(places)) if sizes is None else np.asarray(sizes)
    found = {}
    for m in range(n_sites):
        z = rng.choice(len(places), size=100, p=sizes / sizes.sum())
        rows = places[z] + rng.normal(size=(100, 2))
        rows *= factors[m] if m < len(factors) else 1
        found[f"s{m:02d}"] = sites.summarize(from_array(rows), k or len(places), client=f"s{m:02d}")
    return found


PLACES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
class TestNoise:
    @pytest.fixture
    def week(self, rng):
        files = summarized(rng, PLACES, n_sites=6)
        return files, sites.aggregate(files, 4)

    def test_it_is_about_that_of_a_mean(self, week):
        files, made = week
        noise = np.array(sites.measure_noise(files, made))
        points, spread = (made.model.tensors[f"support_{n}"] for n in ("points", "spread"))
        assert (noise >= 1.5 * spread / np.sqrt(points) - 1e-12).all()
        assert (noise <= 4 * spread / np.sqrt(points)).all()

    def test_it_depends_on_nothing_but_the_summaries(self, week):
        files, made = week
        turned = dict(reversed(files.items()))
        assert sites.measure_noise(turned, made) == sites.measure_noise(list(files.values()), made)

    def test_summaries_of_others_are_left_alone(self, week, rng):
        files, made = week
        more = {
            **files,
            "zz": replace(files["s00"], summary=replace(files["s00"].summary, client="zz")),
        }
        assert sites.measure_noise(more, made) == sites.measure_noise(files, made)

    def test_a_missing_summary_is_named(self, week):
        files, made = week
        del files["s03"]
        with pytest.raises(MessageError, match="no summary of 's03'"):
            sites.measure_noise(files, made)

    def test_a_summary_of_another_run(self, week):
        files, made = week
        files["s03"] = replace(files["s03"], method="feca")
        with pytest.raises(MessageError, match="'s03'.*another run"):
            sites.measure_noise(files, made)

    def test_one_site_cannot_be_resampled(self, rng):
        files = summarized(rng, PLACES, n_sites=1)
        assert sites.measure_noise(files, sites.aggregate(files, 4)) is None

    @pytest.mark.parametrize("method", ["feca", "kfed"])
    def test_methods_that_know_no_spread(self, rng, method):
        files = {}
        for name in "abcde":
            table = from_array(np.repeat(PLACES, 20, axis=0) + rng.normal(size=(80, 2)))
            files[name] = sites.summarize(table, 4, client=name, method=method)
        made = sites.aggregate(files, 4)
        noise = sites.measure_noise(files, made)
        assert (np.array(noise) > 0).all()
        away = replace(made.model, centers=made.model.centers + np.array([0, 3.0]))
        assert sites.compare(made, replace(made, model=away), old_noise=noise).alarm
        assert not sites.compare(made, made, old_noise=noise).alarm

    @pytest.mark.parametrize("seed", range(5))
    def test_a_strange_site_does_not_pass_as_chance(self, seed):
        """One of six sites doubles all its values from one week to the next."""
        rng, weeks = np.random.default_rng(seed), []
        for factors in ((), (2.0,)):
            files = summarized(rng, PLACES, n_sites=6, factors=factors)
            made = sites.aggregate(files, 4)
            weeks.append((made, sites.measure_noise(files, made)))
        (old, old_noise), (new, new_noise) = weeks
        assert np.max(new_noise) < 2 * np.max(old_noise)
        assert sites.compare(old, new, old_noise=old_noise, new_noise=new_noise).alarm


MOVED = PLACES.copy()
MOVED[0, 0] = np.sqrt(2) / 2  # half of its spread
EVENTS = {
    "new": ([*PLACES, [4.5, 16.0]], [0.235] * 4 + [0.06]),
    "gone": (PLACES[:3], None),
    "moved": (MOVED, None),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("k", "weeks", "events"), [(4, 4, list(EVENTS)), ("auto", 2, ["new"])])
def test_weeks_of_the_same_population_are_calm_and_events_are_not(k, weeks, events):
    """The study behind it: `python reproduction/run.py drift`."""
    rng = np.random.default_rng(5)

    def one_week(places, sizes=None):
        files = summarized(rng, places, k=k, sizes=sizes)
        made = sites.aggregate(files, k)
        return made, sites.measure_noise(files, made)

    def difference(before, after):
        return sites.compare(before[0], after[0], old_noise=before[1], new_noise=after[1])

    calm = [one_week(PLACES) for _ in range(weeks)]
    for before, after in pairwise(calm):
        found = difference(before, after)
        assert not found.alarm
        assert found.succession.is_calm
    for name in events:
        found = difference(calm[-1], one_week(*EVENTS[name]))
        assert found.alarm, name
        if k == "auto":
            assert len(found.succession.new) == 1
