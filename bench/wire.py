"""A raw client for benches: spawn a process, write prepared lines, count what comes back. The cheapest that Python can be."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Sequence


class Process:
    """One server over pipes, pinned with its client to one core where asked. `cpu()` is what the server used so far."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None, core: int | None = 0) -> None:
        pin = None
        if core is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {core})
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, **(environment or {})},
            preexec_fn=pin,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        try:
            import fcntl

            fcntl.fcntl(self.stdin, fcntl.F_SETPIPE_SZ, 1 << 20)
            fcntl.fcntl(self.stdout, fcntl.F_SETPIPE_SZ, 1 << 20)
        except (ImportError, AttributeError, OSError):
            pass

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.stdin, view) :]

    def read_lines(self, count: int) -> bytes:
        """Read until `count` newlines have come; return the last chunk."""
        chunk = b""
        while count > 0:
            chunk = os.read(self.stdout, 1 << 20)
            if not chunk:
                raise SystemExit(f"the server ended, {count} lines short")
            count -= chunk.count(b"\n")
        return chunk

    def collect(self, count: int) -> list[bytes]:
        """Read exactly `count` lines and return them."""
        data = b""
        while data.count(b"\n") < count:
            chunk = os.read(self.stdout, 1 << 20)
            if not chunk:
                raise SystemExit("the server ended")
            data += chunk
        return data.splitlines()

    def cpu(self) -> float:
        """Return the server's CPU seconds so far (user and system)."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_kib(self) -> int:
        """Return the server's resident memory in KiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code


def pipelined(server: Process, lines: Sequence[bytes], depth: int) -> float:
    """Send blocks of `depth` lines, each block once the one before is answered; return seconds."""
    blocks = [b"".join(lines[start : start + depth]) for start in range(0, len(lines), depth)]
    counts = [len(lines[start : start + depth]) for start in range(0, len(lines), depth)]
    start = time.perf_counter()
    for block, count in zip(blocks, counts, strict=True):
        server.write(block)
        server.read_lines(count)
    return time.perf_counter() - start


def sequential(server: Process, lines: Sequence[bytes]) -> list[float]:
    """Send one line at a time; return the seconds of each, sorted."""
    times = []
    for line in lines:
        start = time.perf_counter()
        server.write(line)
        server.read_lines(1)
        times.append(time.perf_counter() - start)
    return sorted(times)


def children_cpu() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
