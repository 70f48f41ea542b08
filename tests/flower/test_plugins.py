"""A federation with a method that is no part of the package, and that not every site has."""

import sys

import pytest

from fedjigsaw import SerialEngine, methods
from fedjigsaw.errors import ExtraError, ParameterError, QuorumError
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import load_policy
from fedjigsaw.methods import make
from fedjigsaw.records.policy import Policy
from flower_doubles import NAMES, OFF, LocalGrid, engine_of, site_app
from plugin_packages import WARD, install

ALLOWED = Policy(methods=("jigsaw", "toy-ward"))
SECRET = "toy-clusters"


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
    monkeypatch.setattr(methods, "_registered", {})
    methods._entry_of_plugin.cache_clear()
    yield
    sys.modules.pop("toy", None)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    folder = install(tmp_path / "toy", SECRET, {"toy-ward": "toy:ToyWard"}, toy=WARD)
    monkeypatch.syspath_prepend(str(folder))
    return str(folder)


def without(folder, app):
    """The same site on a machine where the package is not installed."""

    def answer(message, context):
        sys.path.remove(folder)
        try:
            return app(message, context)
        finally:
            sys.path.insert(0, folder)

    return answer


def apps(shards, policy=ALLOWED):
    return {name: site_app(name, shards[name], policy=policy, guard=OFF) for name in NAMES}


# what a method returns at a site, and what the site's log says of it
WRONG = {
    "None": "ToyBad.summarize must return a Summary, such as",
    "Summary(n_samples=len(X), centers=X[:2] * np.nan)": "must be finite numbers",
}


class TestPlugins:
    @pytest.mark.parametrize("returned", WRONG)
    def test_a_mistake_in_a_method_is_not_blamed_on_versions_or_parameters(
        self, shards, tmp_path, monkeypatch, caplog, returned
    ):
        code = f"{WARD}\nclass ToyBad(ToyWard):\n    def summarize(self, X, broadcast, rng):\n"
        points, code = {"toy-bad": "toy:ToyBad"}, f"{code}        return {returned}\n"
        folder = install(tmp_path / "bad", "toy-bad", points, toy=code)
        monkeypatch.syspath_prepend(str(folder))
        run = engine_of(LocalGrid(apps(shards, Policy(methods=("toy-bad",)))), make("toy-bad", 3))
        with pytest.raises(QuorumError, match="its part of the work failed; see the log") as caught:
            federate(run)
        assert WRONG[returned] in caplog.text
        assert WRONG[returned] not in str(caught.value)  # what the site knows stays there

    def test_sites_that_have_it_answer(self, shards, toy):
        method = make("toy-ward", 3, 0)
        file, transcript = federate(engine_of(LocalGrid(apps(shards)), method))
        assert (file.clients, transcript.failures) == (NAMES, ())
        assert file.model.method == "toy-ward"
        here = make("toy-ward", 3, 0).fit_clients(shards, engine=SerialEngine)
        assert file.model.centers.tolist() == here.cluster_centers_.tolist()

    def test_a_site_without_it_says_one_word_and_the_others_go_on(self, shards, toy, caplog):
        sites = apps(shards)
        sites["oslo"] = without(toy, sites["oslo"])
        run = engine_of(LocalGrid(sites), make("toy-ward", 3, 0))
        file, transcript = federate(run, min_sites=2)
        assert file.clients == NAMES[:2]
        (failure,) = transcript.failures
        assert failure.client == "oslo"
        assert failure.reason.startswith("it does not know the method or a parameter")
        assert SECRET not in failure.reason
        assert "must be installed at the site, and named in policy.toml" in caplog.text
        with pytest.raises(QuorumError):
            federate(engine_of(LocalGrid(sites), make("toy-ward", 3, 0)))

    def test_installed_is_not_enough_the_policy_must_name_it(self, shards, toy):
        method = make("toy-ward", 3, 0)
        sys.modules.pop("toy")
        methods._entry_of_plugin.cache_clear()
        run = engine_of(LocalGrid(apps(shards, Policy())), method)
        with pytest.raises(QuorumError):
            federate(run)
        assert "toy" not in sys.modules  # nobody outside makes a site import something


class TestPolicies:
    def test_a_site_does_not_start_with_a_method_that_is_not_there(self, tmp_path):
        (tmp_path / "policy.toml").write_text('methods = ["toy-ward"]')
        with pytest.raises(
            ParameterError, match=r"policy.toml must be a list of methods.*\['toy-wa"
        ):
            load_policy(tmp_path)

    def test_nor_with_one_that_is_broken_or_pools_rows(self, tmp_path, monkeypatch):
        points = {"toy-pool": "toy:Pool", "toy-broken": "toy:Nothing"}
        code = WARD + "\nclass Pool(ToyWard):\n    pools_data = True\n"
        monkeypatch.syspath_prepend(str(install(tmp_path / "x", "toy-x", points, toy=code)))
        (tmp_path / "policy.toml").write_text('methods = ["toy-pool"]')
        with pytest.raises(ParameterError, match="names 'toy-pool', which pools all rows"):
            load_policy(tmp_path)
        (tmp_path / "policy.toml").write_text('methods = ["toy-broken"]')
        with pytest.raises(ExtraError, match="'toy-broken' of toy-x 1.0 cannot be loaded"):
            load_policy(tmp_path)
