"""The desk of a site, for tasks: the journal and the budget of questions hold for them, too."""

import base64
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from fedjigsaw.columns.scaling import Stats
from fedjigsaw.errors import MessageError
from fedjigsaw.flower.desk import Desk, hash_of
from fedjigsaw.flower.earlier import DAY, Earlier, journaled
from fedjigsaw.io import formats
from fedjigsaw.io.formats import Score
from fedjigsaw.records.journal import Record
from fedjigsaw.records.policy import PrivateError
from fedjigsaw.sites.charge import Spend

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
    described = {"task": what, "model": None, **asked}
    with journaled(desk.folder, desk.policy, **described) as entry:
        _check_private(desk)
        hashed = desk.hashing(data_set)
        name = data_set()
        key = hash_of([what, name, terms])
        entry.names = {"data_set": name, "key": key}
        charges = desk.charges(what, hashed)
        earlier = entry.earlier
        known = earlier.answers.get(key)
        if known is not None:
            answer = _again(known, kind)
        else:
            desk.policy.check_budget(earlier.within(DAY, key), earlier.about(name, key))
            answer = work(earlier, charges.spend)
        content = formats.encode(answer)
        kept = {"content": base64.b64encode(content).decode()}
        entry.add(
            "answer",
            to=entry.number,
            **described,
            **entry.names,
            topic=key,
            answer=sha256(content).hexdigest(),
            bytes=len(content),
            **(kept if known is None else {"repeated": True}),
            **desk.mark(name),
        )
        charges.confirm()
    return answer


def _check_private(desk: Desk) -> None:
    if desk.privacy is not None:
        raise PrivateError(
            "differential privacy covers summaries only. For a scaler, use the bounds: "
            "`fedjigsaw scaler --bounds columns.json`, and start all sites with --scaler"
        )


def _again(record: Record, kind: type[T]) -> T:
    found = formats.decode(base64.b64decode(record["content"]))
    if not isinstance(found, kind):
        raise MessageError(f"Record {record['n']} of the journal contains no {kind.__name__}.")
    return found
