"""One harness process: what it writes, what is written to it, how it ends, and the one stop ladder (decision 11).

The exit comes from a pidfd and the end of output from the pipe, and neither waits for the other: a grandchild may hold
the pipe open, and a process may close its output and live on. The status is collected only when the whole family is
gone, so that until then no other process can have its number.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque

from ...adapters.base import Exit
from ...protocol.errors import HarnessFault
from .launch import START_FAILED, spawn
from .pipes import Sink, Source
from .processes import has_groups, kill_family, kill_group
from .redact import Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import Popen
    from typing import Final

    from ...adapters.base import Launch
    from ...protocol.limits import Limits
    from .keeper import Family, Keeper
    from .launch import Spawned
    from .redact import Redactor

KILL_S: Final = 2.0
"""How long KILL is repeated, and then waited for, before what is left counts as outlived."""
LAST_BYTES: Final = 2 << 20
"""What is read at most from a pipe that is closed before its end: more than any pipe holds."""

WRITE_FAILED: Final = "harness_write_failed"
WRITE_STALLED: Final = "harness_write_stalled"
WRITE_OVERFLOW: Final = "harness_write_overflow"


class Child:
    """A started harness. Raises `HarnessFault` when it cannot be started.

    `output(chunk)` gets what it writes to stdout, from the first `resume` on. `ended(exit, fault)` comes once, when
    nothing more will be read: after exit and end of output, or `Limits.harness_drain_s` after the first of the two.
    `fault` is set where its input failed while it ran on. Owed by the owner in every case: `stop`.
    """

    def __init__(
        self,
        launch: Launch,
        limits: Limits,
        redactor: Redactor,
        keeper: Keeper,
        output: Callable[[bytes], None],
        ended: Callable[[Exit, HarnessFault | None], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._keeper = keeper
        self._on_output = output
        self._on_ended = ended
        self.code: int | None = None
        self.stderr = Tail(limits.harness_stderr_bytes, redactor)
        self.outlived: list[str] = []
        self._exit: asyncio.Future[None] = self._loop.create_future()
        self._hurry: asyncio.TimerHandle | None = None
        self._over = False
        self._output_over = False
        self._stopping: asyncio.Task[list[str]] | None = None
        self._released = False
        self._fault: HarnessFault | None = None
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._sent = 0
        self._write_timer: asyncio.TimerHandle | None = None
        self._eof_wanted = False
        self._drained: asyncio.Future[None] | None = None
        self._stdin: Sink | None = None
        self._pidfd = -1
        self.process: Popen[bytes]
        self.pid: int
        self.family: Family
        self._stdout: Source
        self._stderr: Source
        keeper.prepare()
        self._take(spawn(launch))

    def _take(self, spawned: Spawned) -> None:
        """Own a process that was just started; where that fails nobody else would, so it is ended and reaped at once.

        Descriptors or threads may have run out between the two.
        """
        self.process, self.pid = spawned.process, spawned.process.pid
        ends: list[Sink | Source] = []
        try:
            self.family = self._keeper.started(self.process, self.stop, self._loop)
            self._stdin = Sink(self._loop, spawned.stdin, self._write_on, self._write_failed)
            ends.append(self._stdin)
            self._stdout = Source(self._loop, spawned.stdout, self._read, self._read_failed)
            ends.append(self._stdout)
            self._stderr = Source(self._loop, spawned.stderr, self.stderr.add, lambda error: None)
            ends.append(self._stderr)
            self._stderr.resume()
            self._watch()
        except BaseException as error:
            kill_family(self.process)
            for end in ends:
                end.close()
            if self._pidfd >= 0:
                os.close(self._pidfd)
            for fd in (spawned.stdin, spawned.stdout, spawned.stderr)[len(ends) :]:
                os.close(fd)
            self.process.wait()
            self._keeper.forget(self.pid)
            if not isinstance(error, Exception):
                raise
            raise HarnessFault(START_FAILED, f"the harness was started, but cannot be driven: {error}") from error

    # -- output --

    def resume(self) -> None:
        """Read its output on; harmless at any time."""
        if not self._output_over:
            self._stdout.resume()

    def pause(self) -> None:
        """Do not read its output for now. Its exit is noticed all the same, and what it wrote is not lost."""
        self._stdout.pause()

    def give_up(self, now: bool = False) -> None:
        """Come to the end although it may run on: `ended` follows after the drain window, or at once."""
        if now:
            self._conclude(deaf=True)
        else:
            self._hurry_up()

    def _read(self, chunk: bytes) -> None:
        if chunk:
            self._on_output(chunk)
            return
        self._output_over = True
        self._stdout.close()
        if self._exit.done():
            self._conclude()
        else:
            self._hurry_up()

    def _read_failed(self, error: OSError) -> None:
        self._read(b"")

    # -- input --

    def write(self, block: bytes) -> None:
        """Write a block, now or when the ones before it are out. Raises `HarnessFault` when that cannot be.

        At most `Limits.harness_write_bytes` may wait, and `Limits.harness_write_s` without a byte being taken.
        """
        sink = self._stdin
        if sink is None or self._eof_wanted:
            if self._fault is not None and not self._over:
                return  # an earlier write failed: the end that is on its way says why, and nothing counts as delivered
            raise HarnessFault(WRITE_FAILED, "the harness's input is closed")
        waiting = self._queued + sink.pending
        if waiting + len(block) > self._limits.harness_write_bytes:
            raise HarnessFault(
                WRITE_OVERFLOW,
                f"{len(block)} bytes for the harness, while {waiting} wait that it does not read: more than the"
                f" {self._limits.harness_write_bytes} bytes allowed",
            )
        if sink.blocked:
            self._queue.append(block)
            self._queued += len(block)
        elif not sink.send(block) and self._stdin is not None:
            self._await_progress()

    def end_input(self) -> None:
        """Close its input, after what is still to be written. Idempotent."""
        self._eof_wanted = True
        if self._stdin is not None and not self._stdin.blocked:
            self._close_input()

    def _write_on(self) -> None:
        self._sent += 1
        while self._queue and self._stdin is not None and not self._stdin.blocked:
            block = self._queue.popleft()
            self._queued -= len(block)
            if self._stdin.send(block):
                self._sent += 1
        if self._stdin is None or self._stdin.blocked:
            return
        self._forget_writes()
        if self._eof_wanted:
            self._close_input()

    def _write_failed(self, error: OSError) -> None:
        """Its input is gone. If it is ending, its exit says why; if it runs on, this is the reason."""
        what = error.strerror or str(error)
        self._fault = HarnessFault(WRITE_FAILED, f"the harness reads its input no more: {what}")
        self._close_input()
        self._hurry_up()

    def _await_progress(self) -> None:
        if self._write_timer is None and self._stdin is not None:
            mark = (self._sent, self._stdin.pending)
            self._write_timer = self._loop.call_later(self._limits.harness_write_s, self._judge_progress, mark)

    def _judge_progress(self, mark: tuple[int, int]) -> None:
        self._write_timer = None
        if self._stdin is None:
            return
        if (self._sent, self._stdin.pending) != mark:
            self._await_progress()
            return
        waiting = self._queued + self._stdin.pending
        self._fault = HarnessFault(
            WRITE_STALLED,
            f"the harness took no input for {self._limits.harness_write_s:g} s; {waiting} bytes wait",
        )
        self._close_input()
        self._conclude()

    def _close_input(self) -> None:
        self._forget_writes()
        if self._stdin is not None:
            sink, self._stdin = self._stdin, None
            sink.close()

    def _forget_writes(self) -> None:
        self._queue.clear()
        self._queued = 0
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- the end --

    def _watch(self) -> None:
        """Learn of the exit, by pidfd or, where there is none, by a daemon thread that waits."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            import threading

            threading.Thread(target=self._wait_in_thread, name=f"trunkline-wait-{self.pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._exited)

    def _wait_in_thread(self) -> None:
        code = wait_unreaped(self.process, block=True) if hasattr(os, "waitid") else self.process.wait()
        try:
            self._loop.call_soon_threadsafe(self._left, code)
        except RuntimeError:  # the loop is closed: the program is ending
            return

    def _exited(self) -> None:
        code = wait_unreaped(self.process, block=False)
        if code is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._left(code)

    def _left(self, code: int | None) -> None:
        self.code = code
        self._exit.set_result(None)
        if self._released:
            self._reap()
        elif self._output_over:
            self._conclude()
        else:
            self._hurry_up()

    def _hurry_up(self) -> None:
        if self._hurry is None and not self._over:
            self._hurry = self._loop.call_later(self._limits.harness_drain_s, self._conclude)

    def _conclude(self, deaf: bool = False) -> None:
        """Read what is already in the pipes, close the output, and say that it is over; once."""
        if self._over:
            return
        self._over = True
        if self._hurry is not None:
            self._hurry.cancel()
        if not self._output_over:
            if not deaf:
                self._stdout.drain(LAST_BYTES)
            self._output_over = True
            self._stdout.close()
        self._stderr.drain(LAST_BYTES)
        fault = self._fault if self.code is None else None
        self._on_ended(Exit(self.code, self.stderr.text()), fault)

    def stop(self) -> asyncio.Future[list[str]]:
        """Run the stop ladder, once: end its input, wait, TERM, wait, KILL until none is left, reap. Idempotent.

        Each wait is at most `Limits.harness_stop_s`. The result names what outlived it. Do not cancel it.
        """
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._ladder(), name=f"trunkline-stop-{self.pid}")
        return self._stopping

    async def _ladder(self) -> list[str]:
        grace = self._limits.harness_stop_s
        try:
            if not self._exit.done():
                self._keeper.look(self.family)
                await self._flush(grace)
                self._close_input()
                if not await self._gone(grace):
                    self._keeper.look(self.family)
                    self._terminate()
                    await self._gone(grace)
            self._close_input()
            self.outlived = await self._keeper.clear(self.family, KILL_S)
            await self._gone(KILL_S)
        finally:
            self._conclude()
            self._release()
        for text in self.outlived:
            import logging

            logging.getLogger("trunkline").warning("%s", text)
        return self.outlived

    async def _flush(self, grace: float) -> None:
        """Let a last word out that the harness has not taken yet."""
        if self._stdin is not None and self._stdin.blocked:
            self._drained = self._loop.create_future()
            await asyncio.wait({self._drained}, timeout=grace)

    async def _gone(self, grace: float) -> bool:
        if not self._exit.done():
            await asyncio.wait({self._exit}, timeout=grace)
        return self._exit.done()

    def _terminate(self) -> None:
        if has_groups():
            kill_group(self.pid, signal.SIGTERM)
        else:
            self.process.terminate()

    def _release(self) -> None:
        self._released = True
        self._close_input()
        self._stderr.close()
        if self._exit.done():
            self._reap()

    def _reap(self) -> None:
        if self.process.wait() is not None:
            self._keeper.forget(self.pid)


def wait_unreaped(process: Popen[bytes], block: bool) -> int | None:
    """Return a child's exit code (negative: the signal) and leave it a zombie; None while it runs (`block` False).

    Where it has been reaped already the code is the one that was collected then, or 0 if it was not by us.
    """
    flags = os.WEXITED | os.WNOWAIT | (0 if block else os.WNOHANG)
    try:
        found = os.waitid(os.P_PID, process.pid, flags)
    except ChildProcessError:
        return process.returncode or 0
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
