"""Options of `federation run` for what is asked besides summaries, and what it prints of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw import sites
from fedjigsaw.cli._shared import escape, out
from fedjigsaw.cli.score import show
from fedjigsaw.errors import ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score

TASKS = "Besides the model"

RetriesOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=100,
        help="How often sites that were lost, late or not connected are asked again, each time "
        "within --wait and --timeout. Example: --retries 2",
    ),
]
ScaleFlag = Annotated[
    bool,
    typer.Option(
        "--scale",
        help="First ask for mean and spread of each column, and scale the columns by those of all "
        "sites together. Default: each site uses the --scaler that it was started with.",
        rich_help_panel=TASKS,
    ),
]
ScalerFile = Annotated[
    Path | None,
    typer.Option(
        "--scaler",
        help="Scale by this scaler, or by that of an earlier model, without asking for "
        "statistics. Example: --scaler last.model",
        rich_help_panel=TASKS,
    ),
]
ScoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--score",
        help="Then ask how well the model fits, and write one file for each site into this new "
        "folder, as `score` does. Example: --score scores",
        rich_help_panel=TASKS,
    ),
]
AssignFlag = Annotated[
    bool,
    typer.Option(
        "--assign",
        help="Then send the model to the sites. Those that were started with --labels label "
        "their rows; no label leaves them.",
        rich_help_panel=TASKS,
    ),
]


def check_folder(folder: Path | None) -> None:
    """Raise a ParameterError if scores would be mixed with other files."""
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"--score {folder} is not an empty folder: name a new one.")


def task_values(
    retries: int,
    scale: bool,
    scaler: Path | None,
    score: Path | None,
    assign: bool,
    old: ModelFile | None,
) -> dict[str, Any]:
    """Return the fields of a job for its tasks."""
    from fedjigsaw.flower import job_tasks
    from fedjigsaw.flower.scaler_values import scaler_values

    given = None if scaler is None else scaler_values(_read_scaler(scaler))
    after = score is not None or assign
    like = None if old is None or not after else job_tasks.model_text(old)
    return {
        "retries": retries,
        "scale": scale,
        "scaler": given,
        "score": score is not None,
        "assign": assign,
        "like": like,
    }


def _read_scaler(path: Path) -> Any:
    if formats.is_scaler(path):
        return formats.load_scaler(path)
    scaler = formats.load(path, ModelFile).scaler
    if scaler is None:
        raise ParameterError(f"--scaler {path}: this model was made without a scaler.")
    return scaler


def take_results(
    transcript: dict[str, Any], folder: Path | None
) -> tuple[dict[str, Score], list[str] | None]:
    """Take scores and labeled sites out of a result; write the scores."""
    from fedjigsaw.flower import job_tasks

    scores = job_tasks.scores_from(transcript.pop(job_tasks.SCORES, {}))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, found in scores.items():
            formats.save(found, folder / f"{name}.score")
    return scores, transcript.pop(job_tasks.LABELED, None)


def result_values(scores: Mapping[str, Score], labeled: list[str] | None) -> dict[str, Any]:
    """Return scores and labeled sites for JSON; nothing if there are none."""
    values: dict[str, Any] = {} if labeled is None else {"labeled": labeled}
    if scores:
        merged = sites.merge_scores(scores)
        by_site = {name: one.counts.tolist() for name, one in scores.items()}
        sizes, inertia = merged.counts.tolist(), float(merged.sse.sum())
        values["score"] = {"inertia": inertia, "cluster_sizes": sizes, "sites": by_site}
        values["score"] |= {"noise": merged.n_noise} if merged.n_noise else {}
    return values


def print_results(
    scores: Mapping[str, Score], labeled: list[str] | None, folder: Path | None, file: ModelFile
) -> None:
    """Print the score of all sites together, and which sites have labels."""
    if scores:
        show(sites.merge_scores(scores), file, list(scores.values()), as_json=False)
        out.print(escape(f"Scores of {', '.join(scores)} are in {folder}."))
    if labeled is not None:
        names = ", ".join(labeled) or "none; a site that wants labels is started with --labels"
        out.print(escape(f"Sites that labeled their rows: {names}."))
