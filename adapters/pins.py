"""The version of each harness that its codec was proved against (decision 15): data, and how one is read.

Another version runs all the same; it is noted on the diagnostics and shown by `trunkline doctor`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

PROVED: Final[Mapping[str, str]] = {"claude": "2.1.197"}
"""Adapter type: the version whose recordings and real-process suite pass."""

VERSION_ARGS: Final[Mapping[str, Sequence[str]]] = {"claude": ("--version",)}
"""Adapter type: the arguments after which the executable prints its version and ends."""


def read_version(text: str) -> str | None:
    """Return the version in what a harness printed: the first word that begins with a digit, or None.

    `2.1.197 (Claude Code)` and `codex-cli 0.171.0` both read as one would expect.
    """
    for part in text.split():
        if part[:1].isdigit():
            return part.rstrip(",;")
    return None


def deviation(type: str, version: str) -> str | None:
    """Return what to say of a harness of another version than the proved one; None where it is that one."""
    proved = PROVED.get(type)
    if proved is None or version == proved:
        return None
    return f"this {type} is version {version}; the codec was proved against {proved}"
