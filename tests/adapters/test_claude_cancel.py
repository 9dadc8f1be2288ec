"""How a run is stopped: by its host, by the end of its session; and what may win against that."""

from __future__ import annotations

from trunkline.protocol import names
from trunkline.protocol.limits import Limits

from tests.support import trace
from tests.support.claude_wire import (
    aborted,
    asks,
    block,
    call,
    control_ok,
    desk,
    init,
    refused,
    result,
    returned,
    running,
    said,
    stops,
)

# -- cancel ------------------------------------------------------------------------------------------------------------


def test_cancelled_in_the_stream() -> None:
    host = running(Limits(harness_cancel_s=3))
    assert host.cancel() is None
    assert host.written[-1]["request"] == {"subtype": "interrupt"}
    assert host.armed["cancel"] == 3
    host.feed(control_ok("req_2"), block("m1", said("some")), aborted(usage={}, modelUsage={}, total_cost_usd=0))
    cancelled = host.last(names.RUN_CANCELLED)
    assert "settled_by" not in cancelled["payload"]
    assert "usage" not in cancelled["payload"]
    assert cancelled["extensions"][names.EXTENSION]["usage"]["confidence"] == "unverified"
    assert cancelled["extensions"][names.EXTENSION]["native"]["terminal_reason"] == "aborted_streaming"
    assert (host.armed.get("cancel"), host.armed.get("idle")) == (None, None)
    trace.check(host.events, cancels=host.cancelled)


def test_cancelled_with_a_question_open() -> None:
    host = running()
    host.feed(block("m1", call("t1")), asks("q1", "t1"))
    host.cancel()
    host.feed({"type": "control_cancel_request", "request_id": "q1"}, control_ok("req_2"))
    assert host.last(names.PERMISSION_RESOLVED)["payload"]["reason"]["code"] == "run_cancelled"
    host.feed(returned("t1", "rejected", is_error=True), aborted("aborted_tools"))
    assert host.kinds()[-3:] == [names.PERMISSION_RESOLVED, names.CALL_CANCELLED, names.RUN_CANCELLED]
    trace.check(host.events, cancels=host.cancelled)


def test_a_question_after_the_cancel_is_denied() -> None:
    host = running()
    host.cancel()
    host.feed(asks("q1", "t1"))
    assert host.written[-1]["response"]["response"]["behavior"] == "deny"
    host.feed(returned("t1", "The run is ending.", is_error=True), aborted("aborted_tools"))
    trace.check(host.events, cancels=host.cancelled)


def test_completion_may_win() -> None:
    host = running()
    host.cancel()
    host.feed(control_ok("req_2"), stops(), result("some"))
    assert host.kinds()[-1] == names.RUN_COMPLETED
    host.submit("next")
    host.feed(init(), result("fine", total=2))
    assert host.kinds("run-2")[-1] == names.RUN_COMPLETED
    trace.check(host.events, cancels=host.cancelled)


def test_a_model_error_may_win() -> None:
    host = running()
    host.cancel()
    host.feed(result("API Error: 500", is_error=True, api_error_status=500))
    assert host.kinds()[-1] == names.RUN_FAILED


def test_an_interrupt_without_effect_ends_the_process() -> None:
    host = running()
    host.cancel()
    host.elapsed("cancel")
    assert host.end == "stop"
    assert host.live().id == "run-1"  # nothing is claimed until the process is gone
    host.gone(-15)
    cancelled = host.last(names.RUN_CANCELLED)["payload"]
    assert cancelled["settled_by"] == "inferred"
    assert "did not stop the turn" in cancelled["reason"]
    trace.check(host.events, cancels=host.cancelled)


def test_a_result_while_the_process_is_stopped_counts() -> None:
    host = running()
    host.cancel()
    host.elapsed("cancel")
    host.feed(aborted())
    assert host.kinds()[-1] == names.RUN_CANCELLED
    refused(host.submit("next"), names.SESSION_CLOSED)
    host.gone(-15)
    trace.check(host.events, cancels=host.cancelled)


def test_cancelled_twice_is_interrupted_once() -> None:
    host = running()
    host.cancel()
    assert host.ask(names.CANCEL, "run-1") is None
    assert [line["request"]["subtype"] for line in host.written if "request" in line].count("interrupt") == 1


def test_cancelled_before_the_turn_began() -> None:
    """The interrupt may meet the turn before; the turn that begins then is interrupted itself."""
    host = desk()
    host.submit("hello")
    host.cancel()
    host.feed(control_ok("req_2"), init())
    assert [line["request"]["subtype"] for line in host.written if "request" in line].count("interrupt") == 2
    host.feed(aborted())
    trace.check(host.events, cancels=host.cancelled)


# -- closing -----------------------------------------------------------------------------------------------------------


def test_closing_at_rest_says_nothing() -> None:
    host = desk()
    before = len(host.written)
    host.close()
    assert len(host.written) == before
    host.gone(0)


def test_closing_interrupts_a_live_turn_first() -> None:
    host = running()
    host.close()
    assert host.written[-1]["request"] == {"subtype": "interrupt"}
    host.feed(control_ok("req_2"), aborted())
    assert host.last(names.RUN_FAILED)["payload"]["error"]["code"] == "session_closed"
    host.gone(1)
    trace.check(host.events)


def test_closing_a_harness_that_says_nothing_more() -> None:
    host = running()
    host.close()
    host.gone(-9)
    failed = host.last(names.RUN_FAILED)["payload"]
    assert failed["error"]["code"] == "session_closed"
    assert failed["settled_by"] == "inferred"
    trace.check(host.events)
