"""The sites' keys at a running server: accepted, refused, or used from two places at once.

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

from fedjigsaw.flower.folders import ServerSettings
from fedjigsaw.flower.logs import told
from fedjigsaw.flower.members import fingerprint, read_former, read_revoked
from fedjigsaw.io.atomic import write_json

logger = logging.getLogger(__name__)

TWINS = "twins.json"  # in the server's folder: keys that were used from two places at once
RETURNS = 2  # how often a process must come back after another one took over
MAX_PROCESSES = 8  # processes that are remembered for each site
WRITE_SECONDS = 5.0

Change = Callable[[str, bytes], object]


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
    names : public key -> site, for the keys that are accepted.
    revoked : names of the sites whose keys are revoked.
    """

    def __init__(self, home: Path, sites: Mapping[str, str]) -> None:
        self.home = home
        self._former: Mapping[str, Mapping[str, str]] = {}
        self._take(*self._read(sites))
        self._gone: dict[bytes, str] = {}
        self.uses: dict[str, Use] = {}
        (home / TWINS).unlink(missing_ok=True)

    def is_refused(self, key: bytes) -> bool:
        """Return whether a key was accepted once and no longer is."""
        return key in self._refused or fingerprint(key) in self._former

    def refresh(self, add: Change, remove: Change) -> None:
        """Read again which keys are accepted.

        `add` is called with the name and key of each new one before it is accepted. `remove` is
        called afterwards, every time, with those that were accepted once by this server.
        """
        before, found = self.names, self._read(ServerSettings.load(self.home).sites)
        new = {key: name for key, name in found[0].items() if key not in before}
        gone = {key: name for key, name in before.items() if key not in found[0]}
        for key, name in new.items():
            new_key = told("new_key", site=name)
            logger.info("site %s may connect with a new key", name, extra=new_key)
            self._forget(name)
            add(name, key)
        self._take(*found)
        for key, name in gone.items():
            text = "site %s %s: its key is no longer accepted"
            logger.warning(text, name, self._why(name, key), extra=told("key_ended", site=name))
        self._gone = {key: of for key, of in (self._gone | gone).items() if key not in found[0]}
        for key, name in self._gone.items():  # again, since a request may have been on its way
            remove(name, key)

    def _read(self, sites: Mapping[str, str]) -> tuple[dict[bytes, str], dict[bytes, str]]:
        """Return the keys that are accepted, and those that are not though a site has them."""
        # a key becomes a former one before the settings change, so these are read after them
        self._former, self.revoked = read_former(self.home), frozenset(read_revoked(self.home))
        keys = {key.encode(): name for name, key in sites.items()}
        refused = {
            key: name
            for key, name in keys.items()
            if name in self.revoked or fingerprint(key) in self._former
        }
        return {key: name for key, name in keys.items() if key not in refused}, refused

    def _take(self, names: dict[bytes, str], refused: dict[bytes, str]) -> None:
        self.names, self._refused = names, refused

    def _why(self, name: str, key: bytes) -> str:
        if name in self.revoked:
            return "is revoked"
        why = self._former.get(fingerprint(key), {}).get("why")
        return "was given a new key" if why == "replaced" else "was removed"

    def note(self, site: str, process: bytes, host: str) -> bool:
        """Note a request of a site; return whether its key is used from two places."""
        use = self.uses.setdefault(site, Use())
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
                extra=told("key_used_twice", site=site),
            )
        return use.twin

    def _forget(self, site: str) -> None:
        """Forget how the old key of a site was used."""
        self.uses.pop(site, None)
        if site in (twins := read_twins(self.home)):
            del twins[site]
            write_json(self.home / TWINS, twins)

    def _write(self, site: str, hosts: list[str]) -> None:
        last = datetime.now(UTC).isoformat(timespec="seconds")
        content = {**read_twins(self.home), site: {"hosts": hosts, "last": last}}
        write_json(self.home / TWINS, content)


def read_twins(home: Path) -> dict[str, dict[str, Any]]:
    """Return the sites whose keys were used from two places: hosts, and when it was last seen."""
    try:
        found: dict[str, dict[str, Any]] = json.loads((home / TWINS).read_text())
    except (OSError, ValueError):
        return {}
    return found
