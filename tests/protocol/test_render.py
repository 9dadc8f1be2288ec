"""The rendered bundle against the public one, member by member: every name, kind, bound and requirement is the same.

What rules say between members has no one form in JSON Schema; it is compared by behaviour, in full, on small envelopes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.framing import scan_envelope
from trunkline.protocol import shapes
from trunkline.protocol.errors import Refusal
from trunkline.protocol.gate import admit
from trunkline.protocol.render import render_schema

from tests.support.bundle import ROOT, Bundle, mutations, public_bundle
from tests.support.shared import needs_shared

TYPES = sorted(shapes.TYPES)
KEPT = ("type", "minLength", "minimum", "minItems", "uniqueItems")

OTHERWISE_SAID = {
    "as_of_model_event": "the public bundle has two closed objects where the table has one with two arms",
    "options": "the public bundle demands one where the kind asks for a choice, the table always: a text has none",
    "details": "the public bundle requires settlement_id under already_resolved, the only reason that admits details",
}
"""Members whose form differs while their meaning does not; the envelopes of `RULED` show that."""


def plain(files: dict[str, Any], schema: Any, file: str) -> Any:
    """Return a schema without references, titles and rules, in one order."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        name, _, place = schema["$ref"].partition("#/$defs/")
        return plain(files, files[name or file]["$defs"][place], name or file)
    made: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    if "const" in schema or "enum" in schema:
        made["enum"] = sorted(schema["enum"] if "enum" in schema else [schema["const"]])
    if "items" in schema:
        made["items"] = plain(files, schema["items"], file)
    if schema.get("required"):
        made["required"] = sorted(schema["required"])
    if schema.get("properties"):
        made["properties"] = {
            name: name if _otherwise_said(name, below) else plain(files, below, file)
            for name, below in schema["properties"].items()
        }
    elif "oneOf" in schema:
        made["oneOf"] = sorted((plain(files, below, file) for below in schema["oneOf"]), key=json.dumps)
    if schema.get("type") == "object":
        made["others"] = plain(files, schema.get("additionalProperties", True), file)
    return made


def _otherwise_said(name: str, schema: Any) -> bool:
    return name in OTHERWISE_SAID and (name != "details" or "properties" in schema)


def ordered(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=1)


def header(bundle: Bundle, kind: str) -> set[str]:
    root = bundle.files[ROOT]
    branch = root["$defs"][bundle.branches[kind]]
    parts = [branch, *(root["$defs"][part["$ref"].rpartition("/")[2]] for part in branch.get("allOf", ()))]
    return {name for part in parts for name in part.get("required", ())}


@needs_shared
@pytest.mark.parametrize("kind", TYPES)
def test_payload_and_header_are_the_same(kind: str) -> None:
    public, rendered = public_bundle(), Bundle(render_schema())
    assert header(rendered, kind) == header(public, kind) == set(shapes.header_of(kind))
    forms = [
        ordered(plain(bundle.files, bundle.files[ROOT]["$defs"][bundle.branches[kind]]["properties"]["payload"], ROOT))
        for bundle in (rendered, public)
    ]
    assert forms[0] == forms[1]


@needs_shared
def test_the_envelope_is_the_same() -> None:
    forms = []
    for bundle in (Bundle(render_schema()), public_bundle()):
        root = {name: value for name, value in bundle.files[ROOT].items() if name != "oneOf"}
        forms.append(ordered(plain(bundle.files, root, ROOT)))
    assert forms[0] == forms[1]


HEAD = {
    "protocol": "open-agent-protocol",
    "version": "0.1",
    "profile": "open-agent-protocol.agent-control-core",
    "id": "e",
    "session_id": "s",
    "run_id": "r",
    "in_reply_to": "q",
    "capability_revision": "c",
    "sequence": 1,
    "tool_call_id": "t",
}
RUN = {"session_id": "s", "run_id": "r"}
GATE = {"interaction_id": "i", "requested_by": "a", "responded_by": "u"} | RUN
CALL = {"interaction_id": "i", "tool_call_id": "t"} | RUN
OPTION = {"id": "o", "label": "l", "description": ""}
CHOSEN = {"question_id": "q", "selected_option_ids": ["o"]}
SETTLED = {"accepted": False, "details": {"settlement_id": "x"}}


def asked(**question: Any) -> dict[str, Any]:
    return GATE | {"title": "t", "questions": [{"id": "q", "prompt": "p"} | question]}


RULED: list[tuple[str, dict[str, Any]]] = [
    ("models.response", {"session_id": "s", "models": [], "as_of_model_event": {"run_id": "r", "sequence": 1}}),
    ("models.response", {"session_id": "s", "models": [], "as_of_model_event": {"switch_request_id": "q"}}),
    ("user.input.requested", asked(kind="text")),
    ("user.input.requested", asked(kind="text", options=[OPTION])),
    ("user.input.requested", asked(kind="single_choice", options=[OPTION])),
    ("user.input.requested", asked(kind="multi_choice")),
    ("user.input.requested", asked(kind="text") | {"draft_answers": [{"question_id": "q", "text": ""}]}),
    ("user.input.resolve.request", GATE | {"answers": [CHOSEN]}),
    (
        "user.input.resolve.request",
        GATE | {"answers": [{"question_id": "q", "selected_option_ids": ["o"], "text": ""}]},
    ),
    ("user.input.resolved", GATE | {"status": "submitted", "answers": [{"question_id": "q", "text": "x"}]}),
    ("user.input.resolved", GATE | {"status": "cancelled"}),
    ("action.call.resolve.request", GATE | {"tool_call_id": "t", "started": {}}),
    ("action.call.resolve.request", GATE | {"tool_call_id": "t", "result": None}),
    ("action.call.resolve.request", GATE | {"tool_call_id": "t", "error": {"code": "c", "message": "m"}}),
    ("action.call.resolve.request", GATE | {"tool_call_id": "t", "started": {}, "result": 1}),
    ("action.call.resolve.response", CALL | {"accepted": True}),
    ("action.call.resolve.response", CALL | {"accepted": True, "reason": "late_acknowledgement"}),
    *(
        (
            "action.call.resolve.response",
            CALL | SETTLED | {"reason": reason},
        )
        for reason in shapes.DEFINITIONS["action.callRefusal"].split()[1:]
    ),
    *(
        ("action.call.resolve.response", CALL | {"accepted": False, "reason": reason})
        for reason in shapes.DEFINITIONS["action.callRefusal"].split()[1:]
    ),
    ("auth.login.event", {"flow_id": "f", "provider_id": "p", "kind": "url", "url": "u"}),
    ("auth.login.event", {"flow_id": "f", "provider_id": "p", "kind": "progress", "message": "m"}),
    *(
        ("content.delta", RUN | {"part": part})
        for part in (
            {"type": "text", "text": ""},
            {"type": "reasoning", "reasoning": "", "carry": ""},
            {"type": "image", "image": {"url": "u"}},
            {"type": "image", "image": {"data": "d", "media_type": "m"}},
            {"type": "tool_call", "tool_call_id": "t", "name": "n", "arguments_json": None, "carry": ""},
            {"type": "tool_result", "tool_call_id": "t", "result": None, "is_error": False},
        )
    ),
]


@needs_shared
@pytest.mark.parametrize(("kind", "payload"), RULED, ids=[f"{row[0]}-{n}" for n, row in enumerate(RULED)])
def test_rules_between_members_behave_the_same(kind: str, payload: dict[str, Any]) -> None:
    """Every mutation of a small payload, with no sampling; whole numbers are compared elsewhere."""
    public, rendered = public_bundle().validators[kind], Bundle(render_schema()).validators[kind]
    verdicts = set()
    for changed in (payload, *mutations(payload)):
        envelope = HEAD | {"type": kind, "payload": changed}
        accepted = public.is_valid(envelope)
        verdicts.add(accepted)
        assert rendered.is_valid(envelope) == accepted, changed
        code = None
        try:
            admit(json.dumps(envelope).encode(), shapes.TYPES, scan=scan_envelope)
        except Refusal as refusal:
            code = refusal.code
        assert code == "invalid_payload" if accepted and code else (code is None) == accepted, (code, changed)
    assert False in verdicts
