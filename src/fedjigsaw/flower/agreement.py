"""Which answers of sites fit together, and why the others do not.

Answers fit if they have the same columns, scaler and bounds, the same fields, and images of one
size. The server keeps the largest group, and names what is different about every other answer.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fedjigsaw.errors import quote_names, shorten
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.io.regions import unpacked
from fedjigsaw.messages import IMAGE_SIZE, LEFT_OUT, NOISE, REGION
from fedjigsaw.sites.compatibility import shared_bounds

Kind = tuple[Any, ...]
Reasons = list[tuple[str, str]]  # the name of a site, and why its answer cannot be used

# tensors that only some sites send: with differential privacy, and where a guard left out rows
OPTIONAL = (NOISE, LEFT_OUT)
OTHER_COLUMNS = "its columns are not those of the other sites"
OTHER_KIND = "its bounds, or the fields that it sends, differ from those of the other sites"
OTHER_SIZE = "the size of its images is not that of the other sites"
OTHER_SCALER = "it has another scaler than the other sites, or only they have one"
KEPT_SCALER = "; for that of the kept summaries, run with --scaler OLD-MODEL"


def agreeing(
    files: Iterable[SummaryFile], before: Iterable[SummaryFile], *, kept: bool
) -> tuple[list[SummaryFile], Reasons]:
    """Return the largest group of compatible summaries, and the reasons against the rest.

    The first answers settle columns and scaler for the run. Of two kinds that are equally
    frequent, the one with more fields counts, then the one with the first site by name.

    Parameters
    ----------
    files : the answers of this round.
    before : those of the run so far.
    kept : whether some are of earlier runs.
    """
    before = list(before)
    kinds = [(file, kind_of(file)) for file in sorted(files, key=lambda file: file.summary.client)]
    settled = next(map(_source, before), None)
    counts = Counter(kind for file, kind in kinds if settled in (None, _source(file)))
    usual = max(counts, key=lambda k: (counts[k], len(k[-1])), default=None)
    reasons = [
        # without a usual kind, the first answers have settled columns and scaler
        (file.summary.client, difference(kind, usual or (*(settled or ()), *kind[2:]), kept=kept))
        for file, kind in kinds
        if kind != usual
    ]
    good, of_size = _of_one_size([file for file, kind in kinds if kind == usual], before)
    return good, reasons + of_size


def _of_one_size(
    files: Sequence[SummaryFile], before: Iterable[SummaryFile]
) -> tuple[list[SummaryFile], Reasons]:
    """Return summaries of images of the most frequent size, and the reasons against the rest.

    As for columns, the first answers settle it. Later ones do not tell a size.
    """
    settled = Counter(filter(None, map(_image_size, before)))
    usual = (settled or Counter(filter(None, map(_image_size, files)))).most_common(1)
    good, reasons = [], []
    for file in files:
        size = _image_size(file)
        if size and size != usual[0][0]:
            own, others = (" x ".join(map(str, one)) for one in (size, usual[0][0]))
            text = f"{OTHER_SIZE}: {own} pixels, theirs {others}; start it with their --size"
            reasons.append((file.summary.client, text))
        else:
            good.append(file)
    return good, reasons


def kind_of(file: SummaryFile) -> Kind:
    """Return the compatibility key of a summary; a region is of the kind of its sites."""
    summary = unpacked([file.summary])[0]
    sent = [name for name in ("radii", "counts", "sse") if getattr(summary, name) is not None]
    sent += [
        f"{name} {tensor.ndim}"
        for name, tensor in sorted(summary.tensors.items())
        if name not in OPTIONAL and not name.startswith(REGION)
    ]
    return *_source(file), repr(shared_bounds(file)), tuple(sent)


def _source(file: SummaryFile) -> tuple[Any, ...]:
    """Return the columns and scaler as a comparison key."""
    scaler = None if file.scaler is None else file.scaler.fingerprint
    return tuple(sorted(file.columns)), scaler


def _image_size(file: SummaryFile) -> tuple[int, ...]:
    """Return height and width of a site's images, nothing if its answer does not tell them."""
    size = file.summary.tensors.get(IMAGE_SIZE)
    return () if size is None else tuple(size.ravel()[:2].tolist())


def difference(kind: Kind, usual: Kind, *, kept: bool) -> str:
    """Say why an answer does not go with the others, which are of the usual kind."""
    columns, _, *rest = kind
    most, _, *others = usual
    if columns != most:
        return describe_columns(columns, most)
    if rest != others:
        return OTHER_KIND
    return OTHER_SCALER + (KEPT_SCALER if kept else "")


def describe_columns(columns: Sequence[str], usual: Sequence[str]) -> str:
    """Say which columns a site lacks, and which only it has.

    Examples
    --------
    >>> describe_columns(["age", "mass"], ["age", "dose"]).partition(": ")[2]
    "without 'dose', with 'mass'; start it with their --columns"
    """
    own, others = set(columns), set(usual)  # there may be tens of thousands
    parts = {
        "without": [shorten(name, 100) for name in usual if name not in own],
        "with": [shorten(name, 100) for name in columns if name not in others],
    }
    found = ", ".join(f"{word} {quote_names(names, 5)}" for word, names in parts.items() if names)
    return f"{OTHER_COLUMNS}: {found}; start it with their --columns"
