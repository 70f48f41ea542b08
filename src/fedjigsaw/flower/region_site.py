"""A site whose data are the sites of another federation: a region.

Its server runs on the same machine. On a question the region asks the same in its own federation,
and answers with one summary of the answers.
"""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjigsaw import sites
from fedjigsaw._regions import sites_of
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.contract import FederatedMethod
from fedjigsaw.engine import aggregate_round
from fedjigsaw.errors import ParameterError
from fedjigsaw.flower import jobs
from fedjigsaw.flower.desk import Desk, make_method, name_scaler
from fedjigsaw.flower.earlier import DAY, read_earlier
from fedjigsaw.flower.folders import CA, KEPT, ServerSettings, server_folder
from fedjigsaw.flower.scaler_values import scaler_values
from fedjigsaw.io.formats import SummaryFile, encode
from fedjigsaw.messages import COUNTS, Broadcast
from fedjigsaw.privacy.fingerprints import fingerprint
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.policy import REQUIRED, Policy, RefusedError
from fedjigsaw.sites import Spend
from fedjigsaw.sites.aggregate import Together, with_reports
from fedjigsaw.sites.keeping import Kept, question_params
from fedjigsaw.sites.region import most_centers, region_summary

if TYPE_CHECKING:
    from fedjigsaw.flower.records import Question

logger = logging.getLogger(__name__)

LONGEST_WAIT = 60.0  # seconds for sites of the region that are not connected
SHARE = 0.85  # of the time that the region has for its answer, which its sites may use


@dataclass(frozen=True)
class RegionSite:
    """A site whose data are the sites of another federation.

    Parameters
    ----------
    name : name of the region at the next level.
    federation : folder of the federation whose server runs on this machine.
    policy, guard : which questions the region answers, and what may leave it. Its sites have
        policies and guards of their own; a region whose sites tell more than its own policy allows
        sends nothing.
    folder : where it keeps its journal.
    n_centers : most centers that it sends, as in :func:`fedjigsaw.sites.aggregate_region`.
    min_sites : number of its sites that must answer; None is all of them.
    """

    name: str
    federation: Path
    policy: Policy
    guard: Guard
    folder: Path | None = None
    n_centers: int | None = None
    min_sites: int | None = None

    @property
    def home(self) -> Path:
        """The folder of the region's own server."""
        return server_folder(self.federation)

    def check(self) -> str | None:
        """Raise if the region has no server on this machine, or is its own server's site."""
        names = list(ServerSettings.load(self.home).sites)
        if self.folder is not None:
            own, above = self.home / CA, self.folder / CA
            if above.exists() and own.read_bytes() == above.read_bytes():
                raise ParameterError(
                    f"{self.federation} is the federation that {self.name} is a site of. Give the "
                    "folder of the region's own federation."
                )
        return f"Region {self.name}: it asks {', '.join(names)} of {self.federation}."

    def answer(self, question: "Question") -> SummaryFile:
        """Ask the same in the region's own federation; return one summary of the answers."""

        @cache
        def found() -> SummaryFile:
            return self._checked(self._ask(question))

        def work(guard: Guard, broadcast: Broadcast, spend: Spend) -> SummaryFile:
            spend(None, None)
            return found()

        desk = Desk(self.name, self.policy, self.folder)
        # what the sites answer says whether their data have changed: nobody else knows
        data_set = cache(lambda: fingerprint(encode(found())))
        return desk.answer(question, data_set, self.guard, work, self._method)

    def _method(self, question: "Question") -> FederatedMethod:
        """Make the method; refuse before any site is asked."""
        method = make_method(question)
        self.policy.check_question(
            method.method,
            method.configuration(),
            total_rounds=method.total_rounds,
            number=question.broadcast.round,
            model=question.broadcast.model is not None,
        )
        if not isinstance(method, FederatedClusterer) or method.total_rounds > 1:
            raise ParameterError("A region answers for rows, and in a single round.")
        self._check_budget(question)
        return method

    def _check_budget(self, question: "Question") -> None:
        """Refuse a question that was never answered, if it is one too many: no site is asked.

        Only the answers of its sites would tell which data set of theirs a question is about, so
        different questions about all of them count together.
        """
        if self.folder is None:
            return
        scaler = None if question.scaler is None else name_scaler(question.scaler)
        asked = _plain(question.method[:100], json.dumps(dict(question.params)), scaler)
        earlier = read_earlier(self.folder)
        known = {
            _plain(record["method"], record["params"], record.get("scaler"))
            for record in earlier.answers.values()
        }
        if asked not in known:
            self.policy.check_budget(earlier.within(DAY), len(known))

    def _ask(self, question: "Question") -> SummaryFile:
        # whom to believe is decided where the last level is aggregated
        params, seed = question_params(question.params), question.broadcast.seed
        n_clusters = params.pop("n_clusters", None)
        wait = min(LONGEST_WAIT, question.timeout / 4)
        seconds = max(1.0, SHARE * question.timeout - wait)
        scaler = None if question.scaler is None else scaler_values(question.scaler)
        times = (self.min_sites, seconds, wait)
        cells = question.broadcast.cells
        job = jobs.Job(
            *(question.method, n_clusters, params, seed, *times),
            keep=True,
            scaler=scaler,
            cells=cells,
        )
        method = job.make_method()
        assert isinstance(method, FederatedClusterer)
        _, transcript = jobs.run_job(self.home, job, tell=_log)
        answered = {name for one in transcript["rounds"] for name in one["bytes_up"]}
        kept = Kept(self.home / KEPT).about(method.method, method.configuration())
        files = sorted(
            (file for name, file in kept.items() if name in answered),
            key=lambda file: min(sites_of(file.summary)),
        )
        columns = question.columns or files[0].columns
        files = [sites.reorder(file, columns) for file in files]
        summaries = [file.summary for file in files]
        model = aggregate_round(method, summaries, Broadcast(0, seed))
        model = with_reports(method, summaries, model)
        together = Together(method, tuple(files), model)
        return region_summary(together, self.name, most_centers(n_clusters, self.n_centers))

    def _checked(self, file: SummaryFile) -> SummaryFile:
        """Raise a RefusedError if the sites told more than the policy of the region allows."""
        promise = file.privacy
        if self.policy.privacy == REQUIRED and (
            promise is None or promise.epsilon > self.policy.largest_epsilon
        ):
            raise RefusedError("not all sites of the region promise the privacy that it requires")
        if promise is not None:
            return file
        least, counts = file.guard["min_cluster_size"], file.guard["counts"]
        if least < self.guard.min_cluster_size:
            raise RefusedError(
                f"a site of the region sends centers of {least} rows, fewer than the "
                f"{self.guard.min_cluster_size} of the region's own policy"
            )
        sends_more = COUNTS.index(counts) < COUNTS.index(self.policy.counts)
        if sends_more or (self.policy.sums == "none" and file.summary.sse is not None):
            raise RefusedError("a site of the region sends counts or sums that it may not pass on")
        return file


def _plain(method: str, params: str, scaler: str | None) -> tuple[str, str, str | None]:
    """Return a question as the journal has it, without its seed."""
    with suppress(ValueError):  # parameters that are too long are there by their hash
        params = json.dumps(question_params(json.loads(params)), sort_keys=True)
    return method, params, scaler


def load_region(
    name: str,
    federation: str,
    centers: int | None = None,
    min_sites: int | None = None,
    *,
    policy: Policy,
    guard: Guard,
    folder: Path | None,
) -> RegionSite:
    """Make a region from JSON values."""
    return RegionSite(name, Path(federation), policy, guard, folder, centers, min_sites)


def _log(event: Mapping[str, Any]) -> None:
    logger.info("in the region: %s %s %s", event["event"], event["site"], event["detail"])
