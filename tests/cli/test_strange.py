"""A site unlike all others is told first, with an exit code of its own; and what options do."""

import json

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.errors import ConspicuousSiteWarning, ParameterError, StrangeSiteError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.tables import from_array

NAMES = ("bern", "graz", "lyon", "oslo", "rome")
GROUPS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
STRANGE = 11


@pytest.fixture(scope="module")
def rows():
    """Return the rows of five sites, all of which measure alike."""
    rng = np.random.default_rng(0)
    return {n: GROUPS[rng.integers(4, size=200)] + rng.normal(size=(200, 2)) for n in NAMES}


def summaries_of(rows, k=4, **options):
    return {n: sites.summarize(from_array(X), k, client=n, **options) for n, X in rows.items()}


def strange(rows):
    return rows | {"oslo": 2 * rows["oslo"]}


@pytest.fixture
def folder(tmp_path, monkeypatch, rows):
    """Go to a folder with fine summaries, oslo's of rows in another unit."""
    monkeypatch.chdir(tmp_path)
    for name, file in summaries_of(strange(rows), params={"detail": 3}).items():
        formats.save(file, tmp_path / f"{name}.summary")
    return tmp_path


FILES = " ".join(f"{name}.summary" for name in NAMES)


class TestAggregate:
    def test_it_is_the_first_line_and_the_model_is_written(self, run, folder):
        done = run(f"aggregate {FILES} -k 4 -o model")
        assert done.exit_code == STRANGE
        first = done.stdout.splitlines()[0]
        assert first.startswith("oslo ")
        assert all(option in first for option in ("--without oslo", "--vouch oslo", "--liars 1"))
        assert (folder / "model").exists()
        values = json.loads(run("inspect model --json").stdout)
        influence = {site["client"]: site["influence"] for site in values["sites"]}
        assert max(influence, key=influence.get) == "oslo"
        assert influence["bern"] < 1.1 < influence["oslo"]

    def test_strict_writes_nothing(self, run, folder):
        with pytest.raises(StrangeSiteError) as error:
            run(f"aggregate {FILES} -k 4 -o model --strict")
        assert error.value.exit_code == STRANGE
        assert not list(folder.glob("model*"))

    @pytest.mark.parametrize(("n_sites", "told"), [(3, True), (4, False)])
    def test_strict_says_where_nobody_can_be_strange(self, run, folder, n_sites, told):
        files = [f"{name}.summary" for name in NAMES if name != "oslo"][:n_sites]
        for more in ("-o model", "--as-summary -o region", "--json -o other"):
            done = run(f"aggregate {' '.join(files)} -k 4 --strict {more}")
            assert done.exit_code == 0
            assert ("fewer than 4 sites" in " ".join(done.stderr.split())) == told
        assert "--strict" not in run(f"aggregate {' '.join(files)} -k 4 -o plain").stderr

    @pytest.mark.parametrize("option", ["--without oslo", "--vouch oslo"])
    def test_what_was_done_about_it_is_told_no_more(self, run, folder, option):
        done = run(f"aggregate {FILES} -k 4 -o model --strict {option}")
        assert done.exit_code == 0

    def test_liars_let_it_stand_apart(self, run, folder):
        done = run(f"aggregate {FILES} -k 4 -o model --liars 1 --json")
        assert done.exit_code == STRANGE
        found = json.loads(done.stdout)
        n_lone = len(found["lone"])
        assert (found["n_clusters"], found["ids"]) == (4, list(range(4 + n_lone)))
        assert {lone["client"] for lone in found["lone"]} == {"oslo"}
        assert len(found["strange"]) == 1
        text = run("inspect model").stdout
        for lone in found["lone"]:
            assert f"Cluster {lone['id']} is held by oslo alone: {lone['rows']} rows" in text
        again = run(f"aggregate {FILES} -k 4 -o later --liars 1 --like model --json")
        assert json.loads(again.stdout)["ids"] == found["ids"]
        np.save("oslo.npy", np.zeros((5, 2)) + 18)
        run("assign oslo.npy --model model -o labels.csv")
        labels = np.loadtxt("labels.csv", delimiter=",", skiprows=1)[:, 1]
        assert set(labels) <= set(range(4, 4 + n_lone))

    def test_finer_summaries_are_asked_for(self, run, folder, rows):
        fine = run(f"aggregate {FILES} -k 4 -o model --liars 1").stdout
        for name, file in summaries_of(strange(rows)).items():
            formats.save(file, folder / f"{name}.summary", replace=True)
        coarse = run(f"aggregate {FILES} -k 4 -o coarse --liars 1").stdout
        assert "--detail" in coarse
        assert "--detail" not in fine

    def test_summaries_by_number_are_asked_for_in_place_of_cells(self, run, folder, rows):
        for name, own in strange(rows).items():
            np.save(folder / f"{name}.npy", own)
            run(f"summarize {name}.npy -k auto -o {name}.summary --force")
        assert "-k 4 --detail 3" in run(f"aggregate {FILES} -k 4 -o model --liars 1").stdout

    def test_a_region_tells_it_too(self, run, folder):
        done = run(f"aggregate {FILES} -k 4 --as-summary -o north.summary")
        assert done.exit_code == STRANGE
        assert "oslo is unlike the others" in done.stdout.splitlines()[0]
        with pytest.raises(StrangeSiteError):
            run(f"aggregate {FILES} -k 4 --as-summary -o south.summary --strict")
        assert not (folder / "south.summary").exists()


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ("--liars 3", "at least 7"),  # sites
            ("--vouch olso", "'olso'"),
            ("--liars 1 -p liars=2", "--liars"),
        ],
    )
    def test_options(self, run, folder, options, told):
        with pytest.raises(ParameterError, match=told):
            run(f"aggregate {FILES} -k 4 -o model {options}")

    def test_a_method_that_sends_no_sums(self, run, folder, rows):
        for name, file in summaries_of(rows, method="feca").items():
            formats.save(file, folder / f"{name}.feca")
        files = " ".join(f"{name}.feca" for name in NAMES)
        with pytest.raises(ParameterError, match="use jigsaw"):
            run(f"aggregate {files} -k 4 -o model --liars 1")
        with pytest.raises(ParameterError, match="--strict"):
            run(f"aggregate {files} -k 4 -o model --strict")
        assert not (folder / "model").exists()
        assert run(f"aggregate {files} -k 4 -o model --liars 0").exit_code == 0

    def test_a_number_that_is_to_be_found(self, run, folder, rows):
        for name, file in summaries_of(rows, "auto").items():
            formats.save(file, folder / f"{name}.auto")
        files = " ".join(f"{name}.auto" for name in NAMES)
        with pytest.raises(ParameterError, match="liars requires"):
            run(f"aggregate {files} -k auto -o model --liars 1")


def test_a_site_may_send_more_detail(run, tmp_path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    np.save("bern.npy", rows["bern"])
    run("summarize bern.npy -k 4 -o fine --detail 3")
    run("summarize bern.npy -k 4 -o plain")
    fine, plain = (formats.load(tmp_path / name, SummaryFile) for name in ("fine", "plain"))
    assert len(plain.summary.centers) == 4 < len(fine.summary.centers)


@pytest.fixture
def clinic_of(tmp_path, rows):
    """Make a federation of five sites whose summaries are kept: detail -> its folder."""
    pytest.importorskip("flwr")
    from fedjigsaw.flower import bundle, founding
    from fedjigsaw.sites.keeping import Kept

    def make(detail):
        folder = tmp_path / "clinic"
        founding.init(folder, list(NAMES), "127.0.0.1", 9092, bundle.build())
        for file in summaries_of(strange(rows), params={"detail": detail}).values():
            Kept(folder / "server" / "kept").add(file)
        return folder

    return make


@pytest.mark.federation
class TestFederation:
    def test_it_is_told_first_and_stands_in_status_and_metrics(
        self, run, clinic_of, tmp_path, recwarn
    ):
        from fedjigsaw.flower import jobs
        from fedjigsaw.flower.counts import RunCounts

        clinic, model = clinic_of(None), tmp_path / "model"
        words = ("federation", "run", clinic, "-k", 4, "--ask", "none", "-o")
        done = run(*words, model)
        assert done.exit_code == STRANGE
        assert done.stdout.startswith("oslo ")
        assert "site_influence" in formats.load(model, ModelFile).model.tensors
        assert not [w for w in recwarn if w.category is ConspicuousSiteWarning]  # not twice
        (told,) = jobs.strange_in_last_run(clinic / "server")
        assert "oslo" in told
        counts = RunCounts(clinic / "server")
        counts.refresh()
        assert (counts.strange, counts.results["model"]) == (1, 1)
        assert run(*words, tmp_path / "sure", "--vouch", "oslo").exit_code == 0
        assert jobs.strange_in_last_run(clinic / "server") == []

    def test_strict_publishes_nothing(self, run, clinic_of, tmp_path):
        from fedjigsaw.flower import jobs

        clinic, model = clinic_of(None), tmp_path / "model"
        with pytest.raises(StrangeSiteError) as error:
            run("federation", "run", clinic, "-k", 4, "-o", model, "--ask", "none", "--strict")
        assert error.value.exit_code == STRANGE
        assert not model.exists()
        assert not list((clinic / "server" / "runs").glob("*/model"))
        assert len(jobs.strange_in_last_run(clinic / "server")) == 1

    def test_liars_ask_for_finer_summaries(self, run, clinic_of, tmp_path):
        clinic, model = clinic_of(3), tmp_path / "model"
        words = ("federation", "run", clinic, "-k", 4, "-o", model, "--ask", "none", "--liars", 1)
        with pytest.raises(ParameterError, match="No summary is kept"):
            run(*words, "--detail", 1)
        done = run(*words, "--json")
        assert done.exit_code == STRANGE
        found = json.loads(done.stdout)
        assert found["n_clusters"] == 4
        assert {lone["client"] for lone in found["lone"]} == {"oslo"}
        assert "site_influence" not in formats.load(model, ModelFile).model.tensors

    @pytest.mark.parametrize("n_sites", [4, 5])
    def test_init_proposes_liars_from_five_sites_on(self, run, tmp_path, n_sites):
        names = ",".join(NAMES[:n_sites])
        done = run("federation", "init", tmp_path / "new", "--sites", names, "--json")
        assert ("--liars 1" in json.loads(done.stdout)["next"]) == (n_sites == 5)
