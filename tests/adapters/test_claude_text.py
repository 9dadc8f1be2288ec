"""Text and reasoning of a turn: streamed, whole, broken off, and whose it is."""

from __future__ import annotations

from trunkline.protocol import names

from tests.support import trace
from tests.support.claude_wire import block, call, delta, desk, event, init, result, returned, said, starts, stops
from tests.support.desk import compact


def test_streamed_text_and_reasoning_come_once() -> None:
    host = desk()
    assert host.submit("hello") is None
    host.feed(init(), starts("m1"), delta("let me see", "thinking"), delta("Hel"), delta("lo"))
    host.feed(block("m1", said("Hello")), stops(), result("Hello"))
    assert [row[1:] for row in compact(host.events)[:3]] == [
        [names.RUN_STARTED, {"status": "running"}],
        [names.CONTENT_DELTA, "m1", "reasoning", 1, "let me see"],
        [names.CONTENT_DELTA, "m1", "text", 2, "Hello"],
    ]
    completed = host.last(names.RUN_COMPLETED)["payload"]
    assert completed["final_response"] == {"id": "m1", "role": "assistant", "content": "Hello"}
    assert completed["stop_reason"] == "end_turn"
    assert completed["model_id"] == "big-1"
    trace.check(host.events)


def test_a_whole_message_without_stream_is_published() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", {"type": "thinking", "thinking": "hm"}), block("m1", said("Hello")), result("Hello"))
    assert host.text() == "Hello"
    assert host.text(part="reasoning") == "hm"
    assert host.last(names.CONTENT_DELTA)["payload"]["message_id"] == "m1"


def test_text_in_the_start_of_a_block_is_not_lost() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), starts("m1"))
    host.feed(event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Well, "}}))
    host.feed(delta("hello"), block("m1", said("Well, hello")), stops(), result("Well, hello"))
    assert host.text() == "Well, hello"


def test_a_broken_stream_is_made_good_under_another_id() -> None:
    """The harness asks again without streaming; what was shown belongs to a message that never ends."""
    host = desk()
    host.submit("hello")
    host.feed(init(), starts("m1"), delta("half of"), block("m2", said("all of it")), result("all of it"))
    first, second = (event for event in host.events if event["type"] == names.CONTENT_DELTA)
    assert (first["payload"]["message_id"], second["payload"]["message_id"]) == ("m1", "m2")
    assert second["extensions"][names.EXTENSION] == {"native": {"supersedes_message_id": "m1"}}
    assert host.last(names.RUN_COMPLETED)["payload"]["final_response"]["id"] == "m2"
    assert any("m1" in note and "broke off after 7 characters" in note for note in host.notes)
    trace.check(host.events)


def test_a_reply_made_again_with_a_stream_is_noted() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), starts("m1"), delta("half"), starts("m2"), delta("whole"), stops(), result("whole"))
    assert len([note for note in host.notes if "broke off" in note]) == 1


def test_a_message_that_ended_is_not_called_broken() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), starts("m1"), delta("a"), block("m1", said("a")), block("m1", call("t1")), stops())
    host.feed(returned("t1", "x"), starts("m2"), delta("b"), stops(), result("b"))
    assert not [note for note in host.notes if "broke off" in note]
    assert host.last(names.RUN_COMPLETED)["payload"]["final_response"]["id"] == "m2"


def test_words_of_a_failed_request_are_no_text() -> None:
    host = desk()
    host.submit("hello")
    failed = block("x", said("API Error: 500"), error="server_error")
    host.feed(init(), failed, result("API Error: 500", is_error=True, api_error_status=500))
    assert host.text() == ""
    assert host.last(names.RUN_FAILED)["payload"]["error"] == {
        "code": "model_error",
        "message": "API Error: 500",
        "retriable": True,
        "details": {"kind": "server_error", "status": 500},
    }


def test_text_that_only_the_result_holds_is_published() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), result("Unknown command"))
    assert host.text() == "Unknown command"
    assert "id" not in host.last(names.RUN_COMPLETED)["payload"]["final_response"]


def test_a_turn_without_text_completes_with_none() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), result(""))
    assert host.kinds() == [names.RUN_STARTED, names.RUN_COMPLETED]
    assert host.last(names.RUN_COMPLETED)["payload"]["final_response"]["content"] == ""


def test_a_command_that_asks_no_model_names_none() -> None:
    host = desk()
    host.submit("/cost")
    synthetic = block("x", said("nothing spent"))
    synthetic["message"]["model"] = "<synthetic>"
    host.feed(init(), synthetic, result("nothing spent", stop_reason=None, terminal_reason=None))
    completed = host.last(names.RUN_COMPLETED)["payload"]
    assert "model_id" not in completed
    assert completed["stop_reason"] == "completed"
    assert host.text() == "nothing spent"


def test_a_sub_agent_speaks_through_its_call() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1", "Agent", prompt="look")))
    host.feed(event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "inner"}}, parent="t1"))
    host.feed(block("m9", said("inner words"), parent="t1"), block("m9", call("t2"), parent="t1"))
    host.feed(returned("t2", "found", parent="t1"), returned("t1", [said("inner result")]))
    host.feed(starts("m2"), delta("outer"), stops(), result("outer"))
    assert host.text() == "outer"
    assert [row[1] for row in compact(host.events)] == [
        names.RUN_STARTED,
        names.CALL_REQUESTED,
        names.CALL_STARTED,
        names.CALL_PROGRESS,
        names.CALL_REQUESTED,
        names.CALL_STARTED,
        names.CALL_COMPLETED,
        names.CALL_COMPLETED,
        names.CONTENT_DELTA,
        names.RUN_COMPLETED,
    ]
    inner = next(event for event in host.events if event.get("tool_call_id") == "t2")
    assert inner["extensions"][names.EXTENSION] == {"native": {"parent_tool_call_id": "t1"}}
    trace.check(host.events)
