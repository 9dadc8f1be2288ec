"""The recorded session, host line by host line, over both doors: the same lines come back (spec: stdio 11)."""

from __future__ import annotations

import json
from typing import Any

from tests.support.doors import Start
from tests.support.host import WAIT_S, Host
from tests.support.shared import shared

Line = dict[str, Any]


def told(line: Line) -> Line:
    """Leave out what a recording cannot fix: times, and the optional list of sources of a state (spec: hub 9.7)."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = ("timestamp_ms", "created_at", "sources", "message")
            return {name: bare(member) for name, member in value.items() if name not in left_out}
        return [bare(item) for item in value] if isinstance(value, list) else value

    found: Line = bare(line)
    return found


def received(host: Host, number: int) -> list[Line]:
    return [line for way, line in host.lines if way == "<" and line["id"] == number]


def test_the_recorded_session_comes_back_over_the_pipe(start: Start) -> None:
    text = shared("oap", "examples", "stdio-session-transcript.ndjson").read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    host = start()
    due: dict[int, list[Line]] = {}
    for entry in entries:
        line = entry["line"]
        if entry["from"] == "host":
            host.write(json.dumps(line).encode() + b"\n")
        else:
            due.setdefault(line["id"], []).append(told(line))
            count = len(due[line["id"]])
            host._until(lambda id=line["id"], count=count: len(received(host, id)) >= count or None, WAIT_S, str(line))
    assert host.stop() == 0, host.stderr
    for number, lines in due.items():
        assert [told(line) for line in received(host, number)] == lines
