"""The sites' keys at a running server: known, revoked, or used from two places at once.

Each process of a site sends a random word with every request. A site that was restarted has a new
word, and the old one is never seen again. If two words take turns, two processes have the key.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from fedjigsaw.flower.folders import read_revoked
from fedjigsaw.io.atomic import write_whole

logger = logging.getLogger(__name__)

TWINS = "twins.json"  # in the server's folder: keys that were used from two places at once
RETURNS = 2  # how often a process must come back after another one took over
MAX_PROCESSES = 8  # processes that are remembered for each site
WRITE_SECONDS = 5.0


@dataclass
class Use:
    """The processes that use a key: word -> host, the latest one last."""

    hosts: dict[bytes, str] = field(default_factory=dict)
    returns: int = 0
    written: float = float("-inf")

    @property
    def twin(self) -> bool:
        return self.returns >= RETURNS

    def note(self, process: bytes, host: str) -> bool:
        """Note a request; return whether its process was taken over from before, and is back."""
        latest = next(reversed(self.hosts), None)
        back = process in self.hosts and process != latest
        self.hosts.pop(process, None)
        self.hosts[process] = host
        if len(self.hosts) > MAX_PROCESSES:
            del self.hosts[next(iter(self.hosts))]
        self.returns += back
        return back


class Keys:
    """Keys of the sites.

    Parameters
    ----------
    home : the server's folder.
    sites : public key (PEM) of each site, by name.

    Attributes
    ----------
    names : public key -> site.
    revoked : names of the sites whose keys are no longer accepted.
    """

    def __init__(self, home: Path, sites: Mapping[str, str]) -> None:
        self.home = home
        self.names = {key.encode(): name for name, key in sites.items()}
        self.revoked = frozenset(read_revoked(home))
        self.uses: dict[str, Use] = {name: Use() for name in sites}
        (home / TWINS).unlink(missing_ok=True)

    def refresh(self, revoke: Callable[[str, bytes], object]) -> None:
        """Read again which keys are revoked; call `revoke` with the site and key of a new one."""
        found = frozenset(read_revoked(self.home))
        new, self.revoked = found - self.revoked, found
        for key, name in self.names.items():
            if name in new:
                logger.warning("site %s is revoked: its key is no longer accepted", name)
                revoke(name, key)

    def note(self, site: str, process: bytes, host: str) -> bool:
        """Note a request of a site; return whether its key is used from two places."""
        use = self.uses[site]
        was_twin = use.twin
        if use.note(process, host) and use.twin and monotonic() - use.written > WRITE_SECONDS:
            use.written = monotonic()
            self._write(site, sorted(set(use.hosts.values())))
        if use.twin and not was_twin:
            logger.warning(
                "the key of site %s is used from two places at once (%s): revoke it, unless it is "
                "only running twice",
                site,
                ", ".join(sorted(set(use.hosts.values()))),
            )
        return use.twin

    def _write(self, site: str, hosts: list[str]) -> None:
        last = datetime.now(UTC).isoformat(timespec="seconds")
        content = {**read_twins(self.home), site: {"hosts": hosts, "last": last}}
        write_whole(self.home / TWINS, json.dumps(content).encode())


def read_twins(home: Path) -> dict[str, dict[str, Any]]:
    """Return the sites whose keys were used from two places: hosts, and when it was last seen."""
    try:
        found: dict[str, dict[str, Any]] = json.loads((home / TWINS).read_text())
    except (OSError, ValueError):
        return {}
    return found
