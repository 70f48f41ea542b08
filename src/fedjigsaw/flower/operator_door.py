"""The door for operators, on the same port as that for sites."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from fedjigsaw.flower.doors import UNKNOWN, UNSIGNED, Welcome
from fedjigsaw.flower.gate import Door, RefusedError, Scope, Visit, body_size
from fedjigsaw.flower.operator_protocol import (
    MAX_BODY,
    MAX_JOB,
    PATH,
    START,
    TOLERANCE,
    TOO_MANY,
    VERBS,
    Signed,
)
from fedjigsaw.flower.operators import Operator, Operators

CALLER = "fedjigsaw.operator"  # in the scope of a request that this door admitted
REQUESTS = (10.0, 60)  # requests a second that an operator may send in the long run, and at once


@dataclass(frozen=True)
class Caller:
    """Who sent a request that was admitted, with its signed head."""

    operator: Operator
    head: Signed


class Allowance:
    """How often each sender may do something: so many times at once, then so often a second."""

    def __init__(self, rate: float, most: int, clock: Callable[[], float] = monotonic) -> None:
        self.rate, self.most, self.clock = rate, most, clock
        self.used: dict[str, float] = {}
        self.since = clock()

    def take(self, sender: str) -> bool:
        """Count one use, and return whether it is within the limit."""
        now = self.clock()
        back, self.since = (now - self.since) * self.rate, now
        self.used = {name: used - back for name, used in self.used.items() if used > back}
        used = self.used.get(sender, 0.0) + 1
        if used > self.most:
            return False
        self.used[sender] = used
        return True


class Nonces:
    """The nonces of the last requests: none may come twice."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.seen: dict[tuple[str, str], float] = {}

    def is_new(self, key: str, nonce: str) -> bool:
        return (key, nonce) not in self.seen

    def add(self, key: str, nonce: str) -> None:
        """Remember a nonce as long as a clock may be ahead and a request old; drop older ones."""
        now = self.clock()
        while self.seen and next(iter(self.seen.values())) < now - 2 * TOLERANCE - 1:
            del self.seen[next(iter(self.seen))]
        self.seen[key, nonce] = now


class OperatorDoor:
    """Admit what operators signed; leave everything else to the door for sites.

    Parameters
    ----------
    operators : whom the server knows.
    welcome : as for a SiteDoor.
    sites : the door for all other requests.
    """

    def __init__(self, operators: Operators, welcome: Welcome, sites: Door) -> None:
        self.operators = operators
        self.welcome = welcome
        self.sites = sites
        self.nonces = Nonces()
        self.requests = Allowance(*REQUESTS)

    def admit(self, scope: Scope) -> Visit:
        path = scope["path"]
        if not path.startswith(PATH):
            return self.sites.admit(scope)
        verb = path.removeprefix(PATH)
        if verb not in VERBS or scope["method"] != "POST":
            raise RefusedError(404)
        size = body_size(scope, MAX_JOB if verb == START else MAX_BODY)
        caller = self._caller(path, dict(scope["headers"]))
        sender = f"operator {caller.operator.name}"
        self.welcome(scope["client"], sender)
        scope[CALLER] = caller
        return Visit(sender, size)

    def _caller(self, path: str, headers: dict[bytes, bytes]) -> Caller:
        """Return who signed a request that was never seen before, or refuse it."""
        try:
            head = Signed.read(headers)
        except ValueError as error:
            raise RefusedError(UNSIGNED) from error
        operator = self.operators.find(head.key)
        if operator is None:
            raise RefusedError(UNKNOWN)
        recent = head.is_recent() and self.nonces.is_new(head.key, head.nonce)
        if not recent or not head.is_by(operator.public, path):
            raise RefusedError(UNSIGNED)
        if not self.requests.take(operator.name):
            raise RefusedError(TOO_MANY)
        self.nonces.add(head.key, head.nonce)
        return Caller(operator, head)
