"""compare: methods on the same data, clients and seeds, and what is measured about them."""

import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from fedjigsaw import CentralKMeans, FeCA, Jigsaw, compare, partition
from fedjigsaw.errors import DataError, ExtraError, FailedRunsWarning, ParameterError
from fedjigsaw.methods import CLUSTERERS

NUMBERS = ["objective_ratio", "ari", "nmi", "purity"]


def numbers(found, label):
    """The quality of a method for each seed, as lists."""
    frame = found.frame
    return frame[frame["method"] == label][NUMBERS].values.tolist()


class TestNumbers:
    def test_a_toy_solved_by_hand(self, toy):
        """Centers 1, 11: objective 4. Centers 0, 12: 0 + 4 + 4 + 0. Centers -9, 21: 2 (81 + 121)."""
        methods = {
            "exact": toy.ClientMeans(2),
            "moved": toy.ClientMeans(2, shift=1),
            "far": toy.ClientMeans(2, shift=10),
        }
        found = compare(methods, toy.X, clients=toy.clients, y=toy.y, seeds=2)
        assert numbers(found, "exact") == [[1, 1, 1, 1]] * 2
        assert numbers(found, "moved") == [[2, 1, 1, 1]] * 2
        assert numbers(found, "far") == [[101, 1, 1, 1]] * 2
        frame = found.frame
        assert frame["inertia"].tolist() == [4, 8, 404] * 2
        assert set(frame["rounds"]) == {1}
        assert set(frame["n_found"]) == {2}
        assert frame["failed"].isna().all()
        sent = toy.ClientMeans(2).fit(toy.X, clients=toy.clients).transcript_.bytes_up
        assert set(frame["bytes_per_client"]) == {sent / 2}

    def test_labels_that_do_not_agree_with_the_classes(self, toy):
        """Clusters {a, b} and {b, b}: three of four rows are in a cluster of mostly their class."""
        classes = ["a", "b", "b", "b"]
        found = compare([toy.ClientMeans(2)], toy.X, clients=toy.clients, y=classes, seeds=1)
        ((ratio, ari, nmi, purity),) = numbers(found, "ClientMeans")
        assert (ratio, ari, purity) == (1, 0, 0.75)
        assert nmi == pytest.approx(0.3437, abs=1e-4)
        found = compare([toy.ClientMeans(1)], toy.X, clients=[0, 0, 0, 0], y=toy.y, seeds=1)
        assert numbers(found, "ClientMeans") == [[1, 0, 0, 0.5]]  # one cluster, as pooled

    @pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
    def test_parity_with_scikit_learn(self, grid):
        data, _ = grid
        options = {"n_clients": 4, "alpha": 0.5, "min_size": 30}
        found = compare(
            ["jigsaw", FeCA], data.X, clients="dirichlet", y=data.y, n_clusters=15, seeds=2,
            **options,
        )  # fmt: skip
        for seed in (0, 1):
            ids = partition.dirichlet(data.y, 4, alpha=0.5, rng=seed, min_size=30)
            pooled = KMeans(15, n_init=10, random_state=seed).fit(data.X)
            for cls in (Jigsaw, FeCA):
                fitted = cls(15, random_state=seed).fit(data.X, clients=ids)
                labels, centers = fitted.labels_, fitted.cluster_centers_
                distances = ((data.X[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
                table = contingency_matrix(data.y, labels)
                assert numbers(found, cls.__name__)[seed] == pytest.approx([
                    distances.sum() / pooled.inertia_,
                    adjusted_rand_score(data.y, labels),
                    normalized_mutual_info_score(data.y, labels),
                    table.max(axis=0).sum() / len(labels),
                ])  # fmt: skip

    def test_pooled_k_means_is_one_by_definition_and_not_fitted_twice(self, grid, monkeypatch):
        data, ids = grid
        fits = []
        fit = CentralKMeans.fit

        def counted(self, X, **options):
            fits.append(len(X))
            return fit(self, X, **options)

        monkeypatch.setattr(CentralKMeans, "fit", counted)
        found = compare(["central", "kfed"], data.X, clients=ids, n_clusters=15, seeds=2)
        assert fits.count(len(data.X)) == 2
        first = found.frame[found.frame["method"] == "Centralized"]
        assert first["objective_ratio"].tolist() == [1, 1]

    def test_a_found_number_is_compared_with_as_many_pooled_clusters(self, grid):
        data, ids = grid
        found = compare([Jigsaw("auto")], data.X, clients=ids, seeds=[3])
        (row,) = found.rows
        pooled = CentralKMeans(row["n_found"], random_state=3).fit(data.X)
        assert row["objective_ratio"] == row["inertia"] / pooled.inertia_
        assert 0 < row["confidence"] <= 1
        assert "confidence" in found.frame

    def test_without_classes_there_is_no_score_that_needs_them(self, toy):
        found = compare([toy.ClientMeans], toy.X, clients=toy.clients, n_clusters=2, seeds=1)
        assert not {"ari", "nmi", "purity"} & set(found.frame)
        assert "ari" not in repr(found)


class SlowAtFirst:
    """Sleeps in the first fit of the process, as a library does that is loaded or compiled."""

    def __init__(self):
        self.fits = []

    def __call__(self, n_rows):
        self.fits.append(n_rows)
        if len(self.fits) == 1:
            time.sleep(0.5)


class TestSeconds:
    def test_the_first_fit_of_a_method_is_not_timed(self, toy, rng):
        start = SlowAtFirst()

        class Cold(toy.ClientMeans):
            method = "cold"

            def aggregate(self, summaries, broadcast, rng):
                start(sum(summary.n_samples for summary in summaries))
                return super().aggregate(summaries, broadcast, rng)

        X = rng.normal(size=(5000, 1))
        found = compare(Cold, X, clients="iid", n_clients=2, n_clusters=2, seeds=2)
        assert max(row["seconds"] for row in found.rows) < 0.4
        assert start.fits[0] < 1000
        assert start.fits[1:] == [5000, 5000]


class TestClients:
    def test_all_methods_see_the_same_split_and_seeds_differ(self, toy, rng):
        X = rng.normal(size=(60, 1))
        methods = {"a": toy.Spy(2), "b": toy.Spy(2, shift=1)}
        compare(methods, X, clients="iid", n_clients=3, seeds=[4, 9])
        held = {key: [] for key in [(0.0, 4), (1.0, 4), (0.0, 9), (1.0, 9)]}
        for shift, seed, rows in toy.Spy.seen[4:]:  # two methods at two clients are warmed up
            held[shift, seed].append(rows)
        assert held[0.0, 4] == held[1.0, 4]
        assert held[0.0, 9] == held[1.0, 9] != held[0.0, 4]
        ids = partition.iid(60, 3, rng=4)
        assert held[0.0, 4] == [X[ids == c].ravel().tolist() for c in range(3)]

    def test_ids_a_column_and_tables_of_clients_are_the_same(self, toy):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"x": toy.X[:, 0], "kind": toy.y, "site": ["s", "s", "t", "t"]})
        options = {"n_clusters": 2, "seeds": 2}
        given = [
            {"X": toy.X, "clients": ["s", "s", "t", "t"], "y": toy.y},
            {"X": frame, "clients": "site", "y": "kind"},
            {"X": frame[["x"]], "clients": frame["site"], "y": frame["kind"]},
            {"X": {"s": toy.X[:2], "t": toy.X[2:]}, "y": {"s": toy.y[:2], "t": toy.y[2:]}},
            {"X": [toy.X[:2], toy.X[2:]], "y": [toy.y[:2], toy.y[2:]]},
            {"X": None, "clients": [toy.X[:2], toy.X[2:]], "y": toy.y},
            {"X": [frame[["x", "kind"]][:2], frame[["kind", "x"]][2:]], "y": "kind"},
        ]
        found = [
            compare(["jigsaw", toy.ClientMeans], **data, **options).frame.drop(columns="seconds")
            for data in given
        ]
        for other in found[1:]:
            pandas.testing.assert_frame_equal(other, found[0])

    def test_a_function_of_ones_own(self, toy):
        seen = []

        def halves(X, y, n_clients, rng):
            seen.append((X.shape, n_clients, rng.integers(1000)))
            return np.arange(len(X)) * n_clients // len(X)

        found = compare(toy.Spy, toy.X, clients=halves, n_clients=2, n_clusters=2, seeds=[0, 1])
        assert [part[:2] for part in seen] == [((4, 1), 2)] * 2
        assert seen[0] != seen[1]
        assert [row["objective_ratio"] for row in found.rows] == [1, 1]
        assert "halves split" in found.title

    @pytest.mark.parametrize("name", sorted(set(partition.SPLITS) - {"column"}))
    def test_every_named_split(self, name, grid):
        data, _ = grid
        found = compare(
            "jigsaw", data.X, clients=name, y=data.y, n_clients=3, n_clusters=15, seeds=1
        )
        options = {
            "iid": "",
            "dirichlet": ", alpha = 0.3, min_size = 15",
            "shards": ", shards_per_client = 2",
            "quantity": ", alpha = 0.3, min_size = 15",
            "features": ", direction = principal, mix = 0",
        }
        assert f"3 clients ({name} split{options.get(name, '')}), k = 15" in found.title
        assert found.rows[0]["ari"] > 0.5


class TestMethods:
    def test_names_pairs_classes_and_estimators(self, toy):
        methods = [
            "jigsaw",
            ("feca", {"refine": False}),
            toy.ClientMeans,
            toy.ClientMeans(2, shift=1),
        ]
        found = compare(methods, toy.X, clients=toy.clients, n_clusters=2, seeds=1)
        assert found.methods == [
            "Jigsaw", "FeCA (refine=False)", "ClientMeans", "ClientMeans (shift=1)",
        ]  # fmt: skip
        assert [row["params"] for row in found.rows] == [{}, {"refine": False}, {}, {"shift": 1}]
        colors = [contender.color for contender in found.contenders]
        assert colors[:2] == [CLUSTERERS["jigsaw"].color, CLUSTERERS["feca"].color]
        assert len(set(colors)) == 4

    def test_a_registered_name(self, toy, monkeypatch):
        from fedjigsaw import methods, register

        monkeypatch.setattr(methods, "_registered", dict(methods._registered))

        class Named(toy.ClientMeans):
            method = "named-by-me"

        register(Named, label="By me", color="#112233")
        found = compare(["named-by-me"], toy.X, clients=toy.clients, n_clusters=2, seeds=1)
        (only,) = found.contenders
        assert (only.label, only.color, only.name) == ("By me", "#112233", "named-by-me")

    def test_each_may_have_a_number_of_its_own(self, toy):
        found = compare([Jigsaw(1), Jigsaw(2)], toy.X, clients=toy.clients, seeds=1)
        assert found.methods == ["Jigsaw, k = 1", "Jigsaw, k = 2"]
        assert [row["n_found"] for row in found.rows] == [1, 2]
        assert [row["objective_ratio"] for row in found.rows] == pytest.approx([1, 1])

    def test_estimators_are_not_touched(self, toy):
        mine = toy.ClientMeans(2, random_state=7)
        compare([mine], toy.X, clients=toy.clients, seeds=2)
        assert mine.random_state == 7
        assert not hasattr(mine, "labels_")


class TestFailures:
    def test_they_are_recorded_and_the_rest_goes_on(self, toy):
        methods = [toy.ClientMeans, toy.Unlucky]
        with pytest.warns(FailedRunsWarning, match="Unlucky failed with 1 of 3 seeds. Seed 1: Val"):
            found = compare(methods, toy.X, clients=toy.clients, n_clusters=2, seeds=3)
        frame = found.frame
        assert frame["failed"].notna().tolist() == [False, False, False, True, False, False]
        (failed,) = [row for row in found.rows if "failed" in row]
        assert failed["failed"] == "ValueError: no luck with seed 1"
        summary = found.summary()
        assert summary["seeds", "count"].tolist() == [3, 2]
        assert summary.loc["Unlucky", ("objective_ratio", "mean")] == 1
        assert "Unlucky failed with 1 of 3 seeds" in repr(found)
        assert "failed with 1 of 3 seeds" in found.to_latex()
        assert found.verdicts()["objective_ratio"].best == ()  # with one whole method, none is best

    def test_a_method_that_always_fails(self, toy):
        methods = [toy.ClientMeans, toy.Unlucky]
        with pytest.warns(FailedRunsWarning):
            found = compare(methods, toy.X, clients=toy.clients, n_clusters=2, seeds=[1])
        assert np.isnan(found.summary().loc["Unlucky", ("inertia", "mean")])
        assert found.plot()
        assert "failed" in repr(found)

    def test_nothing_works(self, toy):
        with pytest.raises(DataError, match="Every run failed. Unlucky, seed 1: ValueError: no"):
            compare(toy.Unlucky, toy.X, clients=toy.clients, n_clusters=2, seeds=[1])

    def test_wrong_parameters_are_raised_with_the_first_seed_and_recorded_later(self, toy):
        class Choosy(toy.ClientMeans):
            method = "choosy"

            def aggregate(self, summaries, broadcast, rng):
                if self.random_state == 1:
                    raise ParameterError("not with this seed")
                return super().aggregate(summaries, broadcast, rng)

        options = {"clients": toy.clients, "n_clusters": 2}
        with pytest.raises(ParameterError, match="not with this seed"):
            compare([toy.ClientMeans, Choosy], toy.X, seeds=[1, 0], **options)
        with pytest.warns(FailedRunsWarning, match="Seed 1: not with this seed"):
            found = compare([Choosy], toy.X, seeds=[0, 1], **options)
        assert ["failed" in row for row in found.rows] == [False, True]

    def test_on_request_the_error_is_raised(self, toy):
        with pytest.raises(ValueError, match="no luck"):
            compare(toy.Unlucky, toy.X, clients=toy.clients, n_clusters=2, on_error="raise")


SITES = [0, 0, 1, 1]


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"methods": []}, ParameterError, "needs at least one method"),
            ({"methods": ["jigsaw", 3]}, ParameterError, "A method"),
            ({"methods": ["nothing"]}, ParameterError, "Unknown method 'nothing'"),
            ({"methods": [KMeans]}, ParameterError, "subclass of FederatedClusterer .* got KMeans"),
            ({"methods": [("jigsaw", {"speed": 1})]}, ParameterError, "no parameter 'speed'"),
            ({"methods": [("jigsaw", {"n_init": 0})]}, ParameterError, "n_init of Jigsaw"),
            ({"methods": [Jigsaw()]}, ParameterError, "Jigsaw has n_clusters=8, but compare has n_clusters=2"),
            ({"methods": [Jigsaw(2), Jigsaw(2)]}, ParameterError, "Two methods are called 'Jigsaw, k = 2'"),
            ({"methods": {" ": "jigsaw"}}, ParameterError, "label of a method"),
            ({"n_clusters": None}, ParameterError, "compare needs n_clusters for 'jigsaw'"),
            ({"n_clusters": 0}, ParameterError, "n_clusters of Jigsaw"),
            ({"n_clusters": 5}, ParameterError, "at most the number of rows"),
            ({"X": None}, ParameterError, "compare needs data"),
            ({"X": [[np.nan]] * 4}, DataError, "NaN in row 0, column 0"),
            ({"X": [["a"]] * 4}, DataError, "Cannot use the data of compare"),
            ({"X": np.zeros(4)}, DataError, "must be a 2-D array"),
            ({"X": [np.zeros((2, 1)), np.zeros((2, 2))], "clients": None}, DataError, "client '1'"),
            ({"clients": None}, ParameterError, "compare needs clients"),
            ({"clients": [0, 1]}, DataError, r"one id per row, shape \(4,\)"),
            ({"clients": [0, 0, 1, 1.5]}, DataError, "integers or strings"),
            ({"clients": "site"}, ParameterError, "neither a column of X nor a split. Splits are iid"),
            ({"clients": "dirichlet", "y": None}, ParameterError, "Split 'dirichlet' deals rows by their cl"),
            ({"clients": "iid", "alpha": 1}, ParameterError, "Split 'iid' has no option 'alpha'"),
            ({"clients": "iid", "n_clients": 0}, ParameterError, "n_clients of compare"),
            ({"clients": "iid", "n_clients": 5}, ParameterError, "Cannot split 4 samples among 5"),
            ({"clients": lambda X, y, n_clients, rng: [0]}, DataError, "one for each of the 4 rows"),
            ({"n_clients": 2}, ParameterError, "'n_clients': only for a split"),
            ({"y": [1, 2]}, DataError, r"one class per row, shape \(4,\)"),
            ({"y": "kind"}, DataError, "y is 'kind', which is not a column"),
            ({"y": [1, 2, None, 3]}, DataError, "no class in row 2"),
            ({"y": [1, 2, "a", "b"]}, DataError, None),
            ({"seeds": 0}, ParameterError, "seeds of compare"),
            ({"seeds": [1, -1]}, ParameterError, "seeds of compare"),
            ({"seeds": [1, 1]}, ParameterError, "A seed is given twice: 1, 1"),
            ({"on_error": "hide"}, ParameterError, "on_error of compare"),
        ],
    )  # fmt: skip
    def test_each_argument(self, toy, change, error, message):
        given = {
            "methods": ["jigsaw"], "X": toy.X, "clients": SITES, "y": toy.y, "n_clusters": 2,
        } | change  # fmt: skip
        if message is None:  # numbers and strings as classes: one kind of words
            given["y"] = np.array(change["y"], dtype=object)
            message = "Cannot sort the classes in y"
        with pytest.raises(error, match=message):
            compare(given.pop("methods"), given.pop("X"), **given)

    def test_a_frame_that_lacks_a_column(self, toy):
        pandas = pytest.importorskip("pandas")
        first, second = pandas.DataFrame({"x": [1.0]}), pandas.DataFrame({"z": [1.0]})
        with pytest.raises(DataError, match="Client '1' has no column 'x'.* unlike client '0'"):
            compare("jigsaw", [first, second], n_clusters=1)
        with pytest.raises(DataError, match="y is 'kind', .* Columns are 'x'"):
            compare("jigsaw", first, y="kind", clients=[0], n_clusters=1)


class TestRunning:
    @pytest.mark.slow
    def test_workers_give_the_same_numbers_also_of_a_class_of_a_script(self, tmp_path):
        script = tmp_path / "own.py"
        script.write_text(
            "import numpy as np\n"
            "from fedjigsaw import Jigsaw, compare, datasets\n"
            "class Mine(Jigsaw):\n"
            "    pass\n"
            "data = datasets.load('gaussian-grid')\n"
            "frames = [\n"
            "    compare([Mine, 'kfed'], data.X[:300], y=data.y[:300], clients='iid', n_clusters=9,\n"
            "            seeds=2, n_jobs=n_jobs).frame.drop(columns='seconds') for n_jobs in (1, 2)\n"
            "]\n"
            "assert frames[0].equals(frames[1])\n"
            "print(frames[0]['method'].tolist())\n"
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "['Mine', 'k-FED', 'Mine', 'k-FED']"


def test_without_pandas_the_error_says_what_to_install(toy, monkeypatch):
    found = compare(toy.ClientMeans, toy.X, clients=toy.clients, n_clusters=2, seeds=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ExtraError, match="pip install pandas"):
        _ = found.frame
    assert "ClientMeans" in found.to_csv()  # and what needs none works
    assert repr(found)
