"""Subscriptions over both doors: cursors, slots, and each line that ends one (spec: stdio 6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Start
from tests.support.host import WAIT_S, Host, RefusedError
from tests.support.trace import check

ANSWER = [{"question_id": "choice", "selected_option_ids": ["yes"]}]


def refused(host: Host, **members: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        host.call("events", **members)
    return caught.value


def golden(host: Host, session: str, subscription: int, run: str) -> None:
    """Take the memory adapter's run to its end."""

    def gate(kind: str) -> dict[str, Any]:
        return host._until(
            lambda: next((one for one in host.envelopes(subscription, run) if one["type"] == kind), None), WAIT_S, kind
        )

    host.resolve(gate("action.permission.requested"), choice_id="approve", granted=True)
    host.resolve(gate("user.input.requested"), answers=ANSWER)
    host.terminal(subscription, run)


def sequences(host: Host, subscription: int, run: str | None = None) -> list[int]:
    return [envelope["sequence"] for envelope in host.envelopes(subscription, run)]


def ending(host: Host, subscription: int) -> dict[str, Any]:
    """Wait for the line that ends a subscription otherwise than by a terminal."""
    return host._until(
        lambda: next(iter(host.signals(subscription)), None), WAIT_S, f"the end of subscription {subscription}"
    )


def test_the_cursor_table(start: Start) -> None:
    host = start()
    host.open("memory", "s")
    assert refused(host, session_id="nobody", after="x").code == "unknown_session"
    assert refused(host, session_id="s", after=0).code == "no_run_to_resume"
    live = host.subscribe("s", after=None)
    run = host.submit("s", "go")
    golden(host, "s", live, run)
    assert sequences(host, live) == list(range(1, 13))

    number = 5000
    for text in ('"5"', "5.0", "-1", "1e1", "true", "false", "[]", "{}", "-0", "5e0", "0.0", "[5]", '""', "9" * 400):
        number += 1
        host.write(b'{"id":%d,"op":"events","session_id":"s","after":%b}\n' % (number, text.encode()))
        with pytest.raises(RefusedError) as caught:
            host.answer(number)
        assert caught.value.code == "invalid_cursor", text
    assert refused(host, session_id="s", run_id=run).code == "invalid_cursor"
    assert refused(host, session_id="s", run_id="run-77", after=0).code == "run_not_found"
    future = refused(host, session_id="s", after=13)
    assert future.code == "replay_cursor_future"
    assert refused(host, session_id="s", after=(1 << 63) - 1, run_id=run).code == "replay_cursor_future"

    for after in (0, 1, 9, 11):
        subscription = host.subscribe("s", after=after)
        host.terminal(subscription, run)
        assert sequences(host, subscription) == list(range(after + 1, 13))
    named = host.subscribe("s", after=3, run_id=run)
    host.terminal(named, run)
    assert sequences(host, named) == list(range(4, 13))
    nothing = host.subscribe("s", after=12)
    assert host.call("sessions")
    assert host.envelopes(nothing) == host.signals(nothing) == []

    later = host.subscribe("s")
    assert host.call("sessions")
    assert host.envelopes(later) == [], "history comes only when it is asked for"
    host.call("close", session_id="s")
    assert refused(host, session_id="s", after="x").code == "session_closed"
    assert host.stop() == 0, host.stderr


def test_a_cursor_older_than_what_is_kept_is_acknowledged_and_ends_with_a_gap(start: Start) -> None:
    host = start()
    host.open("small", "s")
    run = host.submit("s", "burst 20 10")
    assert host.call("state", session_id="s")["payload"]["transcript_cursor"] == "22"
    for after in (0, 13):
        subscription = host.subscribe("s", after=after)
        gap = ending(host, subscription)
        assert host.envelopes(subscription) == []
        assert gap.pop("message")
        assert gap == {
            "event": "oap-replay-gap",
            "id": subscription,
            "session_id": "s",
            "requested_after": after,
            "oldest_available": 15,
            "latest_available": 22,
        }
    subscription = host.subscribe("s", after=14)
    host.terminal(subscription, run)
    assert sequences(host, subscription) == list(range(15, 23))
    assert host.stop() == 0, host.stderr


def test_a_live_subscription_ends_at_the_terminal_and_gives_its_slot_back(start: Start) -> None:
    host = start({"adapters": {"memory": {}}, "limits": {"subscriptions": 1}})
    host.open("memory", "s")
    for number in range(3):
        subscription = host.subscribe("s")
        busy = refused(host, session_id="s")
        assert busy.code == "busy"
        assert "1 subscriptions are open" in busy.message
        assert busy.message.endswith("send this request again")
        run = host.submit("s", f"go {number}")
        if number == 2:
            host.cancel("s", run)
            assert host.terminal(subscription, run)["type"] == "run.cancelled"
        else:
            golden(host, "s", subscription, run)
        check(host.envelopes(subscription))
        assert host.signals(subscription) == []
    assert host.stop() == 0, host.stderr


def test_a_reservation_spans_a_live_subscription_and_never_a_cursor(start: Start) -> None:
    host = start()
    host.open("memory", "s")
    live = host.subscribe("s")
    first = host.submit("s", "one")
    second = host.submit("s", "two")
    cursor = host.subscribe("s", after=0)
    ahead = host.subscribe("s", after=0, run_id=second)
    golden(host, "s", live, first)
    golden(host, "s", live, second)
    host.terminal(cursor, first)
    host.terminal(ahead, second)
    assert sequences(host, live, first) == list(range(1, 13))
    assert sequences(host, live, second) == list(range(1, 13))
    assert [one["run_id"] for one in host.envelopes(live)] == [first] * 12 + [second] * 12
    check(host.envelopes(live))
    assert {one["run_id"] for one in host.envelopes(cursor)} == {first}
    assert sequences(host, cursor) == list(range(1, 13))
    assert {one["run_id"] for one in host.envelopes(ahead)} == {second}
    assert sequences(host, ahead) == list(range(1, 13))
    assert host.stop() == 0, host.stderr


def test_a_cancelled_reservation_leaves_the_running_subscription_alone(start: Start) -> None:
    host = start()
    host.open("memory", "s")
    live = host.subscribe("s")
    first = host.submit("s", "one")
    second = host.submit("s", "two")
    host.cancel("s", second)
    cursor = host.subscribe("s", after=0)
    golden(host, "s", live, first)
    host.terminal(cursor, first)
    assert sequences(host, live, first) == sequences(host, cursor) == list(range(1, 13))
    assert sequences(host, live, second) == [1]
    assert {one["run_id"] for one in host.envelopes(cursor)} == {first}
    check(host.envelopes(live))


def test_two_subscriptions_are_independent_and_know_their_own_session_only(start: Start) -> None:
    host = start()
    for session in ("a", "b"):
        host.open("puppet", session)
    runs = {session: host.submit(session, "live") for session in ("a", "b")}
    for session in ("a", "b"):
        host.cancel(session, runs[session])
    for session in ("a", "b"):
        subscriptions = [host.subscribe(session, after=after) for after in (0, 2)]
        for after, subscription in zip((0, 2), subscriptions, strict=True):
            host.terminal(subscription, runs[session])
            assert sequences(host, subscription) == list(range(after + 1, 4))
            assert {one["session_id"] for one in host.envelopes(subscription)} == {session}
    other = refused(host, session_id="b", after=1, run_id=runs["a"])
    assert other.code == "run_not_found"


def test_closing_a_session_ends_its_subscriptions_with_a_line(start: Start) -> None:
    host = start()
    for session in ("s", "t"):
        host.open("memory", session)
    both = [host.subscribe("s"), host.subscribe("s")]
    other = host.subscribe("t")
    assert host.call("close", session_id="s") is None
    for subscription in both:
        assert ending(host, subscription) == {"event": "oap-session-closed", "id": subscription, "session_id": "s"}
    assert host.signals(other) == []
    assert host.stop() == 0, host.stderr


def test_a_stream_that_fails_says_what_was_delivered_last(start: Start, tmp_path: Path) -> None:
    host = start()
    for session in ("s", "t"):
        host.open("puppet", session)
    live = host.subscribe("s")
    run = host.submit("s", "break")
    failed = host.terminal(live, run)
    assert failed["payload"]["error"]["message"] == "the harness broke"
    assert failed["payload"]["settled_by"] == "inferred"
    check(host.envelopes(live))

    signal = tmp_path / "break-now"
    host.submit("t", f"breaks {signal}")
    idle = host.subscribe("t")
    signal.touch()
    line = ending(host, idle)
    assert (line["event"], line["session_id"], line["sequence"]) == ("oap-stream-failed", "t", 0)
    assert host.call("state", session_id="t")["payload"]["status"] == "error"
    assert host.stop() == 0, host.stderr


def test_an_envelope_that_fits_in_no_frame_ends_the_stream_where_it_can_be_skipped(start: Start) -> None:
    host = start(frame_limit=1100)
    host.open("puppet", "s")
    live = host.subscribe("s")
    run = host.submit("s", "burst 3 1000")
    after = 0
    for expected in (2, 3, 4):
        subscription = live if after == 0 else host.subscribe("s", after=after)
        line = ending(host, subscription)
        assert line == {
            "event": "oap-frame-limit",
            "id": subscription,
            "session_id": "s",
            "run_id": run,
            "sequence": expected,
        }
        assert sequences(host, subscription) == ([1] if after == 0 else [])
        after = expected
    last = host.subscribe("s", after=after)
    assert host.terminal(last, run)["sequence"] == 5
    assert host.stop() == 0, host.stderr
    assert all(len(json.dumps(line, separators=(",", ":"))) <= 1100 for way, line in host.lines if way == "<")


def test_64_subscriptions_and_the_65th(start: Start) -> None:
    host = start()
    for session in ("s", "t"):
        host.open("puppet", session)
    subscriptions = [host.subscribe("s" if number % 2 else "t") for number in range(64)]
    busy = refused(host, session_id="s")
    assert busy.code == "busy"
    assert "64 subscriptions are open" in busy.message
    assert busy.message.endswith("send this request again")
    # a stream holds no op slot, and every one gets every envelope
    runs = {session: host.submit(session, "burst 50 20") for session in ("s", "t")}
    for number, subscription in enumerate(subscriptions):
        session = "s" if number % 2 else "t"
        host.terminal(subscription, runs[session])
        assert sequences(host, subscription) == list(range(1, 53))
        assert {one["session_id"] for one in host.envelopes(subscription)} == {session}
    assert host.subscribe("s")
    assert host.stop() == 0, host.stderr


def test_the_acknowledgement_comes_before_the_first_envelope_under_load(start: Start, tmp_path: Path) -> None:
    host = start()
    host.open("puppet", "s")
    first = host.subscribe("s")
    run = host.submit("s", f"stream {tmp_path / 'enough'}")
    subscriptions = [first]
    for number in range(20):
        host.event(first, "content.delta", start=3 * number)
        subscriptions.append(host.send("events", session_id="s", after=None if number % 3 else 0))
    for subscription in subscriptions:
        host.event(subscription, "content.delta")
    (tmp_path / "enough").touch()
    for subscription in subscriptions:
        host.terminal(subscription, run)
    acknowledged: set[int] = set()
    for way, line in host.lines:
        if way == "<":
            if "event" in line:
                assert line["id"] in acknowledged
            else:
                acknowledged.add(line["id"])
    whole = sequences(host, first)
    assert whole == list(range(1, len(whole) + 1))
    for number, subscription in enumerate(subscriptions[1:]):
        seen = sequences(host, subscription)
        assert seen == (whole[seen[0] - 1 :] if number % 3 else whole)


def test_submit_and_events_in_one_write_lose_nothing(start: Start) -> None:
    host = start()
    host.open("puppet", "s")
    for number in range(1000, 1040, 2):
        request = host.envelope(
            "session.message.submit.request", "s", delivery="auto", messages=[{"role": "user", "content": "burst 5 9"}]
        )
        lines = [
            {"id": number, "op": "events", "session_id": "s"},
            {"id": number + 1, "op": "submit", "session_id": "s", "request": request},
        ]
        host.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        run = host.answer(number + 1)["payload"]["run_id"]
        host.terminal(number, run)
        assert sequences(host, number) == list(range(1, 8))
    assert host.stop() == 0, host.stderr
