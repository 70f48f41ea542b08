"""The summary of a region: one message that stands for the summaries of several sites.

A region is a server that is itself a site of the next level. Its summary is an ordinary one, with
further tensors whose names begin with ``region.``, in one of two forms:

- **as they are**: the summaries of its sites one after the other, with their names. Whoever
  receives it takes it apart again, so nothing is different from a federation without regions.
- **merged**: fewer centers than the sites sent, each the mean of some of theirs. Then the region's
  own model is in it, too: it is the answer where the region is alone.

The tensor ``region.head`` is a JSON text. It lists the sites in either form, so that the next level
notices a site that is in two regions. All of it comes from outside, and every field is checked.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedjigsaw.errors import DataError, FedJigsawError, MessageError, invalid
from fedjigsaw.messages import N_SITES, REGION, Model, Summary
from fedjigsaw.messages import REGION_HEAD as HEAD
from fedjigsaw.parameters import is_integer
from fedjigsaw.validation import MAX_COUNT, check_name, repeated

MODEL = f"{REGION}model."
MAX_HEAD = 2**22  # characters: 20,000 sites with long names
FIELDS = ("radii", "counts", "sse")


@dataclass(frozen=True)
class Region:
    """What the summary of a region says about its sites.

    Attributes
    ----------
    sites : name and rows of every site below, however deep.
    members : the summaries of the sites as they are; None if they were merged.
    model, clients : the region's own model, and the clients that it was made from. Only with merged
        summaries, and None after the columns were put in another order.
    """

    sites: Mapping[str, int]
    members: tuple[Summary, ...] | None
    model: Model | None
    clients: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Rows of all sites."""
        return sum(self.sites.values())


def is_region(summary: Summary) -> bool:
    """Tell whether a summary is that of a region."""
    return HEAD in summary.tensors


def is_merged(summary: Summary) -> bool:
    """Tell whether a summary is that of a region which merged the centers of its sites."""
    return is_region(summary) and region_of(summary).members is None


def sites_of(summary: Summary) -> Mapping[str, int]:
    """Return name and rows of every site that a summary stands for."""
    if is_region(summary):
        return region_of(summary).sites
    return {summary.client: summary.n_samples}


def own_tensors(summary: Summary) -> dict[str, np.ndarray]:
    """Return the tensors of a summary without those that make it a region's."""
    return {name: t for name, t in summary.tensors.items() if not name.startswith(REGION)}


# -------------------------------------------------------------------------------------- at a region


def pack_as_they_are(client: str, summaries: Sequence[Summary]) -> Summary:
    """Put the summaries of sites into one, from which `unpacked` takes them again, bit for bit."""
    members = unpacked(summaries)
    shared = [name for name in FIELDS if all(getattr(s, name) is not None for s in members)]
    tensors: dict[str, np.ndarray] = {}
    for i, member in enumerate(members):
        alone = [n for n in FIELDS if n not in shared and getattr(member, n) is not None]
        tensors |= {f"{REGION}{i}.{name}": getattr(member, name) for name in alone}
        tensors |= {f"{REGION}{i}.tensor.{name}": t for name, t in member.tensors.items()}
    listed = [[s.client, s.n_samples, len(s.centers), s.merged] for s in members]
    head = {"sites": _listed(members), "members": listed}
    return Summary(
        sum(member.n_samples for member in members),
        np.concatenate([member.centers for member in members]),
        **{name: np.concatenate([getattr(s, name) for s in members]) for name in shared},
        tensors={HEAD: _text(head), **tensors},
        client=client,
        merged=sum(member.merged for member in members),
    )


def pack_merged(
    client: str,
    merged: Summary,
    summaries: Sequence[Summary],
    model: Model | None,
    clients: Sequence[str],
) -> Summary:
    """Make the summary of a region from centers that were merged, and from its own model.

    Parameters
    ----------
    summaries : what was merged.
    clients : names of the clients that the model was made from.
    """
    members = unpacked(summaries)
    head: dict[str, Any] = {"sites": _listed(members)}
    tensors: dict[str, np.ndarray] = {}
    if model is not None:
        head["model"] = {
            "method": model.method,
            "params": dict(model.params),
            "clients": list(clients),
        }
        tensors = {f"{MODEL}{name}": tensor for name, tensor in model.tensors.items()}
        tensors[f"{MODEL}{REGION}centers"] = model.centers
    own = {N_SITES: np.array([len(head["sites"])]), HEAD: _text(head)}
    tensors = {**own_tensors(merged), **own, **tensors}
    return replace(
        merged, tensors=tensors, client=client, merged=sum(member.merged for member in members)
    )


def _listed(members: Sequence[Summary]) -> list[list[Any]]:
    found = {name: rows for member in members for name, rows in sites_of(member).items()}
    return [[name, found[name]] for name in sorted(found)]


def _text(head: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(head, sort_keys=True).encode(), np.uint8).astype(np.uint16)


# ----------------------------------------------------------------------------- at the next level


def unpacked(summaries: Iterable[Summary]) -> list[Summary]:
    """Return summaries by the names of their clients, with the sites of regions that were not
    merged in place of the region. A site that comes twice is a MessageError."""
    given = list(summaries)
    if any(map(is_region, given)):
        check_once({summary.client: summary for summary in given})
        given = [member for summary in given for member in _taken_apart(summary)]
        for name in repeated(summary.client for summary in given):
            raise MessageError(f"A region and a site have the same name, {name!r}.")
    return sorted(given, key=lambda summary: summary.client)


def _taken_apart(summary: Summary) -> Sequence[Summary]:
    members = region_of(summary).members if is_region(summary) else None
    return [summary] if members is None else members


def check_once(summaries: Mapping[str, Summary]) -> None:
    """Raise a MessageError if a site is in two of these summaries, which may be those of regions.

    Parameters
    ----------
    summaries : what an error calls each of them -> the summary.
    """
    within: dict[str, str] = {}
    for name, summary in summaries.items():
        for site in sites_of(summary):
            if within.setdefault(site, name) != name:
                raise MessageError(
                    f"Site {site!r} is in {within[site]} and in {name}, and every site counts "
                    "once. Leave it out of one of them; if these are two sites, give one of them "
                    "another name."
                )


def each_summary(summary: Summary, change: Callable[[Summary], Summary]) -> Summary:
    """Return a summary after a change of its columns, in a region that of each site.

    The own model of a region that was merged is dropped: its clusters are in the order of columns.
    """
    if not is_region(summary):
        return change(summary)
    region = region_of(summary)
    if region.members is not None:
        return pack_as_they_are(summary.client, [each_summary(m, change) for m in region.members])
    changed = change(replace(summary, tensors=own_tensors(summary)))
    head = {"sites": [[name, rows] for name, rows in sorted(region.sites.items())]}
    own = {N_SITES: summary.tensors[N_SITES], HEAD: _text(head)}
    return replace(changed, tensors={**changed.tensors, **own})


def own_model(members: Sequence[Summary], method: str, params: Mapping[str, Any]) -> Model | None:
    """Return the model of a region that is alone, if it was made in the way that is asked for."""
    if len(members) != 1 or not is_region(members[0]):
        return None
    model = region_of(members[0]).model
    if model is None or model.method != method or dict(model.params) != dict(params):
        return None
    return model


def clients_of(
    members: Sequence[Summary], method: str, params: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the names of the clients that the model of these summaries speaks of."""
    if own_model(members, method, params) is not None:
        return region_of(members[0]).clients
    return tuple(member.client for member in members)


def n_rows_of(members: Sequence[Summary]) -> int:
    """Return the rows of all sites."""
    return sum(sum(sites_of(member).values()) for member in members)


def region_of(summary: Summary) -> Region:
    """Read what a region says about its sites; anything that contradicts itself is an error."""
    try:
        return _read(summary)
    except (FedJigsawError, ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, FedJigsawError) else "."
        raise MessageError(
            f"Client {summary.client!r} sent the summary of a region that cannot be read{reason}"
        ) from error


def _read(summary: Summary, *, nested: bool = False) -> Region:
    text = summary.tensors[HEAD]
    if text.ndim != 1 or text.dtype != np.uint16 or len(text) > MAX_HEAD or (text > 255).any():
        raise ValueError("no text")
    head = json.loads(text.astype(np.uint8).tobytes().decode())
    sites = {check_name(name): _whole(rows, 1) for name, rows in head["sites"]}
    if len(sites) != len(head["sites"]) or not sites:
        raise MessageError("It lists no sites, or one of them twice.")
    if "members" in head:
        if nested:
            raise MessageError("It has a region in it that was not taken apart.")
        members = _members(summary, head["members"])
        if sites != {name: rows for m in members for name, rows in sites_of(m).items()}:
            raise MessageError("It lists other sites than it has.")
        return Region(sites, members, None, ())
    if summary.n_samples > sum(sites.values()):
        raise MessageError("It has more rows than its sites.")
    if summary.tensors[N_SITES].tolist() != [len(sites)]:
        raise MessageError("It tells another number of sites.")
    model, clients = _model(summary, head["model"]) if "model" in head else (None, ())
    return Region(sites, None, model, clients)


def _members(summary: Summary, listed: Any) -> tuple[Summary, ...]:
    members: list[Summary] = []
    start = 0
    tensors = _by_member(summary, len(listed))
    for i, (name, n_samples, n_centers, merged) in enumerate(listed):
        end = start + _whole(n_centers, 0)
        own = {f: getattr(summary, f) for f in FIELDS if getattr(summary, f) is not None}
        fields = {field: values[start:end] for field, values in own.items()}
        fields |= {f: tensors[i][f] for f in FIELDS if f in tensors[i]}
        more = {
            n.removeprefix("tensor."): t for n, t in tensors[i].items() if n.startswith("tensor.")
        }
        member = Summary(
            _whole(n_samples, 1),
            summary.centers[start:end],
            **fields,
            tensors=more,
            client=check_name(name),
            merged=_whole(merged, 0),
        )
        if is_region(member):
            _read(member, nested=True)
        members.append(member)
        start = end
    names = {member.client for member in members}
    rows = sum(member.n_samples for member in members)
    if start != len(summary.centers) or rows != summary.n_samples or len(names) < len(members):
        raise MessageError("Its sites do not add up to its centers and rows.")
    return tuple(members)


def _by_member(summary: Summary, n_members: int) -> list[dict[str, np.ndarray]]:
    """Return the further arrays of each member."""
    found: list[dict[str, np.ndarray]] = [{} for _ in range(n_members)]
    for name, tensor in summary.tensors.items():
        if name.startswith(REGION) and name != HEAD:
            number, _, rest = name.removeprefix(REGION).partition(".")
            if not number.isdecimal() or int(number) >= n_members:
                raise MessageError("It has tensors of no site.")
            found[int(number)][rest] = tensor
    return found


def _model(summary: Summary, head: Any) -> tuple[Model, tuple[str, ...]]:
    tensors = {
        name.removeprefix(MODEL): tensor
        for name, tensor in summary.tensors.items()
        if name.startswith(MODEL)
    }
    centers = tensors.pop(f"{REGION}centers")
    if centers.ndim != 2 or centers.shape[1] != summary.centers.shape[1]:
        raise MessageError("Its model has other columns.")
    model = Model(centers, str(head["method"]), dict(head["params"]), tensors=tensors)
    return model, tuple(check_name(name) for name in head["clients"])


def _whole(value: Any, least: int) -> int:
    if not is_integer(value) or not least <= value <= MAX_COUNT:
        raise DataError(invalid("number", "a region", f"whole, from {least}", repr(value)[:40]))
    return int(value)
