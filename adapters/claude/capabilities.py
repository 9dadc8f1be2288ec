"""What Claude Code can do through this codec: the descriptor.

Every level is what the recordings and the real-process suite show; a key that stands nowhere here is not offered.
"""

from __future__ import annotations

import hashlib

from ...protocol.json import dumps
from ...protocol.names import PROFILE, PROTOCOL, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

ENDPOINT: Final = "claude-code"
"""The participant on the harness's side: who asks, and who executes the tools."""

_NATIVE: Final = {"level": "native"}

FEATURES: Final[Mapping[str, Mapping[str, Any]]] = {
    "protocol.initialize": _NATIVE,
    "capabilities": _NATIVE,
    "session.open": _NATIVE,
    "session.state": _NATIVE,
    "session.message.submit": _NATIVE,
    "session.message.delivery.auto": _NATIVE,
    "session.message.delivery.queue": {
        "level": "emulated",
        "reason": "the gateway holds one reservation and hands it over after the terminal of the run before it",
    },
    "run.streaming": _NATIVE,
    "run.status": _NATIVE,
    "run.reconciliation": {"level": "emulated", "reason": "the gateway keeps the session's state"},
    "run.cancel": _NATIVE,
    "run.resume": {"level": "degraded", "reason": "events are kept in memory, within a bound, until the gateway ends"},
    "run.replay": {"level": "degraded", "reason": "events are kept in memory, within a bound, until the gateway ends"},
    "run.model_selection": {
        "level": "emulated",
        "scope": "run",
        "reason": "the harness is switched to the model before the prompt and back after the terminal; it notes the "
        "switch in the conversation",
    },
    "action.tools": {
        "level": "emulated",
        "reason": "the harness does not say when a call begins that it asks nobody about; its start is told with the "
        "first sign of it, at the latest with its result",
    },
    "action.permissions": _NATIVE,
    "user_input": _NATIVE,
    "models.list": _NATIVE,
}
"""Capability key: level and what must be disclosed with it (spec: envelopes 17).

Not offered: `run.instructions`, `run.structured_output` and `run.tool_selection` (the harness takes such choices for a
whole process), `action.tools.list` (it names its tools but tells no input schema), `session.open.subscribe`.
"""

DESCRIPTOR: Final[Mapping[str, Any]] = {
    "endpoint": {"id": ENDPOINT, "name": "Claude Code", "adapter": "claude-stream-json"},
    "protocol_versions": [VERSION],
    "profiles": [PROFILE],
    "features": FEATURES,
    "limits": {"max_active_runs_per_session": 2, "max_queued_runs_per_session": 1},
}
"""The `capabilities.response` payload."""

REVISION: Final = f"claude-{hashlib.sha256(dumps([PROTOCOL, DESCRIPTOR])).hexdigest()[:12]}"
"""Names the descriptor by its content, so that one revision can never mean two descriptors."""
