"""Leaving: the exit code, the one diagnostic, and the hard end after the sweep (spec: stdio 1 and 10)."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def say(text: str) -> None:
    """Write one diagnostic to stderr; a stderr that is gone is no reason to fail."""
    try:
        sys.stderr.write(f"trunkline: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def catch_early() -> list[int]:
    """Catch signals while the loop is not there yet; return the list that they are put into."""
    early: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: early.append(received))
    return early


def leave(troubles: Sequence[str]) -> NoReturn:
    """End the process now: 0 and `stopped` where there is no trouble, else 1 and one joined diagnostic.

    `os._exit`, because a task or thread that swallows its cancellation must not hold the exit; everything that had to
    be closed has been swept by now.
    """
    say("; ".join(troubles) if troubles else "stopped")
    os._exit(1 if troubles else 0)
