"""Read the files of one run, each recognized by its kind, and check that they belong together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.columns.schema import Column
from fedjigsaw.errors import MessageError, ParameterError, counted
from fedjigsaw.io import formats
from fedjigsaw.io.formats import Content, ModelFile, Score, SummaryFile
from fedjigsaw.sites.compatibility import (
    check_different,
    check_has_centers,
    check_once,
    scaler_name,
)
from fedjigsaw.sites.profiles import check_profile
from fedjigsaw.sites.score import is_sum, merge_scores

T = TypeVar("T")
MAX_CLUSTERS, MAX_CELLS = 2_000, 1_000_000


@dataclass(frozen=True)
class GivenFile:
    """One file of a run: its name, its content and its size."""

    name: str
    content: Content
    n_bytes: int


@dataclass(frozen=True)
class Run:
    """A model, and what sites sent before and after it; lists are ordered by site.

    Attributes
    ----------
    fingerprint : of the model, as scores state it.
    """

    model: ModelFile
    fingerprint: str
    scores: tuple[Score, ...]
    summaries: tuple[SummaryFile, ...]
    stats: tuple[Stats, ...]
    files: tuple[GivenFile, ...]

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.model.model.centers)

    @property
    def ids(self) -> tuple[int, ...]:
        """The id of each cluster."""
        return self.model.cluster_ids

    @property
    def counts(self) -> Ints | None:
        """Rows of each scored site in each cluster, shape (n_scores, k); None without scores."""
        return np.stack([score.counts for score in self.scores]) if self.scores else None

    @cached_property
    def total(self) -> Score | None:
        """The scores of all sites together; None without scores."""
        return merge_scores({s.client: s for s in self.scores}) if self.scores else None

    @property
    def noisy_profiles(self) -> bool:
        """Tell whether there is noise in some profiles."""
        return any(score.privacy is not None and score.profile is not None for score in self.scores)

    @property
    def is_merged(self) -> bool:
        """Tell whether the only score is the sum of several sites."""
        return len(self.scores) == 1 and is_sum(self.scores[0])

    @property
    def scored(self) -> str:
        """The sites that scores are given of, in words; empty if there are none, or of all."""
        clients, scored = set(self.model.clients), {score.client for score in self.scores}
        n_sites = int(self.scores[0].client.split()[0]) if self.is_merged else len(scored)
        if not scored or scored == clients or (self.is_merged and n_sites == len(clients)):
            return ""
        of_model = self.is_merged or scored <= clients
        return f"{n_sites:,} of {len(clients):,} sites" if of_model else counted(n_sites, "site")

    @property
    def sources(self) -> tuple[str, ...]:
        """The column of the file that each column of the model is made from."""
        encoding = self.model.encoding
        if encoding is None:
            return self.model.columns
        return tuple(e.column.name for e in encoding.encoders for _ in e.features)

    @property
    def schema_columns(self) -> dict[str, Column]:
        """The columns of the schema by name; none without a schema."""
        encoding = self.model.encoding
        return {} if encoding is None else {c.name: c for c in encoding.schema.columns}


def read_run(paths: Sequence[Path]) -> Run:
    """Read the files of a run: one model, and any summaries, scores and statistics."""
    check_once(paths)
    given = {str(path): _read(path) for path in paths}
    models = {name: c.content for name, c in given.items() if isinstance(c.content, ModelFile)}
    if not models:
        raise ParameterError(
            f"None of the files is a model: {', '.join(given)}. A report needs the file that "
            "`fedjigsaw aggregate` wrote."
        )
    if len(models) > 1:
        raise ParameterError(f"A report is about one model; {' and '.join(models)} are models.")
    ((_, model),) = models.items()
    check_has_centers(model)
    _check_size(model)
    fingerprint = formats.fingerprint(formats.encode(model))
    scores = _of_kind(given, Score)
    summaries = _of_kind(given, SummaryFile)
    stats = _of_kind(given, Stats)
    for name, score in scores.items():
        _check_score(name, score, model, fingerprint)
        check_profile(name, score.profile, model)
    _check_no_sum(scores)
    for name, summary in summaries.items():
        _check_columns(name, summary.columns, model)
        if scaler_name(summary) != scaler_name(model):
            raise MessageError(f"{name} and the model have different scalers: of another run?")
    for name, found in stats.items():
        if model.encoding is None:
            _check_columns(name, found.columns, model)
        elif found.schema != model.encoding.schema.fingerprint:
            raise MessageError(f"{name} was made with another schema than the model.")
    check_different({name: score.client for name, score in scores.items()})
    check_different({name: file.summary.client for name, file in summaries.items()})
    check_different({name: found.client for name, found in stats.items()})
    return Run(
        model,
        fingerprint,
        tuple(sorted(scores.values(), key=lambda s: s.client)),
        tuple(sorted(summaries.values(), key=lambda s: s.summary.client)),
        tuple(sorted(stats.values(), key=lambda s: s.client)),
        tuple(given.values()),
    )


def _check_size(model: ModelFile) -> None:
    k, d = model.model.centers.shape
    if k > MAX_CLUSTERS or k * d > MAX_CELLS:
        raise MessageError(
            f"The model has {k:,} clusters of {d:,} columns; a report can describe at most "
            f"{MAX_CLUSTERS:,} clusters and {MAX_CELLS:,} numbers."
        )


def _read(path: Path) -> GivenFile:
    if formats.is_scaler(path):
        formats.load_scaler(path)
        raise ParameterError(f"{path} is a scaler, which the model contains. Leave it out.")
    content = formats.load_any(path)
    return GivenFile(path.name, content, path.stat().st_size)


def _of_kind(given: dict[str, GivenFile], kind: type[T]) -> dict[str, T]:
    return {name: f.content for name, f in given.items() if isinstance(f.content, kind)}


def _check_score(name: str, score: Score, model: ModelFile, fingerprint: str) -> None:
    if score.model != fingerprint or len(score.counts) != len(model.model.centers):
        raise MessageError(
            f"{name} is a score of another model ({score.model}); the model given is "
            f"{fingerprint}. Run `fedjigsaw score` with this model."
        )


def _check_no_sum(scores: dict[str, Score]) -> None:
    """Check that no score is the sum of the others, whose rows would count twice."""
    total = sum(score.counts for score in scores.values())
    for name, score in scores.items():
        if len(scores) > 2 and np.array_equal(2 * score.counts, total):
            raise MessageError(
                f"{name} is the sum of the other scores, whose rows would count twice. Give "
                "the scores of the sites, or their sum (`fedjigsaw score --merge`), not both."
            )


def _check_columns(name: str, columns: tuple[str, ...], model: ModelFile) -> None:
    if sorted(columns) != sorted(model.columns):
        raise MessageError(
            f"{name} has other columns than the model ({len(columns)} and {len(model.columns)}): "
            "give files of one run."
        )
