"""The request gate: five checks in their order, through the real scanner and through a double of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from trunkline.framing import scan_envelope
from trunkline.protocol import names, shapes
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import EnvelopeDefect, Refusal
from trunkline.protocol.gate import ENVELOPE_BYTES, admit, admit_value

from tests.support.isolated import run_isolated

if TYPE_CHECKING:
    from collections.abc import Collection

SUBMITS = frozenset((names.SUBMIT,))
RESOLVES = frozenset((names.RESOLVE_PERMISSION, names.RESOLVE_INPUT))
BASE = {"protocol": "open-agent-protocol", "version": "0.1", "profile": "open-agent-protocol.agent-control-core"}
PAYLOAD: dict[str, Any] = {"session_id": "s", "messages": [{"role": "user", "content": "hi"}], "delivery": "auto"}
SUBMIT: dict[str, Any] = BASE | {"type": names.SUBMIT, "id": "q1", "session_id": "s", "payload": PAYLOAD}
GATE = {"interaction_id": "i", "requested_by": "a", "responded_by": "u", "session_id": "s", "run_id": "r"}
RUN = {"session_id": "s", "run_id": "r"}


def without(name: str) -> dict[str, Any]:
    return {member: value for member, value in SUBMIT.items() if member != name}


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def refused(text: bytes | None, accepted: Collection[str] = SUBMITS, limit: int = ENVELOPE_BYTES) -> Refusal:
    with pytest.raises(Refusal) as caught:
        admit(text, accepted, scan=scan_envelope, limit=limit)
    assert len(caught.value.message) <= 300
    return caught.value


ROWS: list[tuple[str, bytes | None, str, str | None]] = [
    ("absent", None, "invalid_request", None),
    ("null", b"null", "invalid_request", None),
    ("null in white space", b" \r\n null\t", "invalid_request", None),
    ("empty", b"", "malformed_json", None),
    ("cut short", raw(SUBMIT)[:-1], "malformed_json", None),
    ("two values", raw(SUBMIT) + b"{}", "malformed_json", None),
    ("not JSON", b"nul", "malformed_json", None),
    ("a comment", raw(SUBMIT) + b"//", "malformed_json", None),
    ("byte-order mark", b"\xef\xbb\xbf" + raw(SUBMIT), "malformed_json", None),
    ("bad UTF-8", raw(SUBMIT).replace(b"hi", b"\xff"), "malformed_json", None),
    ("lone surrogate", raw(SUBMIT).replace(b"hi", b"\\ud800"), "malformed_json", None),
    ("NaN", raw(SUBMIT | {"timestamp_ms": 0}).replace(b": 0", b": NaN"), "malformed_json", None),
    ("twice at the top", raw(SUBMIT).replace(b'"id"', b'"id": "q0", "id"'), "malformed_json", None),
    ("twice in the payload", raw(SUBMIT).replace(b'"role"', b'"role": "user", "role"'), "malformed_json", None),
    ("twice after escapes", raw(SUBMIT).replace(b'"role"', b'"r\\u006fle": "user", "role"'), "malformed_json", None),
    ("twice in an unknown member", raw(SUBMIT)[:-1] + b',"x":{"a":1,"a":1}}', "malformed_json", None),
    ("too deep", raw(SUBMIT)[:-1] + b',"x":' + b"[" * 200 + b"]" * 200 + b"}", "malformed_json", None),
    ("an array", b"[]", "schema_invalid", None),
    ("a string", b'"x"', "schema_invalid", None),
    ("an empty object", b"{}", "schema_invalid", None),
    *((f"no {name}", raw(without(name)), "schema_invalid", None) for name in (*BASE, "type", "id", "payload")),
    ("no session_id", raw(without("session_id")), "schema_invalid", "/session_id"),
    ("null session_id", raw(SUBMIT | {"session_id": None}), "schema_invalid", None),
    ("empty id", raw(SUBMIT | {"id": ""}), "schema_invalid", None),
    ("other version", raw(SUBMIT | {"version": "0.2"}), "schema_invalid", None),
    ("sequence 0", raw(SUBMIT | {"sequence": 0}), "schema_invalid", None),
    ("payload an array", raw(SUBMIT | {"payload": []}), "schema_invalid", None),
    ("unknown type", raw(SUBMIT | {"type": "session.steer.request"}), "schema_invalid", "/type"),
    ("type in capitals", raw(SUBMIT | {"type": names.SUBMIT.upper()}), "schema_invalid", "/type"),
    ("payload member unknown", raw(SUBMIT | {"payload": PAYLOAD | {"x": 1}}), "schema_invalid", "/payload/x"),
    ("payload member by case", raw(SUBMIT | {"payload": PAYLOAD | {"X": 1}}), "schema_invalid", "/payload/X"),
    ("no messages", raw(SUBMIT | {"payload": PAYLOAD | {"messages": []}}), "schema_invalid", "/payload/messages"),
    ("empty delivery", raw(SUBMIT | {"payload": PAYLOAD | {"delivery": ""}}), "schema_invalid", "/payload/delivery"),
    (
        "unheld number",
        raw(SUBMIT | {"payload": PAYLOAD | {"tool_choice": 1 << 80}}),
        "invalid_payload",
        "/payload/tool_choice",
    ),
    ("unheld extension", raw(SUBMIT)[:-1] + b',"extensions":{"n":1e999}}', "invalid_payload", "/extensions"),
]


@pytest.mark.parametrize(("text", "code", "pointer"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_refusals(text: bytes | None, code: str, pointer: str | None) -> None:
    refusal = refused(text)
    assert refusal.code == code
    assert (refusal.details or {}).get("pointer") == pointer


def test_an_admitted_request_is_complete() -> None:
    head = {
        "session_id": "s",
        "run_id": "r",
        "turn_id": "t",
        "tool_call_id": "c",
        "in_reply_to": "q0",
        "capability_revision": "r1",
        "sequence": 3,
        "timestamp_ms": -5,
    }
    extensions = {"dev.trunkline": {"a": [1.5, None]}}
    envelope = admit(raw(SUBMIT | head | {"extensions": extensions}), SUBMITS, scan=scan_envelope)
    assert envelope.as_dict() == SUBMIT | head | {"extensions": extensions}
    assert envelope.payload == PAYLOAD


@pytest.mark.parametrize(
    ("kind", "payload", "head"),
    [
        (names.STATE, {"session_id": "s"}, {"session_id": "s"}),
        (names.CANCEL, RUN, RUN),
        ("user.input.cancel.request", GATE, RUN),
        ("action.call.resolve.request", GATE | {"tool_call_id": "c", "started": {}}, RUN),
        ("session.model.switch.request", {"session_id": "s", "model_id": "m"}, {"session_id": "s"}),
        ("auth.providers.request", {}, {}),
        ("run.started", RUN | {"status": "running"}, RUN | {"sequence": 1}),
        ("error.response", {"error": {"code": "c", "message": "m"}}, {"in_reply_to": "q0"}),
    ],
)
def test_a_sound_envelope_of_another_type_is_a_mismatch(
    kind: str, payload: dict[str, Any], head: dict[str, Any]
) -> None:
    whole = BASE | {"type": kind, "id": "q1", "payload": payload} | head
    for accepted in (SUBMITS, RESOLVES):
        refusal = refused(raw(whole), accepted)
        assert refusal.code == "type_mismatch"
        assert refusal.details == {"expected": sorted(accepted)}
    # The same envelope with a fault is not sound: the schema speaks first.
    assert refused(raw(whole | {"payload": {"surplus": 1}})).code == "schema_invalid"


@pytest.mark.parametrize("kind", sorted(RESOLVES))
def test_one_operation_may_take_several_types(kind: str) -> None:
    answer = {"granted": True} if kind == names.RESOLVE_PERMISSION else {"answers": [{"question_id": "q", "text": "x"}]}
    whole = BASE | {"type": kind, "id": "q1", "payload": GATE | answer} | RUN
    assert admit(raw(whole), RESOLVES, scan=scan_envelope).type == kind


def test_header_and_payload_may_disagree_here() -> None:
    envelope = admit(raw(SUBMIT | {"session_id": "other"}), SUBMITS, scan=scan_envelope)
    assert (envelope.session_id, envelope.payload["session_id"]) == ("other", "s")


def test_unknown_top_level_members_are_no_fault() -> None:
    assert admit(raw(SUBMIT | {"Session_Id": 1, "x": {"y": None}}), SUBMITS, scan=scan_envelope).session_id == "s"


def test_the_bound_is_in_bytes_and_inclusive() -> None:
    whole = raw(SUBMIT)
    assert admit(whole, SUBMITS, scan=scan_envelope, limit=len(whole)).id == "q1"
    assert refused(whole, limit=len(whole) - 1).code == "request_too_large"
    assert refused(b"null", limit=1).code == "invalid_request"
    assert refused(b"not JSON", limit=7).code == "request_too_large"
    wide = raw(SUBMIT).replace(b"hi", "é".encode())
    assert refused(wide, limit=len(wide) - 1).code == "request_too_large"


def test_sixteen_mebibytes_are_taken_and_one_byte_more_is_not() -> None:
    assert ENVELOPE_BYTES == 16 * 1024 * 1024
    empty = raw(SUBMIT).replace(b"hi", b"")
    whole = raw(SUBMIT).replace(b"hi", b"x" * (ENVELOPE_BYTES - len(empty)))
    assert len(whole) == ENVELOPE_BYTES
    envelope = admit(whole, SUBMITS, scan=scan_envelope)
    assert len(envelope.payload["messages"][0]["content"]) == ENVELOPE_BYTES - len(empty)
    assert refused(whole + b" ").code == "request_too_large"


class DoubleHead:
    """A head with all that the gate reads, made by the plainest JSON reader there is."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.type: str = whole["type"]
        self.id: str = whole["id"]
        self.session_id: str | None = whole.get("session_id")
        self.run_id: str | None = None
        self.turn_id: str | None = None
        self.tool_call_id: str | None = None
        self.in_reply_to: str | None = None
        self.capability_revision: str | None = None
        self.sequence: int | None = None
        self.timestamp_ms: int | None = None
        self.payload = raw(whole["payload"])
        self.extensions: bytes | None = None


def test_the_scanner_is_the_callers() -> None:
    assert admit(raw(SUBMIT), SUBMITS, scan=lambda text: DoubleHead(json.loads(text))).payload == PAYLOAD

    def fails(text: bytes) -> DoubleHead:
        raise EnvelopeDefect("malformed_json", "it is broken", 7)

    with pytest.raises(Refusal) as caught:
        admit(b"{}", SUBMITS, scan=fails)
    assert (caught.value.code, caught.value.message) == ("malformed_json", "it is broken (byte 7)")


@pytest.mark.parametrize("value", [SUBMIT, raw(SUBMIT), Envelope.from_dict(SUBMIT)], ids=["dict", "bytes", "envelope"])
def test_values_of_the_python_interface_go_the_same_way(value: Any) -> None:
    assert admit_value(value, SUBMITS, scan=scan_envelope).as_dict() == SUBMIT


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "invalid_request"),
        (b"null", "invalid_request"),
        ({}, "schema_invalid"),
        (SUBMIT | {"payload": PAYLOAD | {"metadata": {"x": object()}}}, "malformed_json"),
        (SUBMIT | {"payload": PAYLOAD | {"metadata": {"x": 1 << 70}}}, "malformed_json"),
        (SUBMIT | {"payload": PAYLOAD | {"metadata": {1: 2}}}, "malformed_json"),
        (SUBMIT | {"payload": PAYLOAD | {"instructions": "\ud800"}}, "malformed_json"),
        (SUBMIT | {"payload": PAYLOAD | {"delivery": None}}, "schema_invalid"),
        (Envelope(names.STATE, "q", {"session_id": "s"}, session_id="s"), "type_mismatch"),
    ],
)
def test_values_are_refused_the_same_way(value: Any, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        admit_value(value, SUBMITS, scan=scan_envelope)
    assert caught.value.code == code


def test_a_value_that_changed_after_it_was_encoded_is_judged_as_it_is() -> None:
    payload = dict(PAYLOAD)
    envelope = Envelope.from_dict(SUBMIT | {"payload": payload})
    envelope.encode()
    payload["delivery"] = "never"
    with pytest.raises(Refusal, match="schema_invalid"):
        admit_value(envelope, SUBMITS, scan=scan_envelope)


HEAVY = """
import sys
heavy = {"pydantic_core", "orjson", "jsonschema", "typing", "dataclasses", "enum", "inspect", "re", "json", "asyncio"}
from trunkline.protocol import gate, controls, lifecycle
print(sorted(heavy & sys.modules.keys()))
"""

FIRST_REQUEST = f"""
import sys
from trunkline.framing import scan_envelope
from trunkline.protocol.gate import admit
from trunkline.protocol.validate import warm
admit({raw(SUBMIT)!r}, {{{names.SUBMIT!r}}}, scan=scan_envelope)
print("pydantic_core" in sys.modules)
warm([{names.SUBMIT!r}])
print("pydantic_core" in sys.modules)
"""


def test_importing_the_room_loads_nothing_heavy() -> None:
    done = run_isolated(HEAVY)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_first_request_does_not_load_the_compiled_engine() -> None:
    done = run_isolated(FIRST_REQUEST, site=True)
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")


def test_all_types_can_be_required() -> None:
    assert set(names.RESPONSE_OF) | set(names.RESPONSE_OF.values()) | names.RUN_EVENTS <= shapes.TYPES.keys()
