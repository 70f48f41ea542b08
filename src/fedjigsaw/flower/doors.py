"""The doors of a server and of a site: what each port serves, and to whom.

A door sees the head of a request only. The port for sites serves sites, which sign each request
with their keys. The private port, on the loopback of the server's machine, serves whoever has the
server's secret or the token of a running app: being logged in on the machine is not enough. A
site's own port, on its loopback, serves the processes of its apps alone.
"""

from collections.abc import Callable
from hmac import compare_digest

from fedjigsaw.flower import patches
from fedjigsaw.flower.gate import (
    MAX_REQUEST,
    SMALL_REQUEST,
    RefusedError,
    Scope,
    Visit,
    body_size,
)
from fedjigsaw.flower.keys import Keys

SECRET_HEADER = b"fedjigsaw-secret"
PROCESS_HEADER = b"fedjigsaw-process"  # a random word of each process of a site
NOTICE_HEADER = b"fedjigsaw-notice"
TWIN = b"twin"
# 412 is what Flower answers to unknown keys; 410 is for keys that are no longer accepted
UNSIGNED, UNKNOWN, REVOKED = 401, 412, 410

Welcome = Callable[[tuple[str, int], str], object]


class SiteDoor:
    """The door of the port for sites.

    Parameters
    ----------
    keys : the keys of the sites.
    welcome : called with the address of a connection and the name of the site.
    """

    def __init__(self, keys: Keys, welcome: Welcome) -> None:
        self.keys = keys
        self.welcome = welcome

    def admit(self, scope: Scope) -> Visit:
        path = scope["path"]
        if not path.startswith(patches.FLEET_PATH):
            raise RefusedError(404)
        large = path == patches.PUSH_OBJECT_PATH
        size = body_size(scope, MAX_REQUEST if large else SMALL_REQUEST)
        headers = dict(scope["headers"])
        key = patches.signer(headers)
        if key is None:
            raise RefusedError(UNSIGNED)
        site = self.keys.names.get(key)
        if site is None:
            raise RefusedError(REVOKED if self.keys.is_refused(key) else UNKNOWN)
        self.welcome(scope["client"], site)
        twin = self.keys.note(site, headers.get(PROCESS_HEADER, b""), scope["client"][0])
        return Visit(site, size, ((NOTICE_HEADER, TWIN),) if twin else ())


class PrivateDoor:
    """The door of a port on the loopback.

    Parameters
    ----------
    is_task : whether a text is the token of a running app.
    secret : what a request for the control of runs must show; None serves no such requests.
    welcome : as for a SiteDoor.
    """

    def __init__(
        self,
        is_task: Callable[[str], bool],
        secret: str | None = None,
        welcome: Welcome = lambda address, sender: None,
    ) -> None:
        self.is_task = is_task
        self.secret = secret
        self.welcome = welcome

    def admit(self, scope: Scope) -> Visit:
        path, headers = scope["path"], dict(scope["headers"])
        if path == patches.ACQUIRE_PATH:  # Flower checks the signature, which covers the body
            return Visit("processes that start apps", body_size(scope, SMALL_REQUEST))
        if self.secret is not None and path.startswith(patches.CONTROL_PATH):
            allowed = compare_digest(headers.get(SECRET_HEADER, b""), self.secret.encode())
            sender = "control"
        elif path.startswith(patches.RUNTIME_PATH):
            token = headers.get(patches.TOKEN_HEADER, b"").decode("ascii", "replace")
            allowed = self.is_task(token)
            sender = f"app {token}"
        else:
            raise RefusedError(404)
        if not allowed:
            raise RefusedError(UNSIGNED)
        self.welcome(scope["client"], sender)
        return Visit(sender, body_size(scope, MAX_REQUEST))
