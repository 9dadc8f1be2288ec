"""Descriptor ends of the loop: `Source` reads one, `Sink` writes one. No transports, and no threads on POSIX.

A loop's pipe transports abort the process on regular files and leave terminals non-blocking; `add_reader` with
`os.read` and `os.write` serves pipes, sockets, terminals, regular files and /dev/null alike, at the same speed. Both
ends own their descriptor and close it. The protocol's own descriptors come from `stdio_fds.take_stdio`.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle
    from collections.abc import Callable
    from typing import Final

CHUNK: Final = 1 << 16
"""Bytes of one read: the capacity of an ordinary pipe."""


class _Shared:
    """One open file that was blocking when an end of ours took it: how many ends use it, and the descriptors."""

    __slots__ = ("descriptors", "ends")

    def __init__(self) -> None:
        self.ends = 0
        self.descriptors: list[int] = []


_shared: Final[dict[tuple[int, int, int], _Shared]] = {}
"""By device, inode and, for a pipe, descriptor.

O_NONBLOCK belongs to the open file description, which a terminal or a socket shares with other processes, and on which
two of our ends may sit (one socket as 0 and 1): the first to close must not block the other. The two ends of a pipe
have one inode and a description each.
"""


def _take(fd: int) -> tuple[int, int, int] | None:
    """Make a descriptor non-blocking; the result is handed to `_release`."""
    status = os.fstat(fd)
    if os.name != "posix" or stat.S_ISREG(status.st_mode):
        return None
    key = (status.st_dev, status.st_ino, fd if stat.S_ISFIFO(status.st_mode) else -1)
    if os.get_blocking(fd):
        _shared.setdefault(key, _Shared())
        os.set_blocking(fd, False)
    if key not in _shared:
        return None
    _shared[key].ends += 1
    return key


def _release(fd: int, key: tuple[int, int, int] | None) -> None:
    """Close a descriptor and restore its mode, both when the last end on its file is done."""
    if key is None:
        os.close(fd)
        return
    shared = _shared[key]
    shared.ends -= 1
    shared.descriptors.append(fd)
    if shared.ends:
        return
    del _shared[key]
    for descriptor in shared.descriptors:
        os.set_blocking(descriptor, True)
        os.close(descriptor)


class Source:
    """Reads a descriptor while resumed; starts paused.

    `data(chunk)` gets up to `CHUNK` bytes at a time; `data(b"")` is the end, after which the source is paused. EIO on a
    terminal (it was hung up) counts as the end. `failed(error)` gets any other error; the source is paused then too.
    At most one chunk is read a loop turn. `close()` is due from the owner in every case.
    """

    __slots__ = ("_data", "_failed", "_fd", "_loop", "_mode", "_on", "_polled", "_reader", "_terminal", "_turning")

    def __init__(
        self,
        loop: AbstractEventLoop,
        fd: int,
        data: Callable[[bytes], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._data = data
        self._failed = failed
        self._terminal = os.isatty(fd)
        self._mode = _take(fd)
        self._on = False
        self._polled = True
        self._turning: Handle | None = None
        self._reader: _ThreadReader | None = None

    def resume(self) -> None:
        """Read on, from the next loop turn. Idempotent; nothing after `close`."""
        if self._on or self._fd < 0:
            return
        self._on = True
        if self._polled:
            try:
                self._loop.add_reader(self._fd, self._ready)
                return
            except PermissionError:  # a regular file or /dev/null: always ready, and epoll refuses it
                self._polled = False
            except NotImplementedError:  # the Windows loop polls sockets only
                self._polled = False
                self._reader = _ThreadReader(self._loop, self._fd, self._arrived)
        self._turn_soon()

    def pause(self) -> None:
        """Read no more until `resume`. Idempotent."""
        if not self._on:
            return
        self._on = False
        if self._polled:
            self._loop.remove_reader(self._fd)
        elif self._turning is not None:
            self._turning.cancel()
            self._turning = None

    def drain(self, most: int) -> None:
        """Deliver now what is already there, at most about `most` bytes, paused or not; the end too if it is there.

        For a descriptor that is to be closed although its end has not come. Does not wait; does nothing on Windows.
        """
        if os.name != "posix" or self._fd < 0 or os.get_blocking(self._fd):
            return
        while most > 0 and self._fd >= 0:
            try:
                chunk = os.read(self._fd, CHUNK)
            except OSError:  # mostly that nothing is there
                return
            most -= len(chunk)
            self._deliver(chunk)
            if not chunk:
                return

    def close(self) -> None:
        """Pause for good and close the descriptor, its blocking mode restored where others share it. Idempotent."""
        if self._fd >= 0:
            self.pause()
            fd, self._fd = self._fd, -1
            if self._reader is None:
                _release(fd, self._mode)
            else:
                self._reader.close()

    def _turn_soon(self) -> None:
        if self._reader is not None:
            self._reader.ask()
        else:
            self._turning = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turning = None
        self._ready()
        if self._on and self._turning is None:
            self._turn_soon()

    def _ready(self) -> None:
        try:
            chunk = os.read(self._fd, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        self._deliver(chunk)

    def _arrived(self, outcome: bytes | OSError) -> bool:
        """Take what the thread read; False leaves it with the thread until the next resume."""
        if not self._on:
            return False
        if isinstance(outcome, OSError):
            self._broken(outcome)
        else:
            self._deliver(outcome)
            if self._on:
                self._turn_soon()
        return True

    def _broken(self, error: OSError) -> None:
        if self._terminal and error.errno == errno.EIO:
            self._deliver(b"")
            return
        self.pause()
        self._failed(error)

    def _deliver(self, chunk: bytes) -> None:
        if not chunk:
            self.pause()
        self._data(chunk)


class _ThreadReader:
    """Reads on a daemon thread, one chunk an `ask`, where the loop cannot poll the descriptor (Windows).

    Closing under a read is undefined, so the thread closes the descriptor itself: at once where it waits to be asked,
    else when its read returns, which the end of the writers makes it do. The host's own input may outlast that.
    """

    __slots__ = ("_arrived", "_asked", "_fd", "_held", "_loop", "_over", "_waiting")

    def __init__(self, loop: AbstractEventLoop, fd: int, arrived: Callable[[bytes | OSError], bool]) -> None:
        import threading

        self._loop = loop
        self._fd = fd
        self._arrived = arrived
        self._asked = threading.Semaphore(0)
        self._held: bytes | OSError | None = None
        self._waiting = False
        self._over = False
        threading.Thread(target=self._run, name="trunkline-read", daemon=True).start()

    def ask(self) -> None:
        """Want one chunk; one that arrived during a pause comes first. Called on the loop's thread."""
        if self._held is not None:
            self._loop.call_soon(self._hand)
        elif not self._waiting:
            self._waiting = True
            self._asked.release()

    def close(self) -> None:
        """Read no more; the thread and the descriptor go as soon as they can."""
        self._over = True
        self._asked.release()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if self._over:
                break
            try:
                outcome: bytes | OSError = os.read(self._fd, CHUNK)
            except OSError as error:
                outcome = error
            try:
                self._loop.call_soon_threadsafe(self._came, outcome)
            except RuntimeError:  # the loop is closed
                break
        os.close(self._fd)

    def _came(self, outcome: bytes | OSError) -> None:
        self._waiting = False
        self._held = outcome
        self._hand()

    def _hand(self) -> None:
        if (held := self._held) is not None:
            self._held = None
            if not self._arrived(held):
                self._held = held


class Sink:
    """Writes a descriptor, one block at a time, without a second buffer.

    `drained()` follows when a block of which `send` could write a part only is out. `failed(error)` gets the error of a
    write, once; from then on the sink is blocked for good and sends nothing. A closed peer is `BrokenPipeError`.
    """

    __slots__ = ("_drained", "_failed", "_fd", "_loop", "_mode", "_polled", "_rest", "_turning", "blocked")

    def __init__(
        self,
        loop: AbstractEventLoop,
        fd: int,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._drained = drained
        self._failed = failed
        self._mode = _take(fd)
        self._polled = False
        self._rest = memoryview(b"")
        self._turning: Handle | None = None
        self.blocked = False
        """Whether `send` must wait for `drained` (or will never be possible again: failed, closed)."""

    @property
    def pending(self) -> int:
        """Bytes of the last block that are not written yet."""
        return len(self._rest)

    def send(self, block: bytes | memoryview) -> bool:
        """Write a block now. False: the rest is kept and `drained` or `failed` will be called (or was, for `failed`).

        Whole lines stay whole: what is left of a block is written before any other. Raises `RuntimeError` when called
        while `blocked`.
        """
        if self.blocked:
            raise RuntimeError("the sink is blocked: wait for drained()")
        sent = self._write(block)
        if sent == len(block):
            return True
        if sent >= 0:
            self.blocked = True
            self._rest = memoryview(block)[sent:]
            self._wait()
        return False

    def close(self) -> None:
        """Close the descriptor, its blocking mode restored where others share it; unwritten bytes are dropped."""
        if self._fd >= 0:
            self._quiet()
            fd, self._fd = self._fd, -1
            _release(fd, self._mode)

    def _write(self, block: bytes | memoryview) -> int:
        try:
            return os.write(self._fd, block)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._quiet()
            self._failed(error)
            return -1

    def _wait(self) -> None:
        try:
            self._loop.add_writer(self._fd, self._ready)
            self._polled = True
        except (PermissionError, NotImplementedError):  # always ready, or a loop that cannot poll: try again next turn
            self._turning = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turning = None
        self._ready()
        if self._rest and self._turning is None:
            self._turning = self._loop.call_soon(self._turn)

    def _ready(self) -> None:
        sent = self._write(self._rest)
        if sent < 0:
            return
        self._rest = self._rest[sent:]
        if not self._rest:
            self._forget()
            self.blocked = False
            self._drained()

    def _quiet(self) -> None:
        self._forget()
        self.blocked = True
        self._rest = memoryview(b"")

    def _forget(self) -> None:
        if self._polled:
            self._polled = False
            self._loop.remove_writer(self._fd)
        if self._turning is not None:
            self._turning.cancel()
            self._turning = None
