"""Do the work of a job: ask its sites, or take their kept summaries, and leave model and result.

Everything is written to the folder of the job, where :mod:`fedjigsaw.flower.jobs` reads it.
"""

import traceback
from functools import partial
from pathlib import Path

from flwr.serverapp import Grid

from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.flower import job_tasks
from fedjigsaw.flower.folders import KEPT
from fedjigsaw.flower.jobs import (
    ALL,
    CHECKPOINT,
    MODEL,
    NONE,
    RESULT,
    Job,
    active_sites,
    append_event,
    write_result,
)
from fedjigsaw.flower.keys import read_twins
from fedjigsaw.flower.retries import RetryingEngine
from fedjigsaw.flower.rounds import federate
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.messages import Transcript
from fedjigsaw.report.trust import check_strict, strange_sites
from fedjigsaw.sites.keeping import Kept

TWIN_WARNING = "its key is used from two places at once: somebody else may have answered"


def do(home: Path, folder: Path, grid: Grid | None) -> None:
    """Do the job of a folder, unless it was stopped; without a grid, nobody can be asked.

    Parameters
    ----------
    home : the server's folder.
    folder : the folder of the job, to which model and result are written, or the error.
    """
    if (folder / RESULT).exists():
        return
    strange: list[str] = []
    try:
        job = Job.load(folder)
        engine, file, transcript = _run(home, folder, job, grid)
        file = job_tasks.with_ids(file, job)
        strange = strange_sites(file)
        check_strict(file, strange, job.strict)
        formats.save(file, folder / MODEL)
        more = job_tasks.after(engine, job, file)
        write_result(folder, transcript={**transcript.to_dict(), **more}, strange=strange)
    except FedJigsawError as error:
        write_result(folder, error=str(error), exit_code=error.exit_code, strange=strange)
    except Exception as error:
        traceback.print_exc()  # to flower.log
        what = f"The run failed ({type(error).__name__}); flower.log at the server says more."
        write_result(folder, error=what, exit_code=1)


def _run(
    home: Path, folder: Path, job: Job, grid: Grid | None
) -> tuple[RetryingEngine, ModelFile, Transcript]:
    """Run a job, and keep the summaries that sites sent."""
    sites = active_sites(home, job.without)
    kept = kept_answers(home, job, sites)
    engine = RetryingEngine(
        grid,
        job.make_method(),
        names=list(kept) if job.ask == NONE else sites,
        timeout=job.timeout,
        wait=job.wait,
        tell=partial(tell, home, folder),
        kept=kept,
        retries=job.retries,
        cells=job.cells,
    )
    job_tasks.before(engine, job)
    file, transcript = federate(
        engine, seed=job.seed, min_sites=job.min_sites, checkpoint=folder / CHECKPOINT
    )
    if job.keep and engine.method.total_rounds == 1:
        for name in sorted(set(transcript.clients) - set(kept)):
            Kept(home / KEPT).add(engine.files[name])
    return engine, file, transcript


def kept_answers(home: Path, job: Job, sites: list[str]) -> dict[str, SummaryFile]:
    """Return the kept summaries of a job's sites, which are not asked."""
    if job.ask == ALL:
        return {}
    method = job.make_method()
    found = Kept(home / KEPT).about(method.method, method.configuration())
    usable = {name: found[name] for name in sites if name in found}
    if job.ask == NONE and not usable:
        raise ParameterError(
            "No summary is kept for this method, -k and -p. `fedjigsaw federation keep "
            f"{home.parent}` lists the summaries that are; leave out --ask to ask the sites."
        )
    return usable


def tell(home: Path, folder: Path, event: str, site: str, detail: str) -> None:
    """Append an event of a run, with a warning if the key of a site that answered has a twin."""
    append_event(folder, event, site, detail)
    if event == "answered" and site in read_twins(home):
        append_event(folder, "warning", site, TWIN_WARNING)
