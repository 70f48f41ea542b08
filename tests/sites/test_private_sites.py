"""One round by file under differential privacy: what a file holds, and what it costs."""

import json
import math

import numpy as np
import pytest
import safetensors

from fedjigsaw import Jigsaw, Privacy, sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import (
    BudgetError,
    DataError,
    DataWarning,
    MessageError,
    NoiseWarning,
    ParameterError,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import NoisyStats
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.dp import multiplier_for
from fedjigsaw.records.ledger import Ledger
from fedjigsaw.report.privacy import rows_in_words

PLACES = np.array([[20.0, 1.0], [80.0, 2.0], [50.0, 9.0]])
PUBLIC = {
    *("client", "method", "params", "columns", "scaler", "guard", "seed", "merged"),
    *("privacy", "format", "kind"),
}
NOISY = {"n_samples", "n_used"}


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return PLACES[rng.integers(3, size=n)] + rng.standard_normal((n, 2)) * [2, 0.2]


def promise(**changes):
    bounds = ([0, 0], [120, 10])
    cells = None if "unit" in changes else "own"
    usual = {"epsilon": 2.0, "bounds": bounds, "insecure_seed": 0, "cells": cells}
    return Privacy(**{**usual, **changes})


def table(n=3000, seed=0, columns=("age", "dose")):
    rows = rows_of(n, seed)
    return from_array(rows[:, [["age", "dose"].index(c) for c in columns]], columns)


def summarized(client="a", data=None, **options):
    options = {"privacy": promise(), **options}
    return sites.summarize(data or table(), 3, client=client, **options)


def header_of(file, path):
    formats.save(file, path)
    with safetensors.safe_open(path, "np") as opened:
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return json.loads(opened.metadata()["fedjigsaw"]), arrays


def nearest_truth(centers):
    return np.linalg.norm((PLACES[:, None] - centers) / [120, 10], axis=2).min(1).max()


class TestWhatLeaves:
    @pytest.mark.parametrize("cells", ["own", "shared"])
    def test_the_header_is_public_but_for_noisy_numbers(self, tmp_path, cells):
        found = []
        for n in (1237, 2411):
            file = summarized(data=table(n, seed=n), privacy=promise(cells=cells))
            header, arrays = header_of(file, tmp_path / f"{n}.summary")
            assert set(header) == PUBLIC | NOISY
            assert header["n_used"] == header["n_samples"] == file.summary.n_samples
            found.append({name: header[name] for name in PUBLIC})
            assert n not in header.values()
            assert not any((array == n).any() for array in arrays.values())
            expected = {"centers", "tensor.cells", "tensor.cell_noise"}
            own = {"centers", "counts", "sse", "tensor.noise"}
            assert set(arrays) == (own if cells == "own" else expected)
        assert found[0] == found[1]
        assert found[0]["seed"] == 0  # of choices that do not depend on rows, not of the noise
        assert found[0]["privacy"]["insecure_seed"] == 0  # a seed is told: it voids the promise

    def test_no_sample_is_drawn(self):
        # a row that pushes another out of a sample would count twice
        sampled, whole = (summarized(max_rows=n) for n in (10, 10**6))
        assert formats.encode(sampled) == formats.encode(whole)

    def test_statistics(self, tmp_path):
        for n in (1237, 2411):
            found = sites.measure(table(n), client="a", privacy=promise(), min_rows=10**9)
            header, _ = header_of(found, tmp_path / f"{n}.stats")
            public = {"client", "columns", "n_samples", "privacy", "format", "kind", "sketches"}
            assert set(header) == public
            assert header["sketches"] == []
            assert header["n_samples"] != n
            again = formats.load(tmp_path / f"{n}.stats", NoisyStats)
            assert again.privacy.to_dict() == promise().to_dict()
            assert again.mean == pytest.approx(found.mean)


class TestBounds:
    def test_they_are_scaled_with_the_rows(self):
        scaler = Scaler(("dose", "age"), np.array([5.0, 60.0]), np.array([3.0, 35.0]))
        privacy = promise(bounds=([0, 0], [10, 120]))
        file = summarized(scaler=scaler, privacy=privacy)
        assert nearest_truth(scaler.unscale(file.summary.centers)[:, ::-1]) < 0.05
        assert file.privacy.bounds == privacy.bounds  # in the units of the data
        tight = promise(bounds=([0, 0], [10, 70]))
        with pytest.warns(NoiseWarning):
            file = summarized(scaler=scaler, privacy=tight)
        assert scaler.unscale(file.summary.centers)[:, 1].max() <= 70.000001

    def test_they_follow_the_order_of_columns(self):
        file = summarized(order=("dose", "age"))
        assert file.columns == ("dose", "age")
        assert file.privacy.bounds == ((0, 0), (10, 120))
        assert nearest_truth(file.summary.centers[:, ::-1]) < 0.05
        back = sites.reorder(file, ("age", "dose"))
        assert back.privacy.bounds == ((0, 0), (120, 10))

    def test_foreign_columns_are_refused_before_anything_is_spent(self):
        spent = []
        with pytest.raises(DataError, match="differ from those of the run"):
            summarized(order=("dose", "x"), spend=lambda *release: spent.append(release))
        with pytest.raises(ParameterError, match="two lists of 2"):
            summarized(
                privacy=promise(bounds=([0] * 3, [1] * 3)),
                spend=lambda *release: spent.append(release),
            )
        assert spent == []

    def test_a_file_with_bounds_of_other_columns_is_refused(self, tmp_path):
        file = summarized()
        object.__setattr__(file, "privacy", promise(bounds=([0] * 3, [1] * 3)))
        with pytest.raises(MessageError, match="two lists of 2"):
            formats.decode(formats.encode(file))


class TestSpending:
    def test_it_comes_before_the_noise(self):
        def refuse(privacy, multiplier):
            assert multiplier == multiplier_for(2.0, 1e-6)
            assert privacy.epsilon == 2.0
            raise BudgetError("no")

        def fail(*_):
            raise AssertionError("noise was drawn")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedjigsaw.privacy.dp.Noise.add", fail)
            for make in (summarized, lambda **o: sites.measure(table(), privacy=promise(), **o)):
                with pytest.raises(BudgetError):
                    make(spend=refuse)

    def test_exact_numbers_are_spent_as_such(self):
        spent = []
        summarized(privacy=None, spend=lambda *release: spent.append(release))
        sites.measure(table(), client="a", spend=lambda *release: spent.append(release))
        assert spent == [(None, None)] * 2

    @pytest.mark.parametrize("release", [summarized, lambda **o: sites.measure(table(), **o)])
    def test_seeded_noise_is_spent_as_none(self, release, tmp_path):
        ledger = Ledger(tmp_path / "ledger.jsonl")
        for seed, spent in ((None, 2.0), (0, math.inf)):
            charge = sites.Charge(ledger, "a", lambda: "hash", "test")
            release(client="a", privacy=promise(insecure_seed=seed), spend=charge.spend)
            assert ledger.account("a").spent() == pytest.approx(spent, rel=1e-5)
        ledger.set_limit(100.0, data_set="b")
        charge = sites.Charge(ledger, "b", lambda: "other", "test")
        with pytest.raises(BudgetError, match="without noise"):
            release(client="a", privacy=promise(), spend=charge.spend)
        with pytest.raises(BudgetError, match="without noise"):
            charge.check(promise(), 1.0)

    def test_a_method_without_privacy_costs_nothing(self):
        spent = []
        with pytest.raises(ParameterError, match="'feca' has no differential privacy"):
            summarized(method="feca", spend=lambda *release: spent.append(release))
        assert spent == []


class TestAggregate:
    def test_the_model_has_the_weakest_promise(self):
        b = promise(epsilon=1.0, delta=1e-5, bounds=([-10, 0], [100, 20]))
        files = {"a": summarized("a"), "b": summarized("b", table(seed=1), privacy=b)}
        model = sites.aggregate(files, 3)
        assert (model.privacy.epsilon, model.privacy.delta) == (2.0, 1e-5)
        assert model.privacy.bounds == ((-10, 0), (120, 20))
        assert nearest_truth(model.model.centers) < 0.05
        assert formats.decode(formats.encode(model)).privacy == model.privacy
        files["b"] = summarized("b", table(seed=1), privacy=None)
        assert sites.aggregate(files, 3).privacy is None

    def test_shared_cells_do_not_depend_on_the_order_of_columns_at_a_site(self):
        shared = promise(cells="shared", bounds=(0, 100))
        files = {
            "a": summarized("a", privacy=shared),
            "b": summarized("b", table(seed=1, columns=("dose", "age")), privacy=shared),
        }
        assert files["b"].columns == ("age", "dose")
        model = sites.aggregate(files, 3)
        assert model.privacy.cells == "shared"
        assert nearest_truth(model.model.centers) < 0.3

    def test_shared_cells_need_the_same_bounds(self):
        shared, other = (promise(cells="shared", bounds=(0, high)) for high in (100, 90))
        files = {"a": summarized("a", privacy=shared)}
        for b in (other, promise(), None):
            files["b"] = summarized("b", table(seed=1), privacy=b)
            with pytest.raises(MessageError, match="cells and bounds"):
                sites.aggregate(files, 3)

    def test_a_file_with_other_cells_can_be_left_out(self):
        shared = promise(cells="shared", bounds=(0, 100))
        files = {c: summarized(c, table(seed=i), privacy=shared) for i, c in enumerate("abc")}
        files["c"] = summarized("c", table(seed=2), privacy=promise(bounds=(0, 90)))
        with pytest.warns(UserWarning, match="'c'. takes no part"):
            model = sites.aggregate(files, 3, min_sites=2)
        assert model.clients == ("a", "b")


def test_local_labels_by_a_noisy_summary():
    file = summarized("a")
    model = sites.aggregate({"a": file, "b": summarized("b", table(seed=1))}, 3)
    (part,) = sites.assign(table(), model, local=file)  # no warning about other numbers of rows
    truth = np.linalg.norm(rows_of(3000)[:, None] - PLACES, axis=2).argmin(1)
    labels = np.array(part.labels.to_pylist())
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 3


def test_a_tiny_site_is_told():
    with pytest.warns(NoiseWarning) as told:
        file = summarized(data=table(2))
    assert DataWarning not in {each.category for each in told}  # one center leaves, not two
    assert rows_in_words(file.summary).endswith(
        "in 1 cluster that does not stand out from the noise"
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("cells", ["own", "shared"])
def test_noise_pushes_no_center_out_of_the_bounds(cells):
    """Shares of -12 % came out of the sums of shared cells."""
    rng = np.random.default_rng(0)
    group = np.arange(600) % 3
    X = np.column_stack([rng.normal(50.0 * group, 5), group > 0])
    scaler = Scaler(("age", "female"), np.array([50.0, 0.6]), np.array([40.0, 0.5]))
    for seed in range(4):
        bounds = ([0.0, 0.0], [100.0, 1.0])
        privacy = Privacy(0.5, bounds=bounds, cells=cells, insecure_seed=seed)
        table = from_array(X, scaler.columns)
        sent = sites.summarize(table, 3, client="a", privacy=privacy, scaler=scaler)
        found = sites.aggregate({"a": sent}, 3).model.centers
        fitted = Jigsaw(3, random_state=seed).fit(X, privacy=privacy).cluster_centers_
        for centers in (scaler.unscale(found), fitted):
            assert (centers >= -1e-9).all()
            assert (centers <= np.array([100.0, 1.0]) + 1e-9).all()
