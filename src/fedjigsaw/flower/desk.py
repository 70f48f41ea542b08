"""The desk of a site: decide whether a question is answered, and write down both.

The desk stands between the server and the data. It knows the site's policy, its journal, and the
groups of rows that earlier answers left together. All of them are files in the site's folder, since
every question is a process of its own.
"""

import base64
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._locks import locked
from fedjigsaw.contract import FederatedMethod
from fedjigsaw.engine import aggregate_round
from fedjigsaw.errors import BudgetError, FedJigsawError, MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.methods import build
from fedjigsaw.privacy.groups import Memory, RememberingGuard
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.journal import JOURNAL, Journal, Record
from fedjigsaw.privacy.ledger import LEDGER, Ledger
from fedjigsaw.privacy.policy import DERIVED, Policy, RefusedError
from fedjigsaw.privacy.summaries import NOISE
from fedjigsaw.sites.charge import Charge, Spend, free
from fedjigsaw.sites.compatibility import reorder

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

logger = logging.getLogger(__name__)

LOCK = "journal.lock"
GROUPS = "groups"  # folder with the groups of rows of each data set
MAX_KEPT = 4 * 2**20  # a larger answer is in the journal by its hash alone
MAX_PARAMETERS = 4000  # characters of the parameters in the journal
TOLERANCE = 1e-6  # relative; other processors give other last digits
DAY = timedelta(hours=24)

# what a site gives its desk: how to make the method, and how to compute an answer
Make = Callable[["Question"], FederatedMethod]
Work = Callable[[Guard, Broadcast, Spend], SummaryFile]


def make_method(question: "Question") -> FederatedMethod:
    """Make the method of a question, with all its parameters and without the server's seed."""
    params = {name: value for name, value in question.params.items() if name != "random_state"}
    method = build(question.method, params)
    method.check_federated()
    return method


@dataclass(frozen=True)
class Desk:
    """The desk of one site.

    Parameters
    ----------
    name : name of the site.
    policy : its rules.
    folder : where journal, groups and ledger are; None keeps nothing, so that only rules about a
        single question hold.
    privacy : differential privacy of every answer. It takes the place of guard and groups; each
        new answer is written down in the ledger before its noise is drawn.
    """

    name: str
    policy: Policy
    folder: Path | None = None
    privacy: Privacy | None = None

    def answer(
        self,
        question: "Question",
        data_set: Callable[[], str],
        guard: Guard,
        work: Work,
        make: Make = make_method,
    ) -> SummaryFile:
        """Return the answer to a question, new or as before, or raise an error.

        Parameters
        ----------
        data_set : returns a name of exactly the data that the site holds.
        guard : the site's guard.
        work : computes an answer with a guard, for a broadcast; it calls the function that it is
            given right before noise is drawn.
        make : makes the method of the question.
        """
        if self.folder is None:
            if self.privacy is not None:
                raise ParameterError("Differential privacy needs a folder, where the ledger is.")
            method = make(question)
            broadcast = self._allowed(question, method, None)
            return work(self.policy.tighten(guard, method.sends), broadcast, free)
        with locked(self.folder / LOCK, wait=True):
            journal = Journal(self.folder / JOURNAL)
            _check_present(journal, self.folder)
            earlier = _read(journal)
            earlier.check_ledger(self.folder)
            asked = _describe(question)
            number = journal.add("question", **asked)["n"]
            try:
                method = make(question)
                guard = self.policy.tighten(guard, method.sends)
                names = _names(question, method, data_set(), self.privacy or guard)
                broadcast = self._allowed(question, method, earlier, names["topic"])
                charge = self._charge(asked, names)

                def compute(guard: Guard, broadcast: Broadcast = broadcast) -> SummaryFile:
                    return work(guard, broadcast, charge.spend)

                file, extra = self._answer(question, names, earlier, guard, compute)
            except BaseException as error:
                refused = isinstance(error, RefusedError | BudgetError)
                reason = f"{type(error).__name__}: {error}"[:500]
                journal.add("refusal" if refused else "failure", to=number, reason=reason)
                raise
            journal.add("answer", to=number, **asked, **names, **extra)
            charge.confirm()
            if charge.number is not None:
                logger.info("%s", charge.describe())
            return file

    def _charge(self, asked: Mapping[str, Any], names: Mapping[str, str]) -> Charge:
        assert self.folder is not None
        what = f"round {asked['round']} of {asked['method']}"
        return Charge(Ledger(self.folder / LEDGER), self.name, lambda: names["data_set"], what)

    def _answer(
        self,
        question: "Question",
        names: Mapping[str, str],
        earlier: "Earlier",
        guard: Guard,
        work: Callable[[Guard], SummaryFile],
    ) -> tuple[SummaryFile, dict[str, Any]]:
        """Return the answer, and what the journal keeps of it."""
        assert self.folder is not None
        known = earlier.answers.get(names["key"])
        if known is None:
            self.policy.check_budget(earlier.within(DAY), earlier.about(names["data_set"]))
        elif (file := _repeated(known, question.columns)) is not None:
            return file, {**_describe_answer(file, formats.encode(file)), "repeated": True}
        file = work(guard) if self.privacy else self._remembering(names["data_set"], guard, work)
        content = formats.encode(file)
        kept = {} if len(content) > MAX_KEPT else {"content": base64.b64encode(content).decode()}
        return file, {**_describe_answer(file, content), **kept}

    def _remembering(
        self, data_set: str, guard: Guard, work: Callable[[Guard], SummaryFile]
    ) -> SummaryFile:
        """Compute an answer that moves rows between clusters only in the groups of earlier ones."""
        assert self.folder is not None
        place = self.folder / GROUPS / f"{data_set[:32]}.npy"
        memory = Memory(_load_groups(place))
        file = work(RememberingGuard(guard.min_cluster_size, guard.counts, guard.sums, memory))
        if memory.groups is not None:
            _save_groups(place, memory.groups)
        return file

    def _allowed(
        self,
        question: "Question",
        method: FederatedMethod,
        earlier: "Earlier | None",
        topic: str = "",
    ) -> Broadcast:
        """Return the broadcast that the site answers, or raise a RefusedError."""
        broadcast = question.broadcast
        self.policy.check_question(
            method.method,
            method.configuration(),
            total_rounds=method.total_rounds,
            number=broadcast.round,
            model=broadcast.model is not None,
        )
        if broadcast.round == 0 or self.policy.later_models != DERIVED:
            return broadcast
        if earlier is None:
            raise RefusedError("later rounds need a folder with a journal")
        return derived(question, method, self.name, earlier.chain(topic))


# ------------------------------------------------------------------------------- later rounds


def derived(
    question: "Question", method: FederatedMethod, name: str, earlier: Sequence[Record]
) -> Broadcast:
    """Compute the model of a later round again, from the summaries that the server shows.

    The site's own summary must be among them as it left, as the answer to the round before. The
    site then answers for the model that it computed, so that the server does not choose a digit.

    Parameters
    ----------
    earlier : the answers of this site to questions with the same method, parameters and data.
    """
    asked, shown = question.broadcast, question.shown
    assert asked.model is not None
    if shown is None:
        raise RefusedError("the server does not show the summaries of the round before")
    own = [file for file in shown.files if file.summary.client == name]
    hashes = {sha256(formats.encode(file)).hexdigest() for file in own}
    before = _describe_model(shown.before)
    sent = any(
        record["answer"] in hashes
        and (record["round"], record["model"]) == (asked.round - 1, before)
        for record in earlier
    )
    if len(own) != 1 or not sent:
        raise RefusedError("this site's answer of the round before is not among those shown")
    previous = Broadcast(asked.round - 1, asked.seed, shown.before)
    try:
        for file in shown.files:
            method.check_answer(file.summary, previous)
        model = aggregate_round(method, [file.summary for file in shown.files], previous)
    except FedJigsawError as error:
        raise RefusedError(f"the summaries shown cannot be aggregated: {error}") from error
    if not _close(model.centers, asked.model.centers):
        raise RefusedError("the model does not come from the summaries shown")
    names = asked.model.feature_names
    return Broadcast(asked.round, asked.seed, model.with_feature_names(names))


def _close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape:
        return False
    return bool(np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * float(np.ptp(ours))))


# ------------------------------------------------------------------------------ what went before


class Earlier:
    """The answers in a journal.

    Attributes
    ----------
    answers : the first answer to each different question, by its key.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._all = [record for record in records if record["kind"] == "answer"]
        self.answers: dict[str, Record] = {}
        for record in self._all:
            self.answers.setdefault(record["key"], record)

    def chain(self, topic: str) -> list[Record]:
        """Return every answer of any round about the same data, method and parameters."""
        return [record for record in self._all if record["topic"] == topic]

    def within(self, time: timedelta) -> int:
        """Count the different questions that were first answered within this time."""
        # a clock that was set back makes none of them older
        start = datetime.now(UTC) - time
        return sum(datetime.fromisoformat(r["time"]) > start for r in self.answers.values())

    def check_ledger(self, folder: Path) -> None:
        """Raise a RefusedError if noisy answers were given and the ledger of them is gone."""
        if any(record.get("privacy") for record in self._all) and not (folder / LEDGER).exists():
            raise RefusedError(
                f"{folder / LEDGER} is missing, but the journal has answers that it counted. "
                "Restore it from a backup. To start anew, move the journal away, too."
            )

    def about(self, data_set: str) -> int:
        """Count the different questions that were answered about a data set."""
        return sum(record["data_set"] == data_set for record in self.answers.values())


def _check_present(journal: Journal, folder: Path) -> None:
    """Raise a RefusedError if answers were given and the journal of them is gone."""
    if journal.path.exists() and journal.path.stat().st_size:
        return
    if any((folder / GROUPS).glob("*.npy")):
        raise RefusedError(
            f"{journal.path} is missing or empty, but {folder / GROUPS} shows that questions were "
            "answered. Restore it from a backup. To start anew, move that folder away, too."
        )


def _read(journal: Journal) -> Earlier:
    """Read the answers of a journal; one that was changed allows no further answer."""
    try:
        return Earlier(journal.records())
    except MessageError as error:
        raise RefusedError(str(error)) from error


def _repeated(record: Record, columns: tuple[str, ...] | None) -> SummaryFile | None:
    """Return an earlier answer, with the columns in the order asked for; None if it is not kept."""
    if "content" not in record:
        return None
    file = formats.decode(base64.b64decode(record["content"]))
    if not isinstance(file, SummaryFile):
        raise MessageError(f"Record {record['n']} of the journal contains no summary.")
    if columns is None or columns == file.columns:
        return file
    # what cannot be put in another order is computed again; it passes the guard once more
    if set(file.summary.tensors) - {NOISE} or file.scaler or set(columns) != set(file.columns):
        return None
    return reorder(file, columns)


def _names(
    question: "Question", method: FederatedMethod, data_set: str, rule: Guard | Privacy
) -> dict[str, str]:
    """Return the names of the data, of the topic, and of the question: equal ones are equal.

    Neither the seed nor the time limit nor the order of columns makes another question.
    """
    params = {n: v for n, v in method.configuration().items() if n != "random_state"}
    if isinstance(rule, Privacy):
        terms: object = rule.to_dict()
    else:
        terms = [rule.min_cluster_size, rule.counts, rule.sums]
    topic = _hash([data_set, terms, method.method, params])
    broadcast = question.broadcast
    key = _hash([topic, broadcast.round, _describe_model(broadcast.model)])
    return {"data_set": data_set, "topic": topic, "key": key}


def _hash(values: object) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


# ----------------------------------------------------------------------------------- descriptions


def _describe(question: "Question") -> dict[str, Any]:
    """Return what the journal keeps of a question, within bounds."""
    params = json.dumps(dict(question.params), sort_keys=True)
    if len(params) > MAX_PARAMETERS:
        params = f"{len(params)} characters, sha256 {sha256(params.encode()).hexdigest()}"
    return {
        "method": question.method[:100],
        "params": params,
        "seed": question.broadcast.seed,
        "round": question.broadcast.round,
        "model": _describe_model(question.broadcast.model),
    }


def _describe_model(model: Model | None) -> str | None:
    """Return the hash of a model."""
    if model is None:
        return None
    return sha256(formats.encode(ModelFile(model, None, (), 0))).hexdigest()


def _describe_answer(file: SummaryFile, content: bytes) -> dict[str, Any]:
    return {
        "answer": sha256(content).hexdigest(),
        "centers": len(file.summary.centers),
        "bytes": len(content),
        "guard": dict(file.guard),
        **({} if file.privacy is None else {"privacy": file.privacy.to_dict()}),
    }


# ------------------------------------------------------------------------------------------ files


def _load_groups(place: Path) -> Any:
    if not place.exists():
        return None
    return np.load(place, allow_pickle=False).astype(np.int64)


def _save_groups(place: Path, groups: np.ndarray) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    buffer = BytesIO()
    np.save(buffer, groups.astype(np.int32), allow_pickle=False)
    write_whole(place, buffer.getvalue())
