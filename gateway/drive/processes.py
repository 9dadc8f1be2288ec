"""What runs on this machine, as far as Linux shows it in /proc: who descends from whom, and who is still alive.

Elsewhere `read_table` returns None, and only process groups can be reached.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from subprocess import Popen
    from typing import Final, TypeAlias

    Table: TypeAlias = dict[int, "Process"]

_STAT: Final = 1024
"""Bytes that hold a stat line up to the start time, whatever the process is called."""


class Process:
    """One process as it stood when the table was read. `start` (clock ticks since boot) tells a reused pid from it."""

    __slots__ = ("group", "name", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        name, _, rest = stat.partition(b"(")[2].rpartition(b") ")
        fields = rest.split(None, 20)
        self.pid = pid
        self.name = name.decode("utf-8", "replace")
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])

    @property
    def dead(self) -> bool:
        """Whether it only waits to be reaped."""
        return self.state in "ZX"


def read_process(pid: int) -> Process | None:
    """Return one process, or None where it is gone or cannot be seen."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return Process(pid, os.read(fd, _STAT))
    except (OSError, ValueError, IndexError):  # it ended under the read
        return None
    finally:
        os.close(fd)


def read_table() -> Table | None:
    """Return every process by pid (about 10 us each), or None where the system does not show them."""
    if sys.platform != "linux":
        return None
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    table = {pid: found for pid in pids if (found := read_process(pid)) is not None}
    return table if os.getpid() in table else None


def descendants(table: Mapping[int, Process], roots: Iterable[int]) -> set[int]:
    """Return the pids below the roots, without the roots."""
    below: dict[int, list[int]] = {}
    for process in table.values():
        below.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    wait = list(roots)
    while wait:
        for pid in below.get(wait.pop(), ()):
            if pid not in found:
                found.add(pid)
                wait.append(pid)
    return found


def kill(process: Process, number: int = 9) -> bool:
    """Send a signal to exactly this process, never to a later one of the same pid. False: it may not be signalled."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        handle = -1
    try:
        now = read_process(process.pid)
        if now is None or now.start != process.start:
            return True
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def has_groups() -> bool:
    """Whether this system has process groups; where it has none, only the child itself can be ended."""
    return hasattr(os, "killpg")


def kill_group(group: int, number: int = 9) -> bool:
    """Send a signal to a process group. False: nothing is left in it, none of it may be signalled, or no groups."""
    if not has_groups():
        return False
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def kill_family(process: Popen[bytes]) -> None:
    """Kill a child that is not reaped yet, with its group where there are groups."""
    if has_groups():
        kill_group(process.pid)
    else:
        with suppress(OSError):
            process.kill()


def reap(pid: int) -> None:
    """Collect the status of one dead child; harmless where it is none of ours. Never any other child's."""
    with suppress(OSError):
        os.waitpid(pid, os.WNOHANG)


def adopt_orphans(on: bool) -> bool:
    """Become (or stop being) the parent of orphaned descendants of this process. False: this system cannot."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        done: int = ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False
    return done == 0


_SET_CHILD_SUBREAPER: Final = 36
