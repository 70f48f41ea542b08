"""Methods that are no part of the package: registered, or of another package."""

import sys

import numpy as np
import pytest

import fedjigsaw
from fedjigsaw import FeCA, FederatedClusterer, Jigsaw, methods, partition
from fedjigsaw.errors import DataError, ExtraError, FedJigsawError, ParameterError
from fedjigsaw.methods import METHODS, find, find_for_rows, is_known, label_of, make, others
from plugin_packages import WARD, install

ROWS = np.arange(24.0).reshape(12, 2)


class OwnMethod(FederatedClusterer):
    """The mean of all rows, k times.

    Not a good method.
    """

    def summarize(self, X, broadcast, rng):
        center = X.mean(axis=0, keepdims=True)
        return fedjigsaw.Summary(n_samples=len(X), centers=center, counts=np.array([len(X)]))

    def aggregate(self, summaries, broadcast, rng):
        return self.make_model(np.concatenate([summary.centers for summary in summaries]))


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
    """Neither names nor modules of one test are there in the next."""
    monkeypatch.setattr(methods, "_registered", {})
    methods._entry_of_plugin.cache_clear()
    loaded = set(sys.modules)
    yield
    for name in {n for n in set(sys.modules) - loaded if n.startswith(("toy", "broken"))}:
        del sys.modules[name]
    OwnMethod.__dict__.get("method") and delattr(OwnMethod, "method")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package into a folder of its own, which Python then finds."""

    def add(package, points, **options):
        folder = install(tmp_path / package, package, points, **options)
        monkeypatch.syspath_prepend(str(folder))

    return add


class TestEntryPoints:
    def test_a_method_of_another_package_is_found_by_its_name(self, installed):
        assert not is_known("toy-ward")
        installed("toy-clusters", {"toy-ward": "toy:ToyWard"}, toy=WARD)
        assert is_known("toy-ward")
        assert "toy" not in sys.modules  # nobody asked for it yet
        fitted = make("toy-ward", 3, 0, scale=2.0).fit(ROWS)
        assert fitted.cluster_centers_.tolist() == [[6.0, 8.0], [22.0, 24.0], [38.0, 40.0]]
        assert fitted.model_.method == "toy-ward"
        entry = find("toy-ward")
        assert (entry.label, entry.source) == ("ToyWard", "toy-clusters 1.0")
        assert entry.about == "Cut sorted rows into equal parts: for tests."
        assert entry.color not in {row.color for row in METHODS.values()}

    def test_a_method_of_the_package_cannot_be_replaced(self, installed):
        installed("toy-evil", {"feca": "toy:ToyWard"}, toy=WARD)
        assert type(make("feca", 3)) is FeCA
        assert "toy" not in sys.modules
        assert "toy-evil 1.0 has a method 'feca' too, which is ignored" in str(others()["feca"])

    def test_two_packages_with_one_name_are_an_error_that_names_both(self, installed):
        installed("toy-a", {"toy-ward": "toy:ToyWard"}, toy=WARD)
        installed("toy-b", {"toy-ward": "toy2:ToyWard"}, toy2=WARD, version="2.1")
        for ask in (lambda: make("toy-ward", 3), lambda: find("toy-ward")):
            with pytest.raises(ExtraError, match=r"toy-[ab] .*\(toy2?:ToyWard\) and toy-[ab]") as e:
                ask()
        assert "toy-a 1.0" in str(e.value)
        assert "toy-b 2.1" in str(e.value)

    def test_an_older_copy_of_the_same_package_does_not_count(
        self, installed, tmp_path, monkeypatch
    ):
        install(tmp_path / "old", "Toy_A", {"toy-ward": "old:ToyWard"}, version="0.1", old=WARD)
        monkeypatch.syspath_prepend(str(tmp_path / "old"))
        installed("toy-a", {"toy-ward": "toy:ToyWard"}, toy=WARD)
        assert find("toy-ward").source == "toy-a 1.0"

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            (
                "import nothing_like_this",
                "ModuleNotFoundError: No module named 'nothing_like_this'",
            ),
            ("def (", "SyntaxError"),
            ("raise SystemExit('no license')", "SystemExit: no license"),
            ("other = 1", "AttributeError: module 'broken' has no attribute 'ToyWard'"),
            ("ToyWard = 3", "int is not a subclass of fedjigsaw.FederatedClusterer"),
            ("class ToyWard: ...", "ToyWard is not a subclass of fedjigsaw.FederatedClusterer"),
            (
                "import fedjigsaw\nclass ToyWard(fedjigsaw.FederatedClusterer): ...",
                "ToyWard does not define aggregate and summarize",
            ),
        ],
    )
    def test_a_broken_one_says_why_when_it_is_asked_for_and_disturbs_nobody(
        self, installed, code, why
    ):
        installed("toy-broken", {"toy-ward": "broken:ToyWard"}, broken=code)
        installed("toy-whole", {"toy-other": "toy:ToyWard"}, toy=WARD)
        assert type(make("jigsaw", 3)) is Jigsaw
        assert find("toy-other").label == "ToyWard"
        with pytest.raises(ExtraError, match="'toy-ward' of toy-broken 1.0 cannot be loaded") as e:
            make("toy-ward", 3)
        assert why in str(e.value)
        found = others()
        assert isinstance(found["toy-ward"], FedJigsawError)
        assert found["toy-other"].name == "toy-other"
        assert label_of("toy-ward") == "toy-ward"

    def test_the_entry_point_names_the_method_and_the_class_must_agree(self, installed):
        named = WARD.replace('tests."""', 'tests."""\n    method = "toy"')
        installed("toy-a", {"toy-ward": "toy:ToyWard"}, toy=named)
        with pytest.raises(ExtraError, match="'toy-ward'.*has the name 'toy'.*the same at both"):
            find("toy-ward")

    def test_a_class_of_the_package_under_another_name_is_refused(self, installed):
        installed("toy-a", {"toy-feca": "fedjigsaw:FeCA"})
        with pytest.raises(ExtraError, match="which is a class of fedjigsaw itself"):
            find("toy-feca")
        assert FeCA.method == "feca"

    @pytest.mark.parametrize("name", ["../evil", "UPPER", "two words", "-x", "x" * 41])
    def test_a_name_that_could_be_no_folder_is_refused(self, installed, name):
        installed("toy-a", {name: "toy:ToyWard"}, toy=WARD)
        assert not is_known(name)
        with pytest.raises(FedJigsawError):
            find(name)

    def test_damaged_metadata_of_some_package_disturb_nobody(self, installed, tmp_path):
        installed("toy-a", {"toy-ward": "toy:ToyWard"}, toy=WARD)
        damaged = tmp_path / "toy-a" / "bad-1.0.dist-info"
        damaged.mkdir()
        (damaged / "entry_points.txt").write_bytes(b"\xff\xfe[fedjigsaw.methods\n=\n")
        assert find("toy-ward").label == "ToyWard"


class TestRegister:
    def test_the_name_is_that_of_the_class(self):
        assert fedjigsaw.register(OwnMethod) is OwnMethod
        assert make("own-method", 3, 1).get_params() == {"n_clusters": 3, "random_state": 1}
        assert OwnMethod(1).fit(ROWS).model_.method == "own-method"
        entry = find("own-method")
        assert (entry.label, entry.about) == ("OwnMethod", "The mean of all rows, k times.")

    def test_a_child_of_a_method_of_the_package_has_a_name_of_its_own(self):
        class Quick(FeCA):
            pass

        assert Quick(3).method == "quick"
        assert find_for_rows(Quick).name == "quick"
        fedjigsaw.register(Quick)
        assert Quick(3).method == "quick"
        assert FeCA(3).method == "feca"

    def test_a_class_that_is_defined_again_takes_the_place_of_the_first(self):
        def define():
            class Again(OwnMethod):
                pass

            return Again

        first, second = define(), define()
        fedjigsaw.register(first)
        fedjigsaw.register(second)
        assert find("again").cls is second

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: fedjigsaw.register(OwnMethod, name="feca"), "'feca' is a method of the pack"),
            (lambda: fedjigsaw.register(FeCA, name="mine"), "cannot be replaced"),
            (lambda: fedjigsaw.register(OwnMethod(3)), "OwnMethod is not a subclass"),
            (lambda: fedjigsaw.register(FederatedClusterer), "does not define aggregate and sum"),
            (lambda: fedjigsaw.register(OwnMethod, name="My Method"), "up to 40 of the signs a-z"),
            (lambda: fedjigsaw.register(OwnMethod, color="red"), "color of OwnMethod"),
        ],
    )
    def test_bad(self, call, words):
        with pytest.raises(ParameterError, match=words):
            call()
        assert not is_known("mine")

    def test_two_classes_of_one_name_are_an_error_that_names_both(self):
        fedjigsaw.register(OwnMethod, name="mine")

        class Other(OwnMethod):
            pass

        with pytest.raises(ParameterError, match="'mine' is .*:OwnMethod already; .*Other needs"):
            fedjigsaw.register(Other, name="mine")
        with pytest.raises(ParameterError, match="OwnMethod is registered as 'mine' already"):
            fedjigsaw.register(OwnMethod, name="yours")

    def test_a_name_of_an_installed_package_is_taken(self, installed):
        installed("toy-a", {"own-method": "toy:ToyWard"}, toy=WARD)
        with pytest.raises(ParameterError, match="toy:ToyWard of toy-a 1.0 already"):
            fedjigsaw.register(OwnMethod)


class TestClassesAndEstimators:
    def test_make_takes_a_name_a_class_or_an_estimator(self):
        for given in ("jigsaw", Jigsaw, Jigsaw(9, n_init=3)):
            made = make(given, 4, 7)
            assert (type(made), made.n_clusters, made.random_state) == (Jigsaw, 4, 7)
        assert made.n_init == 3
        assert make(OwnMethod, 1).fit(ROWS).n_clusters_ == 1

    def test_an_estimator_is_copied(self):
        given = Jigsaw(9)
        assert make(given, 4) is not given
        assert given.n_clusters == 9

    def test_what_is_no_method_is_refused(self):
        with pytest.raises(ParameterError, match="object is not a subclass of fedjigsaw.Federated"):
            find_for_rows(object)


class TestOwnFiles:
    def test_the_methods_that_a_file_defines_are_registered(self, tmp_path):
        (tmp_path / "toy_file.py").write_text(WARD + "\nimport fedjigsaw\nFeCA = fedjigsaw.FeCA\n")
        methods.register_all(str(tmp_path / "toy_file.py"))
        assert make("toy-ward", 3).scale == 1.0
        assert sorted(methods._registered) == ["toy-ward"]

    def test_a_file_never_takes_the_place_of_a_module(self, tmp_path):
        (tmp_path / "numpy.py").write_text(WARD)
        methods.register_all(str(tmp_path / "numpy.py"))
        assert sys.modules["numpy"] is np

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("import fedjigsaw", "neither a method, .* nor a split that it registers"),
            (WARD.replace("def aggregate", "def agregate"), "ToyWard does not define aggregate"),
        ],
    )
    def test_a_file_without_a_method_that_can_run_is_an_error(self, tmp_path, code, words):
        path = tmp_path / "toy_file.py"
        path.write_text(code)
        with pytest.raises(ParameterError, match=f"The plugin .*toy_file.py .*{words}"):
            methods.register_all(str(path))

    def test_a_file_may_have_splits_alone(self, tmp_path, monkeypatch):
        monkeypatch.setitem(partition.SPLITS, "toy-split", ())  # so that it is removed again
        monkeypatch.setitem(partition._own, "toy-split", None)
        monkeypatch.setattr(partition, "WITHOUT_CLASSES", partition.WITHOUT_CLASSES.copy())
        del partition.SPLITS["toy-split"]
        monkeypatch.syspath_prepend(tmp_path)
        code = "from fedjigsaw import partition\npartition.register(lambda *a: 0, name='toy-split')"
        (tmp_path / "toy_splits.py").write_text(code)
        methods.register_all("toy_splits")
        methods.register_all("toy_splits")
        assert "toy-split" in partition.SPLITS

    @pytest.mark.parametrize("code", ["1 / 0", "raise SystemExit(3)"])
    def test_a_file_that_fails_says_why(self, tmp_path, code):
        path = tmp_path / "toy_file.py"
        path.write_text(code)
        with pytest.raises(ParameterError, match="Cannot load the plugin .*toy_file.py:"):
            methods.register_all(str(path))
        assert "toy_file" not in sys.modules
        with pytest.raises(DataError, match="no_file.py: no such file"):
            methods.register_all(str(tmp_path / "no_file.py"))


def test_an_error_at_the_server_tells_which_fields_it_gets():
    class Weighed(OwnMethod):
        def aggregate(self, summaries, broadcast, rng):
            np.concatenate([summary.counts for summary in summaries])

    with pytest.raises(ValueError, match="zero-dimensional") as caught:
        Weighed(1).fit(ROWS, clients=np.arange(12) % 2)
    (note,) = caught.value.__notes__
    assert note.startswith("Weighed.aggregate gets these fields of a summary: n_samples, centers.")
    Weighed.sends = ("counts",)
    with pytest.raises(ParameterError, match="must return a Model"):  # it has got the counts
        Weighed(1).fit(ROWS, clients=np.arange(12) % 2)


def test_a_field_that_is_not_sent_is_named():
    class Weighed(OwnMethod):
        def aggregate(self, summaries, broadcast, rng):
            sum(summary.counts.sum() for summary in summaries)

    with pytest.raises(ParameterError, match="`sends`") as caught:
        Weighed(1).fit(ROWS, clients=np.arange(12) % 2)
    assert isinstance(caught.value.__cause__, AttributeError)
