"""Values to lines, sans-I/O: every shape, and what is dropped so that a line fits (spec: stdio 5 and 6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.framing import event_lines
from trunkline.gateway.hub.subscription import SessionEnded
from trunkline.gateway.stdio.lines import (
    answer_line,
    clipped,
    ending_line,
    event_prefix,
    frame_limit_line,
    refusal_line,
    too_large_line,
)
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Overflow, Refusal, ReplayGap, StreamEnd, StreamFailed

IDS = st.integers(-(1 << 63), (1 << 63) - 1)
SEQUENCES = st.integers(0, (1 << 63) - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=400)
LIMITS = st.integers(256, 2000)


def read(line: bytes) -> dict[str, Any]:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    value: dict[str, Any] = json.loads(line)
    return value


def test_successes() -> None:
    assert answer_line(-5, None) == b'{"id":-5,"ok":true,"result":null}\n'
    assert answer_line(0, {"sessions": []}) == b'{"id":0,"ok":true,"result":{"sessions":[]}}\n'
    assert answer_line(7, b'{"a":1}') == b'{"id":7,"ok":true,"result":{"a":1}}\n'
    envelope = Envelope(names.STATE, "x", {"session_id": "s"}, session_id="s")
    assert read(answer_line(1, envelope))["result"] == envelope.as_dict()
    with pytest.raises(TypeError):
        answer_line(1, {"text": "\ud800"})


def test_a_refusal_has_its_members_and_details_only_where_there_are_some() -> None:
    assert read(refusal_line(3, Refusal("busy", "later"), 1000)) == {
        "id": 3,
        "ok": False,
        "result": None,
        "error": {"code": "busy", "message": "later"},
    }
    detailed = read(refusal_line(3, Refusal("stale", "x", {"current": "r2"}), 1000))
    assert detailed["error"]["details"] == {"current": "r2"}
    assert "details" not in read(refusal_line(3, Refusal("x", "y", {}), 1000))["error"]


def test_a_message_has_at_most_300_code_points_and_then_an_ellipsis() -> None:
    assert clipped("é" * 300, 300) == "é" * 300
    assert clipped("é" * 301, 300) == "é" * 300 + "…"
    assert read(refusal_line(1, Refusal("c", "é" * 5000), 5000))["error"]["message"] == "é" * 300 + "…"


def test_what_does_not_fit_is_tried_in_order() -> None:
    refusal = Refusal("unknown_session", "m" * 200, {"path": "p" * 300})
    whole = refusal_line(1, refusal, 1000)
    assert len(refusal_line(1, refusal, len(whole) - 1)) == len(whole)
    short = read(refusal_line(1, refusal, len(whole) - 2))
    assert short["error"] == {"code": "unknown_session", "message": "m" * 60 + "…"}
    last = read(refusal_line(1, Refusal("c" * 300, "m"), 256))
    assert last["error"]["code"] == "response_too_large"


def test_the_code_arrives_though_message_or_details_have_no_json_form() -> None:
    for refusal in (Refusal("internal", "\ud800 said"), Refusal("internal", "said", {"x": "\udfff"})):
        error = read(refusal_line(1, refusal, 1000))["error"]
        assert error["code"] == "internal"
        assert "said" in error["message"]


@given(
    id=IDS, code=st.sampled_from(["busy", "unsupported_feature", "replay_cursor_future"]), message=TEXTS, limit=LIMITS
)
def test_every_refusal_fits_the_frame_and_keeps_its_id(id: int, code: str, message: str, limit: int) -> None:
    line = refusal_line(id, Refusal(code, message, {"about": message}), limit)
    assert len(line) <= limit + 1
    answer = read(line)
    assert answer["id"] == id
    assert answer["ok"] is False
    assert answer["error"]["code"] in (code, "response_too_large")
    assert len(too_large_line(id, "the refusal does not fit")) <= 257


ENDINGS: list[tuple[StreamEnd, str, dict[str, Any]]] = [
    (Overflow("run-1", 64), "oap-overflow", {"run_id": "run-1", "last_sequence": 64}),
    (
        ReplayGap(3, 10, 20),
        "oap-replay-gap",
        {"requested_after": 3, "oldest_available": 10, "latest_available": 20},
    ),
    (StreamFailed("run-1", 5), "oap-stream-failed", {"run_id": "run-1", "sequence": 5}),
    (SessionEnded("closed"), "oap-session-closed", {}),
]


@pytest.mark.parametrize(("outcome", "event", "members"), ENDINGS, ids=[event for _, event, _ in ENDINGS])
def test_endings(outcome: StreamEnd, event: str, members: dict[str, Any]) -> None:
    found = read(ending_line(9, "s", outcome, 1000))
    message = found.pop("message", None)
    assert (message is not None) == (event in ("oap-overflow", "oap-replay-gap"))
    assert found == {"event": event, "id": 9, "session_id": "s", **members}
    # too long: the texts go, the numbers stay
    narrow = read(ending_line(9, "s" * 300, outcome, 300))
    assert narrow == {"event": event, "id": 9, **{name: n for name, n in members.items() if name != "run_id"}}


@given(id=IDS, session=TEXTS, run=TEXTS, number=SEQUENCES, limit=LIMITS)
def test_every_signal_line_fits_the_smallest_frame(id: int, session: str, run: str, number: int, limit: int) -> None:
    outcomes: list[StreamEnd] = [
        Overflow(run, number),
        ReplayGap(number, number, number),
        StreamFailed(run, number),
        SessionEnded(session),
    ]
    lines = [ending_line(id, session, outcome, limit) for outcome in outcomes]
    lines.append(frame_limit_line(id, session, run, number, limit))
    for line in lines:
        assert len(line) <= limit + 1
        assert read(line)["id"] == id
    assert read(lines[-1])["sequence"] == number


@given(id=IDS, session=TEXTS, sequence=SEQUENCES, text=TEXTS)
def test_an_envelope_line_is_a_splice_around_the_shared_bytes(id: int, session: str, sequence: int, text: str) -> None:
    envelope = json.dumps({"type": "content.delta", "text": text}).encode()
    line = read(event_lines(event_prefix(id, session), [(sequence, envelope)]))
    assert line == {
        "event": "envelope",
        "id": id,
        "session_id": session,
        "sequence": sequence,
        "envelope": json.loads(envelope),
    }
