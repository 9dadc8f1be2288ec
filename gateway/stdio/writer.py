"""The one writer of the stdio door: whole lines, few system calls, nothing delayed by a timer (spec: stdio 8, 9).

Lines put in one turn leave together at its end, or earlier where a block is full. A line over `BLOCK` leaves by itself,
uncopied. While the sink is blocked, lines wait here up to the bounds that `room` states.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Protocol

    from ...protocol.limits import Limits

    class BlockSink(Protocol):
        """Where blocks go: `send` returns False when it keeps the rest and will say when that is out."""

        blocked: bool

        @property
        def pending(self) -> int:
            """Bytes of the last block that are still to be written."""

        def send(self, block: bytes) -> bool:
            """Write a block; False: the rest is kept."""
            ...


BLOCK: Final = 1 << 16
"""Bytes up to which lines are joined; what one read of a pipe takes."""

ANSWER: Final = b'{"id"'
"""What every answer begins with, and no line of a subscription (see `lines.py`)."""


class Writer:
    """A bounded queue of lines before a sink. `soon(call)` runs a call at the end of this loop turn."""

    __slots__ = ("_block", "_bytes", "_bytes_most", "_lines", "_lines_most", "_planned", "_sink", "_soon")

    def __init__(self, sink: BlockSink, limits: Limits, soon: Callable[[Callable[[], None]], object]) -> None:
        self._sink = sink
        self._soon = soon
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._block = b""  # the last block, while the sink has not written all of it
        self._lines_most = limits.writer_lines
        self._bytes_most = limits.writer_bytes
        self._planned = False

    @property
    def room(self) -> bool:
        """Whether another line may be put."""
        return len(self._lines) < self._lines_most and self._bytes < self._bytes_most

    @property
    def empty(self) -> bool:
        """Whether every line has left for the sink, and the sink has written it."""
        return not self._lines and not self._sink.blocked

    @property
    def unwritten(self) -> int:
        """How many answers are not out: they wait here, or the sink has them and not written them whole.

        Lines of subscriptions, which begin otherwise, are not counted.
        """
        block, pending = self._block, self._sink.pending
        if pending:
            start = block.rfind(b"\n", 0, len(block) - pending) + 1
            held = sum(line.startswith(ANSWER) for line in block[start:].split(b"\n"))
        else:
            held = 0
        return held + sum(line.startswith(ANSWER) for line in self._lines)

    @property
    def blocked(self) -> bool:
        """Whether the sink takes nothing now."""
        return self._sink.blocked

    def put(self, line: bytes) -> None:
        """Queue one line; it leaves at the end of the turn at the latest, if the sink takes it."""
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes >= BLOCK or not self.room:
            self.flush()
        elif not self._planned:
            self._planned = True
            self._soon(self._flush_planned)

    @property
    def clear(self) -> bool:
        """Whether a block put now leaves at once: nothing waits, and the sink takes it."""
        return not self._lines and not self._sink.blocked

    def put_all(self, lines: list[bytes]) -> None:
        """Queue lines that were collected while the writer was `clear`, and send them."""
        if lines:
            self._lines.extend(lines)
            self._bytes += sum(map(len, lines))
            self.flush()

    def send(self, block: bytes) -> None:
        """Send a block of whole lines past the queue. Precondition: flushed, and not blocked."""
        self._block = b"" if self._sink.send(block) else block

    def flush(self) -> bool:
        """Send what is queued, as far as the sink takes it. True: everything left."""
        lines, sink = self._lines, self._sink
        while lines and not sink.blocked:
            if self._bytes <= BLOCK:
                block = b"".join(lines)
                lines.clear()
            else:
                block = self._next_block()
            self._bytes -= len(block)
            self._block = b"" if sink.send(block) else block
        return not lines and not sink.blocked

    def _next_block(self) -> bytes:
        """Take lines up to `BLOCK` bytes, or one that is longer by itself."""
        lines = self._lines
        taken = [lines.popleft()]
        size = len(taken[0])
        while lines and size + len(lines[0]) <= BLOCK:
            taken.append(lines.popleft())
            size += len(taken[-1])
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _flush_planned(self) -> None:
        self._planned = False
        self.flush()
