"""The desk of a site: decide whether a question is answered, and write down both.

The desk stands between the server and the data. It knows the site's policy, its journal, and the
groups of rows that earlier answers left together. All of them are files in the site's folder, since
every question is a process of its own.
"""

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._locks import locked
from fedjigsaw.contract import FederatedMethod
from fedjigsaw.engine import aggregate_round
from fedjigsaw.errors import BudgetError, FedJigsawError, ParameterError
from fedjigsaw.flower.earlier import GROUPS, Earlier, read_earlier, repeated
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.regular import stem
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.methods import build
from fedjigsaw.privacy.fingerprints import fingerprint
from fedjigsaw.privacy.groups import Memory, RememberingGuard
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.journal import JOURNAL, Journal, Record
from fedjigsaw.privacy.ledger import LEDGER, Ledger, default_path
from fedjigsaw.privacy.policy import ANY, DERIVED, Policy, RefusedError
from fedjigsaw.sites.charge import Charge, Charges, Spend

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

logger = logging.getLogger(__name__)

LOCK = "journal.lock"
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
    data : the file or folder of the data. If a ledger lies beside it, that one holds as well.
    version : name of the data for questions under privacy; by default the site's name. A changed
        file does not make another one: whether an answer is a new one would tell that it changed.
    view : how the data are read: columns, scaler, missing values.
    """

    name: str
    policy: Policy
    folder: Path | None = None
    privacy: Privacy | None = None
    data: Path | None = None
    version: str | None = None
    view: str = ""

    def open(self, data_set: Callable[[], str]) -> str | None:
        """Make sure, before the first question, that there is a limit; tell if it is a new one."""
        if self.folder is None or self.privacy is None:
            return None
        with locked(self.folder / LOCK, wait=True):
            read_earlier(self.folder)
            return self._charges("", self._fingerprint(data_set)).limit(self.privacy)

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
            charges = self._charges(_what(question), self._fingerprint(data_set))
            return work(self.policy.tighten(guard, method.sends), broadcast, charges.spend)
        with locked(self.folder / LOCK, wait=True):
            earlier = read_earlier(self.folder)
            journal = Journal(self.folder / JOURNAL)
            asked = _describe(question)
            number = journal.add("question", **asked)["n"]
            try:
                method = make(question)
                guard = self.policy.tighten(guard, method.sends)
                hashed = self._fingerprint(data_set)
                names = self._names(question, method, guard, data_set, hashed)
                broadcast = self._allowed(question, method, earlier, names["topic"])
                charges = self._charges(_what(question), hashed)

                def compute(guard: Guard, broadcast: Broadcast = broadcast) -> SummaryFile:
                    return work(guard, broadcast, charges.spend)

                file, extra = self._answer(question, names, earlier, guard, compute)
            except BaseException as error:
                refused = isinstance(error, RefusedError | BudgetError)
                reason = f"{type(error).__name__}: {error}"[:500]
                journal.add("refusal" if refused else "failure", to=number, reason=reason)
                raise
            journal.add("answer", to=number, **asked, **names, **extra)
            charges.confirm()
            for line in charges.describe():
                logger.info("%s", line)
            return file

    def _fingerprint(self, data_set: Callable[[], str]) -> Callable[[], str]:
        """Return what hashes the data once: as the commands for files do, if they are a file."""
        place = self.data
        return cache(data_set if place is None else lambda: fingerprint(place))

    def _charges(self, what: str, hashed: Callable[[], str]) -> Charges:
        """Return the charges to the ledger beside the data, if there is one, and to the folder's.

        The first has the name of the data file, as the commands for files write it down.
        """
        own = None if self.folder is None else Ledger(self.folder / LEDGER)
        found = [] if own is None else [Charge(own, self.name, hashed, what)]
        beside = None if self.data is None else default_path(self.data)
        same = own is not None and beside is not None and beside.resolve() == own.path.resolve()
        if self.data is not None and beside is not None and beside.exists() and not same:
            found.append(Charge(Ledger(beside), stem(self.data), hashed, what))
        return Charges(tuple(found))

    def _names(
        self,
        question: "Question",
        method: FederatedMethod,
        guard: Guard,
        data_set: Callable[[], str],
        hashed: Callable[[], str],
    ) -> dict[str, str]:
        """Return the names of the data, of the topic, and of the question: equal ones are equal.

        Neither the seed nor the time limit nor the order of columns makes another question.
        """
        if self.privacy is None:
            name = data_set()
            terms: object = [guard.min_cluster_size, guard.counts, guard.sums]
            return _question_names(question, method, name, terms)
        terms = [self.view, self.privacy.to_dict()]
        names = _question_names(question, method, self.version or self.name, terms)
        return {**names, "fingerprint": hashed()}

    def _answer(
        self,
        question: "Question",
        names: Mapping[str, str],
        earlier: Earlier,
        guard: Guard,
        work: Callable[[Guard], SummaryFile],
    ) -> tuple[SummaryFile, dict[str, Any]]:
        """Return the answer, and what the journal keeps of it."""
        known = earlier.answers.get(names["key"])
        if known is not None:
            file = repeated(known, question.columns)
            if file is not None:
                self._note_change(known, names)
                return file, {**_describe_answer(file, formats.encode(file)), "repeated": True}
            if self.privacy is not None:  # with fresh noise it would tell more
                raise RefusedError("the answer on record was not kept, or has other columns")
        else:  # without noise, a known question has the same answer, however often it is computed
            self._check_new(question, names, earlier)
        file = work(guard) if self.privacy else self._remembering(names["data_set"], guard, work)
        content = formats.encode(file)
        kept = {} if len(content) > MAX_KEPT else {"content": base64.b64encode(content).decode()}
        return file, {**_describe_answer(file, content), **kept}

    def _check_new(self, question: "Question", names: Mapping[str, str], earlier: Earlier) -> None:
        """Raise a RefusedError if an answer that is computed anew would be one too many."""
        self.policy.check_budget(earlier.within(DAY), earlier.about(names["data_set"]))
        if self.privacy is None or self.policy.later_models != ANY:
            return
        number = question.broadcast.round
        if any(record["round"] == number for record in earlier.chain(names["topic"])):
            raise RefusedError(f"round {number} of this run was answered for another model")

    def _note_change(self, known: Record, names: Mapping[str, str]) -> None:
        """Tell the site, and nobody else, that an answer is about data as they were."""
        if known.get("fingerprint") != names.get("fingerprint"):
            logger.warning(
                "The data changed since this question was answered, on %s. The answer on record "
                "was given again. If the data are new, start the site with --data-set NAME.",
                known["time"],
            )

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
        earlier: Earlier | None,
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


# ------------------------------------------------------------------------------------- names


def _question_names(
    question: "Question", method: FederatedMethod, data_set: str, terms: object
) -> dict[str, str]:
    params = {n: v for n, v in method.configuration().items() if n != "random_state"}
    topic = _hash([data_set, terms, method.method, params])
    broadcast = question.broadcast
    key = _hash([topic, broadcast.round, _describe_model(broadcast.model)])
    return {"data_set": data_set, "topic": topic, "key": key}


def _hash(values: object) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


# ----------------------------------------------------------------------------------- descriptions


def _what(question: "Question") -> str:
    return f"round {question.broadcast.round} of {question.method[:100]}"


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
