"""The synthetic adapter: a load source for whoever measures framing limits or tests a host under load.

Each submit plays so many text deltas of so many bytes at such an interval, then `run.completed`. No gates, no process.
It stands with the drivers because it is all timing: it knows the loop and nothing of a harness.
"""

from __future__ import annotations

import asyncio

from ...protocol import names
from ...protocol.envelope import Envelope
from ...protocol.ids import Ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from ...protocol.limits import Limits
    from ..hub.ports import Outlet

REVISION: Final = "synthetic-load-v1"
ENDPOINT: Final = "synthetic.load"
TURN_BYTES: Final = 1 << 18
"""Text bytes that one loop turn publishes at most (one delta at least), so that large deltas starve nobody either."""
EVENT_BYTES: Final = 1024
"""About what an event has besides its text."""
READER_LAG: Final = 32
"""With `pace: reader`, events that an attached subscription may be behind before the source waits."""
_FORGETS: Final = "the journal is bounded and nothing survives the process"

FEATURES: Final[Mapping[str, Mapping[str, Any]]] = {
    "protocol.initialize": {"level": "native"},
    "capabilities": {"level": "native"},
    "session.open": {"level": "native"},
    "session.state": {"level": "native"},
    "session.message.submit": {"level": "native"},
    "session.message.delivery.auto": {"level": "native"},
    "session.message.delivery.queue": {"level": "emulated", "reason": "the hub holds one reservation"},
    "run.streaming": {"level": "native"},
    "run.status": {"level": "native"},
    "run.reconciliation": {"level": "native"},
    "run.cancel": {"level": "native"},
    "run.resume": {"level": "degraded", "reason": _FORGETS},
    "run.replay": {"level": "degraded", "reason": _FORGETS},
}


class SyntheticAdapter:
    """The adapter. `options`: deltas, delta_bytes, interval_ms, pace (`free` or `reader`), all checked already."""

    def __init__(
        self, name: str, options: Mapping[str, Any], limits: Limits, journal_events: int, journal_bytes: int
    ) -> None:
        self.ids = Ids()
        self._options = options
        self._limits = limits
        self._journal = (journal_events, journal_bytes)
        self._descriptor = {
            "endpoint": {"id": ENDPOINT, "name": name, "version": "1", "adapter": "synthetic"},
            "protocol_versions": [names.VERSION],
            "profiles": [names.PROFILE],
            "features": FEATURES,
            "limits": {"max_active_runs_per_session": 2, "max_queued_runs_per_session": 1},
        }

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return `(capability_revision, descriptor payload)`."""
        return REVISION, self._descriptor

    def journal(self) -> tuple[int, int]:
        """Return the journal bound of one session: events, bytes."""
        return self._journal

    def open(self, request: Envelope, outlet: Outlet) -> SyntheticSession:
        """Open a session at once."""
        return SyntheticSession(self._options, self._limits, outlet, self.ids, self._journal)


class SyntheticSession:
    """One session: at most one run plays at a time, one step a loop turn, so that nothing else starves."""

    def __init__(
        self, options: Mapping[str, Any], limits: Limits, outlet: Outlet, ids: Ids, journal: tuple[int, int]
    ) -> None:
        self._deltas: int = options["deltas"]
        self._interval: float = options["interval_ms"] / 1000
        self._reader = options["pace"] == "reader"
        self._text = "x" * options["delta_bytes"]
        self._limits = limits
        self._outlet = outlet
        self._ids = ids
        self._run: str | None = None
        self._message = ""
        self._sent = 0
        self._stalled = 0.0  # seconds of this run in which a blocked sink was waited for
        self._stalled_at = 0.0
        self._waits = False  # for a reader
        size = len(self._text) + EVENT_BYTES
        bound = min(limits.mailbox, journal[0], max(1, journal[1] // size))  # events a reader may be behind
        self._most_lag = min(READER_LAG, bound // 2)
        self._turn = max(1, min(limits.frames_per_turn, TURN_BYTES // size, bound - self._most_lag))
        self._large = self._deltas * len(self._text) > journal[1] // 2
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None

    def prepare(self, run_id: str) -> None:
        """Nothing is minted ahead."""

    def submit(self, request: Envelope) -> None:
        """Start playing in the next loop turn."""
        self._run = request.run_id
        self._message = self._ids.mint("message")
        self._sent = 0
        self._stalled = self._stalled_at = 0.0
        self._outlet.publish([(self._run or "", names.RUN_STARTED, {"status": "running"})])
        self._timer = asyncio.get_running_loop().call_soon(self._step)

    def resolve(self, request: Envelope) -> None:
        """Never called: there are no gates."""

    def cancel(self, request: Envelope) -> None:
        """Stop at once, wherever it is."""
        run = self._run
        if run is not None and run == request.run_id:
            self._stop_timer()
            self._run = None
            self._outlet.publish([(run, names.RUN_CANCELLED, {"reason": "cancel confirmed"})])

    def models(self) -> None:
        """No catalog."""

    def tools(self) -> None:
        """No catalog."""

    def facts(self) -> Mapping[str, Any]:
        """Nothing to add to the state document."""
        return {}

    def close(self) -> None:
        """Stop playing."""
        self._stop_timer()
        self._run = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self) -> None:
        """Publish what is due now; wait for readers where told, and for a blocked sink within its grace."""
        run = self._run
        if run is None:
            return
        loop = asyncio.get_running_loop()
        left = self._deltas - self._sent
        # a last event that fills the journal would push out whatever its readers have still to take
        most = 0 if self._large and not left else self._most_lag
        self._waits = self._reader and self._outlet.lag > most
        if self._waits:
            self._outlet.on_progress(self._again)
            return
        if self._stalled_at:  # what a stall really took counts against the run's grace, not the most it might take
            self._stalled += min(loop.time() - self._stalled_at, self._limits.stall_s)
            self._stalled_at = 0.0
        if self._outlet.congested and self._stalled < self._limits.stall_run_s:
            self._stalled_at = loop.time()
            self._timer = loop.call_later(self._limits.stall_s, self._step)
            self._waits = True
            self._outlet.on_progress(self._again)
            return
        if not left:  # in a turn of its own: with the last deltas it would be one more than readers were waited for
            self._complete(run)
            return
        count = min(left, 1 if self._interval else self._turn)
        part = {"message_id": self._message, "part": {"type": "text", "text": self._text}}
        self._sent += count
        self._outlet.publish([(run, names.CONTENT_DELTA, part)] * count)
        if self._interval and count < left:
            self._timer = loop.call_later(self._interval, self._step)
        else:
            self._timer = loop.call_soon(self._step)

    def _again(self) -> None:
        """A reader has moved: go on in the next turn, if that is what the run waits for."""
        if self._run is not None and self._waits:
            self._waits = False
            self._stop_timer()
            self._timer = asyncio.get_running_loop().call_soon(self._step)

    def _complete(self, run: str) -> None:
        """End the run: the whole text where a frame holds it, else a summary that says what was sent."""
        self._run = None
        self._timer = None
        size = self._deltas * len(self._text)
        whole = size + 4096 < min(self._limits.frame_bytes, self._limits.envelope_bytes)
        text = self._text * self._deltas if whole else f"{self._deltas} deltas of {len(self._text)} bytes were sent"
        message = {"id": self._message, "role": "assistant", "content": text}
        self._outlet.publish([(run, names.RUN_COMPLETED, {"final_response": message, "stop_reason": "end_turn"})])
