"""At the coordinator: which summaries take part, and why others do not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjigsaw import engine
from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import (
    ExtraError,
    FedJigsawError,
    MessageError,
    ParameterError,
    QuorumError,
    SiteWarning,
    warn,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.regions import (
    check_once,
    is_region,
    own_model,
    region_of,
    unpacked,
)
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods import check_liars, find_for_rows, is_known, make
from fedjigsaw.parameters import integer
from fedjigsaw.sites.compatibility import (
    agreed_parameters,
    check_contents,
    check_different,
    check_fit_together,
    check_look_alikes,
    check_one_round,
    scaler_name,
    shared_bounds,
)

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer

Loaded = SummaryFile | FedJigsawError


@dataclass(frozen=True)
class Refused:
    """A file that takes no part, its client (empty if unknown), and why."""

    file: str
    client: str
    reason: str


def read_summaries(paths: Sequence[Path | str]) -> dict[str, Loaded]:
    """Read files; a file that is not a summary gives its error, which `aggregate` judges.

    Parameters
    ----------
    paths : the files that sites sent.

    Returns
    -------
    dict
        Path, as text -> a SummaryFile, or the error on reading it.

    Examples
    --------
    >>> from fedjigsaw.sites import read_summaries
    >>> found = read_summaries(["nofile.summary"])
    >>> found["nofile.summary"]
    DataError('Cannot read nofile.summary: no such file or directory.')
    """
    if isinstance(paths, str | Path):
        raise ParameterError("read_summaries needs a list of paths; got one path.")
    return {str(path): _read(path) for path in paths}


def _read(path: Path | str) -> Loaded:
    try:
        return formats.load(path, SummaryFile)
    except FedJigsawError as error:
        return error


def server_method(
    file: SummaryFile, n_clusters: int | str, seed: int, params: Mapping[str, Any]
) -> FederatedClusterer:
    """Make the server's half of the method that a summary names.

    Of the summary's parameters, only those count on which all sites agree. What acts at the server
    is the coordinator's: `params`, or else the method's defaults.
    """
    entry = find_for_rows(file.method)
    check_liars(entry, params)
    allowed = entry.cls.server_parameters
    for name in sorted(set(params) - set(allowed)):
        raise ParameterError(
            f"{name!r} is not a parameter of {entry.label} at the server; those are: "
            f"{', '.join(allowed) or 'none'}. Set others at the sites, with `summarize -p`."
        )
    return make(file.method, n_clusters, seed, **{**agreed_parameters(file), **params})


class Admission:
    """The files that take part, and those that were refused.

    Parameters
    ----------
    files : file name -> its content, or the error on reading it.
    min_sites : how many good files are enough
        None demands that all are good: the first bad one is an error.
    """

    def __init__(self, files: Mapping[str, Loaded], min_sites: int | None) -> None:
        integer(1, or_none=True).check("min_sites", "aggregate", min_sites)
        if files != {}:  # of none at all, too few are there
            check_contents(files, "summaries", SummaryFile, FedJigsawError)
        self.min_sites = min_sites
        self.n_files = len(files)
        self.kept: dict[str, SummaryFile] = {}
        self.refused: list[Refused] = []
        for name, found in files.items():
            if isinstance(found, SummaryFile):
                self.kept[name] = found
            else:
                self._refuse(name, found)
        # before any is left out: --without must not leave a twin of that name behind
        check_look_alikes({name: file.summary.client for name, file in self.kept.items()})

    def leave_out(self, clients: Sequence[str]) -> None:
        """Leave clients out, as if they had never sent a summary."""
        _check_known(clients, {file.summary.client for file in self.kept.values()})
        kept = {n: f for n, f in self.kept.items() if f.summary.client not in set(clients)}
        if not kept and clients:
            raise ParameterError(f"Without {', '.join(map(repr, clients))}, no summary is left.")
        self.n_files -= len(self.kept) - len(kept)
        self.kept = kept

    def check_vouched(self, clients: Sequence[str]) -> None:
        """Check that there are summaries of clients that count in any case."""
        found = {s.client for s in unpacked(f.summary for f in self.kept.values())}
        _check_known(list(map(str, clients)), found)

    def check_together(self) -> None:
        """Refuse files of other columns, scalers, methods or parameters than most have.

        Two files of one site are an error in any case: only people can tell which one is right.
        """
        check_different({name: file.summary.client for name, file in self.kept.items()})
        self._check_each(lambda _, file: is_region(file.summary) and region_of(file.summary))
        check_once({name: file.summary for name, file in self.kept.items()})
        if self.min_sites is not None:  # the majority is that of usable files
            self._check_each(_check_usable)
        common = self._most_common()
        for name in list(self.kept):
            if _terms(self.kept[name]) != _terms(self.kept[common]):
                try:
                    check_fit_together({n: self.kept[n] for n in (common, name)})
                except MessageError as error:
                    self._refuse(name, error)
        self._check_each(_check_usable)
        self._check_enough()

    def check_answers(self, method: FederatedClusterer, broadcast: Broadcast) -> None:
        """Refuse summaries that the method cannot use."""
        self._check_each(lambda _, file: check_answer(method, file.summary, broadcast))
        self._check_enough()

    def check_alone(self, method: FederatedClusterer, broadcast: Broadcast) -> bool:
        """Refuse summaries that cannot even be aggregated alone; tell whether there were any."""
        before = len(self.kept)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._check_each(lambda _, file: aggregate_round(method, [file.summary], broadcast))
        self._check_enough()
        return len(self.kept) < before

    def _most_common(self) -> str:
        """Return the name of a file that has the same terms as most files."""
        groups: dict[str, list[str]] = {}
        for name, file in self.kept.items():
            groups.setdefault(_terms(file), []).append(name)
        if not groups:
            self._check_enough()
        first, *others = sorted(groups.values(), key=len, reverse=True)
        if others and len(others[0]) == len(first):  # no majority: it is for people to decide
            check_fit_together({n: self.kept[n] for n in (first[0], others[0][0])})
        return first[0]

    def _check_each(self, check: Callable[[str, SummaryFile], object]) -> None:
        for name, file in list(self.kept.items()):
            try:
                check(name, file)
            except MessageError as error:
                self._refuse(name, error)

    def _refuse(self, name: str, error: FedJigsawError) -> None:
        if self.min_sites is None:
            where = "" if name in str(error) else f"{name}: "
            advice = "Correct or leave out that file"
            if self.n_files > 1:
                advice += f", or go on without it: min_sites={self.n_files - 1}"
            about = {"file": name} | error.subject
            raise type(error)(f"{where}{error} {advice}.", **about) from error
        file = self.kept.pop(name, None)
        client = "" if file is None else file.summary.client
        self.refused.append(Refused(name, client, str(error)))

    def _check_enough(self) -> None:
        needed = self.min_sites or 1
        if len(self.kept) < needed:
            reasons = " ".join(f"{r.file}: {r.reason}" for r in self.refused[:5])
            raise QuorumError(
                f"Only {len(self.kept)} of {self.n_files} files can be used, and at least {needed} "
                f"must be. {reasons}".strip()
            )

    def warn(self) -> None:
        """Warn of each file that was refused."""
        for found in self.refused:
            who = f" (client {found.client!r})" if found.client else ""
            text = f"{found.file}{who} takes no part: {found.reason}"
            warn(text, SiteWarning)


def _check_known(clients: Sequence[str], found: set[str]) -> None:
    unknown = sorted(set(clients) - found)
    if unknown:
        names, known = (", ".join(map(repr, some)) for some in (unknown, sorted(found)))
        raise ParameterError(f"No summary is from {names}. Sites: {known}.")


def _check_usable(name: str, file: SummaryFile) -> None:
    """Check that a summary names a method that works by file, with parameters that it may have."""
    if not is_known(file.method):
        raise MessageError(
            f"{name} was made with method {file.method!r}, which is not known here: use --plugin "
            "FILE on the command line, fedjigsaw.register in Python, or install its package."
        )
    try:
        check_one_round(make(file.method, 2, 0, **agreed_parameters(file)))
    except (ParameterError, ExtraError) as error:
        raise MessageError(f"{name} cannot be aggregated: {error}") from error


def _terms(file: SummaryFile) -> str:
    """Return all that must be the same at all sites, as one text."""
    return json.dumps(
        [
            *(file.method, sorted(file.columns), scaler_name(file), agreed_parameters(file)),
            shared_bounds(file),
        ],
        sort_keys=True,
    )


def aggregate_round(
    method: FederatedMethod, summaries: Sequence[Summary], broadcast: Broadcast
) -> Model:
    """Run the server's half of a round on summaries that may be those of regions.

    Regions are taken apart into their sites. The model of a region that is alone, and that merged
    the summaries of its sites, is the one that it made of them.
    """
    members = unpacked(summaries)
    made = own_model(members, method.method, method.configuration())
    return engine.aggregate_round(method, members, broadcast) if made is None else made


def check_answer(method: FederatedMethod, summary: Summary, broadcast: Broadcast) -> None:
    """Check a summary of a client that is not trusted; of a region, those of its sites."""
    for answer in unpacked([summary]):
        method.check_answer(answer, broadcast)
