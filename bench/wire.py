"""A raw client for benches: spawn a process, write prepared lines, count what comes back; as cheap as Python can be.

The client checks sizes and counts while the clock runs and content afterwards, so that what is measured is the server.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
GATEWAY: Final = (sys.executable, "-m", "trunkline.gateway", "serve", "--stdio")
FLOOR: Final = (sys.executable, str(ROOT / "bench" / "floor.py"))
PIPE_BYTES: Final = 1 << 20
DEADLINE_S: Final = 120.0
"""A server that lives longer is killed, so that a read of it cannot wait for ever."""


IDLE_S: Final = 1.0
"""So long nothing: then nothing more comes."""


class BenchError(Exception):
    """A bench could not run, or what it timed was wrong."""


class Process:
    """One server over pipes. `core` pins it to one core; its client runs there too inside `pinned`.

    Reading past the end of its output raises `BenchError`, also where the deadline has killed it.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        core: int | None = 0,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.command = command
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, **(environment or {})},
        )
        self._timer = threading.Timer(deadline_s, self.process.kill)
        self._timer.daemon = True
        self._timer.start()
        if core is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self.process.pid, {core})
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        self._buffer = bytearray(PIPE_BYTES)
        for fd in (self.stdin, self.stdout):
            _enlarge(fd)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def write(self, data: bytes) -> None:
        """Write all of it; the server must read on while it answers, or have room for the answers in its pipe."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.stdin, view) :]

    def read_lines(self, count: int) -> int:
        """Read until `count` newlines have come; return the bytes that were read. More lines than that are an error."""
        buffer, stdout = self._buffer, self.stdout
        size = 0
        while count > 0:
            got = os.readv(stdout, [buffer])
            if not got:
                raise BenchError(f"{' '.join(self.command)} ended, {count} lines short")
            size += got
            count -= buffer.count(b"\n", 0, got)
        if count:
            raise BenchError(f"{-count} lines more than asked for")
        return size

    def read_at_least(self, count: int) -> int:
        """Read until so many lines have come; return how many did."""
        lines = 0
        while lines < count:
            got = os.readv(self.stdout, [self._buffer])
            if not got:
                raise BenchError(f"{' '.join(self.command)} ended after {lines} lines")
            lines += self._buffer.count(b"\n", 0, got)
        return lines

    def read_until_idle(self, count: int, mark: bytes) -> tuple[int, int, int]:
        """Read until `count` lines have come, or none for `IDLE_S`; return lines, bytes and how often a mark came.

        A mark across two chunks is not counted.
        """
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        buffer, stdout = self._buffer, self.stdout
        lines = size = marks = 0
        while lines < count and poll.poll(IDLE_S * 1000):
            got = os.readv(stdout, [buffer])
            if not got:
                raise BenchError(f"{' '.join(self.command)} ended after {lines} lines")
            size += got
            lines += buffer.count(b"\n", 0, got)
            marks += buffer.count(mark, 0, got)
        return lines, size, marks

    def collect(self, count: int) -> list[bytes]:
        """Read exactly `count` lines and return them."""
        data = b""
        while data.count(b"\n") < count:
            chunk = os.read(self.stdout, PIPE_BYTES)
            if not chunk:
                raise BenchError(f"{' '.join(self.command)} ended")
            data += chunk
        return data.splitlines()

    def ask(self, line: bytes) -> bytes:
        """Send one line, return its answer."""
        self.write(line)
        (answer,) = self.collect(1)
        return answer

    def cpu_s(self) -> float:
        """Return the CPU seconds that the server used so far, to the microsecond on Linux."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        try:
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
        except OSError:
            return 0.0

    def rss_bytes(self) -> int:
        """Return the server's resident memory; 0 where the system does not say."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> int:
        """Close its input, wait for its end and return the exit code. Idempotent."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            return self.process.wait(timeout=30)
        finally:
            self.process.kill()
            self._timer.cancel()


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep this process on one core for a while, together with the servers that it starts there."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Watch:
    """What a stretch of work took: `wall_s`, `server_s` (its CPU) and `busy_s` (server and client on their core).

    On a core that nobody else uses the two ends of a pipe take turns and `busy_s` is the wall clock, as far as neither
    waits for a timer. On a shared machine the wall clock counts the neighbours too, so that rates are made of `busy_s`.
    """

    def __init__(self, server: Process) -> None:
        self._server = server

    def __enter__(self) -> Watch:
        self._before = self._server.cpu_s()
        self._mine = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self._start
        mine = time.process_time() - self._mine
        self.server_s = self._server.cpu_s() - self._before
        self.busy_s = mine + self.server_s if self.server_s else self.wall_s


def beside(ours: Sequence[Watch], floor: Sequence[Watch]) -> str:
    """Return the two ratios that are not judged: by the server's CPU alone, and by the wall clock."""
    by_cpu = statistics.median(b.server_s / a.server_s if a.server_s else 0 for a, b in zip(ours, floor, strict=True))
    by_wall = statistics.median(b.wall_s / a.wall_s for a, b in zip(ours, floor, strict=True))
    return f"server CPU {by_cpu:.2f}x, wall {by_wall:.2f}x"


def pipelined(server: Process, blocks: Sequence[bytes], counts: Sequence[int]) -> int:
    """Send blocks of lines, each once the lines due for the one before have come; return the bytes that came."""
    size = 0
    for block, count in zip(blocks, counts, strict=True):
        server.write(block)
        size += server.read_lines(count)
    return size


def sequential(server: Process, lines: Sequence[bytes]) -> list[float]:
    """Send one line at a time; return the seconds of each, sorted."""
    times = []
    clock = time.perf_counter
    for line in lines:
        start = clock()
        server.write(line)
        server.read_lines(1)
        times.append(clock() - start)
    return sorted(times)


def _enlarge(fd: int) -> None:
    """Ask for a larger pipe where the system has that."""
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        pass
