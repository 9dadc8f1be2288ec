"""Every op over both doors: what a success looks like, and which check speaks first (spec: stdio 4)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.doors import Start
from tests.support.host import PROTOCOL, Host, RefusedError
from tests.support.trace import check

OPS = (
    "adapters",
    "capabilities",
    "open",
    "sessions",
    "state",
    "models",
    "tools",
    "submit",
    "resolve",
    "cancel",
    "close",
    "events",
)
MEMBERS = ("adapter", "session_id", "after", "run_id", "request", "allow_degraded_features")
TAKES = {
    "adapters": (),
    "capabilities": ("adapter",),
    "open": ("adapter", "request"),
    "sessions": (),
    "state": ("session_id",),
    "models": ("session_id", "allow_degraded_features"),
    "tools": ("session_id", "allow_degraded_features"),
    "submit": ("session_id", "request"),
    "resolve": ("session_id", "request"),
    "cancel": ("session_id", "request"),
    "close": ("session_id",),
    "events": ("session_id", "after", "run_id"),
}
ADDRESSED = {op: takes[0] for op, takes in TAKES.items() if takes}


def refused(host: Host, op: str, **members: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        host.call(op, **members)
    return caught.value


def settle(host: Host, subscription: int) -> None:
    """Take the memory adapter's run through both gates."""
    host.resolve(host.event(subscription, "action.permission.requested"), choice_id="approve", granted=True)
    answer = {"question_id": "choice", "selected_option_ids": ["yes"]}
    host.resolve(host.event(subscription, "user.input.requested"), answers=[answer])


def test_every_success_has_its_shape(start: Start) -> None:
    host = start()
    listing = host.call("adapters")
    assert list(listing) == ["adapters"]
    names = [entry["name"] for entry in listing["adapters"]]
    assert names == ["failing", "memory", "puppet", "small"]
    failing, memory = listing["adapters"][:2]
    assert set(failing) == {"name", "error"}
    assert len(failing["error"]) == 301
    assert set(memory) == {"name", "capability_revision", "capabilities"}

    offered = host.call("capabilities", adapter="memory")
    assert offered["type"] == "capabilities.response"
    assert offered["payload"] == memory["capabilities"]
    assert offered["capability_revision"] == memory["capability_revision"]
    assert re.fullmatch(r"oap-request-\d+", offered["in_reply_to"])
    assert re.fullmatch(r"oap-response-\d+", offered["id"])

    assert host.call("sessions") == {"sessions": []}
    request = host.envelope("session.open.request", "s")
    opened = host.call("open", adapter="memory", request=request)
    assert (opened["type"], opened["in_reply_to"]) == ("session.open.response", request["id"])
    assert (opened["session_id"], opened["payload"]["status"]) == ("s", "idle")
    assert "capability_revision" not in opened

    for op, kind in (("state", "session.state.response"), ("models", "models.response")):
        found = host.call(op, session_id="s")
        assert found["type"] == kind
        assert re.fullmatch(r"oap-request-\d+", found["in_reply_to"])
        assert found["session_id"] == found["payload"]["session_id"] == "s"
    tools = host.call("tools", session_id="s", allow_degraded_features=["action.tools.list"])
    assert tools["type"] == "action.tools.list.response"
    assert tools["capability_revision"] == memory["capability_revision"]

    subscription = host.send("events", session_id="s")
    assert host.answer(subscription) is None
    submit = host.envelope(
        "session.message.submit.request", "s", delivery="auto", messages=[{"role": "user", "content": "go"}]
    )
    submit["capability_revision"] = memory["capability_revision"]
    admitted = host.call("submit", session_id="s", request=submit)
    assert (admitted["type"], admitted["in_reply_to"]) == ("session.message.submit.response", submit["id"])
    assert admitted["capability_revision"] == memory["capability_revision"]
    run = admitted["payload"]["run_id"]
    settle(host, subscription)
    assert host.terminal(subscription, run)["type"] == "run.completed"
    check(host.envelopes(subscription))

    run = host.submit("s", "again")
    stop = host.envelope("run.cancel.request", "s", run)
    cancelled = host.call("cancel", session_id="s", request=stop)
    assert (cancelled["type"], cancelled["in_reply_to"]) == ("run.cancel.response", stop["id"])
    assert cancelled["payload"] == {"session_id": "s", "run_id": run, "accepted": True, "status": "cancelling"}

    (entry,) = host.call("sessions")["sessions"]
    assert {name: entry[name] for name in ("session_id", "adapter", "status")} == {
        "session_id": "s",
        "adapter": "memory",
        "status": "idle",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["created_at"])
    assert host.call("close", session_id="s") is None
    assert host.call("close", session_id="s") is None
    assert host.call("state", session_id="s")["payload"]["status"] == "closed"
    assert refused(host, "events", session_id="s").code == "session_closed"
    assert host.stop() == 0, host.stderr
    assert host.stderr.endswith("trunkline: stopped\n")
    for direction, line in host.lines:
        if direction == "<" and "ok" in line:
            assert set(line) == {"id", "ok", "result"} | ({"error"} if not line["ok"] else set())
            assert line["ok"] or line["result"] is None


def test_the_listing_follows_every_change_of_state(start: Start) -> None:
    host = start()

    def entry(session: str) -> dict[str, Any]:
        listed = host.call("sessions")["sessions"]
        assert [one["session_id"] for one in listed] == sorted(one["session_id"] for one in listed)
        found: dict[str, Any] = next(one for one in listed if one["session_id"] == session)
        state = host.call("state", session_id=session)["payload"]
        for name in ("status", "active_run_id", "active_runs"):
            assert found.get(name) == state.get(name)
        return found

    for session in ("b", "a"):
        host.open("memory", session)
    subscription = host.subscribe("a")
    assert entry("a")["status"] == "idle"
    run = host.submit("a", "go")
    assert (entry("a")["status"], entry("a")["active_run_id"]) == ("waiting_for_input", run)
    queued = host.submit("a", "next")
    assert [one["status"] for one in entry("a")["active_runs"]] == ["running", "queued"]
    settle(host, subscription)
    host.terminal(subscription, run)
    assert entry("a")["active_run_id"] == queued
    host.cancel("a", queued)
    assert entry("a")["status"] == "idle"
    host.call("close", session_id="a")
    assert entry("a")["status"] == "closed"
    assert entry("b")["status"] == "idle"


def test_a_session_that_cannot_be_read_is_listed_as_an_error(start: Start) -> None:
    host = start()
    for session in ("fine", "unreadable-1"):
        host.open("puppet", session)
    listed = host.call("sessions")["sessions"]
    assert [(entry["session_id"], entry["status"]) for entry in listed] == [("fine", "idle"), ("unreadable-1", "error")]
    assert "active_runs" not in listed[1]
    assert refused(host, "state", session_id="unreadable-1").code in ("internal", "state_failed")
    assert host.call("state", session_id="fine")["payload"]["status"] == "idle"
    assert host.stop() == 0, host.stderr


def test_what_has_no_json_form_never_reaches_the_pipe(start: Start) -> None:
    host = start()
    host.open("puppet", "s")
    error = refused(host, "open", adapter="puppet", request=host.envelope("session.open.request", "hidden-1"))
    assert error.code in ("response_too_large", "internal", "open_failed")
    subscription = host.subscribe("s")
    run = host.submit("s", "unspeakable")
    assert host.terminal(subscription, run)
    check(host.envelopes(subscription))
    assert host.stop() == 0, host.stderr
    assert "\ud800" not in "".join(str(line) for way, line in host.lines if way == "<")


def test_a_surplus_parameter_is_refused_in_any_form_and_an_empty_address_too(start: Start) -> None:
    host = start()
    for op in OPS:
        for member in MEMBERS:
            if member not in TAKES[op]:
                error = refused(host, op, **{member: None})
                assert (error.code, error.message) == ("invalid_request", f"op {op} accepts no {member} parameter")
        if op in ADDRESSED:
            for members in ({}, {ADDRESSED[op]: None}, {ADDRESSED[op]: ""}):
                assert refused(host, op, **members).code == "invalid_request"
    # the op comes first, whatever else the line holds
    for op in ("State", "state ", "session/open", "x" * 1000):
        error = refused(host, op, adapter=None, session_id="s", request=[], after="x")
        assert error.code == "unknown_op"
        assert len(error.message) <= 301
    assert host.call("sessions") == {"sessions": []}
    assert host.stop() == 0, host.stderr


def gated(host: Host) -> list[tuple[str, dict[str, Any], str]]:
    """Return the gate's five checks in order: what is sent as `request` to a submit, and the code that answers."""
    good = host.envelope(
        "session.message.submit.request", "s", delivery="auto", messages=[{"role": "user", "content": "go"}]
    )
    del good["payload"]["session_id"]
    wrong = {**good, "payload": {"delivery": "auto"}}
    return [
        ("invalid_request", {}, "absent"),
        ("invalid_request", {"request": None}, "null"),
        ("schema_invalid", {"request": {}}, "no member"),
        ("schema_invalid", {"request": {**good, "type": "session.frobnicate.request"}}, "unknown type"),
        ("schema_invalid", {"request": {**good, "more": 1}}, "unknown member"),
        ("schema_invalid", {"request": wrong}, "payload"),
        ("type_mismatch", {"request": host.envelope("run.cancel.request", "s", "run-1")}, "another type"),
    ]


def test_the_request_gate_speaks_in_its_order_and_before_the_session_is_looked_up(start: Start) -> None:
    host = start({"adapters": {"memory": {}}, "limits": {"envelope_bytes": 4096}})
    for code, members, why in gated(host):
        assert refused(host, "submit", session_id="nobody", **members).code == code, why
    long = {"request": {"padding": "x" * 5000}}
    assert refused(host, "submit", session_id="nobody", **long).code == "request_too_large"
    broken = {900: (b'{"a":1,"a":2}', "malformed_json"), 901: (b"[]", "schema_invalid"), 902: (b"7", "schema_invalid")}
    for number, (text, code) in broken.items():
        host.write(b'{"id":%d,"op":"submit","session_id":"nobody","request":%b}\n' % (number, text))
        with pytest.raises(RefusedError) as caught:
            host.answer(number)
        assert caught.value.code == code
    good = host.envelope("run.cancel.request", "s", "run-1")
    assert refused(host, "cancel", session_id="nobody", request=good).code == "unknown_session"
    host.open("memory", "s")
    host.open("memory", "t")
    assert refused(host, "cancel", session_id="t", request=good).code == "scope_mismatch"
    assert refused(host, "cancel", session_id="s", request=good).code == "run_not_found"
    assert refused(host, "resolve", session_id="s", request=good).code == "type_mismatch"
    other: dict[str, Any] = {
        **PROTOCOL,
        "type": "user.input.cancel.request",
        "id": "x",
        "session_id": "s",
        "run_id": "run-1",
    }
    other["payload"] = {
        "interaction_id": "input-1",
        "requested_by": "reference.memory",
        "responded_by": "user",
        "session_id": "s",
        "run_id": "run-1",
    }
    assert refused(host, "resolve", session_id="s", request=other).code == "type_mismatch"
    assert host.stop() == 0, host.stderr


def test_open_checks_the_gate_before_the_adapter_and_the_adapter_before_the_rest(start: Start) -> None:
    host = start()
    submit = host.envelope("session.message.submit.request", "s", delivery="auto", messages=[])
    assert refused(host, "open", adapter="nobody", request=None).code == "invalid_request"
    assert refused(host, "open", adapter="nobody", request=submit).code in ("schema_invalid", "type_mismatch")
    good = host.envelope("session.open.request", "s")
    assert refused(host, "open", adapter="nobody", request=good).code == "unknown_adapter"
    assert refused(host, "open", adapter="failing", request=good).code == "probe_failed"
    assert refused(host, "open", adapter="puppet", request=host.envelope("session.open.request", "broken-1")).code == (
        "open_failed"
    )
    assert host.call("sessions") == {"sessions": []}
    host.open("puppet", "s")
    assert refused(host, "open", adapter="memory", request=good).code == "session_exists"
    host.call("close", session_id="s")
    assert refused(host, "open", adapter="memory", request=good).code == "session_exists"
    stale = {**host.envelope("session.open.request", "t", subscribe=True), "capability_revision": "old"}
    error = refused(host, "open", adapter="memory", request=stale)
    assert error.code in ("stale_capabilities", "unsupported_feature")


def test_a_fault_inside_an_op_is_answered_with_its_id(start: Start) -> None:
    host = start()
    host.open("puppet", "s")
    for verb, code in (("raise", "internal"), ("refuse", "invalid_submission")):
        request = host.envelope(
            "session.message.submit.request", "s", delivery="auto", messages=[{"role": "user", "content": verb}]
        )
        assert refused(host, "submit", session_id="s", request=request).code == code
    run = host.submit("s", "done")
    assert host.call("state", session_id="s")["payload"]["as_of"]["settled"][-1]["run_id"] == run
    assert host.call("tools", session_id="s")["payload"]["tools"] == []
    assert refused(host, "models", session_id="s").code == "unsupported_feature"
    assert host.stop() == 0, host.stderr
    assert "Traceback" not in host.stderr


def test_ids_come_back_as_they_were_sent_also_twice_in_flight(start: Start) -> None:
    host = start()
    ids = [0, -0, -1, -(1 << 63), (1 << 63) - 1, (1 << 53) + 1]
    for number in ids:
        host.write(b'{"id":%d,"op":"sessions"}\n' % number)
        assert host.answer(number) == {"sessions": []}
    host.write(b'{"id":77,"op":"sessions"}\n{"id":77,"op":"adapters"}\n')
    assert host.stop() == 0, host.stderr
    answers = [line for way, line in host.lines if way == "<" and line["id"] == 77]
    assert sorted(next(iter(line["result"])) for line in answers) == ["adapters", "sessions"]
