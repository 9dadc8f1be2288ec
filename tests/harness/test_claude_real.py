"""The real Claude Code behind the real gateway, on a mock model: every way in which a run begins, asks and ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.rig import WAIT_S, Rig, assert_empty, inside, rig, until
from tests.support.host import RefusedError

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for left-over processes in /proc"),
]

EXTENSION = "dev.trunkline"


def usage(terminal: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = terminal["extensions"][EXTENSION]["usage"]
    return found


def test_handshake_state_and_models(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        models = it.host.call("models", session_id="s1")["payload"]
        ids = [model["id"] for model in models["models"]]
        assert models["current_model_id"] in ids
        assert len(ids) == len(set(ids)) > 1
        assert [model["id"] for model in models["models"] if model.get("default")] == [models["current_model_id"]]
        state = it.host.call("state", session_id="s1")["payload"]
        assert state["status"] == "idle"
        assert state["current_model_id"] == models["current_model_id"]
        with pytest.raises(RefusedError, match="unsupported_feature"):
            it.host.call("tools", session_id="s1")
        it.stop()


def test_streamed_text_and_reasoning_in_two_turns(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#think one two\n#say hello there world")
        first = it.end(run)
        assert it.kinds(run) == ["run.started", "content.delta", "run.completed"]
        assert it.text(run) == "hello there world"
        assert it.text(run, "reasoning") == "one two"
        deltas = [event for event in it.events(run) if event["type"] == "content.delta"]
        assert len(deltas) == 5
        assert len({event["payload"]["message_id"] for event in deltas}) == 1
        payload = first["payload"]
        assert payload["final_response"] == {
            "id": deltas[0]["payload"]["message_id"],
            "role": "assistant",
            "content": "hello there world",
        }
        assert payload["stop_reason"] == "end_turn"
        assert payload["usage"] == {"input_tokens": 100, "output_tokens": 5}
        run = it.submit([{"type": "text", "text": "#say and again"}])
        second = it.end(run)
        assert it.text(run) == "and again"
        assert usage(second)["input_tokens"] == 100
        assert usage(second)["cache_read_tokens"] == 50
        assert usage(second)["cache_write_tokens"] == 20
        assert 0 < usage(second)["cost_usd"] < 1.5 * usage(first)["cost_usd"]  # its own share, not the running total
        native = it.host.call("state", session_id="s1")["payload"]["metadata"][EXTENSION]["native"]
        assert native["harness"] == "claude"
        assert len(native["session_id"]) == 36
        it.stop()


def test_a_tool_is_asked_about_and_allowed(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#bash echo made > made.txt && cat made.txt")
        gate = it.event("action.permission.requested")
        assert gate["payload"]["arguments_json"]["command"] == "echo made > made.txt && cat made.txt"
        assert it.host.call("state", session_id="s1")["payload"]["status"] == "waiting_for_input"
        assert not (it.work / "made.txt").exists()
        assert it.host.resolve(gate, granted=True, choice_id="approve")["accepted"] is True
        it.end(run)
        assert it.kinds(run) == [
            "run.started",
            "action.call.requested",
            "action.permission.requested",
            "action.permission.resolved",
            "action.call.started",
            "action.call.completed",
            "content.delta",
            "run.completed",
        ]
        assert (it.work / "made.txt").read_text() == "made\n"
        assert it.text(run) == "the tool said: made"
        it.stop()


def test_a_tool_is_denied_with_a_reason(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#write made.txt")
        gate = it.event("action.permission.requested")
        with pytest.raises(RefusedError, match="resolution_rejected"):
            it.host.resolve(gate, granted=True, choice_id="never-offered")
        it.host.resolve(gate, granted=False, choice_id="deny", reason="not on this machine")
        with pytest.raises(RefusedError, match="resolution_rejected"):
            it.host.resolve(gate, granted=True, choice_id="approve")
        it.end(run)
        assert "action.call.cancelled" in it.kinds(run)
        assert it.text(run) == "the tool said: not on this machine"
        assert not (it.work / "made.txt").exists()
        it.stop()


def test_a_tool_runs_with_other_arguments(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#bash echo asked > made.txt")
        gate = it.event("action.permission.requested")
        with pytest.raises(RefusedError, match="resolution_rejected"):
            it.host.resolve(gate, granted=True, updated_arguments_json="rm")
        it.host.resolve(gate, granted=True, updated_arguments_json={"command": "echo changed > made.txt"})
        it.end(run)
        assert (it.work / "made.txt").read_text() == "changed\n"
        started = it.event("action.call.started")
        assert started["payload"]["arguments_json"] == {"command": "echo changed > made.txt"}
        it.stop()


def test_two_calls_in_one_reply(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#bash echo 1 > one.txt\n#bash echo 2 > two.txt")
        first = it.event("action.permission.requested")
        it.host.resolve(first, granted=True)
        resolved = it.event("action.permission.resolved")
        later = it.events().index(resolved) + 1
        second = it.host.event(it.subscription, "action.permission.requested", start=later, wait=WAIT_S)
        assert second["payload"]["interaction_id"] != first["payload"]["interaction_id"]
        it.host.resolve(second, granted=False, reason="one is enough")
        it.end(run)
        assert (it.work / "one.txt").exists()
        assert not (it.work / "two.txt").exists()
        kinds = it.kinds(run)
        assert (kinds.count("action.call.completed"), kinds.count("action.call.cancelled")) == (1, 1)
        it.stop()


def test_allowed_tools_exist_and_are_not_asked_about(tmp_path: Path) -> None:
    with rig(tmp_path, allowed_tools=["Bash"]) as it:
        it.open()
        run = it.submit("#bash echo made > made.txt && cat made.txt")
        it.end(run)
        assert "action.permission.requested" not in it.kinds(run)
        assert it.text(run) == "the tool said: made"
        assert it.mock.requests[-1]["tools"] == ["Bash"]
        it.stop()


def test_the_model_asks_the_user(tmp_path: Path) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    question = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}
    with rig(tmp_path) as it:
        it.open()
        run = it.submit(f"#call AskUserQuestion {json.dumps({'questions': [question]})}")
        gate = it.event("user.input.requested")
        (asked,) = gate["payload"]["questions"]
        blue = next(option["id"] for option in asked["options"] if option["label"] == "Blue")
        it.host.resolve(gate, answers=[{"question_id": asked["id"], "selected_option_ids": [blue]}])
        it.end(run)
        assert '"Which colour?"="Blue"' in it.text(run)
        it.stop()


def test_a_sub_agent(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        task = '{"description":"sub work","prompt":"#bash echo sub > sub.txt","subagent_type":"general-purpose"}'
        run = it.submit(f"#call Agent {task}")
        gate = it.event("action.permission.requested")
        it.host.resolve(gate, granted=True)
        end = it.end(run)
        calls = [event for event in it.events(run) if event["type"] == "action.call.requested"]
        assert [event["payload"]["name"] for event in calls] == ["Agent", "Bash"]
        parent = calls[1]["extensions"][EXTENSION]["native"]["parent_tool_call_id"]
        assert parent == calls[0]["tool_call_id"]
        assert gate["tool_call_id"] == calls[1]["tool_call_id"]
        assert (it.work / "sub.txt").exists()
        assert usage(end)["input_tokens"] == 100 * len(it.mock.requests)  # the sub-agent's requests too
        it.stop()


def test_cancelled_in_the_stream_and_the_session_goes_on(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#slow 600 50")
        it.event("content.delta")
        it.cancel(run)
        terminal = it.end(run)
        assert terminal["type"] == "run.cancelled"
        assert "settled_by" not in terminal["payload"]
        assert usage(terminal)["confidence"] == "unverified"
        run = it.submit("#say still here")
        assert it.end(run)["type"] == "run.completed"
        assert it.text(run) == "still here"
        it.stop()


def test_cancelled_with_a_question_open(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#bash echo made > made.txt")
        gate = it.event("action.permission.requested")
        it.cancel(run)
        assert it.end(run)["type"] == "run.cancelled"
        assert it.event("action.permission.resolved")["payload"]["outcome"] == "cancelled"
        with pytest.raises(RefusedError, match="resolution_rejected"):
            it.host.resolve(gate, granted=True)
        assert not (it.work / "made.txt").exists()
        it.stop()


def test_cancelled_in_a_tool(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#bash touch begun; sleep 300")
        it.host.resolve(it.event("action.permission.requested"), granted=True)
        until((it.work / "begun").exists, "the command")
        it.cancel(run)
        assert it.end(run)["type"] == "run.cancelled"
        assert "action.call.cancelled" in it.kinds(run)
        until(lambda: not any("sleep 300" in line for line in inside(it.work).values()), "the end of the command")
        it.stop()


def test_a_queued_run_follows_a_cancelled_one(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        first = it.submit("#slow 600 50")
        it.event("content.delta")
        second = it.host.submit(it.session, "#say next please")
        it.cancel(first)
        assert it.end(first)["type"] == "run.cancelled"
        assert it.end(second)["type"] == "run.completed"
        assert it.text(second) == "next please"
        it.stop()


@pytest.mark.parametrize(("status", "retriable"), [(400, False), (500, True)])
def test_a_model_error(tmp_path: Path, status: int, retriable: bool) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit(f"#error {status}")
        terminal = it.end(run)
        assert terminal["type"] == "run.failed"
        error = terminal["payload"]["error"]
        assert error["code"] == "model_error"
        assert error["details"]["status"] == status
        assert error["retriable"] is retriable
        assert it.text(run) == ""
        run = it.submit("#say fine")
        assert it.end(run)["type"] == "run.completed"
        it.stop()


@pytest.mark.parametrize("how", ["broken", "cut"])
def test_a_broken_stream_is_made_good(tmp_path: Path, how: str) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit(f"#{how} 1")
        terminal = it.end(run)
        assert terminal["type"] == "run.completed"
        deltas = [event["payload"] for event in it.events(run) if event["type"] == "content.delta"]
        response = terminal["payload"]["final_response"]
        kept = [delta["part"]["text"] for delta in deltas if delta["message_id"] == response["id"]]
        assert "".join(kept) == response["content"] == "it works now"
        assert usage(terminal)["input_tokens"] >= 100  # the harness's own `usage` says 0 here
        it.stop()


def test_a_model_for_one_run(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        catalog = it.host.call("models", session_id="s1")
        models = catalog["payload"]
        other = next(model["id"] for model in models["models"] if "haiku" in model["id"])
        with pytest.raises(RefusedError, match="model_not_found"):
            it.host.submit("s1", "x", model_id="no-such-model", capability_revision=catalog["capability_revision"])
        run = it.submit("#say small", model_id=other, capability_revision=catalog["capability_revision"])
        terminal = it.end(run)
        assert it.event("run.started")["payload"]["model_id"] == other
        assert terminal["payload"]["model_id"] == other
        assert it.mock.requests[-1]["model"] == other
        run = it.submit("#say usual")
        assert it.end(run)["payload"]["model_id"] == models["current_model_id"]
        assert it.mock.requests[-1]["model"] != other
        assert it.host.call("state", session_id="s1")["payload"]["current_model_id"] == models["current_model_id"]
        it.stop()


def test_a_turn_of_its_own_is_nobodys_run(tmp_path: Path) -> None:
    with rig(tmp_path, allowed_tools=["Bash"]) as it:
        it.open()
        run = it.submit('#call Bash {"command":"sleep 1; touch done","run_in_background":true,"description":"x"}')
        first = it.end(run)
        asked = len(it.mock.requests)
        until(lambda: len(it.mock.requests) > asked, "the harness's own turn")
        run = it.submit("#say mine")
        second = it.end(run)
        assert it.text(run) == "mine"
        assert second["payload"]["final_response"]["content"] == "mine"
        assert usage(second)["input_tokens"] == 100
        assert first["run_id"] != second["run_id"]
        it.stop()


def test_an_executable_that_is_not_there(tmp_path: Path) -> None:
    with rig(tmp_path, executable=str(tmp_path / "absent")) as it:
        with pytest.raises(RefusedError, match="open_failed"):
            it.open()
        it.stop()


def test_many_deltas_come_all_and_in_order(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        it.open()
        run = it.submit("#deltas 3000")
        it.end(run)
        assert [int(word) for word in it.text(run).replace(".", " ").split()] == list(range(3000))
        it.stop()


# -- the harness is killed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["stream", "gate", "tool"])
def test_killed_in_a_run(tmp_path: Path, where: str) -> None:
    """One terminal, inferred; the tool it had started dies with it; the gateway and the next session live."""
    with rig(tmp_path) as it:
        it.open()
        run = begin(it, where)
        os.kill(it.harness(), signal.SIGKILL)
        terminal = it.end(run)
        assert terminal["type"] == "run.failed"
        assert terminal["payload"]["settled_by"] == "inferred"
        assert terminal["payload"]["error"]["code"] == "harness_exited"
        until(lambda: inside(it.work) == {}, "the end of what the harness had started")
        with pytest.raises(RefusedError):
            it.host.submit("s1", "anybody there?")
        assert [event["type"] for event in it.events(run)].count("run.failed") == 1
        it.session = it.host.open("coder", "s2")
        run = it.submit("#say fresh")
        assert it.end(run)["type"] == "run.completed"
        it.stop()


# -- the host goes away ------------------------------------------------------------------------------------------------


def begin(it: Rig, where: str) -> str:
    """Bring a session into a state; return the run's id, or an empty one at rest."""
    if where == "rest":
        return ""
    if where == "stream":
        run = it.submit("#slow 600 50")
        it.event("content.delta")
    elif where == "stalled":
        run = it.submit("#stall")
        it.event("content.delta")
    elif where == "gate":
        run = it.submit("#bash echo x > made.txt")
        it.event("action.permission.requested")
    else:
        run = it.submit("#bash touch begun; sleep 300")
        it.host.resolve(it.event("action.permission.requested"), granted=True)
        until((it.work / "begun").exists, "the command")
    return run


@pytest.mark.parametrize("where", ["rest", "stream", "stalled", "gate", "tool"])
def test_the_host_ends_its_input(tmp_path: Path, where: str) -> None:
    """Whatever runs: the gateway leaves with exit 0 within its windows, and no process is left behind."""
    with rig(tmp_path) as it:
        it.open()
        begin(it, where)
        it.stop()


def test_the_host_ends_its_input_while_the_harness_starts(tmp_path: Path) -> None:
    with rig(tmp_path) as it:
        request = it.host.envelope("session.open.request", "s1")
        it.host.send("open", adapter="coder", request=request)
        until(lambda: any("stream-json" in line for line in inside(it.work).values()), "the harness")
        it.host.close_input()
        it.host.wait(WAIT_S)
        assert_empty(it.folder)


def test_the_gateway_is_killed_in_a_tool(tmp_path: Path) -> None:
    """Nothing can be swept then; the watchdog ends the harness and what it had started."""
    with rig(tmp_path) as it:
        it.open()
        begin(it, "tool")
        it.host.signal(signal.SIGKILL)
        it.host.wait(WAIT_S)
        until(lambda: inside(it.work) == {}, "the end of the harness and its command")
