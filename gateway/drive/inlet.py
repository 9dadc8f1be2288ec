"""What a harness writes, on its way to the codec: lines, at most so many a turn, held back while hosts cannot keep up.

The sink gate of decision 26: while a subscriber's sink is blocked, frames are neither applied nor read for at most
`Limits.stall_s` a stall and `Limits.stall_run_s` a run in all. After that the mailbox bound decides (overflow).
"""

from __future__ import annotations

from collections import deque

from ...framing import FrameTooLarge, LineDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle
    from collections.abc import Callable, Sequence
    from typing import Final

    from ...adapters.base import Exit
    from ...protocol.limits import Limits
    from ..hub.ports import Outlet
    from .child import Child

POLL_S: Final = 0.001
"""How often a stall looks whether a sink has drained: a sink says only that a subscription has moved."""


class Inlet:
    """Between `Child` and codec. `apply(frames)` gets one turn's frames, `finish(exit)` comes after the last of them.

    At most one read is held beyond the decoder's unfinished line, because the child is paused while frames wait.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        limits: Limits,
        outlet: Outlet,
        apply: Callable[[Sequence[bytes]], None],
        too_long: Callable[[int, int], None],
        finish: Callable[[Exit], None],
    ) -> None:
        self._loop = loop
        self._outlet = outlet
        self._limits = limits
        self._apply = apply
        self._on_too_long = too_long
        self._on_finish = finish
        self._decoder = LineDecoder(limits.harness_frame_bytes)
        self._tail = 0  # bytes since the last LF, for the size that a too long line is reported with
        self._frames: deque[bytes] = deque()
        self._oversize: int | None = None
        self._how: Exit | None = None
        self._dropped = False
        self._turn: Handle | None = None
        self._stall_began: float | None = None
        self._stalled_s = 0.0
        self._child: Child

    def attach(self, child: Child) -> None:
        """Say whose output this is; before anything else."""
        self._child = child

    def resume(self) -> None:
        """Start reading."""
        self._child.resume()

    def new_run(self) -> None:
        """A run begins: it has the whole grace of a run."""
        self._stalled_s = 0.0

    def drop(self) -> None:
        """Forget what waits and take no more: the session has failed."""
        self._dropped = True
        self._frames.clear()

    def feed(self, chunk: bytes) -> None:
        """Take what the harness wrote, and apply a first turn's worth of it now."""
        if self._dropped or self._oversize is not None:
            return
        try:
            self._frames += self._decoder.feed(chunk)
        except FrameTooLarge as fault:
            self._frames += fault.frames
            self._oversize = self._size_of_too_long(chunk)
        else:
            cut = chunk.rfind(b"\n")
            self._tail = self._tail + len(chunk) if cut < 0 else len(chunk) - cut - 1
        if self._turn is None and self._stall_began is None:
            self._advance()

    def end(self, how: Exit) -> None:
        """Nothing more will come."""
        if not self._dropped and self._oversize is None and (rest := self._decoder.eof()):
            self._take_rest(rest)
        self._how = how
        if self._turn is None and self._stall_began is None:
            self._turn = self._loop.call_soon(self._advance)

    def _take_rest(self, rest: bytes) -> None:
        """A last line without its LF counts if it is whole; else the harness was cut off, and its exit says more."""
        from ...protocol.json import loads

        try:
            loads(rest)
        except ValueError:
            return
        self._frames.append(rest)

    def _size_of_too_long(self, chunk: bytes) -> int:
        for part in chunk.split(b"\n"):
            self._tail += len(part)
            if self._tail > self._decoder.limit:
                break
            self._tail = 0
        return self._tail

    # -- turns --

    def _advance(self, forced: bool = False) -> None:
        """Apply one turn's frames; then read on, come again, or finish."""
        self._turn = None
        if self._frames:
            if not forced and self._must_wait():
                return
            self._apply(self._batch())
            if self._is_due():  # the session failed meanwhile, and the end is on its way
                return
        if self._frames:
            self._child.pause()
            self._turn = self._loop.call_soon(self._advance)
        elif self._oversize is not None and not self._dropped:
            self._on_too_long(self._decoder.limit, self._oversize)
        elif self._how is not None:
            how, self._how = self._how, None
            self._on_finish(how)
        elif not self._dropped:
            self._child.resume()

    def _is_due(self) -> bool:
        return self._turn is not None

    def _batch(self) -> list[bytes]:
        frames = self._frames
        if len(frames) > self._limits.frames_per_turn:
            return [frames.popleft() for _ in range(self._limits.frames_per_turn)]
        batch = list(frames)
        frames.clear()
        return batch

    # -- the sink gate --

    def _must_wait(self) -> bool:
        """Begin a stall; False where nothing is congested or the grace is used up."""
        if not self._outlet.congested:
            return False
        left = min(self._limits.stall_s, self._limits.stall_run_s - self._stalled_s)
        if left <= 0:
            return False
        self._child.pause()
        self._stall_began = began = self._loop.time()
        self._watch(began)
        self._turn = self._loop.call_later(min(POLL_S, left), self._look, began, left)
        return True

    def _look(self, began: float, left: float) -> None:
        """Whether the stall is over: its time, or the congestion, of whose end nobody need tell."""
        spent = self._loop.time() - began
        if spent >= left or not self._outlet.congested:
            self._go_on(began)
        else:
            self._turn = self._loop.call_later(min(POLL_S, left - spent), self._look, began, left)

    def _watch(self, began: float) -> None:
        def progressed() -> None:
            if self._stall_began == began:  # later: a subscription says so in the midst of its own work
                self._loop.call_soon(moved)

        def moved() -> None:
            if self._stall_began != began:
                return
            if self._outlet.congested:
                self._watch(began)
            else:
                self._go_on(began)

        self._outlet.on_progress(progressed)

    def _go_on(self, began: float) -> None:
        """End a stall."""
        if self._turn is not None:
            self._turn.cancel()
        self._stall_began = None
        self._stalled_s += self._loop.time() - began
        self._advance(forced=True)
