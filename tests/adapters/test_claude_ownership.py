"""Turns that the harness starts by itself belong to no run, whatever crosses them."""

from __future__ import annotations

from typing import Any

from trunkline.protocol import names

from tests.support import trace
from tests.support.claude_wire import (
    asks,
    block,
    call,
    delta,
    desk,
    init,
    result,
    returned,
    starts,
    stops,
)

# -- turns of the harness's own ----------------------------------------------------------------------------------------

NOTIFIED = {
    "type": "system",
    "subtype": "task_notification",
    "task_id": "b1",
    "tool_use_id": "t1",
    "status": "completed",
}
OWN: dict[str, Any] = {"origin": {"kind": "task-notification"}}


def own_turn(total: int) -> list[dict[str, Any]]:
    return [
        init(),
        starts("own"),
        delta("to myself"),
        block("own", call("t9")),
        returned("t9", "x"),
        result("to myself", total=total, **OWN),
    ]


def test_a_turn_of_its_own_at_rest_is_nobodys() -> None:
    host = desk()
    host.submit("one")
    host.feed(init(), result("a"), NOTIFIED, *own_turn(2))
    assert host.kinds() == [names.RUN_STARTED, names.CONTENT_DELTA, names.RUN_COMPLETED]
    assert host.notes == []
    host.submit("two")
    host.feed(init(), starts("m2"), delta("b"), stops(), result("b", total=3))
    assert host.text("run-2") == "b"
    cost = host.last(names.RUN_COMPLETED)["extensions"][names.EXTENSION]["usage"]["cost_usd"]
    assert cost == 0.25  # its own turn is not charged to the run
    trace.check(host.events)


def test_a_prompt_that_waits_behind_a_turn_of_its_own() -> None:
    host = desk()
    host.submit("one")
    host.feed(init(), result("a"), NOTIFIED, *own_turn(2)[:3])
    host.submit("two")
    host.feed(*own_turn(2)[3:], init(), starts("m2"), delta("b"), stops(), result("b", total=3))
    assert host.text("run-2") == "b"
    assert host.kinds("run-2") == [names.RUN_STARTED, names.CONTENT_DELTA, names.RUN_COMPLETED]
    trace.check(host.events)


def test_a_prompt_that_crosses_the_notification() -> None:
    host = desk()
    host.submit("one")
    host.feed(init(), result("a"))
    host.submit("two")
    host.feed(NOTIFIED, *own_turn(2), init(), starts("m2"), delta("b"), stops(), result("b", total=3))
    assert host.text("run-2") == "b"
    trace.check(host.events)


def test_a_guess_that_proves_wrong_loses_no_reply() -> None:
    """The notification was told within the prompt's own turn; the result, which names no origin, is the run's."""
    host = desk()
    host.submit("one")
    host.feed(NOTIFIED, init(), starts("m2"), delta("b"), stops(), result("b"))
    assert host.text("run-1") == "b"
    assert host.kinds()[-1] == names.RUN_COMPLETED


def test_nobody_can_be_asked_in_a_turn_of_its_own() -> None:
    host = desk()
    host.feed(NOTIFIED, init(), asks("q1", "t9"))
    assert host.written[-1]["response"]["response"]["behavior"] == "deny"
    assert host.events == []


def test_a_task_that_ends_within_the_turn_changes_nothing() -> None:
    host = desk()
    host.submit("one")
    host.feed(init(), block("m1", call("t1")), NOTIFIED, returned("t1", "x"), result("a"))
    host.submit("two")
    host.feed(init(), starts("m2"), delta("b"), stops(), result("b", total=2))
    assert host.text("run-2") == "b"
