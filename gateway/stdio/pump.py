"""The subscriptions of the stdio door: who has something to read, and lines spliced around the shared bytes.

A subscription holds no line here: its position remembers. The pump runs at most once a loop turn, when the sink has
drained, and just before a subscription is judged (see `hub/ports.py: Reader`).
"""

from __future__ import annotations

from collections import deque

from ...framing import event_lines
from .lines import ending_line, event_prefix, frame_limit_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ..hub.journal import Entry
    from ..hub.subscription import Subscription
    from .writer import Writer

BATCH: Final = 256
"""Events of one subscription taken at a time, before the next subscription has its turn."""


class Reading:
    """One `events` op that is running: the reader behind its subscription."""

    __slots__ = ("id", "prefix", "pump", "queued", "subscription")

    def __init__(self, pump: Pump, id: int, session_id: str) -> None:
        self.pump = pump
        self.id = id
        self.prefix = event_prefix(id, session_id)
        self.queued = False
        self.subscription: Subscription | None = None

    @property
    def blocked(self) -> bool:
        """Whether the host takes nothing now."""
        return self.pump.writer.blocked

    def ready(self, subscription: Subscription) -> None:
        """There is something to take: have a turn of the pump."""
        if not self.queued:
            self.queued = True
            self.pump.enqueue(self)

    def drain(self, subscription: Subscription) -> None:
        """Take as much as the sink accepts, now."""
        self.pump.serve_now(self)


class Pump:
    """Moves events from positions to the writer. `limit` is the frame limit; `soon(call)` runs it later this turn."""

    def __init__(self, writer: Writer, limit: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self.writer = writer
        self.readings: set[Reading] = set()
        self._limit = limit
        self._soon = soon
        self._queue: deque[Reading] = deque()
        self._planned = False
        self._stopped = False

    def add(self, reading: Reading, subscription: Subscription) -> None:
        """Serve a subscription from now on; its acknowledgement is already in the writer."""
        reading.subscription = subscription
        self.readings.add(reading)
        subscription.start()

    def enqueue(self, reading: Reading) -> None:
        """Give a reading its turn in the next run of the pump."""
        self._queue.append(reading)
        if not self._planned and not self._stopped:
            self._planned = True
            self._soon(self._run_planned)

    def run(self) -> None:
        """Serve every reading that has something, in turn, while the sink takes it."""
        queue, writer = self._queue, self.writer
        if self._stopped or not writer.flush():
            return
        for _ in range(len(queue)):  # who has more is queued again, for the next turn: a long replay holds nobody up
            if writer.blocked:
                break
            reading = queue.popleft()
            reading.queued = False
            self._serve(reading)

    def serve_now(self, reading: Reading) -> None:
        """Serve one reading alone, because it is about to be judged."""
        if self._stopped or not self.writer.flush():
            return
        subscription = reading.subscription
        while subscription is not None and subscription.lag and not self.writer.blocked:
            self._serve(reading)
            subscription = reading.subscription

    def stop(self) -> None:
        """Serve what is there, as far as the sink takes it, and then nobody any more (spec: stdio 6 and 10).

        The daemon's shutdown has no marker.
        """
        while self._queue and not self._stopped and self.writer.flush():
            self.run()
        self._stopped = True
        for reading in self.readings:
            if reading.subscription is not None:
                reading.subscription.detach()
        self.readings.clear()
        self._queue.clear()

    def _run_planned(self) -> None:
        self._planned = False
        self.run()

    def _serve(self, reading: Reading) -> None:
        subscription = reading.subscription
        if subscription is None:
            return
        entries = subscription.take(BATCH)
        if entries:
            block = event_lines(reading.prefix, entries)
            if len(block) > self._limit and self._too_long(reading, subscription, entries):
                return
            self.writer.send(block)
        if subscription.over:
            self._end(reading, subscription)
        elif subscription.lag:
            reading.ready(subscription)

    def _too_long(self, reading: Reading, subscription: Subscription, entries: list[Entry]) -> bool:
        """End at the first envelope that fits in no frame; what stands before it is delivered (spec: stdio 6)."""
        lines = [event_lines(reading.prefix, [entry]) for entry in entries]
        count = next((at for at, line in enumerate(lines) if len(line) > self._limit + 1), -1)
        if count < 0:
            return False
        if count:
            self.writer.send(b"".join(lines[:count]))
        run = subscription.run or subscription.stream.run_at(subscription.position - len(entries) + count)
        session_id = subscription.stream.session_id
        line = frame_limit_line(reading.id, session_id, run.id if run else "", entries[count][0], self._limit)
        self.writer.put(line)
        self._forget(reading, subscription)
        return True

    def _end(self, reading: Reading, subscription: Subscription) -> None:
        if subscription.outcome is not None:
            session_id = subscription.stream.session_id
            self.writer.put(ending_line(reading.id, session_id, subscription.outcome, self._limit))
        self._forget(reading, subscription)

    def _forget(self, reading: Reading, subscription: Subscription) -> None:
        subscription.detach()
        reading.subscription = None
        self.readings.discard(reading)
