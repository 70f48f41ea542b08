"""Versions: what sites and server tell each other, and which of them work together.

Every request of a site carries its version and the number of the protocol that it speaks. What
matters is the protocol: it changes only when an older part would misunderstand a newer one. Before
versions were told, the protocol was number 1.
"""

import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from fedjigsaw import __version__
from fedjigsaw.errors import DataError
from fedjigsaw.flower.logs import told
from fedjigsaw.io.atomic import write_json

logger = logging.getLogger(__name__)

PROTOCOL = 1  # what a site of this version speaks
SPOKEN = frozenset({1})  # what a server of this version understands
BEFORE = 1  # what those speak who tell nothing
VERSION_HEADER, PROTOCOL_HEADER = b"fedjigsaw-version", b"fedjigsaw-protocol"
OTHER_PROTOCOL = 426  # the HTTP status of a site whose protocol the server does not speak
VERSIONS = "versions.json"  # in the server's folder: what each site told last
SERVER_VERSION = "server-version.json"  # in a site's folder: what a server told that refused it
WRITE_SECONDS = 5.0
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True)
class Told:
    """What a part told about itself.

    Parameters
    ----------
    version : version of fedjigsaw; None if it told none, or nothing that could be one.
    protocol : number of the protocol; 0 if it is not a number.
    """

    version: str | None
    protocol: int

    def __str__(self) -> str:
        return f"fedjigsaw {self.version or 'of an unknown version'} with protocol {self.protocol}"

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> "Told":
        """Read the headers of a request or an answer, whoever sent it.

        Examples
        --------
        >>> Told.read({"fedjigsaw-version": "0.3.0", "fedjigsaw-protocol": "2"})
        Told(version='0.3.0', protocol=2)
        >>> Told.read({})
        Told(version=None, protocol=1)
        """
        version = headers.get(VERSION_HEADER.decode(), "")
        number = headers.get(PROTOCOL_HEADER.decode(), str(BEFORE))
        return cls(
            version if _VERSION.fullmatch(version) else None,
            int(number) if _NUMBER.fullmatch(number) else 0,
        )


OWN = Told(__version__, PROTOCOL)


def headers() -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers with which a part tells its version."""
    return (
        (VERSION_HEADER, __version__.encode()),
        (PROTOCOL_HEADER, str(PROTOCOL).encode()),
    )


class Versions:
    """What the sites told a server; kept in its folder for `federation status`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.told = read_versions(home)
        self.written: dict[str, float] = {}

    def note(self, site: str, told_now: Told) -> bool:
        """Note what a site told, and return whether the server understands it."""
        understood = told_now.protocol in SPOKEN
        entry = asdict(told_now)
        recent = monotonic() - self.written.get(site, float("-inf")) < WRITE_SECONDS
        if self.told.get(site) != entry and not recent:
            self.written[site] = monotonic()
            self.told[site] = entry
            with suppress(DataError):  # a full disk keeps no site out
                write_json(self.home / VERSIONS, self.told)
            if not understood:
                text = "site %s is refused: it has %s, and this server %s"
                logger.warning(text, site, told_now, OWN, extra=told("site_is_refused", site=site))
            elif told_now.version != OWN.version:
                text = "site %s has %s, and this server %s"
                extra = told("site_has_another_version", site=site)
                logger.info(text, site, told_now, OWN, extra=extra)
        return understood


def read_versions(home: Path) -> dict[str, dict[str, Any]]:
    """Return version and protocol that each site told last."""
    try:
        found = json.loads((home / VERSIONS).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# --------------------------------------------------------------------------------------- at a site


def write_refusal(folder: Path, server: Told) -> None:
    """Keep what a server told that refused this site, for the process that started this one."""
    write_json(folder / SERVER_VERSION, asdict(server))


def describe_refusal(folder: Path) -> str:
    """Say which versions do not work together, and what to do."""
    try:
        server = Told(**json.loads((folder / SERVER_VERSION).read_text()))
    except (OSError, ValueError, TypeError):
        server = Told(None, 0)
    newer = "site" if server.protocol > PROTOCOL else "server"
    return (
        f"The server has {server}; this site has {OWN}. They do not work together: install a newer "
        f"version at the {newer}."
    )
