"""Summaries that a coordinator keeps: the last one of each site, for each question.

With them a model can be made again without asking anyone: of all sites, with a site that joined
later, or without one that wants to be forgotten. It is bit for bit the model of a run with those
sites.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import version_of
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.methods import is_known

ENDING = ".summary"


def question_name(method: str, params: Mapping[str, Any]) -> str:
    """Return a name of what sites were asked: a method, and the parameters that matter to them.

    Examples
    --------
    >>> first = question_name("jigsaw", {"n_clusters": 4, "random_state": 0})
    >>> first == question_name("jigsaw", {"n_clusters": 4, "random_state": 9})
    True
    >>> first == question_name("jigsaw", {"n_clusters": 5, "random_state": 0})
    False
    """
    text = json.dumps([method, question_params(params)], sort_keys=True)
    return f"{method}-{sha256(text.encode()).hexdigest()[:16]}"


def question_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a method that make a difference to the answer of a site.

    The seed does not, since a site has one of its own, nor whom the coordinator believes: what is
    kept can be aggregated again with other `liars`. Only their default of `detail` is asked for.

    Examples
    --------
    >>> question_params({"n_clusters": 4, "detail": None, "liars": 1, "vouch": ["bern"]})
    {'n_clusters': 4, 'detail': 3}
    """
    from fedjigsaw.methods.jigsaw import DETAIL_WITH_LIARS

    own = {n: v for n, v in params.items() if n not in ("random_state", "liars", "vouch")}
    if params.get("liars") and own.get("detail") is None:
        own["detail"] = DETAIL_WITH_LIARS
    return own


@dataclass(frozen=True)
class KeptSummary:
    """One summary in a folder: whose, about what, from when."""

    site: str
    path: Path
    file: SummaryFile

    @property
    def time(self) -> str:
        """When it was kept."""
        when = datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        return when.isoformat(timespec="seconds")


class Kept:
    """A folder of summaries, the last one of each site for each question.

    Parameters
    ----------
    folder : where they lie, as ``QUESTION/SITE.summary``; it need not exist yet.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from fedjigsaw import sites
    >>> from fedjigsaw.io.tables import from_array
    >>> rows = np.repeat([[0.0], [9.0]], 5, axis=0)
    >>> kept = Kept(Path(tempfile.mkdtemp()))
    >>> for name in ("bern", "oslo"):
    ...     file = sites.summarize(from_array(rows), 2, client=name)
    ...     kept.add(file)
    >>> sorted(kept.about(file.method, file.params))
    ['bern', 'oslo']
    >>> kept.forget("oslo")
    1
    >>> sites.aggregate(kept.about(file.method, file.params), 2).clients
    ('bern',)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: dict[Path, tuple[tuple[int, int, int], SummaryFile]] = {}

    def add(self, file: SummaryFile) -> None:
        """Keep a summary, in place of the last one of its site."""
        site = file.summary.client
        if not site or Path(site).name != site or site.startswith("."):
            raise ParameterError(f"A summary of {site!r} cannot be kept: it is no name of a file.")
        if not is_known(file.method):  # it becomes the name of a folder
            raise ParameterError(f"A summary of {site!r} is for the unknown {file.method[:40]!r}.")
        place = self.folder / question_name(file.method, file.params)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        formats.save(file, place / f"{site}{ENDING}")

    def about(self, method: str, params: Mapping[str, Any]) -> dict[str, SummaryFile]:
        """Return the summaries for a question, by site."""
        return {
            found.site: found.file
            for found in self._read(self.folder / question_name(method, params))
        }

    def forget(self, site: str) -> int:
        """Delete all summaries of a site; return how many there were.

        Nothing else is read or written: models are made anew from what is left.
        """
        if Path(site).name != site:
            return 0
        found = [path for q in self._questions() if (path := q / f"{site}{ENDING}").exists()]
        for path in found:
            path.unlink()
        return len(found)

    def sites(self) -> set[str]:
        """Return the names of the sites of all summaries."""
        return {path.name.removesuffix(ENDING) for path in self.folder.glob(f"*/[!.]*{ENDING}")}

    def summaries(self) -> list[KeptSummary]:
        """Return all summaries, by question and site."""
        return [kept for place in sorted(self._questions()) for kept in self._read(place)]

    def _questions(self) -> Iterable[Path]:
        return (path for path in self.folder.glob("*") if path.is_dir())

    def _read(self, place: Path) -> Iterable[KeptSummary]:
        for path in sorted(place.glob(f"[!.]*{ENDING}")):
            file, site = self._load(path), path.name.removesuffix(ENDING)
            if file.summary.client != site:
                raise MessageError(
                    f"{path} is a summary of {file.summary.client!r}. Move it away, and keep it "
                    "with `fedjigsaw federation keep`."
                )
            yield KeptSummary(site, path, file)

    def _load(self, path: Path) -> SummaryFile:
        """Read a file, unless it is the one that was read before."""
        version = version_of(path)
        known = self._loaded.get(path)
        if known is None or known[0] != version:
            known = version, formats.load(path, SummaryFile)
            self._loaded[path] = known
        return known[1]
