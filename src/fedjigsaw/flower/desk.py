"""The desk of a site: decide whether a question is answered, and write down both.

The desk stands between the server and the data. It knows the site's policy, its journal, and the
groups of rows that earlier answers left together. All of them are files in the site's folder, since
every question is a process of its own.
"""

import base64
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import ParameterError
from fedjigsaw.flower.derived import derived, describe_model
from fedjigsaw.flower.earlier import DAY, HAS_GROUPS, Earlier, journaled, read_earlier, repeated
from fedjigsaw.flower.folders import GROUPS, JOURNAL_LOCK
from fedjigsaw.flower.logs import told
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.regular import open_regular, stem
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import build
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.guard import Guard, Memory, RememberingGuard
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.records.journal import Record
from fedjigsaw.records.ledger import LEDGER, Ledger, default_path
from fedjigsaw.records.locks import locked
from fedjigsaw.records.policy import ANY, DERIVED, Policy, RefusedError
from fedjigsaw.sites.charge import Charge, Charges, Spend
from fedjigsaw.sites.keeping import question_params

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

logger = logging.getLogger(__name__)

MAX_KEPT = 4 * 2**20  # a larger answer is in the journal by its hash alone, and so is any of IMAGES
IMAGES = "images"  # kind of data: a run has so many large answers that they would fill the journal
MAX_PARAMETERS = 4000  # characters of the parameters in the journal

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
        """Make sure, before the first question, that there is a limit; return it in words."""
        if self.folder is None or self.privacy is None:
            return None
        with locked(self.folder / JOURNAL_LOCK, wait=True):
            read_earlier(self.folder)
            return self.charges("", self.hashing(data_set)).limit(self.privacy)

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
            charges = self.charges(_what(question), self.hashing(data_set))
            guard = self.policy.tighten(guard, method.sends)
            if question.scaler is not None:
                guard = _with_memory(guard, Memory(), question.scaler)
            return work(guard, broadcast, charges.spend)
        asked = _describe(question)
        with journaled(self.folder, self.policy, **asked) as entry:
            method = make(question)
            guard = self.policy.tighten(guard, method.sends)
            hashed = self.hashing(data_set)
            entry.names = names = self._names(question, method, guard, data_set, hashed)
            entry.earlier.check_same_data(asked, names["data_set"])
            broadcast = self._allowed(question, method, entry.earlier, names["topic"])
            charges = self.charges(_what(question), hashed)

            def compute(guard: Guard) -> SummaryFile:
                return work(guard, broadcast, charges.spend)

            kind = method.data_kind
            file, extra = self._answer(question, names, entry.earlier, guard, compute, kind)
            extra |= self.mark(names["data_set"])
            entry.add("answer", to=entry.number, **asked, **names, **extra)
            charges.confirm()
        for line in charges.describe():
            logger.info("%s", line, extra=told("budget"))
        return file

    def hashing(self, data_set: Callable[[], str]) -> Callable[[], str]:
        """Return what hashes the data once: as the commands for files do, if they are a file."""
        place = self.data
        return cache(data_set if place is None else lambda: fingerprint(place))

    def charges(self, what: str, hashed: Callable[[], str]) -> Charges:
        """Return the charges to the ledger beside the data, if there is one, and to the folder's.

        The first has the name of the data file, as the commands for files write it down.
        """
        own = None if self.folder is None else Ledger(self.folder / LEDGER)
        found = [] if own is None else [Charge(own, self.name, hashed, what)]
        if self.data is not None:
            beside = Ledger(default_path(self.data))
            same = own is not None and beside.path.resolve() == own.path.resolve()
            if beside.exists() and not same:
                found.append(Charge(beside, stem(self.data), hashed, what))
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

        Neither the seed nor the time limit nor the order of columns makes another question; only
        about images does the seed.
        """
        if self.privacy is None:
            return _question_names(question, method, data_set(), _terms(guard))
        terms: object = [self.view, self.privacy.to_dict(), question.broadcast.cells]
        names = _question_names(question, method, self.version or self.name, terms)
        return {**names, "fingerprint": hashed()}

    def _answer(
        self,
        question: "Question",
        names: Mapping[str, str],
        earlier: Earlier,
        guard: Guard,
        work: Callable[[Guard], SummaryFile],
        kind: str,
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
        tied = False
        if self.privacy:
            file = work(guard)
        else:
            file, tied = self._remembering(question.scaler, names, guard, work, earlier)
        content = formats.encode(file)
        # of a question that is known, the first answer is the one that is given again
        keep = known is None and len(content) <= MAX_KEPT and kind != IMAGES
        kept = {"content": base64.b64encode(content).decode()} if keep else {}
        return file, {**_describe_answer(file, content), **kept, **({"tied": True} if tied else {})}

    def _check_new(self, question: "Question", names: Mapping[str, str], earlier: Earlier) -> None:
        """Raise a RefusedError if an answer that is computed anew would be one too many."""
        name, key = names["data_set"], names["key"]
        self.policy.check_budget(earlier.within(DAY, key), earlier.about(name, key))
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
                extra=told("data_changed"),
            )

    def _remembering(
        self,
        scaler: Scaler | None,
        names: Mapping[str, str],
        guard: Guard,
        work: Callable[[Guard], SummaryFile],
        earlier: Earlier,
    ) -> tuple[SummaryFile, bool]:
        """Compute an answer that moves rows between clusters only in the groups of earlier ones.

        Also tell whether it is tied to its scaler: it has a radius, which may be the distance of a
        single row, or no clusters of rows. Each further scaler would tell more digits of it.
        """
        memory = self.recall(names["data_set"], earlier)
        size = guard.min_cluster_size
        file = work(_with_memory(guard, memory, scaler))
        tied = scaler is not None and (file.summary.radii is not None or memory.labels is None)
        if tied and size > 1 and earlier.scalers(names["data_set"]) - {names["scaler"]}:
            raise RefusedError(
                "an answer with a radius, or without clusters of rows, was given for another "
                "scaler of the server; use that one: run --scaler FILE"
            )
        self.remember(names["data_set"], memory)
        return file, tied

    def recall(self, data_set: str, earlier: Earlier | None) -> Memory:
        """Return the groups of a data set.

        Raise a RefusedError if they are lost: an answer without them may differ from an earlier one
        by a single row.
        """
        place = self._place(data_set)
        try:
            with open_regular(place) as file:
                return Memory(np.load(file, allow_pickle=False).astype(np.int64))
        except FileNotFoundError:
            if earlier is None or not earlier.has_groups(data_set):
                return Memory()
            what = "is missing"
        except (ValueError, EOFError):
            what = "is damaged"
        raise RefusedError(
            f"{place} {what}, but the journal has answers by it. Restore it from a backup. To "
            "start anew, move journal and groups away."
        )

    def remember(self, data_set: str, memory: Memory) -> None:
        """Keep the groups of a data set, if an answer has split them."""
        if memory.groups is not None:
            _save_groups(self._place(data_set), memory.groups)

    def mark(self, data_set: str) -> dict[str, bool]:
        """Return what an answer in the journal says about the groups of its data set."""
        return {HAS_GROUPS: True} if self._place(data_set).exists() else {}

    def _place(self, data_set: str) -> Path:
        assert self.folder is not None
        return self.folder / GROUPS / f"{data_set[:32]}.npy"

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


def _with_memory(guard: Guard, memory: Memory, scaler: Scaler | None) -> Guard:
    return RememberingGuard(guard.min_cluster_size, guard.counts, guard.sums, memory, scaler)


# ------------------------------------------------------------------------------------- names


def _question_names(
    question: "Question", method: FederatedMethod, data_set: str, terms: object
) -> dict[str, str]:
    scaler = {} if question.scaler is None else {"scaler": name_scaler(question.scaler)}
    params = question_params(method.configuration())
    topic = hash_of([data_set, terms, method.method, params, *scaler.values()])
    broadcast = question.broadcast
    # The seed of a run chooses the network at the start and the views that it learns from; about
    # rows it chooses nothing.
    seed = [broadcast.seed] if method.data_kind == IMAGES else []
    key = hash_of([topic, broadcast.round, describe_model(broadcast.model), *seed])
    return {"data_set": data_set, "topic": topic, "key": key, **scaler}


def topic_of(question: "Question", method: FederatedMethod, data_set: str, guard: Guard) -> str:
    """Return the name of the topic of a question: data, method, parameters, guard and scaler."""
    return _question_names(question, method, data_set, _terms(guard))["topic"]


def _terms(guard: Guard) -> object:
    return [guard.min_cluster_size, guard.counts, guard.sums]


def name_scaler(scaler: Scaler) -> str:
    """Return a name of a scaler that does not depend on the order of its columns."""
    numbers = zip(scaler.columns, scaler.mean.tolist(), scaler.deviation.tolist(), strict=True)
    return hash_of(sorted(numbers))


def hash_of(values: object) -> str:
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
        "model": describe_model(question.broadcast.model),
    }


def _describe_answer(file: SummaryFile, content: bytes) -> dict[str, Any]:
    return {
        "answer": sha256(content).hexdigest(),
        "centers": len(file.summary.centers),
        "bytes": len(content),
        "guard": dict(file.guard),
        **({} if file.privacy is None else {"privacy": file.privacy.to_dict()}),
    }


# ------------------------------------------------------------------------------------------ files


def _save_groups(place: Path, groups: np.ndarray) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    buffer = BytesIO()
    np.save(buffer, groups.astype(np.int32), allow_pickle=False)
    write_whole(place, buffer.getvalue(), private=True)
