"""`serve --stdio` on the process's own descriptors: the only part of the stdio door that knows a loop.

It runs until one of the triggers of spec stdio 10, then goes through the shutdown stages, each within its window, and
sweeps the sessions on every path. The result is what the exit needs: nothing, or the texts of what went wrong.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from time import monotonic

from ...protocol import names
from ...protocol.validate import warm
from ..drive.pipes import Sink, Source
from ..shutdown import SIGNALS
from ..sweep import sweep
from .door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from ...protocol.limits import Limits
    from ..hub.switch import Switch
    from .prelude import Prelude

WARM_S: Final = 0.25
"""Seconds after the first session's opening at which the compiled validators are loaded: answers come first."""
TURNS: Final = 3
"""Loop turns after the sweep in which the ops that it ended get their answers."""
SHOWN: Final = 8
"""Sessions that did not close which the diagnostic names; of more it gives the count."""


class Server:
    """One stdio session from the first byte to the sweep. `early` holds signals that came before the loop."""

    def __init__(self, switch: Switch, limits: Limits, reader: int, writer: int, early: Sequence[int] = ()) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._switch = switch
        self._changed = asyncio.Event()
        self._early = early
        self._signals: list[int] = []
        self._failure: str | None = None
        self._cut = False
        self.sink = Sink(self._loop, writer, partial(self._guard, self._drained), self._write_failed)
        self.source = Source(self._loop, reader, partial(self._guard, self._data), self._read_failed)
        self.door = Door(
            switch, limits, self.sink, self._soon, self.source.pause, self.source.resume, self._changed.set
        )
        self.troubles: list[str] = []
        self._cold = True

    async def run(self, before: Prelude | None = None) -> list[str]:
        """Serve until the end and return its troubles. `before` is what was done before the loop existed."""
        for number in SIGNALS:
            self._handle(number)
        self._signals += self._early  # looked at now, when no other signal can go there any more
        try:
            self.source.resume()  # first: what is taken over may make the door pause it
            if before is not None:
                self._take_over(before)
            await self._until(self._over)
            self.source.pause()
            await self._finish_lines()
        finally:
            self.door.stop()
            await self._sweep()
        return self.troubles

    def _take_over(self, before: Prelude) -> None:
        self.door.count = before.count
        if before.output:
            self.door.writer.send(before.output)
        if before.input:
            self.door.feed(before.input)
        if before.ended:
            self.door.feed(b"")

    # -- triggers ----------------------------------------------------------------------------------------------------

    def _handle(self, number: signal.Signals) -> None:
        def received() -> None:
            self._signals.append(number)
            self._changed.set()

        try:
            self._loop.add_signal_handler(number, received)
        except NotImplementedError:  # the Windows loop has no signal handlers: Ctrl-C interrupts the run
            signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(received))

    def _over(self) -> bool:
        door = self.door
        return bool(self._signals or self._failure or door.defect or door.ended)

    def _guard(self, call: Callable[..., None], *arguments: bytes) -> None:
        """Run a part of the door. A fault of ours in it ends the session: in the loop's hands a host would wait on."""
        try:
            call(*arguments)
        except Exception as error:
            self._fail(f"the gateway failed: {type(error).__name__}: {error}")

    def _soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(self._guard, call)

    def _data(self, chunk: bytes) -> None:
        self.door.feed(chunk)
        if self._cold and self._switch.table:
            self._cold = False
            self._loop.call_later(WARM_S, warm, (names.SUBMIT, names.RESOLVE_PERMISSION, names.RESOLVE_INPUT))

    def _drained(self) -> None:
        self.door.drained()
        self._changed.set()

    def _read_failed(self, error: OSError) -> None:
        self._fail(f"the input could not be read: {error.strerror or error}")

    def _write_failed(self, error: OSError) -> None:
        self._fail(f"the output could not be written: {error.strerror or error}")

    def _fail(self, text: str) -> None:
        self._failure = self._failure or text
        self._changed.set()

    # -- stages ------------------------------------------------------------------------------------------------------

    async def _finish_lines(self) -> None:
        """Stages 1 to 4: serve what was read, let admitted ops answer, write what is queued."""
        door = self.door
        if self._failure is None:
            if door.defect is None:
                await self._stage("requests were still waiting", lambda: door.unserved == door.admission.held)
            door.stop()
            await self._stage("operations did not finish", lambda: door.idle)
            await self._stage("the host does not read its output", lambda: door.writer.flush())
        if door.defect is not None:
            self.troubles.append(door.defect)
        if self._failure is not None:
            self.troubles.append(self._failure)

    async def _stage(self, stuck: str, done: Callable[[], bool]) -> None:
        """Give one stage its window; a second signal or a failure of the pipe ends it, and all that follow, at once."""
        if self._cut:
            return
        await self._until(lambda: done() or self._failure is not None or len(self._signals) > 1, self._limits.window_s)
        if self._failure is None and not done():
            self._cut = len(self._signals) > 1
            self.troubles.append(f"shutdown {'cut short by a second signal' if self._cut else 'stalled'}: {stuck}")

    async def _until(self, done: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something is so, or for some seconds; tell whether it is."""
        deadline = None if seconds is None else monotonic() + seconds
        while not done():
            self._changed.clear()
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return done()
        return True

    async def _sweep(self) -> None:
        troubles = await sweep(self._switch)
        if troubles:
            more = f"; and {len(troubles) - SHOWN} more" if len(troubles) > SHOWN else ""
            self.troubles.append(f"sessions did not close: {'; '.join(troubles[:SHOWN])}{more}")
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._count_dropped()
        self.source.close()
        self.sink.close()

    def _count_dropped(self) -> None:
        """Say how many requests have no answer: last, because the sweep still gives some (an open that it ends)."""
        door = self.door
        if self._failure is None:
            door.move_on()
        if (count := door.unserved + door.writer.unwritten) > 0:
            self.troubles.append(f"{count} requests were dropped unserved; they may be sent again")


def banner(adapters: Sequence[str], loop: str) -> str:
    """Return the lines that say what runs: version, twin in use, loop, adapters (decision 24)."""
    from ...framing import IMPLEMENTATION
    from ..version import VERSION

    what = f"{IMPLEMENTATION}, {loop}, pid {os.getpid()}"
    return f"trunkline {VERSION} ({what}): serving stdio; adapters: {', '.join(adapters) or 'none'}\n"
