"""The report as a file: what it shows, that nothing in it runs, and that it stays small."""

import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from time import process_time

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import Privacy, sites
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.messages import Model
from fedjigsaw.number.confidence import Doubt
from fedjigsaw.report.page.build import build_report
from fedjigsaw.report.page.charts import cluster_map, to_svg
from fedjigsaw.report.page.geometry import project
from fedjigsaw.report.page.render import render_page
from fedjigsaw.report.page.run import read_run
from fedjigsaw.report.page.view import Absent
from fedjigsaw.report.pictures import new_figure
from report_files import COLUMNS, HOSTILE, SITES, k_findings, write_run

TODAY = date(2026, 11, 16)
MOMENTS = ("mean", "sum_of_squares")


def built(paths, **options):
    return build_report(read_run(paths), today=TODAY, **options)


def rendered(paths, **options):
    return render_page(built(paths, **options)).decode()


class Elements(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


class TestNumbers:
    def test_sizes_are_those_of_the_scores(self, tmp_path):
        paths = write_run(tmp_path)
        scores = [formats.load(path, Score) for path in paths[1:]]
        page = built(paths)
        for i, row in enumerate(page.sizes.rows):
            own = [int(score.counts[i]) for score in scores]
            assert row.by_site == tuple(f"{n:,}" for n in own)
            assert row.rows == f"{sum(own):,}"
        total = sum(int(score.counts.sum()) for score in scores)
        assert page.facts[1].value == f"{total:,}"
        percents = [sum(part.percent for part in row.segments) for row in page.sizes.rows]
        sizes = sum(score.counts for score in scores)
        np.testing.assert_allclose(percents, 100 * sizes / sizes.max())

    @pytest.mark.parametrize("merged", [False, True])
    def test_scores_of_some_sites_tell_of_these_alone(self, tmp_path, merged):
        model, *paths = write_run(tmp_path)
        scores = [formats.load(path, Score) for path in paths[:2]]
        given = paths[:2]
        if merged:
            given = [tmp_path / "sum.score"]
            formats.save(sites.merge_scores({s.client: s for s in scores}), given[0])
        page = built([model, *given])
        counts = sum(score.counts for score in scores)
        assert [fact.value for fact in page.facts[1:3]] == [f"{counts.sum():,}", "2"]
        assert page.facts[2].label == "of 3 sites"
        assert page.short[0].startswith(f"{counts.sum():,} rows at 2 of 3 sites ")
        assert "2 of 3 sites" in page.sizes.note
        whole = built([model, *paths])
        assert whole.facts[2].value == "3"
        assert not whole.sizes.note

    def test_differences_are_in_standard_deviations_of_all_rows(self, tmp_path):
        paths = write_run(tmp_path)
        model = formats.load(paths[0], ModelFile)
        shown = {row.name: row for row in built(paths).heat.rows}
        for j, name in enumerate(COLUMNS):
            for i, cell in enumerate(shown[name].cells):
                found = float((cell.text or "0").replace("−", "-"))
                assert found == pytest.approx(model.model.centers[i, j], abs=0.051)
                assert np.sign(cell.shade) in (0, np.sign(model.model.centers[i, j]))

    def test_bytes_are_those_of_the_files(self, tmp_path):
        paths = write_run(tmp_path)
        *files, total = built(paths).left.rows
        assert [row[-1] for row in files] == [f"{path.stat().st_size:,}" for path in paths[1:]]
        assert total[-1] == f"{sum(path.stat().st_size for path in paths[1:]):,}"


SCHEMA = Schema(
    (
        Column("age", unit="years"),
        Column("dose", unit="mg", scale="log"),
        Column("sex", "category", categories=("female", "male")),
        Column("smoker", "boolean"),
        Column("stage", "ordered", categories=("mild", "severe")),
        Column("seen", "date"),
        Column("costs", unit="EUR", weight=0),
    )
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Two sites with columns of all kinds in two groups: all files of the run, and pooled rows."""
    folder = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(0)
    frames, paths = [], {}
    for name, n in (("bern", 300), ("lyon", 200)):
        old = np.arange(n) % 2 == 1
        days = pd.to_timedelta(np.where(old, 500, 100) + rng.integers(0, 50, n), "D")
        frame = pd.DataFrame(
            {
                "age": np.where(old, 70.0, 30.0) + rng.integers(-5, 6, n),
                "dose": np.where(old, 90.0, 10.0) + rng.random(n),
                "sex": np.where(old, "female", "male"),
                "smoker": np.where(old, "yes", "no"),
                "stage": np.where(old, "severe", "mild"),
                "seen": (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d"),
                "costs": np.where(old, 9000.0, 1000.0) + rng.integers(-50, 50, n),
            }
        )
        frames.append(frame.assign(old=old))
        paths[name] = folder / f"{name}.csv"
        frame.to_csv(paths[name], index=False)
    stats = {name: sites.measure(path, schema=SCHEMA) for name, path in paths.items()}
    scaler = sites.common_scaler(stats, schema=SCHEMA)
    summaries = {name: sites.summarize(path, 2, scaler=scaler) for name, path in paths.items()}
    model = sites.aggregate(summaries, 2)
    scores = {name: sites.score(path, model, profile=True) for name, path in paths.items()}
    files = [folder / "model"]
    formats.save(model, files[0])
    for kind, found in (("stats", stats), ("summary", summaries), ("score", scores)):
        for name, content in found.items():
            files.append(folder / f"{name}.{kind}")
            formats.save(content, files[-1])
    return files, pd.concat(frames)


class TestProfiles:
    def test_values_are_those_of_the_pooled_rows(self, mixed):
        files, pooled = mixed
        page = built(files)
        assert page.profile_hint is None
        rows = {row.name: row for row in page.heat.rows}
        ages = pooled["age"].groupby(pooled["old"]).mean()
        for cell in rows["age (years)"].cells:
            old = float(cell.value) > 50
            assert float(cell.value) == pytest.approx(ages[old], abs=0.6)
            z = (ages[old] - pooled["age"].mean()) / pooled["age"].std(ddof=0)
            assert float(cell.text.replace("−", "-")) == pytest.approx(z, abs=0.051)
        assert {cell.value for cell in rows["sex: female"].cells} == {"0 %", "100 %"}
        assert {cell.value for cell in rows["smoker"].cells} == {"0 %", "100 %"}
        assert {cell.value for cell in rows["stage"].cells} == {"mild", "severe"}
        assert {cell.value[:4] for cell in rows["seen"].cells} == {"2020", "2021"}
        assert "costs (EUR)" in rows  # not clustered, but shown

    def test_each_cluster_is_described_in_plain_words(self, mixed):
        files, _ = mixed
        page = built(files)
        told = " ".join(trait.name for cluster in page.clusters for trait in cluster.traits)
        assert "dose (mg)" in told
        assert all(cluster.lead.endswith(".") for cluster in page.clusters)
        assert {"all rows: " in cluster.lead for cluster in page.clusters} == {True}
        assert page.facts[3].value == "6"  # columns of the file that were clustered
        left = " ".join(row[2] for row in page.left.rows)
        assert "profiles of 7 columns" in left
        told = "mean and spread of 6 columns, rows of each category, missing values"
        assert told in left  # what inspect says of the same file

    def test_without_profiles_centers_are_read_back(self, mixed):
        files, pooled = mixed
        page = built([path for path in files if path.suffix != ".score"])
        assert "--profile" in page.profile_hint.command
        rows = {row.name: row for row in page.heat.rows}
        doses = sorted(float(cell.value) for cell in rows["dose (mg)"].cells)
        expected = np.expm1(np.log1p(pooled["dose"]).groupby(pooled["old"]).mean())
        np.testing.assert_allclose(doses, expected, rtol=0.05)
        for name in ("sex: female", "smoker"):  # centers are rounded to their sampling error
            shares = sorted(float(cell.value.removesuffix(" %")) for cell in rows[name].cells)
            np.testing.assert_allclose(shares, [0, 100], atol=1)
        assert {cell.value for cell in rows["stage"].cells} == {"mild", "severe"}
        assert {cell.value[:4] for cell in rows["seen"].cells} == {"2020", "2021"}
        assert not any("(missing)" in name for name in rows)
        assert "geometric mean" in page.heat.note

    def test_a_site_that_seems_to_use_another_unit_is_told(self, tmp_path):
        paths = write_run(tmp_path)
        for site in SITES:
            mean = np.full(len(COLUMNS), 60.0)
            mean[0] *= 18 if site == SITES[1] else 1
            stats = Stats(site, COLUMNS, 400, mean, 400 * (mean / 5) ** 2)
            paths.append(tmp_path / f"{site}.stats")
            formats.save(stats, paths[-1])
        (told,) = (line for line in built(paths).trust if "same unit" in line)
        assert COLUMNS[0] in told
        assert SITES[1] in told
        assert SITES[0] not in told

    def test_missing_values_are_told(self, tmp_path):
        """Half of the ages are missing, all doses at one site, and no other value."""
        paths = write_run(tmp_path, levels=("a", "b"))
        for path in paths[1:]:
            score = formats.load(path, Score)
            count = score.profile.count.copy()
            count[:, 0] //= 2
            count[:, COLUMNS.index("dose")] *= path != paths[1]
            zero = {n: np.where(count, getattr(score.profile, n), 0) for n in MOMENTS}
            formats.save(replace(score, profile=replace(score.profile, count=count, **zero)), path)
        page = built(paths)
        rows = {row.name: row.missing for row in page.heat.rows}
        n = [score.n_rows for score in read_run(paths).scores]
        assert f"{n[0] / sum(n):.0%}" == "36%"
        assert (rows["age"], rows["dose"], rows["bmi"]) == ("50 %", "36 %", "0 %")
        (told,) = (line for line in page.trust if line.startswith("Many values are missing"))
        assert told.startswith("Many values are missing: 50 % of age and 36 % of dose.")
        assert "Missing</th>" in rendered(paths)
        private = [
            replace(s, privacy=Privacy(1.0, cells="own", bounds=(0, 1)))
            for s in read_run(paths).scores
        ]
        run = replace(read_run(paths), scores=tuple(private))
        assert not build_report(run, today=TODAY).heat.shows_missing  # counts are noisy

    def test_cells_that_the_guard_hides_are_not_missing(self, tmp_path):
        paths = write_run(tmp_path, levels=("a", "b"))
        score = formats.load(paths[1], Score)
        count = score.profile.count.copy()
        count[0] = 0
        zero = {n: np.where(count, getattr(score.profile, n), 0) for n in MOMENTS}
        formats.save(replace(score, profile=replace(score.profile, count=count, **zero)), paths[1])
        page = built(paths)
        assert {row.missing for row in page.heat.rows if row.name in COLUMNS} == {"0 %"}


class TestMap:
    def test_two_columns_are_shown_as_they_are(self, rng):
        centers, weights = rng.normal(size=(6, 2)), rng.uniform(1, 9, 6)
        found = project(centers, weights)
        assert found.shown == pytest.approx(1)
        apart = [np.linalg.norm(x[:, None] - x[None], axis=2) for x in (centers, found.places)]
        np.testing.assert_allclose(*apart)

    def test_large_clusters_decide_the_plane(self):
        centers = np.array([[0.0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
        found = project(centers, np.array([100.0, 100, 100, 1e-6]))
        np.testing.assert_allclose(found.axes[:, 2], 0, atol=1e-4)

    @pytest.mark.parametrize("shape", [(2, 1), (2, 5), (5, 1), (3, 1)])
    def test_few_clusters_or_columns(self, rng, shape):
        found = project(rng.normal(size=shape), np.ones(len(np.empty(shape))))
        assert found.places.shape == (shape[0], 2)
        assert np.isfinite(found.places).all()

    def test_the_area_of_a_bubble_is_the_size_of_its_cluster(self, rng):
        sizes, shares = np.array([10.0, 20.0, 40.0]), np.array([[5.0, 5], [20, 0], [10, 30]])
        figure = cluster_map(rng.normal(size=(3, 2)), sizes, shares, [0, 1], range(3))
        (slices,) = figure.axes[0].collections
        areas = [_area(path.vertices) for path in slices.get_paths()]
        expected = [10, 30, 20, 5, 5]  # the largest cluster first
        np.testing.assert_allclose(np.array(areas) / areas[0], np.array(expected) / 10, rtol=0.02)

    @pytest.mark.parametrize("k", [5, 60, 300])
    def test_numbers_on_a_map_do_not_overlap(self, rng, k):
        places, sizes = rng.normal(size=(k, 2)), rng.uniform(1, 9, size=k)
        figure = cluster_map(places, sizes, None, [0], range(k))
        axes, draw = figure.axes[0], figure.canvas.get_renderer()
        boxes = [text.get_window_extent(draw) for text in axes.texts]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        shown = {text.get_text() for text in axes.texts}
        assert str(sizes.argmax()) in shown
        assert len(shown) >= min(k, 30)


def _area(outline):
    x, y = outline.T
    return abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2


class TestSvg:
    def test_texts_are_escaped_and_ids_are_unique(self):
        figure = new_figure(2, 1)
        figure.text(0, 0, HOSTILE[0], parse_math=False)
        svg = str(to_svg(figure, "one", HOSTILE[1], HOSTILE[3]))
        found = Elements(svg)
        assert {tag for tag, _ in found.tags}.isdisjoint({"script", "img"})
        assert all(name in found.text for name in (HOSTILE[0], HOSTILE[1], HOSTILE[3]))
        ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(set(ids)) == len(ids)
        assert all(name.startswith("one-") for name in ids)

    def test_ink_follows_the_theme(self, tmp_path):
        page = rendered(write_run(tmp_path, findings=k_findings(5)))
        svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        assert len(svgs) == 2
        for svg in svgs:
            assert "var(--ink)" in svg
            assert "#333333" not in svg


class TestPage:
    def test_the_same_files_give_the_same_bytes(self, tmp_path):
        paths = write_run(tmp_path)
        assert rendered(paths) == rendered(paths)

    def test_nothing_is_loaded_and_nothing_runs(self, tmp_path):
        page = rendered(write_run(tmp_path))
        found = Elements(page)
        assert {tag for tag, _ in found.tags}.isdisjoint(
            {"script", "img", "link", "iframe", "object"}
        )
        policy = next(a["content"] for _, a in found.tags if "http-equiv" in a)
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
        for _, attributes in found.tags:
            assert not any(name.startswith("on") for name in attributes)
            for name in ("href", "xlink:href", "src"):
                assert (attributes.get(name) or "#").startswith("#")
        assert "http" not in re.sub(r'xmlns(:\w+)?="http[^"]*"|http-equiv', "", page)

    def test_links_lead_somewhere(self, tmp_path):
        tags = Elements(rendered(write_run(tmp_path))).tags
        ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
        assert len(set(ids)) == len(ids)
        targets = {a["href"][1:] for tag, a in tags if tag == "a"}
        assert targets <= set(ids)

    @pytest.mark.parametrize("options", [{}, {"scores": False}, {"levels": HOSTILE}])
    def test_hostile_names_are_text(self, tmp_path, options):
        clients = [name[:190] for name in HOSTILE]
        paths = write_run(tmp_path, columns=HOSTILE, clients=clients, **options)
        page = rendered(paths, title="</title>\u202e<script>alert(4)</script>")
        found = Elements(page)
        assert {tag for tag, _ in found.tags}.isdisjoint({"script", "img", "b"})
        for name in HOSTILE:
            assert name[:70] in found.text
        assert "</title>\\u202e<script>alert(4)</script>" in found.text
        assert "49" not in re.findall(r"<bdi>(.*?)</bdi>", page)

    def test_fifty_clusters_of_a_hundred_columns(self, tmp_path):
        """Small enough for a mail, and made in seconds."""
        columns = [f"column {j}" for j in range(100)]
        clients = [f"site {i}" for i in range(12)]
        paths = write_run(tmp_path, k=50, columns=columns, clients=clients, levels=["a", "b"])
        started = process_time()
        page = rendered(paths)
        assert len(page) < 3_000_000
        assert process_time() - started < 5
        assert page.count('<section class="cluster"') == 50
        assert len(re.findall(r'<td class="cell', page)) == 102 * 50

    def test_a_huge_model_is_cut_and_says_so(self, tmp_path):
        columns = [f"column {j}" for j in range(200)]
        page = built(write_run(tmp_path, k=120, columns=columns))
        assert len(page.clusters) == 100
        assert page.more_clusters == "20 more clusters are not shown."
        assert page.heat.more == "50 columns in which the clusters differ less are not shown."


class TestAbsent:
    def test_a_model_that_knows_nothing_but_centers(self, tmp_path):
        paths = write_run(tmp_path, scores=False)
        model = formats.load(paths[0], ModelFile)
        bare = Model(model.model.centers, "feca", {}, model.columns, {})
        formats.save(replace(model, model=bare, scaler=None), paths[0])
        page = built(paths)
        for part in (page.sizes, page.support, page.sites, page.k_curve, page.left):
            assert isinstance(part, Absent)
        assert "deviations of the centers" in page.heat.note
        assert "Sizes are not known" in page.map.caption[0]
        render_page(page)

    def test_one_cluster_of_one_site(self, tmp_path):
        paths = write_run(tmp_path, k=1, clients=["a", "b"])
        page = built(paths)
        assert isinstance(page.map, Absent)
        assert [row[-2:] for row in page.support.rows] == [("–", "–")]  # it has no neighbor
        assert not re.search(rb"Margin \d", render_page(page))


class TestTrust:
    def test_sites_without_a_score_are_named(self, tmp_path):
        paths = write_run(tmp_path)
        assert "No score was given for Oslo" in " ".join(built(paths[:3]).trust)
        assert "No score" not in " ".join(built(paths).trust)

    def test_conspicuous_and_partly_missing_sites_are_named(self, tmp_path):
        paths = write_run(tmp_path, scores=False)
        model = formats.load(paths[0], ModelFile)
        tensors = {**model.model.tensors, "site_notes": np.array([0, 1, 0])}
        odd = replace(model, model=replace(model.model, tensors=tensors), partly=("Oslo",))
        formats.save(odd, paths[0])
        told = " ".join(built(paths).trust)
        assert "Lyon is unlike the others" in told
        assert "Bern is unlike" not in told
        assert "Not in every round: Oslo." in told

    def test_the_guard_and_what_left_are_told(self, tmp_path, grid_sites):
        files = {str(path): sites.summarize(path, 15) for path in grid_sites[0]}
        paths = [tmp_path / "model", *(tmp_path / f"{i}.summary" for i in range(5))]
        formats.save(sites.aggregate(files, 15), paths[0])
        for path, file in zip(paths[1:], files.values(), strict=True):
            formats.save(file, path)
        page = built(paths)
        assert any("no center of fewer than 5 rows left" in line for line in page.left_notes)
        assert page.promise[0] == "The model makes no promise of differential privacy."
        assert len(page.left.rows) == 6


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """A private model of two sites: the folder, the model, and the data."""
    folder = tmp_path_factory.mktemp("private")
    rng = np.random.default_rng(0)
    data, summaries = {}, {}
    for name in ("bern", "lyon"):
        centers = np.array([[20.0, 20.0], [80.0, 80.0]])[np.arange(2000) % 2]
        data[name] = folder / f"{name}.npy"
        np.save(data[name], centers + rng.uniform(-5, 5, (2000, 2)))
        summaries[name] = sites.summarize(
            data[name], 2, privacy=Privacy(2.0, cells="own", bounds=(0, 100))
        )
    model = sites.aggregate(summaries, 2)
    formats.save(model, folder / "model")
    return folder, model, data


class TestPrivacy:
    def test_promises_of_model_and_scores_add_up(self, private):
        folder, model, data = private
        paths = [folder / "model"]
        for name, epsilon in (("bern", 1.0), ("lyon", 3.0)):
            privacy = Privacy(epsilon, cells="own", bounds=(0, 100))
            paths.append(folder / f"{name}.score")
            formats.save(sites.score(data[name], model, profile=True, privacy=privacy), paths[-1])
        page = built(paths)
        assert page.promise[0].endswith("at every site: epsilon 2, delta 1e-06.")
        assert "at most epsilon 5, delta 2e-06 at a site" in page.promise[2]
        assert page.sizes.note == "Sizes are noisy, for the sake of privacy."
        assert page.facts[1].value.startswith("about ")

    def test_what_noise_hides_is_not_told(self, private, tmp_path):
        """Every site seems to stand out, and one cluster to be at one site, whose rows are noise."""
        _, model, data = private
        tensors = model.model.tensors | {
            "support_clients": np.array([1, 2]),
            "support_spread": np.array([1e-16, 2.0]),
            "site_influence": np.array([1.5, 1.5]),
            "site_costs": np.array([1.5, 1.5]),
        }
        model = replace(model, model=replace(model.model, tensors=tensors), n_samples=99)
        paths = [tmp_path / "model"]
        formats.save(model, paths[0])
        for name in data:
            privacy = Privacy(0.001, cells="own", bounds=(0, 100))
            score = sites.score(data[name], model, profile=True, privacy=privacy)
            paths.append(tmp_path / f"{name}.score")
            counts = np.array([1000, 900])
            profile = replace(score.profile, count=np.minimum(score.profile.count, 900))
            fixed = replace(score, counts=counts, sse=np.zeros(2), profile=profile)
            formats.save(fixed, paths[-1])
        page = built(paths)
        assert page.facts[1].value == "about 3,800"
        assert page.short[0].startswith("About 3,800 rows")
        told = " ".join(Elements(rendered(paths)).text.split())
        for words in ("one site only", "is unlike the others:", "Rows lie about", "Much like", "±"):
            assert words not in told
        for words in ("at 2 of 2", "Found in the summaries", "They differ most", "Influence"):
            assert words not in told
        assert "nobody can tell whether a site is unlike the others" in told
        assert {cluster.lead for cluster in page.clusters} == {
            "Too noisy to tell how it differs from all rows."
        }
        assert {cell.shade for row in page.heat.rows for cell in row.cells} == {0}
        assert page.support.headings == ("Cluster", "Rows", "Spread", "Margin", "Nearest")
        assert page.support.rows[0][2:4] == ("–", "–")
        assert not any("Margin" in line for line in page.clusters[0].remarks)
        assert any("Margin" in line for line in page.clusters[1].remarks)


class TestBadInput:
    def test_no_model(self, tmp_path):
        with pytest.raises(ParameterError, match="None of the files is a model"):
            read_run(write_run(tmp_path)[1:])

    def test_two_models(self, tmp_path):
        one, two = tmp_path / "one", tmp_path / "two"
        for folder in (one, two):
            folder.mkdir()
        with pytest.raises(ParameterError, match="about one model; .*one/model and .*two/model"):
            read_run([write_run(one)[0], write_run(two, seed=1)[0]])

    def test_a_score_of_another_model(self, tmp_path):
        one, two = tmp_path / "one", tmp_path / "two"
        for folder in (one, two):
            folder.mkdir()
        with pytest.raises(MessageError, match="0.score is a score of another model"):
            read_run([write_run(one)[0], write_run(two, seed=1)[1]])

    def test_scores_and_their_sum(self, tmp_path):
        paths = write_run(tmp_path)
        scores = {str(path): formats.load(path, Score) for path in paths[1:]}
        formats.save(sites.merge_scores(scores), tmp_path / "sum.score")
        with pytest.raises(MessageError, match="sum.score is the sum of the other scores"):
            read_run([*paths, tmp_path / "sum.score"])
        page = built([paths[0], tmp_path / "sum.score"])
        assert not any("No score" in line for line in page.trust)

    def test_a_model_that_nobody_could_read(self, tmp_path):
        paths = write_run(tmp_path, k=2001, columns=["x"], scores=False)
        with pytest.raises(MessageError, match="at most 2,000 clusters"):
            read_run(paths)

    def test_a_file_given_twice(self, tmp_path):
        paths = write_run(tmp_path)
        with pytest.raises(ParameterError, match="given twice"):
            read_run([*paths, paths[1]])


class TestHowMany:
    def test_doubt_is_a_box_with_words_and_not_a_color_alone(self, tmp_path):
        doubt = {"doubts": Doubt.OVERLAP, "runner_up": 4, "confidence": 0.3}
        text = rendered(write_run(tmp_path, findings=k_findings(5, **doubt)))
        (box,) = [tag for tag in Elements(text).tags if "doubt" in tag[1].get("class", "").split()]
        assert box[1]["role"] == "note"
        found = Elements(text).text
        assert "The number of clusters is in doubt: 5 clusters (confidence 0.30); 4 is" in found

    def test_advice_names_columns_and_is_escaped(self, tmp_path):
        doubt = {"doubts": Doubt.COLUMNS, "columns": np.array([0, 1]), "confidence": 0.2}
        findings = k_findings(1, background=0.1, **doubt)
        paths = write_run(tmp_path, k=1, columns=HOSTILE, findings=findings)
        page = built(paths)
        (advice,) = page.how_many.advice
        assert advice.startswith(f"Only these columns seem to have clusters: {HOSTILE[0]}, ")
        assert "<script" not in rendered(paths)
        shown = rendered(paths).partition('id="number"')[2]
        assert "<li>Only these columns seem to have clusters: " in shown

    def test_separation_is_a_column_with_its_meaning(self, tmp_path):
        page = built(write_run(tmp_path, findings=k_findings(5)))
        place = page.support.headings.index("Separation")
        assert [row[place] for row in page.support.rows] == ["0.70", "0.77", "0.85", "0.93", "1.00"]
        assert "Separation: near 1 if clearly fewer rows lie between" in page.support.caption
        told = " ".join(page.trust)
        assert "Clusters 0, 1 and 2 are not clearly separate from a neighbor" in told
        assert "Clusters are found in any data" not in told
