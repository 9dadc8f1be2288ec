"""A subscription is a position in the journal with a bounded lag: live and replay are one read (decision 21).

It holds no queue. Only at an overflow does it keep entries of its own, those already owed, so that they are delivered
before the line that says so, whatever the journal evicts meanwhile.
"""

from __future__ import annotations

from ...protocol.errors import Overflow, ReplayGap, StreamEnd, StreamFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .journal import Entry
    from .ports import Reader
    from .runs import Run
    from .stream import EventStream


class SessionEnded(StreamEnd):
    """The session was closed; there is nothing to resume."""


class Subscription:
    """One reader's place in one session. Read it with `take` until `over`; then `outcome` says how it ended.

    `run` limits it to one run (a cursor); None follows the session live. `read` is the last sequence that was taken, to
    begin with the cursor's. `outcome` is None for a healthy end (the terminal was delivered), else one of `Overflow`,
    `ReplayGap`, `StreamFailed`, `SessionEnded`.
    """

    __slots__ = (
        "_idle",
        "_joined",
        "_owed",
        "caught_up",
        "end",
        "outcome",
        "position",
        "read",
        "reader",
        "run",
        "stream",
    )

    def __init__(self, stream: EventStream, reader: Reader, position: int, run: Run | None, read: int = 0) -> None:
        self.stream = stream
        self.reader = reader
        self.position = position
        self.run = run
        self.read = read
        self.end: int | None = None
        self.outcome: StreamEnd | None = None
        self.caught_up = position >= stream.journal.head
        self._joined = position
        self._owed: list[Entry] | None = None
        self._idle = False

    @property
    def over(self) -> bool:
        """Whether everything was taken and nothing will come."""
        if self._owed is not None:
            return not self._owed
        return self.end is not None and self.position >= self.end

    @property
    def lag(self) -> int:
        """How many events it has still to take."""
        if self._owed is not None:
            return len(self._owed)
        return max(0, self._stop - self.position)

    @property
    def _stop(self) -> int:
        """The position up to which there is something for it now."""
        if self.end is not None:
            return self.end
        if self.run is not None and self.run.first < 0:  # a reservation: what stands in the journal is not its own
            return self.position
        return self.stream.journal.head

    def start(self) -> None:
        """Begin: the reader is told at once where there is something to take, else when there is."""
        if self.lag or self.over:
            self.reader.ready(self)
        else:
            self.rest()

    def take(self, most: int = 256) -> list[Entry]:
        """Return the next events, at most `most`, and move past them; empty: nothing now, or `over`.

        A return that leaves nothing more arranges that the reader is told of the next event.
        """
        if self._owed is not None:
            taken, self._owed = self._owed[:most], self._owed[most:]
            self.position += len(taken)
            return taken
        stream, start, stop = self.stream, self.position, self._stop
        journal = stream.journal
        if start >= stop:
            if self.end is None:
                self.rest()
            return []
        if start < journal.base:
            if self._passed():
                return []
            start = self.position
        if stop - start > most:
            stop = start + most
        entries = self._own(start, stop)
        self.position = stop
        if entries:
            self.read = entries[-1][0]
        if stop == journal.head:
            self.caught_up = True
            if self.end is None:
                self.rest()
        if stream.watchers:
            stream.progressed()
        return entries

    def rest(self) -> None:
        """Wait for the next event: the session tells the reader of it, once."""
        if not self._idle:
            self._idle = True
            self.stream.idle.append(self)

    def wake(self) -> None:
        """Tell the reader that there is something to take."""
        self._idle = False
        self.reader.ready(self)

    def finish(self, outcome: StreamEnd | None) -> None:
        """End at the journal's head: what stands there is still delivered, then `outcome`."""
        if self.end is None and self._owed is None:
            self.end = self.stream.journal.head
            self.outcome = outcome

    def overflow(self, bound: int) -> None:
        """Detach a reader that is more than `bound` events behind; what it is owed stays held.

        One whose end stands within what it is owed loses nothing, so its outcome stays what it was.
        """
        start, most = self.position, self.stream.journal.bytes
        owed = self.stream.journal.read(start, min(start + bound, self._stop))
        held = 0
        for count, entry in enumerate(owed):
            held += len(entry[1])
            if held > most and count:
                del owed[count:]
                break
        stop = start + len(owed)
        self._owed = self._own(start, stop)
        if stop != self.end:
            run = self.run or self.stream.span_at(stop)
            self.outcome = Overflow(run.id, run.sequence_before(stop)) if run else Overflow("", 0)

    def broke(self) -> None:
        """End at the head with the last delivered position: the stream failed underneath (spec: stdio 6)."""
        head = self.stream.journal.head
        run = self.run
        if run is None and head > self._joined:
            run = self.stream.span_at(head - 1)
        self.finish(StreamFailed(run.id if run else "", run.sequence_before(head) if run else 0))

    def _own(self, start: int, stop: int) -> list[Entry]:
        """Return the entries of these positions that are this reader's."""
        entries = self.stream.journal.read(start, stop)
        if self.run is not None and self.run.strangers:
            strangers = frozenset(self.run.strangers)
            return [entry for at, entry in enumerate(entries, start) if at not in strangers]
        return entries

    def _passed(self) -> bool:
        """End a replay that eviction has overtaken: never silently. False: only events of others are gone."""
        base, run = self.stream.journal.base, self.run or self.stream.run_at(self.position)
        if run is not None and run.sequence_before(base) <= self.read:
            self.position = base
            return False
        self.outcome = self.stream.gap(run, self.read) if run else ReplayGap(self.read, self.read + 1, self.read)
        self.end = self.position
        return True

    def detach(self) -> None:
        """Forget the subscription; its reader takes no more."""
        self.stream.detach(self)
