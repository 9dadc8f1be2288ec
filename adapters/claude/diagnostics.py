"""What one session tells the operator, within bounds: notes, unknown kinds of frame, foreign text on the pipe."""

from __future__ import annotations

from ..base import NOTHING, Step
from .frames import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .frames import FrameDefect

NOTES: Final = 64
"""Notes one session may write in all; the last says that there are no more."""
KINDS: Final = 32
"""Unknown kinds of frame that are remembered by name, so that each is noted once."""
SAMPLES: Final = 3
"""Stray lines that are shown; the others are only counted."""


class Diagnostics:
    """Collects notes until the next step takes them along. `most_stray` bounds the lines that are no frames."""

    __slots__ = ("_count", "_kinds", "_most_stray", "notes", "stray")

    def __init__(self, most_stray: int) -> None:
        self.notes: list[str] = []
        self.stray = 0
        self._count = 0
        self._kinds: set[str] = set()
        self._most_stray = most_stray

    def note(self, text: str) -> None:
        """Say something on the diagnostics, unless this session has said enough."""
        self._count += 1
        if self._count <= NOTES:
            self.notes.append(text if self._count < NOTES else "further notes of this session are left out")

    def unknown(self, what: str, kind: Any) -> Step:
        """Tolerate what this codec does not know: each kind is noted once. Returns the step that does nothing."""
        key = f"{what} {shown(kind)}"
        if key not in self._kinds and len(self._kinds) < KINDS:
            self._kinds.add(key)
            self.note(f"unknown {key} of the harness is ignored")
        return NOTHING

    def skip(self, defect: FrameDefect) -> bool:
        """Count a line that is no frame. Return whether it is still within the bound and may be skipped."""
        self.stray += 1
        if self.stray <= min(SAMPLES, self._most_stray):
            self.note(f"skipped on the harness's output: {defect}")
        return self.stray <= self._most_stray

    def onto(self, step: Step) -> Step:
        """Return the step with what was noted meanwhile."""
        if not self.notes:
            return step
        notes, self.notes = self.notes, []
        return Step(step.write, step.publish, step.settle, step.arm, [*step.notes, *notes], step.end)
