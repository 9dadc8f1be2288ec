"""What the switch lends to every session: clock, timers, counters, diagnostics; plain callables, so without a loop."""

from __future__ import annotations

from time import time_ns

from ...protocol.ids import Ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from .session import Session
else:
    Protocol = object


class Timer(Protocol):
    """A pending call that can be cancelled."""

    def cancel(self) -> None:
        """Call it off; harmless to repeat."""


def now_ms() -> int:
    """Return milliseconds since 1970, UTC."""
    return time_ns() // 1_000_000


class Services:
    """`clock` is in milliseconds; `later(seconds, call)` returns a `Timer`; `note` takes one bounded line that
    somebody should see, `info` one of ordinary progress.

    `responses` and `requests` number the envelopes that the hub itself mints. `listed` is the listing of sessions as it
    was last encoded, None once anything in it may have changed.
    """

    __slots__ = ("clock", "closed", "info", "later", "listed", "note", "requests", "responses")

    def __init__(
        self,
        note: Callable[[str], None],
        closed: Callable[[Session], None],
        clock: Callable[[], int] = now_ms,
        later: Callable[[float, Callable[[], None]], Timer] | None = None,
        info: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.note = note
        self.info = info
        self.closed = closed
        self.clock = clock
        self.later = later or _loop_timer
        self.listed: bytes | None = None
        self.responses = Ids()
        self.requests = Ids()


def _loop_timer(seconds: float, call: Callable[[], None]) -> Timer:
    from asyncio import get_running_loop

    return get_running_loop().call_later(seconds, call)
