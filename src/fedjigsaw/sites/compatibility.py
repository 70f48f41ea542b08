"""Check that files of several sites belong together, and that none is there twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedjigsaw.errors import MessageError, ParameterError, invalid
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.methods import METHODS


def check_fit_together(files: Mapping[str, SummaryFile]) -> None:
    """Check that summaries are of different sites, by one method, of the same scaled columns."""
    check_different({name: file.summary.client for name, file in files.items()})
    (first_name, first), *others = files.items()
    for name, file in others:
        for what, theirs, ours in (
            ("columns", sorted(first.columns), sorted(file.columns)),
            ("scaler", scaler_name(first), scaler_name(file)),
            ("method", first.method, file.method),
            ("parameters", _shared(first), _shared(file)),
        ):
            if theirs != ours:
                allowed = f"the same as in {first_name}, {theirs}"
                raise MessageError(invalid(what, name, allowed, ours))


def check_different(clients: Mapping[str, str]) -> None:
    """Check that no client comes twice.

    Parameters
    ----------
    clients : file name -> name of its client.
    """
    seen: dict[str, str] = {}
    for name, client in clients.items():
        if client in seen:
            raise MessageError(
                f"{seen[client]} and {name} are both of client {client!r}; each counts once."
            )
        seen[client] = name


def check_once(files: Sequence[Path]) -> None:
    """Check that no file is given twice, under whatever name."""
    places = [file.resolve() for file in files]
    for file, place in zip(files, places, strict=True):
        if places.count(place) > 1:
            raise ParameterError(f"{file} is given twice; every site counts once.")


def check_own(local: SummaryFile, file: ModelFile) -> SummaryFile:
    """Check that a model was made from this summary; return it with the model's columns."""
    client = local.summary.client
    if client not in file.clients:
        clients = ", ".join(map(repr, file.clients))
        raise MessageError(
            f"The model was not made from a summary of client {client!r}; it has {clients}."
        )
    for what, theirs, ours in (
        ("columns", sorted(file.columns), sorted(local.columns)),
        ("scaler", scaler_name(file), scaler_name(local)),
        ("method", file.model.method, local.method),
    ):
        if ours != theirs:
            owner = f"the summary of client {client!r}"
            raise MessageError(invalid(what, owner, f"the same as in the model, {theirs}", ours))
    return reorder(local, file.columns)


def reorder(file: SummaryFile, columns: tuple[str, ...]) -> SummaryFile:
    """Return the same summary with its columns in another order."""
    if file.columns == columns:
        return file
    where = [file.columns.index(name) for name in columns]
    summary = replace(file.summary, centers=file.summary.centers[:, where])
    return replace(file, summary=summary, columns=columns)


def scaler_name(file: SummaryFile | ModelFile) -> str | None:
    """Return the fingerprint of a file's scaler."""
    return None if file.scaler is None else file.scaler.fingerprint


def _shared(file: SummaryFile) -> dict[str, Any]:
    """Return the parameters that all sites must agree on."""
    own = METHODS[file.method].cls.client_parameters if file.method in METHODS else ()
    return {name: value for name, value in file.params.items() if name not in own}


def check_has_centers(file: ModelFile) -> None:
    """Check that a model has centers: that of an unfinished deep run may have none."""
    if not len(file.model.centers):
        raise MessageError("The model has no centers, so it cannot label rows.")
