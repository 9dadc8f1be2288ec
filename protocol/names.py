"""The fixed words of the wire: protocol, ops, statuses, levels, error codes. Constants only; no behaviour.

Source of every word: the OAP v0.1 agent-control-core profile. This module is imported before the first answer, so it
imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PROTOCOL: Final = "open-agent-protocol"
VERSION: Final = "0.1"
PROFILE: Final = "open-agent-protocol.agent-control-core"

EXTENSION: Final = "dev.trunkline"
"""The one key under which trunkline adds anything to the protocol."""

OPEN: Final = "session.open.request"
SUBMIT: Final = "session.message.submit.request"
CANCEL: Final = "run.cancel.request"
RESOLVE_PERMISSION: Final = "action.permission.resolve.request"
RESOLVE_INPUT: Final = "user.input.resolve.request"
CANCEL_INPUT: Final = "user.input.cancel.request"
"""Not a host's: the hub cancels a question so when its deadline has passed."""
STATE: Final = "session.state.request"
MODELS: Final = "models.request"
TOOLS: Final = "action.tools.list.request"
CAPABILITIES: Final = "capabilities.request"

RESPONSE_OF: Final = {
    OPEN: "session.open.response",
    SUBMIT: "session.message.submit.response",
    CANCEL: "run.cancel.response",
    RESOLVE_PERMISSION: "action.permission.resolve.response",
    RESOLVE_INPUT: "user.input.resolve.response",
    STATE: "session.state.response",
    MODELS: "models.response",
    TOOLS: "action.tools.list.response",
    CAPABILITIES: "capabilities.response",
}

RUN_STARTED: Final = "run.started"
RUN_STATUS: Final = "run.status.updated"
RUN_COMPLETED: Final = "run.completed"
RUN_FAILED: Final = "run.failed"
RUN_CANCELLED: Final = "run.cancelled"
CONTENT_DELTA: Final = "content.delta"
CALL_REQUESTED: Final = "action.call.requested"
CALL_STARTED: Final = "action.call.started"
CALL_PROGRESS: Final = "action.call.progress"
CALL_COMPLETED: Final = "action.call.completed"
CALL_FAILED: Final = "action.call.failed"
CALL_CANCELLED: Final = "action.call.cancelled"
PERMISSION_REQUESTED: Final = "action.permission.requested"
PERMISSION_RESOLVED: Final = "action.permission.resolved"
INPUT_REQUESTED: Final = "user.input.requested"
INPUT_RESOLVED: Final = "user.input.resolved"

TERMINALS: Final = frozenset((RUN_COMPLETED, RUN_FAILED, RUN_CANCELLED))
GATES: Final = frozenset((PERMISSION_REQUESTED, PERMISSION_RESOLVED, INPUT_REQUESTED, INPUT_RESOLVED))
"""Events that open a gate or close it."""
RUN_EVENTS: Final = TERMINALS | {
    RUN_STARTED,
    RUN_STATUS,
    CONTENT_DELTA,
    CALL_REQUESTED,
    CALL_STARTED,
    CALL_PROGRESS,
    CALL_COMPLETED,
    CALL_FAILED,
    CALL_CANCELLED,
    PERMISSION_REQUESTED,
    PERMISSION_RESOLVED,
    INPUT_REQUESTED,
    INPUT_RESOLVED,
}

LEVELS: Final = ("native", "emulated", "degraded", "unavailable")
AFFIRMATIVE: Final = frozenset(LEVELS[:3])

# Error codes (spec: envelopes 20). The set is open for `run.failed`; a refusal uses only these.
UNSUPPORTED_FEATURE: Final = "unsupported_feature"
CAPABILITY_DEGRADED: Final = "capability_degraded"
MODEL_NOT_FOUND: Final = "model_not_found"
RUN_ACTIVE: Final = "run_active"
STALE_CAPABILITIES: Final = "stale_capabilities"
SESSION_EXISTS: Final = "session_exists"
UNKNOWN_SESSION: Final = "unknown_session"
UNKNOWN_ADAPTER: Final = "unknown_adapter"
SESSION_CLOSED: Final = "session_closed"
SCOPE_MISMATCH: Final = "scope_mismatch"
RUN_NOT_FOUND: Final = "run_not_found"
RUN_TERMINAL: Final = "run_terminal"
RESOLUTION_REJECTED: Final = "resolution_rejected"
INVALID_SUBMISSION: Final = "invalid_submission"
MALFORMED_JSON: Final = "malformed_json"
SCHEMA_INVALID: Final = "schema_invalid"
TYPE_MISMATCH: Final = "type_mismatch"
INVALID_PAYLOAD: Final = "invalid_payload"
REQUEST_TOO_LARGE: Final = "request_too_large"
REQUEST_CANCELLED: Final = "request_cancelled"
PROBE_FAILED: Final = "probe_failed"
OPEN_FAILED: Final = "open_failed"
STATE_FAILED: Final = "state_failed"
TOOLS_FAILED: Final = "tools_failed"
INTERNAL: Final = "internal"
INVALID_REQUEST: Final = "invalid_request"
UNKNOWN_OP: Final = "unknown_op"
RESPONSE_TOO_LARGE: Final = "response_too_large"
BUSY: Final = "busy"
INVALID_CURSOR: Final = "invalid_cursor"
REPLAY_CURSOR_FUTURE: Final = "replay_cursor_future"
NO_RUN_TO_RESUME: Final = "no_run_to_resume"

HARNESS_EXITED: Final = "harness_exited"
"""Code of `run.failed`: the harness ended, and nobody had asked for that."""

UNADVERTISED: Final = "unadvertised"
UNSATISFIABLE: Final = "unsatisfiable"
