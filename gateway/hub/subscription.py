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

    `run` limits it to one run (a cursor); None follows the session live. `outcome` is None for a healthy end (the
    terminal was delivered), else one of `Overflow`, `ReplayGap`, `StreamFailed`, `SessionEnded`.
    """

    __slots__ = ("_idle", "_owed", "caught_up", "end", "outcome", "position", "reader", "run", "stream")

    def __init__(self, stream: EventStream, reader: Reader, position: int, run: Run | None) -> None:
        self.stream = stream
        self.reader = reader
        self.position = position
        self.run = run
        self.end: int | None = None
        self.outcome: StreamEnd | None = None
        self.caught_up = run is None
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
        return (self.stream.journal.head if self.end is None else self.end) - self.position

    @property
    def shared(self) -> bool:
        """Whether `take` returns just what stands in the journal at `position`, as for any other reader there."""
        return self._owed is None and (self.run is None or not self.run.strangers)

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
            return taken
        stream, start = self.stream, self.position
        journal = stream.journal
        stop = journal.head if self.end is None else self.end
        if start >= stop:
            if self.end is None:
                self.rest()
            return []
        if start < journal.base:
            self._passed()
            return []
        if stop - start > most:
            stop = start + most
        entries = journal.read(start, stop)
        if self.run is not None and self.run.strangers:
            entries = [entry for at, entry in enumerate(entries, start) if at not in self.run.strangers]
        self.position = stop
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
        """Detach a reader that is more than `bound` events behind; what it is owed stays held."""
        stream, start = self.stream, self.position
        journal = stream.journal
        owed = journal.read(start, start + bound)
        held = 0
        for count, entry in enumerate(owed):
            held += len(entry[1])
            if held > journal.bytes and count:
                del owed[count:]
                break
        stop = start + len(owed)
        run = self.run or stream.run_at(stop)
        if self.run is not None and self.run.strangers:
            owed = [entry for at, entry in enumerate(owed, start) if at not in self.run.strangers]
        self._owed = owed
        self.position = stop
        self.outcome = Overflow(run.id, run.sequence_before(stop)) if run else Overflow("", 0)

    def broke(self) -> None:
        """End at the head with the last delivered position: the stream failed underneath (spec: stdio 6)."""
        head = self.stream.journal.head
        run = self.run or self.stream.run_at(head - 1)
        self.finish(StreamFailed(run.id if run else "", run.sequence_before(head) if run else 0))

    def _passed(self) -> None:
        """End a replay that eviction has overtaken: never silently."""
        run = self.run or self.stream.run_at(self.position)
        after = run.sequence_before(self.position) if run else 0
        self.outcome = self.stream.gap(run, after) if run else ReplayGap(after, after + 1, after)
        self.end = self.position

    def detach(self) -> None:
        """Forget the subscription; its reader takes no more."""
        self.stream.detach(self)
