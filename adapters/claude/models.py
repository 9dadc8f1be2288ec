"""The models of an open session, and the choice of one for a single run.

The harness keeps one model a process. A run that asks for another has it set before its prompt, and set back after its
terminal; the harness writes the change into the conversation as a command of the user.
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.errors import Refusal
from .frames import shown, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..base import Settings
    from .control import Control
    from .turn import Turn


class Switching:
    """A run that waits for its model: the request that sets it, and what follows on the answer to that request."""

    __slots__ = ("line", "request_id", "token", "turn")

    def __init__(self, request_id: str, token: int, turn: Turn, line: bytes) -> None:
        self.request_id = request_id
        self.token = token
        self.turn = turn
        self.line = line


class Catalog:
    """The models that one process offers, from its answer to `initialize`.

    A model's id is the resolved name: it is what the harness calls the model of a turn, and what `set_model` takes.
    `default` is the entry that a session of this configuration uses when no run says otherwise.
    """

    __slots__ = ("default", "entries")

    def __init__(self, models: Any, configured: str | None) -> None:
        """`models`: the list of the answer, whatever it is. `configured`: the `model` of the configuration, if any."""
        self.entries: dict[str, dict[str, Any]] = {}
        aliases: dict[str, str] = {}
        for model in models if isinstance(models, list) else ():
            if not isinstance(model, dict):
                continue
            value = word(model.get("value"))
            resolved = word(model.get("resolvedModel")) or value
            if not resolved:
                continue
            aliases.setdefault(value, resolved)
            name = word(model.get("displayName"))
            known = self.entries.setdefault(resolved, {"id": resolved})
            if name and ("display_name" not in known or value != "default"):
                known["display_name"] = name
        wanted = "default" if configured is None else configured
        self.default: str | None = aliases.get(wanted) or configured
        if self.default in self.entries:
            self.entries[self.default]["default"] = True

    def payload(self, current: str | None) -> dict[str, Any]:
        """Return the `models.response` payload without `session_id` (spec: envelopes 15)."""
        payload: dict[str, Any] = {"models": [dict(entry) for entry in self.entries.values()]}
        if current in self.entries:
            payload["current_model_id"] = current
        return payload


def back(control: Control, settings: Settings) -> bytes:
    """Return the line that ends a run's choice of model.

    Only a configured model needs its name: where none is named the harness goes back to its own default, and then it
    notes nothing in the conversation.
    """
    configured = settings.options.get("model")
    return control.request("set_model", **({} if configured is None else {"model": configured}))


def refused(error: str) -> Refusal:
    """Return the refusal of a submission whose model the harness would not take."""
    details = {"feature": "run.model_selection", "reason": names.UNSATISFIABLE, "field": "model_id"}
    return Refusal(names.UNSUPPORTED_FEATURE, f"the harness refused the model: {shown(error)}", details)
