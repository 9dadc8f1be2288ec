"""The stdio door over memory: two ends joined in one process, for embedding and tests. The same door, no descriptor."""

from __future__ import annotations

import asyncio
from collections import deque

from ...framing import LineDecoder
from ..sweep import sweep
from .door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ...protocol.limits import Limits
    from ..hub.switch import Switch

CAPACITY: Final = 1 << 16
"""Bytes that the memory between the ends holds before the door's side is blocked, like a pipe's."""


class _MemorySink:
    """The door's output: holds up to `capacity` bytes unread, then keeps the rest of one block and is blocked."""

    def __init__(self, pair: Pair, capacity: int) -> None:
        self._pair = pair
        self._capacity = capacity
        self._held: deque[bytes] = deque()
        self._size = 0
        self.blocked = False
        self.pending = 0  # a block is taken whole: what is unread is the host's

    def send(self, block: bytes) -> bool:
        """Take a block; False once more is held than the capacity."""
        self._held.append(block)
        self._size += len(block)
        self.blocked = self._size > self._capacity
        self._pair.arrived.set()
        return not self.blocked

    def read(self) -> bytes:
        """Take the oldest block; the door may go on when that makes room."""
        block = self._held.popleft() if self._held else b""
        self._size -= len(block)
        return block

    @property
    def holds(self) -> bool:
        """Whether there is something to read."""
        return bool(self._held)

    @property
    def freed(self) -> bool:
        """Whether a blocked sink has room again."""
        return self.blocked and self._size <= self._capacity


class Pair:
    """The host's end of an in-process session: `send` lines, read `line`s, `close`, then `finish`."""

    def __init__(self, switch: Switch, limits: Limits, capacity: int = CAPACITY) -> None:
        loop = asyncio.get_running_loop()
        self.arrived = asyncio.Event()
        self._switch = switch
        self._limits = limits
        self._loop = loop
        self._reading = True
        self._input: deque[bytes] = deque()
        self._lines: deque[bytes] = deque()
        self._decoder = LineDecoder(limits.frame_bytes)
        self._sink = _MemorySink(self, capacity)
        self.door = Door(switch, limits, self._sink, loop.call_soon, self._pause, self._resume, self.arrived.set)

    def send(self, data: bytes) -> None:
        """Write bytes to the door, as one read of it; empty ends the input. Kept while the door does not read."""
        self._input.append(data)
        self._loop.call_soon(self._move)

    async def line(self) -> bytes:
        """Return the next line, without its newline; empty where the door has ended and nothing is left."""
        while not self._lines:
            if block := self._sink.read():
                self._lines += self._decoder.feed(block)
                if self._sink.freed:
                    self._sink.blocked = False
                    self._loop.call_soon(self.door.drained)
                continue
            over = (self.door.ended or self.door.defect is not None) and self.door.idle and self.door.writer.flush()
            if self._sink.holds:  # the flush has just brought it
                continue
            if over:
                return b""
            self.arrived.clear()
            await self.arrived.wait()
        return self._lines.popleft()

    async def finish(self) -> list[str]:
        """Stop serving and close every session; return what did not close."""
        self.door.stop()
        return await sweep(self._switch)

    def _pause(self) -> None:
        self._reading = False

    def _resume(self) -> None:
        self._reading = True
        self._loop.call_soon(self._move)

    def _move(self) -> None:
        while self._reading and self._input:
            self.door.feed(self._input.popleft())
