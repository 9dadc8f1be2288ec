"""What is known of one open session: its native handle, its models, and which of them answers."""

from __future__ import annotations

from ...protocol.names import EXTENSION
from ..pins import deviation
from .frames import shown, word
from .models import Catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from .turn import Turn

NATIVE: Final = (("session_id", "session_id"), ("version", "claude_code_version"), ("cwd", "cwd"))
"""Our name in the native handle, the harness's in `system/init`, which comes with each turn."""


class Facts:
    """`model` is what the harness called the model of the last turn, `current` that of turns that choose none."""

    __slots__ = ("_configured", "_native", "_note", "catalog", "current", "model")

    def __init__(self, configured: str | None, note: Callable[[str], None]) -> None:
        self.catalog: Catalog | None = None
        self.current: str | None = None
        self.model: str | None = None
        self._configured = configured
        self._native: dict[str, Any] = {"harness": "claude"}
        self._note = note

    def initialized(self, response: Mapping[str, Any]) -> None:
        """Take the answer to the handshake."""
        self.catalog = Catalog(response.get("models"), self._configured)
        self.current = self.catalog.default

    def begins(self, turn: Turn, init: Mapping[str, Any]) -> None:
        """Take the `system/init` of a run's turn."""
        self.model = word(init.get("model")) or self.model
        if turn.selected is None:
            self.current = self.model
        elif turn.selected != self.model:
            self._note(f"run {turn.run_id} asked for model {shown(turn.selected)} and got {shown(self.model)}")

    def seen(self, init: Mapping[str, Any]) -> None:
        """Take the native handle of any `system/init`."""
        for ours, theirs in NATIVE:
            if value := word(init.get(theirs)):
                if ours == "version" and ours not in self._native and (odd := deviation("claude", value)):
                    self._note(odd)
                self._native[ours] = value

    def models(self) -> Mapping[str, Any] | None:
        """Return the catalog payload; None before the handshake is answered."""
        return None if self.catalog is None else self.catalog.payload(self.current)

    def state(self) -> Mapping[str, Any]:
        """Return what the state document gets; the native session id is known from the first turn on."""
        facts: dict[str, Any] = {"metadata": {EXTENSION: {"native": dict(self._native)}}}
        if self.current is not None:
            facts["current_model_id"] = self.current
        return facts
