"""Whose turn runs: the prompt of a run, or the harness's own.

After a task in the background has ended, the harness tells itself so and starts a turn that nobody asked for, with its
own `system/init` and its own `result` (which then names an `origin`). Neither may be taken for a run's.
"""

from __future__ import annotations

from .frames import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .turn import Turn


class Ownership:
    """`foreign`: the frames that come now belong to a turn of the harness's own."""

    __slots__ = ("_told", "foreign")

    def __init__(self) -> None:
        self.foreign = False
        self._told = False  # the harness was told of a finished task while no turn ran: its own turn comes next

    def notified(self, turn: Turn | None) -> None:
        """A `task_notification` came."""
        if not self.foreign and (turn is None or not turn.begun):
            self._told = True

    def begins(self, turn: Turn | None) -> bool:
        """A turn begins (`system/init`). Return whether it is the run's."""
        if turn is None or (self._told and not turn.begun):
            self.foreign, self._told = True, False
            return False
        return True

    def ends(self, result: Mapping[str, Any], turn: Turn | None) -> tuple[bool, str | None]:
        """A turn has ended (`result`). Return whether it was the run's, and a note if it was nobody's."""
        origin = result.get("origin")
        kind = word(origin.get("kind")) if isinstance(origin, dict) else ""
        asked_for = kind in ("", "human")
        foreign, self.foreign = self.foreign, False
        if turn is not None and asked_for:
            return True, None
        if asked_for and not foreign:
            return False, "a result came while no run was live; it is dropped"
        return False, None
