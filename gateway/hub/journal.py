"""The journal of one session: its events' bytes by position, bounded by count and by bytes.

A position counts the events of the session from 0 and never restarts; a sequence counts the events of one run. The hub
reads and appends by position alone, so a durable or distributed journal plugs in by offering the same five names.
"""

from __future__ import annotations

from ...framing import held_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, TypeAlias

    Entry: TypeAlias = tuple[int, bytes]
    """`(sequence, envelope bytes)`: nothing else is pinned by an event (decision 19)."""
else:
    Protocol = object


class Journal(Protocol):
    """What the hub needs of a journal. `base` is the oldest retained position, `head` the one after the newest."""

    events: int
    bytes: int

    @property
    def base(self) -> int:
        """The oldest retained position; equal to `head` when nothing is retained."""

    @property
    def head(self) -> int:
        """The position after the newest event."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Add events at the head. Nothing is evicted yet: `trim` does that, once the readers were judged."""

    def read(self, start: int, stop: int) -> list[Entry]:
        """Return the retained events of positions `start` to `stop - 1`; `start` must not be below `base`."""

    def due(self) -> int:
        """Return the position up to which `trim` would evict; `base` where nothing is due."""

    def trim(self, due: int) -> None:
        """Evict what stands before the position that `due` returned."""


class MemoryJournal:
    """The journal in memory: at most `events` events and `bytes` bytes of envelopes, whichever is reached first.

    The newest event is always retained, however large. The list behind it holds on to evicted events until they are an
    eighth of it, because taking them off one by one would move the whole list each time.
    """

    __slots__ = ("_entries", "_held", "_start", "base", "bytes", "events", "head")

    def __init__(self, events: int, bytes: int) -> None:
        self.events = events
        self.bytes = bytes
        self.base = 0
        self.head = 0
        self._entries: list[Entry] = []
        self._start = 0  # index in `_entries` of position `base`
        self._held = 0  # bytes of the retained events

    def append(self, entries: Sequence[Entry]) -> None:
        """Add events at the head."""
        self._entries += entries
        self.head += len(entries)
        self._held += held_bytes(self._entries, len(self._entries) - len(entries), len(self._entries))

    def read(self, start: int, stop: int) -> list[Entry]:
        """Return the events of positions `start` to `stop - 1`."""
        shift = self._start - self.base
        return self._entries[start + shift : stop + shift]

    def due(self) -> int:
        """Return the position up to which `trim` would evict."""
        due = self.head - self.events
        if due < self.base:
            due = self.base
        if self._held > self.bytes:
            due = self._due_by_bytes(due)
        return due

    def trim(self, due: int) -> None:
        """Evict what stands before a position."""
        start = self._start
        stop = start + due - self.base
        self._held -= held_bytes(self._entries, start, stop)
        self._start = stop
        self.base = due
        if stop * 8 >= len(self._entries):
            del self._entries[:stop]
            self._start = 0

    def _due_by_bytes(self, due: int) -> int:
        """Go on from what the count evicts until the bytes fit too, the newest event aside."""
        entries, index = self._entries, self._start + due - self.base
        held = self._held - held_bytes(entries, self._start, index)
        while held > self.bytes and due < self.head - 1:
            held -= len(entries[index][1])
            index += 1
            due += 1
        return due
