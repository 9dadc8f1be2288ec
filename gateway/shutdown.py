"""Leaving: the exit code, the one diagnostic, and the hard end after the sweep (spec: stdio 1 and 10)."""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, NoReturn


SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)
"""What ends the process in order. SIGINT first: until it is caught it raises in Python."""
PIPE_BYTES: Final = 4096
"""Bytes of one write to stderr: what a pipe that polls as writable takes whole, without blocking."""
SAY_S: Final = 1.0
"""Seconds that the last words wait for a host that does not read its end of stderr."""


def speak(text: str, seconds: float = 0.0) -> None:
    """Write to stderr what it takes within some seconds. One that is gone, or full, is no reason to fail or to wait."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > PIPE_BYTES:
        data = data[: PIPE_BYTES - 4].decode("utf-8", "ignore").encode() + b"...\n"
    try:
        if _writable(seconds):
            os.write(2, data)
    except OSError:
        pass


def say(text: str) -> None:
    """Write one diagnostic to stderr (see `speak`)."""
    speak(f"trunkline: {text}\n", SAY_S)


def _writable(seconds: float) -> bool:
    try:
        poll = select.poll()
    except AttributeError:  # Windows
        return True
    poll.register(2, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def catch_early(early: list[int], *, waiting: bool) -> None:
    """Catch signals while the loop is not there yet, and put them into `early`.

    `waiting`: what the start waits for may never come, a configuration in a pipe for instance; then the second signal
    ends the process.
    """

    def received(number: int, _frame: object) -> None:
        if waiting and early:
            leave(["cut short by a second signal while starting"])
        early.append(number)

    for number in SIGNALS:
        signal.signal(number, received)


def leave(troubles: Sequence[str]) -> NoReturn:
    """End the process now: 0 and `stopped` where there is no trouble, else 1 and one joined diagnostic.

    `os._exit`, because a task or thread that swallows its cancellation must not hold the exit; everything that had to
    be closed has been swept by now.
    """
    say("; ".join(troubles) if troubles else "stopped")
    os._exit(1 if troubles else 0)
