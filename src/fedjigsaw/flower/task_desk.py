"""The desk of a site, for tasks: the journal and the budget of questions hold for them, too."""

import base64
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeVar

from fedjigsaw._locks import locked
from fedjigsaw.errors import BudgetError, MessageError, ParameterError
from fedjigsaw.flower.desk import DAY, LOCK, Desk, hash_of
from fedjigsaw.flower.earlier import Earlier, read_earlier
from fedjigsaw.io import formats
from fedjigsaw.io.formats import Score
from fedjigsaw.kernels.scaling import Stats
from fedjigsaw.privacy.journal import JOURNAL, Journal, Record
from fedjigsaw.privacy.policy import PrivateError, RefusedError
from fedjigsaw.sites.charge import Spend

logger = logging.getLogger(__name__)

T = TypeVar("T", Stats, Score)
# computes an answer: given the answers of before, and what to call before exact numbers are made
Work = Callable[[Earlier | None, Spend], T]


def answer_task(
    desk: Desk,
    what: str,
    terms: object,
    data_set: Callable[[], str],
    kind: type[T],
    work: Work[T],
    **asked: Any,
) -> T:
    """Return the answer to a task, new or as before, or raise an error.

    Parameters
    ----------
    what : name of the task.
    terms : everything that makes it another question.
    data_set : returns a name of exactly the data that the site holds.
    kind : kind of the answer.
    work : computes the answer.
    asked : what the journal keeps of the question.
    """
    if desk.folder is None:
        _check_private(desk)
        return work(None, desk.charges(what, desk.hashing(data_set)).spend)
    with journaled(desk, what, **asked) as (journal, earlier, question):
        _check_private(desk)
        hashed = desk.hashing(data_set)
        name = data_set()
        key = hash_of([what, name, terms])
        charges = desk.charges(what, hashed)
        known = earlier.answers.get(key)
        if known is not None:
            answer, extra = _again(known, kind), {"repeated": True}
        else:
            desk.policy.check_budget(earlier.within(DAY), earlier.about(name))
            answer, extra = work(earlier, charges.spend), {}
        content = formats.encode(answer)
        journal.add(
            "answer",
            to=question["n"],
            **_described(what, asked),
            data_set=name,
            topic=key,
            key=key,
            answer=sha256(content).hexdigest(),
            bytes=len(content),
            content=base64.b64encode(content).decode(),
            **extra,
        )
        charges.confirm()
    return answer


@contextmanager
def journaled(desk: Desk, what: str, **asked: Any) -> Iterator[tuple[Journal, Earlier, Record]]:
    """Write a question down, and whatever error comes of it; give journal, answers and record."""
    if desk.folder is None:
        raise ParameterError(f"This site has no folder, and so no journal for {what}.")
    with locked(desk.folder / LOCK, wait=True):
        earlier = read_earlier(desk.folder)
        journal = Journal(desk.folder / JOURNAL)
        question = journal.add("question", **_described(what, asked))
        try:
            yield journal, earlier, question
        except BaseException as error:
            refused = isinstance(error, RefusedError | BudgetError)
            reason = f"{type(error).__name__}: {error}"[:500]
            journal.add("refusal" if refused else "failure", to=question["n"], reason=reason)
            raise


def _check_private(desk: Desk) -> None:
    if desk.privacy is not None:
        raise PrivateError(
            "differential privacy covers summaries only. For a scaler, use the bounds: "
            "`fedjigsaw scaler --bounds columns.json`, and start all sites with --scaler"
        )


def _described(what: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"task": what, "model": None, **asked}


def _again(record: Record, kind: type[T]) -> T:
    found = formats.decode(base64.b64decode(record["content"]))
    if not isinstance(found, kind):
        raise MessageError(f"Record {record['n']} of the journal contains no {kind.__name__}.")
    return found
