"""Real processes in tests: who is there, waiting for what is to become true, loops of both kinds, scripts to run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

WAIT_S = 20.0
"""How long a test waits before it fails; no test asserts a time by it."""

PYTHON = (sys.executable, "-I", "-S")
"""An interpreter that starts fast and reads nothing of the environment."""


def loops() -> list[str]:
    """Return the names of the loops that are there."""
    try:
        import uvloop  # noqa: F401  # only whether it is there
    except ImportError:
        return ["asyncio"]
    return ["asyncio", "uvloop"]


def run(loop: str, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a fresh loop of that kind; fails after `WAIT_S`."""
    factory = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop

    async def bounded() -> T:
        async with asyncio.timeout(WAIT_S):
            return await main

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(bounded())


async def until(true: Callable[[], bool], what: str = "it") -> None:
    """Wait on the loop until something is true. Raises `AssertionError` after `WAIT_S`."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, f"{what} never came true"
        await asyncio.sleep(0.005)


def until_sync(true: Callable[[], bool], what: str = "it") -> None:
    """Wait without a loop until something is true. Raises `AssertionError` after `WAIT_S`."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, f"{what} never came true"
        time.sleep(0.005)


def running(*marks: str) -> dict[int, str]:
    """Return the processes whose command line holds one of the marks: pid and command line; zombies count too."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if any(mark in line for mark in marks) and int(folder.name) != os.getpid():
                found[int(folder.name)] = line
    return found


def alive(pid: int) -> bool:
    """Whether a process is there and not just waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b") ")[2][:1] not in b"ZX"


def zombies_of(pid: int) -> list[int]:
    """Return the children of a process that wait to be reaped."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_bytes().rpartition(b") ")[2].split()
            if fields[0] in (b"Z", b"X") and int(fields[1]) == pid:
                found.append(int(folder.name))
    return found


def assert_gone(mark: str) -> None:
    """No process that carries the mark in its command line is left; what is left is killed, and the test fails."""
    with contextlib.suppress(AssertionError):
        until_sync(lambda: not running(mark), "their end")
    left = running(mark)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"processes are left: {left}"


@contextlib.contextmanager
def nothing_left(mark: str) -> Iterator[str]:
    """Yield a mark for command lines; afterwards no process may carry it, and we have no zombie more than before."""
    before = set(zombies_of(os.getpid()))
    try:
        yield mark
    finally:
        assert_gone(mark)
    until_sync(lambda: set(zombies_of(os.getpid())) <= before, "the reaping of children")
