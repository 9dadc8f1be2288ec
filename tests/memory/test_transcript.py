"""The memory adapter against the recorded session: every envelope equal, ids and sequences too (spec: stdio 11)."""

from __future__ import annotations

import json
from typing import Any

from trunkline.framing import scan_envelope
from trunkline.gateway.operations import OPERATIONS
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.gate import admit

from tests.support.hubs import Seat
from tests.support.shared import shared

Line = dict[str, Any]


def recorded() -> list[tuple[str, Line]]:
    text = shared("oap", "examples", "stdio-session-transcript.ndjson").read_text()
    return [(entry["from"], entry["line"]) for entry in map(json.loads, text.splitlines())]


def play(seat: Seat, line: Line) -> Any:
    """Serve one host line of the recording."""
    switch, session = seat.switch, line.get("session_id", "")
    if line["op"] == "events":
        return seat.subscribe(session, line.get("after"))
    if line["op"] == "close":
        return switch.close(session)
    accepted = (line["request"]["type"],)
    request = admit(json.dumps(line["request"]).encode(), accepted, scan=scan_envelope)
    if line["op"] == "open":
        return switch.open(line["adapter"], request)
    return getattr(switch, line["op"])(session, request)


def told(envelope: Line) -> Line:
    """Leave out what a recording cannot fix: the time, and the state's optional list of sources (spec: hub 9.7)."""
    payload = {name: value for name, value in envelope["payload"].items() if name != "sources"}
    return {**{name: value for name, value in envelope.items() if name != "timestamp_ms"}, "payload": payload}


def test_the_recorded_session_comes_out_the_same() -> None:
    lines = recorded()
    seat = Seat()
    readers: dict[int, Any] = {}
    answers: dict[int, Any] = {}
    for who, line in lines:
        if who == "host" and line["op"] in OPERATIONS and line["op"] != "models" and line["id"] > 0:
            outcome = play(seat, line)
            if line["op"] == "events":
                readers[line["id"]] = outcome
            else:
                answers[line["id"]] = outcome
    events: dict[int, list[Line]] = {}
    for who, line in lines:
        if who == "daemon" and line.get("event") == "envelope":
            events.setdefault(line["id"], []).append(told(line["envelope"]))
        elif who == "daemon" and isinstance(line.get("result"), dict):
            given = answers[line["id"]]
            assert isinstance(given, Envelope)
            assert told(json.loads(given.encode())) == told(line["result"])
    assert sorted(events) == sorted(readers) == [2, 6]
    for id, expected in events.items():
        assert [told(event) for event in readers[id].events] == expected
        assert readers[id].over
        assert readers[id].outcome is None
    seat.check("demo")


def test_every_event_says_when_it_was_published() -> None:
    seat = Seat()
    seat.open()
    seat.play()
    times = [event["timestamp_ms"] for event in seat.published["s"]]
    assert times == sorted(times)
    assert all(event["capability_revision"] == "reference-memory-v11" for event in seat.published["s"])
