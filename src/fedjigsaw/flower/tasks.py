"""What a server may ask for besides summaries: statistics, scores and labels."""

from dataclasses import dataclass
from typing import Any

from flwr.app import RecordDict

from fedjigsaw.columns.scaling import Stats
from fedjigsaw.errors import FedJigsawError, MessageError
from fedjigsaw.flower import records
from fedjigsaw.flower.records import Question
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, NoisyStats, Score

STATISTICS, SCORE, LABELS = "statistics", "score", "labels"


@dataclass(frozen=True)
class Statistics:
    """Ask for count, mean and sum of squares of each column.

    Attributes
    ----------
    timeout : seconds after which the server no longer waits for the answer.
    """

    timeout: float = 600.0


@dataclass(frozen=True)
class Scoring:
    """Ask for rows and summed squared distance of each cluster of a model.

    Attributes
    ----------
    question : method, parameters, scaler and model, as for a round after the last one, and what the
        model was made from.
    model : fingerprint of the model's file, which the score names.
    """

    question: Question
    model: str

    @property
    def timeout(self) -> float:
        return self.question.timeout


@dataclass(frozen=True)
class Labeling:
    """Ask the site to keep a model and to label its own rows; nothing comes back.

    Attributes
    ----------
    file : the model.
    """

    file: ModelFile
    timeout: float = 600.0


@dataclass(frozen=True)
class Done:
    """The answer of a site that has labeled its rows: it says nothing else."""


Task = Statistics | Scoring | Labeling
Result = Stats | Score | Done
VERBS: dict[type[Any], str] = {Statistics: STATISTICS, Scoring: SCORE, Labeling: LABELS}


# -------------------------------------------------------------------------------- server to site


def pack_task(task: Task) -> RecordDict:
    """Serialize a task."""
    if isinstance(task, Scoring):
        content = records.pack_question(task.question)
        content[SCORE] = records.small(model=task.model)
        return content
    body = None
    if isinstance(task, Labeling):
        body = formats.encode(task.file)
        if len(body) > records.MAX_MESSAGE_BYTES:
            most = records.MAX_MESSAGE_BYTES
            raise MessageError(f"The model has {len(body)} bytes; sites take at most {most}.")
    return records.pack({"timeout": float(task.timeout)}, body)


def unpack_task(verb: str, content: RecordDict) -> Task:
    """Unpack a task and check every field. Anything else is a MessageError."""
    if verb == SCORE:
        question = records.unpack_question(content)
        if question.broadcast.model is None:
            raise MessageError("The question for a score has no model.")
        return Scoring(question, records.take_small(content, SCORE, "model"))
    head, body = records.unpack(content)
    try:
        timeout = records.seconds(head)
    except FedJigsawError as error:
        raise MessageError(f"The question cannot be used: {error}") from error
    if verb == STATISTICS:
        return Statistics(timeout)
    file = None if body is None else formats.decode(body)
    if not isinstance(file, ModelFile):
        raise MessageError("The question for labels has no model.")
    return Labeling(file, timeout)


# -------------------------------------------------------------------------------- site to server


def pack_result(result: Result) -> RecordDict:
    """Serialize what a task gave."""
    if isinstance(result, Done):
        return records.pack({"done": True}, None)
    return records.pack({}, formats.encode(result))


def unpack_result(task: Task, name: str, content: RecordDict) -> Result | str:
    """Unpack what a site sent for a task, or the reason why there is nothing.

    Anything else is a MessageError: something of another kind, about another model, or under the
    name of another site.
    """
    head, body = records.unpack(content, records.MAX_ANSWER_HEAD)
    if "failure" in head:
        return records.reason(head)
    if isinstance(task, Labeling):
        if body is not None or head.get("done") is not True:
            raise MessageError("The answer to a request for labels says something else than done.")
        return Done()
    result = None if body is None else formats.decode(body)
    wanted = Stats if isinstance(task, Statistics) else Score
    if not isinstance(result, wanted) or isinstance(result, NoisyStats):
        raise MessageError(f"The answer contains no {VERBS[type(task)]}.")
    if result.client != name:
        raise MessageError(f"Site {name!r} signed as {result.client!r}.")
    if isinstance(result, Score) and isinstance(task, Scoring):
        _check_score(task, result)
    return result


def _check_score(task: Scoring, score: Score) -> None:
    assert task.question.broadcast.model is not None
    k = len(task.question.broadcast.model.centers)
    if score.model != task.model or len(score.counts) != k or score.profile or score.privacy:
        raise MessageError(f"The score of client {score.client!r} is not one of this model.")
