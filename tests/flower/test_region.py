"""Regions in a federation, with all sites of both levels in this process."""

import shutil
from functools import partial

import numpy as np
import pytest

from fedjigsaw import FeCA, Jigsaw, Privacy, sites
from fedjigsaw.errors import ParameterError, QuorumError
from fedjigsaw.flower import bundle, founding, jobs, members, work
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.engine import NO_REGION, NOT_ITS_SITE
from fedjigsaw.flower.region_site import RegionSite
from fedjigsaw.flower.rounds import federate
from fedjigsaw.flower.site import load_site
from fedjigsaw.io.formats import encode
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.journal import JOURNAL, Journal
from fedjigsaw.privacy.policy import Policy, RefusedError
from flower_doubles import OFF, OPEN, LocalGrid, engine_of, grid_of, site_app

pytestmark = [pytest.mark.federation, pytest.mark.usefixtures("quick")]
INNER, TOP = ("bern", "lyon"), ("north", "oslo")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folders of both federations."""
    root = tmp_path_factory.mktemp("levels")
    founding.init(root / "clinic", INNER, "127.0.0.1", 9092, bundle.build())
    founding.init(root / "top", TOP, "127.0.0.1", 9093, bundle.build(), regions=["north"])
    return root


@pytest.fixture
def levels(made, tmp_path, shards, monkeypatch):
    """Copies of the folders; the region's server asks sites in this process."""
    shutil.copytree(made, tmp_path / "levels")
    grids = {}

    def do(home, folder, tell):
        work.do(home, folder, grids["inner"])

    monkeypatch.setattr(jobs, "_do_at_server", do)
    grids["inner"] = LocalGrid({name: site_app(name, shards[name]) for name in INNER})
    return tmp_path / "levels", grids


def region(home, **options):
    chosen = {"policy": OPEN, "guard": OFF, "folder": home / "top" / "north", **options}
    return RegionSite("north", home / "clinic", **chosen)


def records(home):
    return list(Journal(home / "top" / "north" / JOURNAL).records())


def run(home, shards, method, **options):
    """A run at the next level, over the region and one plain site."""
    apps = {
        "north": client_app(lambda context: region(home, **options)),
        "oslo": site_app("oslo", shards["oslo"]),
    }
    return federate(engine_of(LocalGrid(apps), method, names=TOP))


@pytest.mark.parametrize("method", [Jigsaw, FeCA])
def test_up_to_a_number_of_centers_the_model_is_that_without_regions(levels, shards, method):
    file, transcript = run(levels[0], shards, method(3, random_state=0), n_centers=20)
    flat, _ = federate(engine_of(grid_of(shards), method(3, random_state=0)))
    assert encode(file) == encode(flat)
    assert transcript.clients == ("north", "oslo")


def test_merged_centers_find_the_same_clusters(levels, shards):
    file, _ = run(levels[0], shards, Jigsaw(3, random_state=0), n_centers=3)
    flat, _ = federate(engine_of(grid_of(shards), Jigsaw(3, random_state=0)))
    assert file.clients == TOP
    assert file.n_samples == flat.n_samples == 360
    np.testing.assert_allclose(file.model.centers, flat.model.centers, atol=0.2)


@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.UncertainNumberWarning")
def test_the_number_of_clusters_is_found_through_a_region(levels, shards):
    file, _ = run(levels[0], shards, Jigsaw("auto", random_state=0), n_centers=30)
    assert len(file.model.centers) == 3


@pytest.mark.parametrize("params", [{}, {"n_init": 2}])
@pytest.mark.parametrize("n_centers", [3, 20])
def test_a_region_that_is_alone_gives_the_model_without_regions(levels, n_centers, params, shards):
    home, grids = levels
    app = client_app(lambda context: region(home, n_centers=n_centers))
    method = partial(Jigsaw, 3, random_state=4, **params)
    high, _ = federate(engine_of(LocalGrid({"north": app}), method(), names=("north",)))
    flat, _ = federate(engine_of(grids["inner"], method(), names=INNER))
    assert encode(high) == encode(flat)


def test_the_kept_summary_of_a_region_gives_the_same_model(levels, shards):
    home = levels[0]
    apps = {
        "north": client_app(lambda context: region(home, n_centers=3)),
        "oslo": site_app("oslo", shards["oslo"]),
    }
    models = []
    for ask, grid in (("all", LocalGrid(apps)), ("none", None)):
        folder = jobs.new_job_folder(home / "top" / "server")
        jobs.Job("jigsaw", 3, wait=0.0, ask=ask).save(folder)
        work.do(home / "top" / "server", folder, grid)
        models.append(jobs.finished(folder)[0].read_bytes())
    assert models[0] == models[1]


def test_an_unchanged_region_repeats_its_answer_and_a_changed_one_does_not(levels, shards):
    home, grids = levels
    for _ in range(2):
        run(home, shards, Jigsaw(3, random_state=0))
    answers = [record for record in records(home) if record["kind"] == "answer"]
    assert [record.get("repeated", False) for record in answers] == [False, True]
    grids["inner"].apps["bern"] = site_app("bern", shards["bern"] + 1)
    run(home, shards, Jigsaw(3, random_state=0))
    last = records(home)[-1]
    assert not last.get("repeated", False)
    assert last["answer"] != answers[0]["answer"]


class TestRefusals:
    """A region sends nothing that its own policy does not allow, whatever its sites do."""

    def reason(self, home):
        return records(home)[-1]["reason"]

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"guard": Guard(5)}, "centers of 1 rows, fewer than the 5"),
            ({"policy": Policy(counts="none")}, "counts or sums that it may not pass on"),
            ({"policy": Policy(sums="none")}, "counts or sums that it may not pass on"),
            ({"policy": Policy(privacy="required")}, "the privacy that it requires"),
            ({"policy": Policy(methods=("feca",))}, "jigsaw is not among: feca"),
        ],
    )
    def test_what_the_policy_of_the_region_does_not_allow(self, levels, shards, options, reason):
        with pytest.raises(QuorumError, match="its policy refuses this question"):
            run(levels[0], shards, Jigsaw(3, random_state=0), **options)
        assert reason in self.reason(levels[0])

    def test_a_promise_that_is_too_weak(self, levels, shards, tmp_path):
        home, grids = levels
        for name in INNER:
            promise = Privacy(4.0, cells="own", bounds=(-10.0, 40.0))
            (tmp_path / name).mkdir()
            options = {"folder": tmp_path / name, "privacy": promise}
            grids["inner"].apps[name] = site_app(name, shards[name], **options)
        strict = Policy(privacy="required", largest_epsilon=1.0)
        with pytest.raises(QuorumError, match="its policy refuses"):
            run(home, shards, Jigsaw(3, random_state=0), policy=strict)
        allowed = Policy(privacy="required", largest_epsilon=4.0)
        file, _ = run(home, shards, Jigsaw(3, random_state=0), policy=allowed, n_centers=4)
        assert file.privacy is None  # oslo promises nothing

    def test_before_any_site_is_asked(self, levels, shards):
        home, grids = levels
        with pytest.raises(QuorumError):
            run(home, shards, Jigsaw(3, random_state=0), policy=Policy(methods=("feca",)))
        assert grids["inner"].sent == []

    def test_more_questions_than_the_policy_of_the_region_allows(self, levels):
        home, grids = levels
        limits = [Policy(questions_in_all=2), Policy(questions_per_day=2)]
        for k in (2, 3):
            region(home).answer(question_of(Jigsaw(k, random_state=0)))
        n_asked = len(grids["inner"].sent)
        for policy, reason in zip(limits, ("about this data set", "within 24 hours"), strict=True):
            site = region(home, policy=policy)
            with pytest.raises(RefusedError, match=f"2 questions were answered {reason}"):
                site.answer(question_of(Jigsaw(4, random_state=0)))
        assert len(grids["inner"].sent) == n_asked
        assert [r["kind"] for r in records(home)][-4:] == ["question", "refusal"] * 2
        again = region(home, policy=limits[0]).answer(question_of(Jigsaw(3, random_state=7)))
        assert again.summary.client == "north"

    def test_several_rounds(self, levels, shards):
        with pytest.raises(QuorumError, match="north"):
            run(levels[0], shards, Jigsaw(3, n_rounds=2, random_state=0))

    def test_the_server_learns_nothing_of_what_failed_in_the_region(self, levels, shards):
        home, grids = levels
        grids["inner"].apps["bern"] = site_app("bern", np.full((3, 3), np.nan))
        with pytest.raises(QuorumError) as error:
            run(home, shards, Jigsaw(3, random_state=0))
        assert "bern" not in str(error.value)

    def test_a_site_that_fails_is_left_out_if_enough_others_answer(self, levels, shards):
        home, grids = levels
        grids["inner"].apps["bern"] = site_app("bern", np.full((3, 3), np.nan))
        file, _ = run(home, shards, Jigsaw(3, random_state=0), min_sites=1)
        assert file.clients == ("lyon", "oslo")

    def test_a_site_of_both_levels_is_noticed(self, levels, shards):
        home, grids = levels
        rows = {"oslo": shards["oslo"], "bern": shards["bern"]}
        grids["inner"].apps["lyon"] = site_app("lyon", shards["lyon"])
        apps = {name: site_app(name, X) for name, X in rows.items()}
        apps["north"] = client_app(lambda context: region(home))
        names = ("bern", "north", "oslo")
        engine = engine_of(LocalGrid(apps), Jigsaw(3, random_state=0), names=names)
        file, transcript = federate(engine, min_sites=2)  # one lie costs the region its place
        assert file.clients == ("bern", "oslo")
        assert transcript.failures[0].reason == NOT_ITS_SITE
        with pytest.raises(QuorumError, match="north"):
            federate(engine)

    def test_who_counts_as_several_sites_is_told(self, levels, shards):
        home, _ = levels
        apps = {
            "north": client_app(lambda context: region(home)),
            "oslo": site_app("oslo", shards["oslo"]),
        }
        events = []
        tell = lambda *event: events.append(event)  # noqa: E731
        federate(engine_of(LocalGrid(apps), Jigsaw(3, random_state=0), names=TOP, tell=tell))
        assert [event for event in events if event[0] == "region"] == [
            ("region", "north", "answers for 2 sites: bern, lyon")
        ]

    def test_a_site_that_is_no_region_cannot_count_as_many(self, levels, shards):
        home, _ = levels
        apps = {
            "north": client_app(lambda context: region(home)),
            "oslo": site_app("oslo", shards["oslo"]),
        }
        method, server = Jigsaw(3, random_state=0), home / "top" / "server"
        for is_region, clients in ((True, ("bern", "lyon", "oslo")), (False, ("oslo",))):
            members.mark_region(server, "north", region=is_region)
            regions = members.read_regions(server)
            engine = engine_of(LocalGrid(apps), method, names=TOP, regions=regions)
            file, transcript = federate(engine, min_sites=1)
            assert file.clients == clients
            reasons = [failure.reason for failure in transcript.failures]
            assert reasons == ([] if is_region else [NO_REGION])


def test_a_region_must_not_be_the_federation_above(levels):
    home = levels[0]
    options = {"kind": "region", "name": "north", "folder": str(home / "top" / "north")}
    assert (
        "it asks bern, lyon" in load_site({**options, "federation": str(home / "clinic")}).check()
    )
    with pytest.raises(ParameterError, match="is the federation that north is a site of"):
        load_site({**options, "federation": str(home / "top")}).check()


def test_by_file_and_over_the_network_are_the_same(levels, shards):
    file = region(levels[0], n_centers=4)._ask(question_of(Jigsaw(3, random_state=0)))
    summaries = {n: sites.summarize(from_array(shards[n]), 3, client=n, guard=OFF) for n in INNER}
    by_file, _ = sites.aggregate_region(summaries, 3, client="north", n_centers=4)
    assert file.summary == by_file.summary


def question_of(method):
    from fedjigsaw.flower.records import Question
    from fedjigsaw.messages import Broadcast

    return Question(Broadcast(0, method.random_state), method.method, method.configuration())
