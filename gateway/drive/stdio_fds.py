"""The process's own descriptors 0 and 1, taken for the protocol before any loop exists (decision 10)."""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PIPE_BYTES: Final = 1 << 20
"""Capacity asked for the host's pipes (the usual ceiling of Linux). Not for children's: the sum a user may have is
bounded, and beyond it new pipes shrink to one page."""


def take_stdio() -> tuple[int, int]:
    """Return private descriptors `(reader, writer)` for the protocol; 0 becomes /dev/null and 1 becomes stderr.

    From then on no library and no child can write into the protocol or read from it. A closed 2 gets /dev/null. Raises
    `SystemExit` with a message (exit code 1) when 0 or 1 is closed, or cannot be duplicated. Call it once, before any
    loop: a loop would take a free descriptor 0 for itself.
    """
    if not _is_open(2):
        _null_on(2, os.O_WRONLY)
    for fd, what in ((0, "standard input"), (1, "standard output")):
        if not _is_open(fd):
            raise SystemExit(f"trunkline: {what} (descriptor {fd}) is closed; connect it to the host")
    try:
        reader, writer = _own(0, os.O_RDONLY), _own(1, os.O_WRONLY)
        _null_on(0, os.O_RDONLY)
        os.dup2(2, 1)
    except OSError as error:
        raise SystemExit(f"trunkline: cannot take standard input and output: {error}") from None
    if sys.platform == "linux":
        _widen(reader)
        _widen(writer)
    return reader, writer


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _null_on(fd: int, flags: int) -> None:
    """Put /dev/null on a standard descriptor, whichever number it was opened as."""
    null = os.open(os.devnull, flags)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)
    else:
        os.set_inheritable(fd, True)


def _own(fd: int, flags: int) -> int:
    """Return a private, close-on-exec descriptor over 2 of what a descriptor is open on.

    A pipe or terminal is reopened, which gives it an open file description of its own, so that O_NONBLOCK does not
    reach the shell that shares the old one. A regular file must not be (it would start at offset 0), a socket cannot.
    """
    new = -1
    if sys.platform == "linux" and (stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd)):
        try:
            new = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:  # no /proc, another user's pipe, no reader left: share it
            new = -1
    if new > 2:
        return new
    if sys.platform == "win32":
        return os.dup(fd)
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _widen(fd: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):  # not a pipe, or above what this user may have
        pass
