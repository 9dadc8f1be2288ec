"""Answers that fit in no frame, and what is taken back for them, over both doors (spec: stdio 5.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Start
from tests.support.host import Host, RefusedError
from tests.support.spawn import serve

LIMIT = 400
"""Bytes of a frame in which the requests of these tests fit, and the answers of memory and to submit do not."""


def refused(host: Host, op: str, **members: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        host.call(op, **members)
    return caught.value


def open_request(host: Host, session: str | None) -> dict[str, Any]:
    return host.envelope("session.open.request", session)


def submit_request(host: Host, content: str) -> dict[str, Any]:
    return host.envelope(
        "session.message.submit.request", "s", delivery="auto", messages=[{"role": "user", "content": content}]
    )


def test_a_result_of_exactly_the_limit_is_answered_and_one_byte_more_is_refused() -> None:
    line = b'{"id":1,"op":"adapters"}\n'
    size = len(serve(line).stdout) - 1
    assert serve(line, "--frame-limit", str(size)).lines[0]["ok"]
    # once before the loop exists, once in it
    for lines in (line, b'{"id":0,"op":"events","session_id":"s"}\n' + line):
        ended = serve(lines, "--frame-limit", str(size - 1))
        ended.ended_well()
        error = ended.lines[-1]["error"]
        assert error["code"] == "response_too_large"
        assert f"{size} bytes" in error["message"]


def test_an_open_whose_answer_does_not_fit_closes_what_it_minted(start: Start) -> None:
    host = start(frame_limit=LIMIT)
    error = refused(host, "open", adapter="memory", request=open_request(host, None))
    assert error.code == "response_too_large"
    assert "the session was closed again" in error.message
    assert refused(host, "events", session_id="session-1").code == "session_closed"
    assert host.stop() == 0, host.stderr


def test_an_open_whose_answer_does_not_fit_keeps_what_the_host_named(start: Start) -> None:
    host = start(frame_limit=LIMIT)
    error = refused(host, "open", adapter="memory", request=open_request(host, "mine"))
    assert error.code == "response_too_large"
    assert "session mine stays open" in error.message
    assert host.call("events", session_id="mine") is None
    assert host.call("close", session_id="mine") is None
    assert host.stop() == 0, host.stderr


@pytest.mark.parametrize(
    ("content", "says", "closes"),
    [
        ("live", "the run was cancelled", True),
        ("done", "the run settled as completed", True),
        ("stubborn", "the run was told to stop and is possibly still live (cancelling)", False),
    ],
)
def test_a_submit_whose_answer_does_not_fit_cancels_its_run(
    start: Start, content: str, says: str, closes: bool
) -> None:
    host = start({"adapters": {}, "limits": {"sweep_s": 0.2}}, frame_limit=LIMIT)
    host.open("puppet", "s")
    error = refused(host, "submit", session_id="s", request=submit_request(host, content))
    assert error.code == "response_too_large"
    assert error.message.endswith(says)
    if closes:
        assert host.call("close", session_id="s") is None
    else:
        assert refused(host, "close", session_id="s").code == "run_active"
    host.stop()


def test_a_late_answer_that_does_not_fit_is_undone_as_well(start: Start, tmp_path: Path) -> None:
    host = start(frame_limit=LIMIT + 100)
    host.open("puppet", "s")
    go = tmp_path / "go"
    number = host.send("submit", session_id="s", request=submit_request(host, f"wait {go}"))
    assert host.call("sessions") is not None
    go.touch()
    with pytest.raises(RefusedError) as caught:
        host.answer(number)
    assert caught.value.code == "response_too_large"
    assert "the run" in caught.value.message
    assert host.call("close", session_id="s") is None
    assert host.stop() == 0, host.stderr


@pytest.mark.parametrize("op", ["adapters", "capabilities", "state", "models", "tools"])
def test_other_results_that_do_not_fit_are_refused_and_change_nothing(start: Start, op: str) -> None:
    host = start(frame_limit=LIMIT)
    refused(host, "open", adapter="memory", request=open_request(host, "s"))
    members = {"adapters": {}, "capabilities": {"adapter": "memory"}}.get(op, {"session_id": "s"})
    for _ in range(3):
        error = refused(host, op, **members)
        assert error.code == "response_too_large"
        assert error.details == {}
    assert host.call("close", session_id="s") is None
    assert host.stop() == 0, host.stderr


def test_every_line_of_the_smallest_frame_fits(start: Start) -> None:
    host = start(frame_limit=256)
    for op in ("adapters", "sessions", "x" * 150, "state", "capabilities"):
        host.send(op)
    host.send("capabilities", adapter="é" * 30)
    host.send("state", session_id="s" * 180)
    host.write(
        b'{"id":-9223372036854775808,"op":"models","session_id":null,"allow_degraded_features":["%b"]}\n' % (b"x" * 9)
    )
    assert host.stop() == 0, host.stderr
    answers = [line for way, line in host.lines if way == "<"]
    assert len(answers) == 8
    assert [line["id"] for line in answers][-1] == -(1 << 63)
    codes = [line["error"]["code"] for line in answers if not line["ok"]]
    assert codes[0] == "response_too_large"
    assert "unknown_op" in codes
