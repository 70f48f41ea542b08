"""What left each site, how many bytes, and with which promise."""

from collections.abc import Iterable, Iterator, Sequence

from fedjigsaw.columns.scaling import Stats
from fedjigsaw.errors import counted
from fedjigsaw.io.formats import ModelFile, NoisyStats, Profile, Score, SummaryFile
from fedjigsaw.io.regions import sites_of
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.report.page.run import GivenFile, Run
from fedjigsaw.report.page.view import Absent, Table
from fedjigsaw.report.page.words import listed, short, size
from fedjigsaw.report.privacy import privacy_values, promise_of

MAX_FILES = 200


def sent_table(run: Run) -> Table | Absent:
    """Return every file that a site sent, with its size."""
    files = [file for file in run.files if not isinstance(file.content, ModelFile)]
    if not files:
        return Absent(
            "No file of a site was given. Name them after the model to see what left each site:",
            "fedjigsaw report MODEL *.stats *.summary *.score -o report.html",
        )
    files.sort(key=lambda file: (site_of(file), ORDER.index(_kind(file)), file.name))
    rows = [
        (short(site_of(file), 40), _kind(file), content_of(file), f"{file.n_bytes:,}")
        for file in files[:MAX_FILES]
    ]
    if len(files) > MAX_FILES:
        rows.append((f"and {counted(len(files) - MAX_FILES, 'other')}", "", "", ""))
    rows.append(("All sites", "", counted(len(files), "file"), f"{total_bytes(run):,}"))
    headings = ("Site", "File", "What is in it", "Bytes")
    return Table("Files that the sites sent", headings, tuple(rows), words=(1, 2))


def total_bytes(run: Run) -> int:
    """Return the bytes of all files that sites sent."""
    return sum(file.n_bytes for file in run.files if not isinstance(file.content, ModelFile))


ORDER = ("statistics", "summary", "score")


def _kind(file: GivenFile) -> str:
    if isinstance(file.content, SummaryFile):
        return "summary"
    return "score" if isinstance(file.content, Score) else "statistics"


def site_of(file: GivenFile) -> str:
    """Return the site that a file is from."""
    content = file.content
    if isinstance(content, SummaryFile):
        return content.summary.client
    return content.client if isinstance(content, (Score, Stats)) else ""


def _sites_of(file: GivenFile) -> Iterable[str]:
    """Return the sites that a file stands for: that of a region stands for several."""
    content = file.content
    return sites_of(content.summary) if isinstance(content, SummaryFile) else [site_of(file)]


def content_of(file: GivenFile) -> str:
    """Say in a few words what a file has."""
    content = file.content
    private = promise_of(content) or (isinstance(content, Score) and content.privacy)
    noise = ", all with noise" if private else ""
    if isinstance(content, SummaryFile):
        parts = [counted(len(content.summary.centers), "center")]
        names = {"counts": "rows per center", "sse": "spread", "radii": "radii"}
        parts += [words for n, words in names.items() if getattr(content.summary, n) is not None]
        return ", ".join(parts) + noise
    if isinstance(content, Score):
        profile = "" if content.profile is None else f", profiles of {_columns_of(content.profile)}"
        return f"rows and spread of {counted(len(content.counts), 'cluster')}{profile}{noise}"
    if isinstance(content, Stats):
        more = ", rows of each category, missing values" if content.schema else ""
        more += ", means of neighboring values" if content.sketches else ""
        return f"mean and spread of {counted(len(content.sources), 'column')}{more}{noise}"
    return ""


def _columns_of(profile: Profile) -> str:
    return counted(len(profile.columns), "column")


def sent_notes(run: Run) -> list[str]:
    """Say what is not in these files, and under which guard they left."""
    notes = ["No table of rows and no label left a site in these files."]
    if not run.summaries:
        notes.append(
            "The summaries, which left first, were not given: name them to see their sizes."
        )
        return notes
    plain = [file for file in run.summaries if file.privacy is None]
    for least in sorted({file.guard["min_cluster_size"] for file in plain}):
        sites = [f.summary.client for f in plain if f.guard["min_cluster_size"] == least]
        who = "every site" if len(sites) == len(run.summaries) else listed(sites)
        if least > 1:
            notes.append(f"Guard at {who}: no center of fewer than {least} rows left.")
        else:
            notes.append(f"No guard at {who}: a center may be a single row.")
    given = {file.summary.client for file in run.summaries}
    missing = [client for client in run.model.clients if client not in given]
    if missing:
        notes.append(f"No summary was given of {listed(missing)}.")
    others = sorted(given - set(run.model.clients))
    if others:
        notes.append(f"Not part of the model: {listed(others)}.")
    return notes


def promise(run: Run) -> list[str]:
    """State the promise of differential privacy of what is shown, or that there is none."""
    values = privacy_values(run.model)
    if values is None:
        some = any(file.privacy is not None for file in run.summaries)
        text = "The model makes no promise of differential privacy"
        return [
            text + (", since not all sites made one." if some else "."),
            "What leaves are means of groups of rows. Anyone who knows all rows of a group but one "
            "learns roughly where the last one is.",
        ]
    stated = f"epsilon {values['epsilon']:g}, delta {values['delta']:g}"
    first = f"The model has differential privacy at every site: {stated}."
    return [first, values["sentence"], *_other_promises(run)]


def _other_promises(run: Run) -> Iterator[str]:
    """Say what scores and statistics add to the promise of the model, or take from it."""
    kinds: dict[str, Sequence[Score | Stats]] = {"scores": run.scores, "statistics": run.stats}
    for kind, files in kinds.items():
        exact = [file.client for file in files if _privacy_of(file) is None]
        if exact:
            yield f"It does not cover the {kind} of {listed(exact)}, which are exact."
    if any(_privacy_of(file) for files in kinds.values() for file in files):
        epsilon, delta = _sum_of_promises(run)
        yield (
            "Scores and statistics have promises of their own, which add up: with those of this "
            f"page, to at most epsilon {epsilon:g}, delta {delta:g} at a site."
        )


def _privacy_of(file: Score | Stats) -> Privacy | None:
    return file.privacy if isinstance(file, (Score, NoisyStats)) else None


def _sum_of_promises(run: Run) -> tuple[float, float]:
    """Return the largest sum of the promises of one site: that of the model, and of its files."""
    assert run.model.privacy is not None
    files: list[Score | Stats] = [*run.scores, *run.stats]
    sums = []
    for client in {file.client for file in files}:
        own = [_privacy_of(file) for file in files if file.client == client]
        made = [run.model.privacy, *(privacy for privacy in own if privacy is not None)]
        sums.append((sum(p.epsilon for p in made), sum(p.delta for p in made)))
    return max(epsilon for epsilon, _ in sums), max(delta for _, delta in sums)


def promise_details(run: Run) -> list[str]:
    """List what the promise of a model is counted for, and what it does not cover."""
    values = privacy_values(run.model)
    if values is None:
        return []
    details = [
        f"Counted for: {values['counted_for']}",
        f"Public by assumption: {', '.join(values['public'])}.",
    ]
    return details + [f"Not covered: {text}" for text in values["not_covered"]]


def sent_in_words(run: Run) -> str:
    """Say in one sentence what the sites sent."""
    kinds = (
        (run.stats, "file of statistics", "files of statistics"),
        (run.summaries, "summary", "summaries"),
        (run.scores, "score", "scores"),
    )
    parts = [counted(len(found), one, many) for found, one, many in kinds if found]
    files = [file for file in run.files if not isinstance(file.content, ModelFile)]
    one = len({site for file in files for site in _sites_of(file)}) == 1 and not run.is_merged
    who = "One site" if one else "The sites"
    return f"{who} sent {listed(parts)}, {size(total_bytes(run))} in all."
