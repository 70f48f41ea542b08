"""Check that files of several sites are compatible, and that each site has only one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, ParameterError, SiteWarning, quote_names, warn
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.regions import each_summary
from fedjigsaw.messages import QUANTIZATION, SHARED, Summary
from fedjigsaw.methods import find, is_known
from fedjigsaw.sites.preparation import bounds_in_order
from fedjigsaw.validation import repeated

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer

# signs that do not show, though they can be printed
UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")
COPY = "-clean"  # the end of the name of a copy that `schema check` proposes
DIGITS = 9  # in which means of the same rows agree, relative to the largest of all sites


def check_fit_together(files: Mapping[str, SummaryFile]) -> None:
    """Check that summaries are of different sites, by one method, of the same scaled columns.

    Parameters
    ----------
    files : file name -> its content; the names are for error messages.

    Raises
    ------
    MessageError
        If two are of one site, or if columns, scaler, method or parameters differ.
    ParameterError
        If no summaries are given.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import check_fit_together, summarize
    >>> rows = {"bern": from_array([[30.0]] * 5, ["age"]), "oslo": from_array([[1.5]] * 5)}
    >>> check_fit_together({site: summarize(X, 1, client=site) for site, X in rows.items()})
    Traceback (most recent call last):
    fedjigsaw.errors.MessageError: bern has the columns 'age'; oslo has 'x0'. Use the same columns
    at all sites.
    """
    check_contents(files, "summaries", SummaryFile)
    check_different({name: file.summary.client for name, file in files.items()})
    (first_name, first), *others = files.items()
    for name, file in others:
        if sorted(first.columns) != sorted(file.columns):
            ours, theirs = quote_names(first.columns), quote_names(file.columns)
            text = f"{first_name} has the columns {ours}; {name} has {theirs}."
            raise MessageError(f"{text} Use the same columns at all sites.")
        if scaler_name(first) != scaler_name(file):
            text = f"{first_name} is {_scaling(first)}, but {name} is {_scaling(file)}."
            raise MessageError(f"{text} Summarize all sites with the same scaler.")
        if first.method != file.method:
            text = f"{first_name} was made with {first.method}, {name} with {file.method}."
            raise MessageError(f"{text} Use the same method at all sites.")
        _check_parameters(first_name, agreed_parameters(first), name, agreed_parameters(file))
        if shared_bounds(first) != shared_bounds(file):
            text = f"{first_name} has {_cells(first)}, but {name} has {_cells(file)}."
            raise MessageError(f"{text} Use the same cells and bounds at all sites.")


def warn_of_copies(rows: Mapping[str, tuple[int, Floats | None]]) -> None:
    """Warn if the rows of a site seem to count twice, under two names.

    Parameters
    ----------
    rows : site -> number of its rows, and means that equal rows have in common, if they are known.
    """
    known = [means for _, means in rows.values() if means is not None]
    scale = np.max(np.abs(known), axis=0) if known else np.zeros(0)
    found: dict[tuple[int, bytes], str] = {}
    for client, (n, means) in rows.items():
        first = client.removesuffix(COPY)  # a copy of the same file, as the commands propose it
        if first not in rows or rows[first][0] != n:
            first = client
        if means is not None and first == client:
            parts = np.round(means / np.where(scale > 0, scale, 1.0), DIGITS) + 0.0  # not -0.0
            first = found.setdefault((n, parts.tobytes()), client)
        if first != client:
            warn(
                f"{first!r} and {client!r} sent the same numbers of {n:,} rows each: are they one "
                "site under two names, whose rows count twice? Then leave one of them out.",
                SiteWarning,
                parameter="without",
            )


def rows_in_common(summary: Summary) -> tuple[int, Floats | None]:
    """Return what summaries of the same rows have in common: number, mean and mean square."""
    counts, sse, centers = summary.counts, summary.sse, summary.centers
    if counts is None or sse is None or not counts.sum():
        return summary.n_samples, None
    square = (sse.sum() + counts @ (centers**2).sum(axis=1)) / counts.sum()
    return summary.n_samples, np.append(counts @ centers / counts.sum(), square)


def check_contents(files: Mapping[str, object], what: str, *kinds: type) -> None:
    """Raise a ParameterError unless contents of files are given by the names of the files.

    Examples
    --------
    >>> check_contents(["bern.summary"], "summaries", SummaryFile)
    Traceback (most recent call last):
    fedjigsaw.errors.ParameterError: Give summaries by name, as a mapping such as {'bern': ...} to
    objects of type SummaryFile; got a list.
    """
    contents: list[object] = list(files.values()) if isinstance(files, Mapping) else [files]
    if not contents:
        raise ParameterError(f"No {what} are given.")
    for content in contents:
        if not isinstance(content, kinds):
            raise ParameterError(
                f"Give {what} by name, as a mapping such as {{'bern': ...}} to objects of type "
                f"{kinds[0].__name__}; got a {type(content).__name__}."
            )


def check_different(clients: Mapping[str, str]) -> None:
    """Check that no client comes twice, nor one whose name looks like another's.

    Parameters
    ----------
    clients : file name -> name of its client.

    Raises
    ------
    MessageError
        If a name comes twice, looks like another one, or mixes alphabets.

    Examples
    --------
    >>> from fedjigsaw.sites import check_different
    >>> check_different({"a.summary": "bern", "b.summary": "bern"})
    Traceback (most recent call last):
    fedjigsaw.errors.MessageError: a.summary and b.summary are both from client 'bern'. Give one
    file per client.
    """
    check_look_alikes(clients)
    seen: dict[str, str] = {}
    for name, client in clients.items():
        if client in seen:
            raise MessageError(
                f"{seen[client]} and {name} are both from client {client!r}. "
                "Give one file per client."
            )
        seen[client] = name


def skeleton(name: str) -> str:
    """Return a form of a name that is the same for names that look alike.

    They differ in case, in spaces, in other signs for the same, or in signs that do not show.

    Examples
    --------
    >>> skeleton("Bern") == skeleton("bern ") == skeleton("\\uff42ern"), skeleton("bonn")
    (True, 'bonn')
    """
    text = unicodedata.normalize("NFKC", UNSEEN.sub("", name)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def check_look_alikes(clients: Mapping[str, str]) -> None:
    """Check that no client has a name that people would take for another client's."""
    seen: dict[str, tuple[str, str]] = {}
    for name, client in clients.items():
        other_name, other = seen.setdefault(skeleton(client), (name, client))
        if other != client:
            raise MessageError(
                f"{other_name} and {name} are from clients whose names look alike: "
                f"{other!a} and {client!a}. Leave out the file that is not genuine, or "
                "ask a site for another name."
            )


def check_once(files: Sequence[Path | str]) -> None:
    """Check that no file is given twice, under whatever name.

    Parameters
    ----------
    files : paths; they need not exist.

    Raises
    ------
    ParameterError
        If two of them lead to the same place.

    Examples
    --------
    >>> from fedjigsaw.sites import check_once
    >>> check_once(["bern.summary", "./bern.summary"])
    Traceback (most recent call last):
    fedjigsaw.errors.ParameterError: bern.summary is given twice; every site counts once.
    """
    twice = set(repeated(str(Path(file).resolve()) for file in files))
    for file in files:
        if str(Path(file).resolve()) in twice:
            raise ParameterError(f"{file} is given twice; every site counts once.")


def check_own(local: SummaryFile, file: ModelFile) -> SummaryFile:
    """Check that a model was made from this summary; return it with the model's columns.

    Parameters
    ----------
    local : the summary that a site sent.
    file : the model.

    Returns
    -------
    SummaryFile
        The same summary, its columns in the order of the model's.

    Raises
    ------
    MessageError
        If the site took no part, or if columns, scaler or method differ.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import aggregate, check_own, summarize
    >>> rows = from_array([[30.0]] * 5, ["age"])
    >>> bern, oslo = (summarize(rows, 1, client=site) for site in ("bern", "oslo"))
    >>> check_own(oslo, aggregate({"bern": bern}, 1))
    Traceback (most recent call last):
    fedjigsaw.errors.MessageError: The model was not made from a summary of client 'oslo'; it has
    'bern'.
    """
    client = local.summary.client
    if client not in file.clients:
        clients = ", ".join(map(repr, file.clients))
        raise MessageError(
            f"The model was not made from a summary of client {client!r}; it has {clients}."
        )
    difference = ""
    if sorted(local.columns) != sorted(file.columns):
        ours, theirs = quote_names(local.columns), quote_names(file.columns)
        difference = f"has the columns {ours}; the model has {theirs}"
    elif scaler_name(local) != scaler_name(file):
        difference = f"is {_scaling(local)}, but the model is {_scaling(file)}"
    elif local.method != file.model.method:
        difference = f"was made with {local.method}, the model with {file.model.method}"
    elif not len(local.summary.centers):
        difference = "has no centers"
    if difference:
        raise MessageError(
            f"This summary of {client!r} {difference}. "
            "Use the summary that was sent for this model."
        )
    return reorder(local, file.columns)


def reorder(file: SummaryFile, columns: Sequence[str]) -> SummaryFile:
    """Return the same summary with its columns in another order.

    Parameters
    ----------
    file : the summary.
    columns : the names of its columns, all of them, in the order that is wanted.

    Raises
    ------
    MessageError
        If these are not the names of its columns.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import reorder, summarize
    >>> file = summarize(from_array([[30.0, 1.5]] * 5, ["age", "dose"]), 1, client="bern")
    >>> reorder(file, ("dose", "age")).summary.centers.tolist()
    [[1.5, 30.0]]
    """
    columns = tuple(columns)
    if file.columns == columns:
        return file
    if sorted(columns) != sorted(file.columns):
        raise MessageError(
            f"The summary of {file.summary.client!r} has the columns "
            f"{quote_names(file.columns)}, which cannot be put into the order "
            f"{quote_names(columns)}. Give each of them once."
        )
    places = {name: j for j, name in enumerate(file.columns)}
    where = [places[name] for name in columns]
    summary = each_summary(file.summary, lambda summary: _reordered(summary, where))
    privacy = file.privacy and bounds_in_order(file.privacy, file.columns, columns)
    return replace(file, summary=summary, columns=columns, privacy=privacy)


def _reordered(summary: Summary, where: list[int]) -> Summary:
    tensors = dict(summary.tensors)
    if tensors.get(QUANTIZATION, np.zeros(0)).shape == (len(where),):
        tensors[QUANTIZATION] = tensors[QUANTIZATION][where]
    return replace(summary, centers=summary.centers[:, where], tensors=tensors)


def scaler_name(file: SummaryFile | ModelFile) -> str | None:
    """Return the fingerprint of a file's scaler."""
    return None if file.scaler is None else file.scaler.fingerprint


def shared_bounds(file: SummaryFile) -> list[Any] | None:
    """Return what cells that all sites share depend on; None for a file without such cells."""
    if file.privacy is None or file.privacy.cells != SHARED:
        return None
    low, high = file.privacy.limits(len(file.columns))
    weight = [file.privacy.unit, file.privacy.rows_per_site]
    return [*weight, *zip(file.columns, low.tolist(), high.tolist(), strict=True)]


def agreed_parameters(file: SummaryFile) -> dict[str, Any]:
    """Return the parameters on which all sites must agree: neither a client's nor the server's."""
    entry = find(file.method) if is_known(file.method) else None
    cls = entry.cls if entry is not None and entry.data_kind == "rows" else None
    own = {"n_clusters", "random_state"}
    if cls is not None:
        own |= {*cls.client_parameters, *cls.server_parameters}
    return {name: value for name, value in file.params.items() if name not in own}


def check_one_round(method: FederatedClusterer) -> None:
    """Check that a method can run by file: without pooling data, in a single round."""
    method.check_federated()
    if method.total_rounds > 1:
        raise ParameterError(
            f"Method {method.method!r} needs {method.total_rounds} rounds, and files allow "
            "one. Use `fedjigsaw federation` for several rounds."
        )


def _check_parameters(
    first_name: str, first: Mapping[str, Any], name: str, other: Mapping[str, Any]
) -> None:
    """Name the parameters that differ, with both values."""
    differ = sorted(p for p in {*first, *other} if first.get(p) != other.get(p))
    if differ:
        ours, theirs = (
            ", ".join(f"{p}={found.get(p)!r}" for p in differ) for found in (first, other)
        )
        raise MessageError(
            f"{first_name} was made with {ours}, {name} with {theirs}. "
            "Use the same parameters at all sites."
        )


def _scaling(file: SummaryFile | ModelFile) -> str:
    return "not scaled" if file.scaler is None else f"scaled (scaler {file.scaler.fingerprint})"


def _cells(file: SummaryFile) -> str:
    bounds = shared_bounds(file)
    if bounds is None:
        return "centers of its own"
    unit, weight, *columns = bounds
    places = ", ".join(f"{name!r} {low:g} to {high:g}" for name, low, high in columns[:20])
    return f"shared cells (unit {unit}, {weight} rows per site; {places})"


def check_has_centers(file: ModelFile) -> None:
    """Check that a model has centers: that of an unfinished deep run may have none."""
    if not isinstance(file, ModelFile):
        raise ParameterError(
            f"A ModelFile is needed; got an object of type {type(file).__name__}. To read one, "
            "use fedjigsaw.io.formats.load(path, ModelFile)."
        )
    if not len(file.model.centers):
        raise MessageError("The model has no centers, so it cannot label rows.")
