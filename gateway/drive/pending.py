"""Requests that a codec has not settled yet, by token. Each is answered exactly once, now or through a Future."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from ...protocol.errors import HarnessFault, Refusal
    from ..hub.ports import Answer


class _Waiting:
    __slots__ = ("error", "future", "run_id", "settled")

    def __init__(self, run_id: str | None) -> None:
        self.run_id = run_id
        self.settled = False
        self.error: Exception | None = None
        self.future: Future[None] | None = None


OPEN_TOKEN = 1
"""The first request of a session is its open."""


class Pending:
    """Tokens rise from 1 and are never used again, so that a late settlement meets nobody."""

    __slots__ = ("_last", "_loop", "_table")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._last = 0
        self._table: dict[int, _Waiting] = {}

    def new(self, run_id: str | None) -> int:
        """Return the token of a new request; `run_id` is that of the run that it starts."""
        self._last += 1
        self._table[self._last] = _Waiting(run_id)
        return self._last

    def settle(self, token: int, error: Exception | None) -> str | None:
        """Answer a request; None for an error says done. Returns the run that has thereby started and is not over."""
        waiting = self._table.get(token)
        if waiting is None or waiting.settled:
            return None
        waiting.settled = True
        waiting.error = error
        if waiting.future is not None:
            del self._table[token]
            if not waiting.future.done():
                if error is None:
                    waiting.future.set_result(None)
                else:
                    waiting.future.set_exception(error)
        return waiting.run_id if error is None else None

    def run_over(self, run_id: str) -> None:
        """A run has its terminal; one that is being started need not be counted as live when that is settled."""
        for waiting in self._table.values():
            if waiting.run_id == run_id:
                waiting.run_id = None

    def answer(self, token: int) -> Answer[None]:
        """Return what a request's caller gets: None if it is settled, else a Future. Raises what settled it so."""
        waiting = self._table[token]
        if not waiting.settled:
            waiting.future = self._loop.create_future()
            return waiting.future
        del self._table[token]
        if waiting.error is not None:
            raise waiting.error
        return None

    def settle_all(self, refusal: Refusal, fault: HarnessFault) -> None:
        """Answer everything that is still open: the open with the fault, every other request with the refusal."""
        for token in list(self._table):
            self.settle(token, fault if token == OPEN_TOKEN else refusal)
