"""The state of a running server: what `federation status` prints as JSON."""

from pathlib import Path
from typing import Any

from fedjigsaw.flower import jobs, renewal
from fedjigsaw.flower.certificates import authority_ends, ends
from fedjigsaw.flower.folders import CA, CERTIFICATE, ServerSettings
from fedjigsaw.flower.keys import read_twins
from fedjigsaw.flower.members import read_revoked


def read_status(home: Path) -> dict[str, Any]:
    """Ask the running server of a folder how its sites are; return what JSON can hold."""
    settings = ServerSettings.load(home)
    with jobs.control(home) as client:
        connected = jobs.connected_sites(client, jobs.active_sites(home))
    late = filter(None, [renewal.not_in_use(home)])
    return {
        "host": settings.host,
        "port": settings.port,
        "connected": connected,
        "revoked": read_revoked(home),
        "twins": read_twins(home),
        "certificate_ends": ends(home / CERTIFICATE).isoformat(),
        "authority_ends": authority_ends(home / CA).isoformat(),
        "warnings": [*late, *renewal.ending(home), *jobs.strange_in_last_run(home)],
    }
