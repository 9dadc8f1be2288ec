"""A sink and a loop turn made by hand, for parts of the door that know neither descriptor nor loop."""

from __future__ import annotations

from collections.abc import Callable


class Pipe:
    """A sink that takes so many bytes, then keeps the rest of one block and is blocked until `drain`."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.blocks: list[bytes] = []
        self.blocked = False
        self.pending = 0
        self.taken = 0

    def send(self, block: bytes) -> bool:
        assert not self.blocked, "the writer must not send to a blocked sink"
        self.blocks.append(block)
        self.taken += len(block)
        self.blocked = self.taken > self.room
        return not self.blocked

    def drain(self) -> None:
        self.taken = 0
        self.blocked = False


class Turn:
    """What is to be called later in this turn of the loop."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def end(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()
