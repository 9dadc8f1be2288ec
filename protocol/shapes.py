"""What every payload and header of the profile looks like: the one source for validators, messages and JSON Schema.

Source: the public schema bundle at the pin, all 55 envelope types (spec: envelopes 1 and 3). The language of the lines
is that of `kinds`. Everything is read at its first use and kept.
"""

from __future__ import annotations

from . import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

_LEVEL: Final = "= native emulated degraded unavailable"
_STATE: Final = (
    "session_id status:status active_run_id? active_runs?:activeRun* current_model_id?:text transcript_cursor?:text"
    " updated_at_ms?:int metadata?:object sources?:capabilities.toolSourceDescriptor* recovery?:common.recovery"
    " as_of?:sessionCapture"
)
_SUBMISSION: Final = (
    "messages:common.message+ delivery:deliveryRequested model_id?:text instructions?:text tool_choice?:any"
    " output_schema?:object allow_degraded_features?:name*! metadata?:object"
)
_CALL: Final = "session_id run_id tool_call_id execution_owner interaction_id? requested_by? responded_by? source?"
_GATE: Final = "interaction_id requested_by responded_by session_id run_id"
_SETTLED: Final = "usage?:common.usage duration_ms?:count settled_by?:settledBy"
_ANSWERED: Final = "interaction_id session_id run_id accepted:bool"

DEFINITIONS: Final[Mapping[str, str]] = {
    # common
    "common.authStatus": "= authenticated login_required expired refreshing login_in_progress failed unknown",
    "common.toolSourceKind": "= native local process remote hosted",
    "common.role": "= system developer user assistant tool",
    "common.image": "url? data? media_type? ; arms url / data media_type",
    "common.contentPart": "@type text reasoning image tool_call tool_result",
    "common.contentPart.text": "text:text",
    "common.contentPart.reasoning": "reasoning:text carry?:text",
    "common.contentPart.image": "image:image",
    "common.contentPart.tool_call": "tool_call_id name arguments_json:any carry?:text",
    "common.contentPart.tool_result": "tool_call_id result:any is_error?:bool",
    "common.content": "text | contentPart+",
    "common.message": "role:role content:content id? metadata?:object",
    "common.usage": "input_tokens?:count output_tokens?:count total_tokens?:count",
    "common.protocolError": "code message retriable?:bool details?:object",
    "common.recovery": "recovered?:bool previous_session_id? previous_run_id? resume_cursor?:text reason?:text",
    # capabilities and models
    "capabilities.level": _LEVEL,
    "capabilities.endpoint": "id name?:text version?:text adapter?:text",
    "capabilities.participant": "id name?:text version?:text",
    "capabilities.featureSupport": (
        "level:level reason?:text scope?:text modes?:name*! constraints?:capabilities.featureSupport.constraints"
        " limits?:capabilities.featureSupport.limits"
    ),
    "capabilities.featureSupport.constraints": "fixed_result?:object ...",
    "capabilities.featureSupport.limits": (
        "max_sources?:ordinal transports?:common.toolSourceKind+! max_tools?:ordinal name_pattern? schema_dialect? ..."
    ),
    "capabilities.limits": "max_active_runs_per_session?:ordinal max_queued_runs_per_session?:ordinal",
    "capabilities.toolSourceDescriptor": (
        "id kind:common.toolSourceKind display_name?:text protocol?:text endpoint?:text"
    ),
    "capabilities.toolDefinition": (
        "name input_schema:object execution_owner description?:text source? features?:featureSupport{}"
        " annotations?:object"
    ),
    "capabilities.binding": "kind serialization?:text",
    "capabilities.degradation": "feature to:level reason from?:level mode?:text",
    "capabilities.requested": "= auto queue steer btw",
    "capabilities.effective": "= start queue steer btw",
    "capabilities.layer": (
        "features?:featureSupport{} requested_delivery_modes?:requested+! effective_delivery_modes?:effective+!"
        " tools?:toolDefinition* sources?:toolSourceDescriptor*"
    ),
    "capabilities.initializeRequest": "protocol_versions:name+! profiles:name+! participant?:participant",
    "capabilities.initializeResponse": (
        "protocol_version=0.1 profile=open-agent-protocol.agent-control-core endpoint:endpoint"
    ),
    "capabilities.capabilitiesRequest": "",
    "capabilities.capabilitiesResponse": (
        "endpoint:endpoint protocol_versions?:name+! profiles?:name+! bindings?:binding* features?:featureSupport{}"
        " layers?:layer{} tools?:toolDefinition* sources?:toolSourceDescriptor* degradation?:degradation*"
        " limits?:limits"
    ),
    "capabilities.capabilitiesUpdated": "previous_revision reason?:text",
    "capabilities.modelDescriptor": (
        "id display_name?:text provider_id?:text context_window?:ordinal features?:featureSupport{} default?:bool"
    ),
    "capabilities.wire": "= openai-responses anthropic-messages openai-chat-completions",
    "capabilities.providerKind": "= direct gateway",
    "capabilities.providerDescriptor": (
        "id display_name?:text wire?:wire kind?:providerKind endpoint?:text service_id? upstream_provider_id?"
    ),
    "capabilities.modelEventPosition": (
        "run_id? sequence?:ordinal switch_request_id? ; arms run_id sequence / switch_request_id"
    ),
    "capabilities.modelsRequest": "session_id allow_degraded_features?:name*!",
    "capabilities.modelsResponse": (
        "session_id models:modelDescriptor* current_model_id? providers?:providerDescriptor*"
        " as_of_model_event?:modelEventPosition"
    ),
    # auth
    "auth.provider": "id name auth_status:common.authStatus last_error?:text",
    "auth.providersRequest": "",
    "auth.providersResponse": "providers:provider*",
    "auth.loginStartRequest": "provider_id",
    "auth.loginStartResponse": "flow_id",
    "auth.eventKind": "= url progress",
    "auth.loginEvent": (
        "flow_id provider_id kind:eventKind url? instructions?:text message?"
        " ; when kind=url needs url ; when kind=progress needs message"
    ),
    "auth.loginCancelRequest": "flow_id",
    "auth.loginCancelResponse": "flow_id accepted:bool",
    "auth.loginStatus": "= success failed cancelled",
    "auth.loginCompleted": "flow_id provider_id status:loginStatus error?:common.protocolError",
    # session
    "session.status": "= idle queued running waiting_for_input closed error",
    "session.deliveryRequested": "= auto queue steer btw",
    "session.deliveryEffective": "= start queue steer btw",
    "session.admission": "= started queued steered side_started rejected",
    "session.relationship": "= primary",
    "session.runPosition": "run_id:name|null sequence:count",
    "session.settledRun": "run_id sequence:ordinal",
    "session.activeRun": (
        "run_id status:run.status relationship:relationship queue_position?:ordinal as_of_sequence?:count"
        " admitted_submit_requests?:name*! pending_interactions?:name*! acknowledged_interactions?:name*!"
    ),
    "session.sessionCapture": ("admitted_submit_requests?:name*! settled?:settledRun* model_run_sequence?:runPosition"),
    "session.state": _STATE,
    "session.toolSourceAttachment": (
        "id kind:common.toolSourceKind display_name?:text protocol?:text endpoint?:text command?:text args?:text*"
        " environment?:name*!"
    ),
    "session.openMessage": _SUBMISSION,
    "session.openRequest": (
        "session_id? subscribe?:bool message?:openMessage metadata?:object tool_sources?:toolSourceAttachment*"
        " tools?:capabilities.toolDefinition* allow_degraded_features?:name*! recovery?:common.recovery"
    ),
    "session.stateRequest": "session_id",
    "session.modelSwitchRequest": "session_id model_id allow_degraded_features?:name*!",
    "session.modelSwitchResponse": "session_id model_id previous_model_id?",
    "session.providerAttachment": "id provider_id service_id?",
    "session.providerAttachRequest": "session_id provider:providerAttachment allow_degraded_features?:name*!",
    "session.providerAttachResponse": "session_id provider_id",
    "session.messageSubmitRequest": f"session_id {_SUBMISSION}",
    "session.messageSubmitResponse": (
        "session_id accepted:bool submission_id requested_delivery:deliveryRequested"
        " effective_delivery:deliveryEffective admission:admission delivery_resolution?:text run_id?"
        " status?:run.status model_id?:text message_ids?:name*"
    ),
    # run
    "run.status": "= queued running waiting_for_input cancelling completed failed cancelled",
    "run.settledBy": "= observed inferred",
    "run.cancelRequest": "session_id run_id reason?:text",
    "run.cancelResponse": "session_id run_id accepted:bool status:status",
    "run.started": "session_id run_id status=running model_id?:text started_at_ms?:int",
    "run.statusUpdated": "session_id run_id status:status pending_user_input_id? updated_at_ms?:int",
    "run.contentDelta": "session_id run_id part:common.contentPart message_id?",
    "run.completed": (
        f"session_id run_id final_response:common.message stop_reason model_id?:text result?:object {_SETTLED}"
    ),
    "run.failed": f"session_id run_id error:common.protocolError recovery?:common.recovery {_SETTLED}",
    "run.cancelled": f"session_id run_id reason?:text {_SETTLED}",
    # tools and permissions
    "action.toolsListRequest": "session_id? allow_degraded_features?:name*!",
    "action.toolsListResponse": (
        "tools:capabilities.toolDefinition* session_id? sources?:capabilities.toolSourceDescriptor*"
    ),
    "action.callRequested": (
        "session_id run_id tool_call_id requested_by execution_owner name arguments_json:any interaction_id?"
        " responded_by? source?"
    ),
    "action.callStarted": f"{_CALL} name request_id? arguments_json?:any",
    "action.callProgress": f"{_CALL} progress:any name?:text",
    "action.callCompleted": f"{_CALL} result:any request_id? name?:text",
    "action.callFailed": f"{_CALL} error:common.protocolError request_id? name?:text",
    "action.callCancelled": f"{_CALL} name?:text",
    "action.nothing": "",
    "action.callResolveRequest": (
        f"{_GATE} tool_call_id started?:nothing result?:any error?:common.protocolError ; arms started / result / error"
    ),
    "action.callRefusal": (
        "= unknown_interaction wrong_responder already_resolved repeated_acknowledgement late_acknowledgement"
    ),
    "action.callResolveResponse.details": "settlement_id",
    "action.callResolveResponse": (
        "interaction_id session_id run_id tool_call_id accepted:bool reason?:callRefusal"
        " details?:action.callResolveResponse.details"
        " ; when accepted=true bars reason details ; when accepted=false needs reason ; when details needs reason"
        " ; when reason=already_resolved needs details"
        " ; when reason=unknown_interaction,wrong_responder,repeated_acknowledgement,late_acknowledgement bars details"
    ),
    "action.permissionChoice": "id label description?:text",
    "action.permissionRequested": (
        f"{_GATE} title choices:permissionChoice+ tool_call_id? description?:text arguments_json?:any"
    ),
    "action.permissionResolveRequest": (
        f"{_GATE} granted:bool choice_id?:text reason?:text updated_arguments_json?:any"
    ),
    "action.permissionResolveResponse": _ANSWERED,
    "action.outcome": "= resolved rejected cancelled failed",
    "action.permissionResolved": (
        f"{_GATE} outcome:outcome tool_call_id? choice_id?:text granted?:bool reason?:common.protocolError"
    ),
    # user input
    "interaction.option": "id label description?:text",
    "interaction.questionKind": "= text single_choice multi_choice",
    "interaction.question": (
        "id prompt kind:questionKind required?:bool options?:option+"
        " ; when kind=text bars options ; when kind=single_choice,multi_choice needs options"
    ),
    "interaction.answer": "question_id text?:text selected_option_ids?:name+! ; arms text / selected_option_ids",
    "interaction.requested": (
        f"{_GATE} title questions:question+ tool_call_id? description?:text allow_cancel?:bool draft_answers?:answer*"
    ),
    "interaction.resolveRequest": f"{_GATE} answers:answer+",
    "interaction.resolveResponse": _ANSWERED,
    "interaction.inputStatus": "= submitted cancelled",
    "interaction.resolved": (
        f"{_GATE} status:inputStatus answers?:answer+"
        " ; when status=submitted needs answers ; when status=cancelled bars answers"
    ),
    "interaction.cancelRequest": f"{_GATE} reason?:text",
    # errors
    "envelope.error": "error:common.protocolError",
}
"""Full name, `file.definition`, to its line. The files are those of the public bundle, for references from packs."""

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "response": ("in_reply_to",),
    "session": ("session_id",),
    "run": ("session_id", "run_id"),
    "event": ("session_id", "run_id", "sequence"),
    "call": ("session_id", "run_id", "sequence", "tool_call_id"),
}

TYPES: Final[Mapping[str, str]] = {
    "protocol.initialize.request": "capabilities.initializeRequest",
    "protocol.initialize.response": "capabilities.initializeResponse response",
    "capabilities.request": "capabilities.capabilitiesRequest",
    "capabilities.response": "capabilities.capabilitiesResponse response capability_revision",
    "capabilities.updated": "capabilities.capabilitiesUpdated capability_revision sequence",
    "models.request": "capabilities.modelsRequest session",
    "models.response": "capabilities.modelsResponse response session capability_revision",
    "auth.providers.request": "auth.providersRequest",
    "auth.providers.response": "auth.providersResponse response",
    "auth.login.start.request": "auth.loginStartRequest",
    "auth.login.start.response": "auth.loginStartResponse response",
    "auth.login.event": "auth.loginEvent sequence",
    "auth.login.cancel.request": "auth.loginCancelRequest",
    "auth.login.cancel.response": "auth.loginCancelResponse response",
    "auth.login.completed": "auth.loginCompleted sequence",
    "session.open.request": "session.openRequest",
    "session.open.response": "session.state response session",
    "session.state.request": "session.stateRequest session",
    "session.state.response": "session.state response session",
    "session.state.updated": "session.state session sequence",
    "session.model.switch.request": "session.modelSwitchRequest session",
    "session.model.switch.response": "session.modelSwitchResponse response session",
    "session.provider.attach.request": "session.providerAttachRequest session",
    "session.provider.attach.response": "session.providerAttachResponse response session",
    "session.message.submit.request": "session.messageSubmitRequest session",
    "session.message.submit.response": "session.messageSubmitResponse response session",
    "run.cancel.request": "run.cancelRequest run",
    "run.cancel.response": "run.cancelResponse response run",
    "run.started": "run.started event",
    "run.status.updated": "run.statusUpdated event",
    "content.delta": "run.contentDelta event",
    "run.completed": "run.completed event",
    "run.failed": "run.failed event",
    "run.cancelled": "run.cancelled event",
    "action.tools.list.request": "action.toolsListRequest",
    "action.tools.list.response": "action.toolsListResponse response capability_revision",
    "action.call.requested": "action.callRequested call",
    "action.call.started": "action.callStarted call",
    "action.call.progress": "action.callProgress call",
    "action.call.completed": "action.callCompleted call",
    "action.call.failed": "action.callFailed call",
    "action.call.cancelled": "action.callCancelled call",
    "action.call.resolve.request": "action.callResolveRequest run",
    "action.call.resolve.response": "action.callResolveResponse response run",
    "action.permission.requested": "action.permissionRequested call",
    "action.permission.resolve.request": "action.permissionResolveRequest run",
    "action.permission.resolve.response": "action.permissionResolveResponse response run",
    "action.permission.resolved": "action.permissionResolved event",
    "user.input.requested": "interaction.requested event",
    "user.input.resolve.request": "interaction.resolveRequest run",
    "user.input.resolve.response": "interaction.resolveResponse response run",
    "user.input.resolved": "interaction.resolved event",
    "user.input.cancel.request": "interaction.cancelRequest run",
    "user.input.cancel.response": "interaction.resolveResponse response run",
    "error.response": "envelope.error response",
}
"""Envelope type to the definition of its payload and the header members that it needs (words of `_WORDS`, or names)."""

_definitions: dict[str, kinds.Kind] = {}
_headers: dict[str, tuple[str, ...]] = {}


def definition(name: str) -> kinds.Kind:
    """Return a definition by its full name, read at the first call. Raises `KeyError` if there is none."""
    kind = _definitions.get(name)
    if kind is None:
        kind = _definitions[name] = kinds.read(DEFINITIONS[name], name)
    return kind


def payload_of(envelope_type: str) -> str:
    """Return the full name of the definition of a type's payload. Raises `KeyError` for an unknown type."""
    return TYPES[envelope_type].partition(" ")[0]


def header_of(envelope_type: str) -> tuple[str, ...]:
    """Return the header members that a type requires beside the base (spec: envelopes 3). Raises `KeyError`."""
    needed = _headers.get(envelope_type)
    if needed is None:
        words = TYPES[envelope_type].split()[1:]
        needed = tuple(dict.fromkeys(name for word in words for name in _WORDS.get(word, (word,))))
        _headers[envelope_type] = needed
    return needed
