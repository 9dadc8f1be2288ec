"""Recorded sessions of the real Claude Code, replayed through the codec, against reviewed event lists.

Each recording is one row: what the harness wrote is fed in order; what the host wrote at that place is asked of the
codec as the request that must lead to it, and what the codec writes must be that very frame.
`TRUNKLINE_GOLDEN=write` writes the lists anew; they are then to be read, line by line, before they are kept.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from trunkline.adapters.base import Settings
from trunkline.adapters.claude import ClaudeAdapter
from trunkline.protocol import names
from trunkline.protocol.limits import Limits

from tests.support import trace
from tests.support.desk import Desk, compact
from tests.support.shared import SHARED, shared

GOLDEN = Path(__file__).parent / "golden" / "claude"
FOLDER = ("harness", "recordings", "claude")

OTHERS = {
    "hooks": "hooks are registered over the wire, which the codec does not do",
    "sdk_tools": "tools are served over the wire, which the codec does not do",
}
"""Recordings of a host that asked for more; replayed all the same, but what that host wrote is not compared."""
DIFFERENT = {
    "tool_denied_interrupt": "the codec denies and lets the turn go on",
    "tool_answer_error": "the codec never answers a gate with an error",
    "settings": "the codec changes no setting by itself",
    "inspect": "the codec asks for nothing of this",
    "initialize_twice": "the codec does it once",
    "interrupt_idle": "the codec interrupts a live run only",
    "replayed": "the codec gives a prompt no id of its own",
    "queued": "the codec gives a prompt no id of its own, and the hub holds the second one back",
    "minimal_user": "the codec writes the full frame",
    "no_initialize": "the codec always begins with the handshake",
    "bad_line": "the codec writes no such line",
    "bad_type": "the codec writes no such frame",
}
"""Recordings in which the host wrote frames that the codec would not: not compared, and why."""


def recordings() -> list[str]:
    if SHARED is None:
        return ["no shared recordings beside the checkout"]
    return sorted(path.stem for path in SHARED.joinpath(*FOLDER).glob("*.ndjson"))


def desk() -> Desk:
    return Desk(ClaudeAdapter(Settings("coder", Limits(), options={"unrestricted_tools": True})))


class Replay:
    """One recording on its way through a codec."""

    def __init__(self, name: str, stop: int | None = None) -> None:
        """`stop`: play only so many lines of the harness."""
        self.whole = stop is None
        lines = shared(*FOLDER, f"{name}.ndjson").read_text().splitlines()
        self.entries = [json.loads(line) for line in lines]
        if stop is not None:
            count = itertools.count()
            self.entries = [entry for entry in self.entries if entry["dir"] != "out" or next(count) < stop]
        self.marks = json.loads(shared(*FOLDER, "index.json").read_text())[name]["marks"]
        self.desk = desk()
        self.held: list[dict[str, Any]] = []

    def play(self) -> Desk:
        if not any(self._subtype(entry) == "initialize" for entry in self.entries):
            self.desk.open()
            answer = {"subtype": "success", "request_id": "req_1", "response": {"models": []}}
            self.desk.feed({"type": "control_response", "response": answer})
        for entry in self.entries:
            line = entry["line"]
            if entry["dir"] == "out":
                self.desk.feed(line if isinstance(line, dict) else line.encode())
                self._go_on()
            elif entry["dir"] == "in" and isinstance(line, dict):
                self.held.append(line)
                self._go_on()
        self.desk.gone(self.marks.get("returncode"), "".join(e["line"] for e in self.entries if e["dir"] == "err"))
        return self.desk

    @staticmethod
    def _subtype(entry: dict[str, Any]) -> Any:
        line = entry["line"]
        return line.get("request", {}).get("subtype") if isinstance(line, dict) and entry["dir"] == "in" else None

    def _go_on(self) -> None:
        """Ask for what the recorded host wrote, as soon as a host of ours may."""
        while self.held:
            line = self.held[0]
            if line["type"] == "user" and any(not run.over for run in self.desk.runs.values()):
                return
            self.held.pop(0)
            self._ask(line)

    def _ask(self, line: dict[str, Any]) -> None:
        subtype = line.get("request", {}).get("subtype")
        if subtype == "initialize" and not self.desk.written:
            self.desk.open()
        elif subtype == "interrupt" and any(not run.over for run in self.desk.runs.values()):
            self._expect(self.desk.cancel())
        elif line["type"] == "user" and "content" in line["message"]:
            self._expect(self.desk.submit(line["message"]["content"]))
        elif line["type"] == "control_response" and any(run.gates for run in self.desk.runs.values()):
            answer = line["response"].get("response", {})
            if "behavior" in answer:
                self._answer(answer)

    def _answer(self, answer: dict[str, Any]) -> None:
        gate = self.desk.gate()
        if answer["behavior"] == "deny":
            outcome = self.desk.resolve(granted=False, choice_id="deny", reason=answer["message"])
        elif "questions" in gate:
            chosen = answer["updatedInput"]["answers"]
            answers = [
                {
                    "question_id": question["id"],
                    "selected_option_ids": [
                        o["id"] for o in question["options"] if o["label"] == chosen[question["prompt"]]
                    ],
                }
                for question in gate["questions"]
            ]
            outcome = self.desk.resolve(answers=answers)
        elif answer["updatedInput"] == gate["arguments_json"]:
            outcome = self.desk.resolve(granted=True, choice_id="approve")
        else:
            outcome = self.desk.resolve(granted=True, updated_arguments_json=answer["updatedInput"])
        self._expect(outcome)

    def _expect(self, outcome: Any) -> None:
        assert outcome is None or self.whole is False

    def wrote(self) -> list[Any]:
        """Return what the recorded host wrote."""
        return [entry["line"] for entry in self.entries if entry["dir"] == "in"]


@pytest.mark.parametrize("name", recordings())
def test_recording(name: str) -> None:
    if SHARED is None:
        pytest.skip("the shared reference data is not beside the checkout")
    replay = Replay(name)
    played = replay.play()
    trace.check(played.events, cancels=played.cancelled)
    rows = compact(played.events)
    path = GOLDEN / f"{name}.json"
    if os.environ.get("TRUNKLINE_GOLDEN") == "write":
        path.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
    assert rows == json.loads(path.read_text())
    if name not in OTHERS and name not in DIFFERENT:
        assert played.written == replay.wrote()


@pytest.mark.parametrize("name", recordings())
def test_cut_short(name: str) -> None:
    """A harness that dies at any point gives each run exactly one terminal, and every token its outcome."""
    if SHARED is None:
        pytest.skip("the shared reference data is not beside the checkout")
    outs = sum(entry["dir"] == "out" for entry in Replay(name).entries)
    for stop in range(0, outs, max(1, outs // 12)):
        played = Replay(name, stop).play()
        trace.check(played.events, cancels=played.cancelled)
        assert all(token in played.settled for token in range(1, played.asked + 1))


def test_golden_lists_have_their_recording() -> None:
    if SHARED is None:
        pytest.skip("the shared reference data is not beside the checkout")
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(recordings())


def test_terminals_say_what_the_harness_said() -> None:
    """The table of ends: outcome of the recorded turns, in order."""
    ends = {
        "plain": ["run.completed"],
        "two_turns": ["run.completed", "run.completed"],
        "interrupt": ["run.cancelled", "run.completed"],
        "interrupt_tool": ["run.cancelled"],
        "error_500": ["run.failed", "run.completed"],
        "kill": ["run.failed"],
    }
    for name, expected in ends.items():
        played = Replay(name).play()
        assert [event["type"] for event in played.events if event["type"] in names.TERMINALS] == expected, name
