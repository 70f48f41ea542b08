"""The tasks of a job: what it asks for before and after its method runs.

Everything of a job is in JSON, so that it may come from another machine: it names no files.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedjigsaw import sites
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.flower.scaler_values import scaler_from
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score

if TYPE_CHECKING:
    from fedjigsaw.flower.jobs import Job
    from fedjigsaw.flower.retries import RetryingEngine

SCORES, LABELED = "scores", "labeled"  # in the result of a job, beside its rounds


def check_tasks(job: "Job") -> None:
    """Raise a ParameterError for options of a job that do not go together."""
    if job.scale and job.scaler is not None:
        raise ParameterError("Give --scale or --scaler, not both.")
    asks = [name for name in ("scale", "score", "assign") if getattr(job, name)]
    if asks and job.ask == "none":
        raise ParameterError(f"--{asks[0]} asks the sites: leave out --ask none.")
    if job.scale and job.ask == "new":
        raise ParameterError(
            "--scale makes a new scaler, and kept summaries have another one. Give theirs: "
            "--scaler OLD-MODEL"
        )


def check_rows(job: "Job", data_kind: str) -> None:
    """Raise a ParameterError for tasks of a method that does not cluster rows."""
    wanted = {
        "--scale": job.scale,
        "--scaler": job.scaler is not None,
        "--score": job.score,
        "--assign": job.assign,
    }
    for flag in (name for name, given in wanted.items() if given and data_kind != "rows"):
        raise ParameterError(f"{flag} is for methods that cluster rows; {job.method} does not.")


def before(engine: "RetryingEngine", job: "Job") -> None:
    """Give the engine the scaler of a job, which sites may have to be asked for."""
    from fedjigsaw.flower.task_rounds import make_scaler

    if job.scaler is not None:
        engine.scaler = scaler_from(job.scaler)
    elif job.scale:
        engine.scaler = make_scaler(engine, job.min_sites)


def after(engine: "RetryingEngine", job: "Job", file: ModelFile) -> dict[str, Any]:
    """Collect scores, and send the model to the sites; return both as JSON values."""
    from fedjigsaw.flower.task_rounds import collect_scores, push_model

    found: dict[str, Any] = {}
    if job.score:
        scores = collect_scores(engine, file, job.seed)
        found[SCORES] = {name: _text(formats.encode(score)) for name, score in scores.items()}
    if job.assign:
        found[LABELED] = push_model(engine, file)
    return found


def with_ids(file: ModelFile, job: "Job") -> ModelFile:
    """Return the model with the cluster ids of the model before, if the job has one."""
    return file if job.like is None else sites.succeed(file, _model(job.like))[0]


# ----------------------------------------------------------------------------------- values of JSON


def model_text(file: ModelFile) -> str:
    """Return a model as a job holds it."""
    return _text(formats.encode(file))


def scores_from(values: Mapping[str, str]) -> dict[str, Score]:
    """Return the scores in the result of a job."""
    found = {name: formats.decode(base64.b64decode(text)) for name, text in values.items()}
    return {name: score for name, score in found.items() if isinstance(score, Score)}


def _model(text: str) -> ModelFile:
    try:
        file = formats.decode(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise MessageError("The earlier model of the job cannot be read.") from error
    if not isinstance(file, ModelFile):
        raise MessageError("The earlier model of the job is no model.")
    return file


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
