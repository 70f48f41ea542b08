"""Ask sites again that were lost, late or not connected."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedjigsaw.engine import FederatedMethod, Reply
from fedjigsaw.flower import patches, records
from fedjigsaw.flower.agreement import difference, kind_of
from fedjigsaw.flower.engine import NOT_CONNECTED, FlowerEngine
from fedjigsaw.messages import Broadcast, Failure
from fedjigsaw.parameters import integer

# what Flower says of a site that may well answer the next time
LOST = frozenset(
    patches.ERRORS[code]
    for code in (
        ErrorCode.MESSAGE_UNAVAILABLE,
        ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
        ErrorCode.NODE_UNAVAILABLE,
        ErrorCode.CLIENT_APP_CRASHED,
    )
)
TOO_LATE = records.REASONS["timeout"] + records.SEE_LOG


class RetryingEngine(FlowerEngine):
    """An engine that asks sites again, up to `retries` times in each round.

    Only sites that were lost, late or not connected are asked again: a site that refused, or whose
    answer is not valid, would say the same. A site that has answered the question already gives the
    answer that is in its journal. Each time, sites have `wait` seconds to connect and `timeout`
    seconds to answer.

    Parameters
    ----------
    retries : how often a site is asked again.
    grid, method, options : as for :class:`~fedjigsaw.flower.engine.FlowerEngine`.
    """

    def __init__(
        self, grid: Grid | None, method: FederatedMethod, *, retries: int = 0, **options: Any
    ) -> None:
        super().__init__(grid, method, **options)
        integer(0).check("retries", "FlowerEngine", retries)
        self.retries = retries

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        replies = super().ask(broadcast)
        for number in range(self.retries):
            lost = [reply.client for reply in replies if self.is_lost(reply)]
            if not lost:
                break
            self.tell_again(lost, number)
            answered = [reply for reply in replies if reply.client not in lost]
            replies = answered + self._ask_again(lost, broadcast)
        return replies

    def is_lost(self, reply: Reply) -> bool:
        """Return whether a site may answer the next time."""
        late = {NOT_CONNECTED, self.late, TOO_LATE}
        return isinstance(reply, Failure) and reply.reason in LOST | late

    def tell_again(self, lost: Sequence[str], number: int) -> None:
        self.tell("again", ", ".join(lost), f"attempt {number + 2} of {self.retries + 1}")

    @contextmanager
    def only(self, names: Sequence[str] | None) -> Iterator[None]:
        """Ask these sites alone, kept summaries or not, and wait for them to connect."""
        before = self.names, self.kept, self._patient
        self.names, self.kept = None if names is None else tuple(names), {}
        self._patient = True
        try:
            yield
        finally:
            self.names, self.kept, self._patient = before

    def _ask_again(self, lost: Sequence[str], broadcast: Broadcast) -> list[Reply]:
        """Ask some sites again; keep what the others have answered."""
        before = self.shown
        with self.only(lost):
            replies = super().ask(broadcast)
        assert before is not None
        assert self.shown is not None
        usual = next(map(kind_of, before.files), None)  # the first answers have settled it
        others = {
            file.summary.client: difference(kind_of(file), usual, kept=bool(self.kept))
            for file in self.shown.files
            if usual is not None and kind_of(file) != usual
        }
        fits = [file for file in self.shown.files if file.summary.client not in others]
        self.shown = replace(before, files=(*before.files, *fits))
        for name in others:
            del self.files[name]
        return [
            self.fail(reply.client, others[reply.client]) if reply.client in others else reply
            for reply in replies
        ]
