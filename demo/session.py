"""`make demo`: one whole session over a real pipe, told line by line.

    python demo/session.py                      the memory adapter, nothing else needed
    HARNESS=claude python demo/session.py       Claude Code, against a mock model on loopback: no account, no cost
    HARNESS=claude MODEL=own python demo/...    Claude Code with the person's own account

The same host code drives both: the gateway makes them one vocabulary.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.host import Host, envelope
from demo.show import say, show, title

SESSION = "demo"


class Story:
    """One run of the demonstration: a host, an adapter's name, a prompt."""

    def __init__(self, host: Host, adapter: str, prompt: str) -> None:
        self.host = host
        self.adapter = adapter
        self.prompt = prompt
        self.run = ""
        self.last = 0
        self.terminal = ""

    def tell(self) -> None:
        """Open, subscribe, submit, answer the gates until the terminal, replay, close."""
        title("1. Open a session")
        opened = self.answer(
            self.host.send(
                "open",
                adapter=self.adapter,
                request=envelope("session.open.request", "h-open", {"session_id": SESSION}),
            )
        )
        say(f"the session is {opened['payload']['status']}")

        title("2. Subscribe, then submit")
        subscription = self.host.send("events", session_id=SESSION)
        self.answer(subscription)
        payload = {
            "session_id": SESSION,
            "delivery": "auto",
            "messages": [{"role": "user", "content": self.prompt}],
        }
        request = envelope("session.message.submit.request", "h-submit", payload, session_id=SESSION)
        submitted = self.host.send("submit", session_id=SESSION, request=request)

        title("3. The run streams; its gates are answered")
        say("an answer and the first events may come in either order: a host matches answers by id, events by run")
        self.follow(subscription, submitted)

        title("4. Replay: read the end of the run once more, from a cursor")
        after = max(0, self.last - 3)
        say(f"after {after}: the gateway keeps a bounded journal, so a host that lost its place takes it up again")
        replay = self.host.send("events", session_id=SESSION, after=after)
        self.answer(replay)
        self.follow(replay, None)

        title("5. Close")
        self.answer(self.host.send("close", session_id=SESSION))

    def answer(self, id: int) -> Any:
        """Read on until the answer to one id."""
        while True:
            line = self.host.line()
            if "event" not in line and line["id"] == id:
                if not line["ok"]:
                    raise SystemExit(f"refused: {line['error']['code']}: {line['error']['message']}")
                return line["result"]

    def follow(self, subscription: int, submitted: int | None) -> None:
        """Read a subscription to its terminal, answering every gate on the way."""
        ended = False
        while not ended or submitted is not None:
            line = self.host.line()
            if "event" not in line:
                if not line["ok"]:
                    raise SystemExit(f"refused: {line['error']['code']}: {line['error']['message']}")
                if line["id"] == submitted:
                    submitted = None
                continue
            if line["event"] != "envelope" or line["id"] != subscription:
                continue
            event = line["envelope"]
            self.run, self.last = event["run_id"], event["sequence"]
            self.gate(event)
            if event["type"] in ("run.completed", "run.failed", "run.cancelled"):
                self.terminal, ended = event["type"], True

    def gate(self, event: dict[str, Any]) -> None:
        """Answer what the agent asks: allow the tool, choose the first option."""
        asked = event["payload"]
        about = {name: asked[name] for name in ("interaction_id", "requested_by", "responded_by") if name in asked}
        about.update(session_id=SESSION, run_id=event["run_id"])
        if event["type"] == "action.permission.requested":
            type = "action.permission.resolve.request"
            about.update(choice_id=asked["choices"][0]["id"], granted=True)
        elif event["type"] == "user.input.requested":
            type = "user.input.resolve.request"
            about["answers"] = [
                {"question_id": question["id"], "selected_option_ids": [question["options"][0]["id"]]}
                for question in asked["questions"]
            ]
        else:
            return
        request = envelope(
            type,
            f"h-{asked['interaction_id']}",
            about,
            session_id=SESSION,
            run_id=event["run_id"],
            capability_revision=event["capability_revision"],
        )
        self.host.send("resolve", session_id=SESSION, request=request)


def claude(stack: ExitStack, folder: Path) -> tuple[list[str], str]:
    """Return the gateway's options and the prompt for Claude Code, with the mock model unless MODEL=own."""
    binary = os.environ.get("TRUNKLINE_CLAUDE_BIN") or _installed()
    work = folder / "work"
    work.mkdir()
    own = os.environ.get("MODEL") == "own"
    if own:
        say("MODEL=own: this uses YOUR OWN Claude account and its quota or credit for one short prompt.")
        environment = ["PATH", "HOME", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CONFIG_DIR"]
        environment = [name for name in environment if name in os.environ]
        prompt = "Run the shell command `echo trunkline` and tell me its output."
    else:
        from demo.mock_model import MockModel

        model = stack.enter_context(MockModel())
        say(f"the model is a mock of this project's own at {model.url}: no account, no network, no cost")
        home = folder / "home"
        home.mkdir()
        environment = ["PATH", f"HOME={home}", f"CLAUDE_CONFIG_DIR={home}"]
        environment += [f"ANTHROPIC_BASE_URL={model.url}", "ANTHROPIC_API_KEY=test-key"]
        prompt = "#say I will run one command.\n#bash echo trunkline > proof.txt"
    entry = {
        "type": "claude",
        "executable": binary,
        "working_directory": str(work),
        "environment": environment,
        "unrestricted_tools": True,
    }
    path = folder / "trunkline.json"
    path.write_text(json.dumps({"adapters": {"claude": entry}}))
    return ["--config", str(path)], prompt


def _installed() -> str:
    """Return the pinned Claude Code below `.harness`, installed first where it is not there."""
    from tests.harness import install

    if install.main([]):
        raise SystemExit("Claude Code could not be installed; TRUNKLINE_CLAUDE_BIN may name one")
    return str(install.installed("claude"))


def main() -> None:
    """Play the session and exit 0 if it ended in `run.completed`."""
    harness = os.environ.get("HARNESS") or "memory"
    if harness not in ("memory", "claude"):
        raise SystemExit(f"HARNESS={harness} is not served; there are: memory, claude")
    model = os.environ.get("MODEL") or "mock"
    if model not in ("mock", "own") or (model == "own" and harness == "memory"):
        raise SystemExit(f"MODEL={model} is not served; with HARNESS=claude it takes mock (the default) or own")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trunkline-demo-")))
        options: list[str] = []
        prompt = "go"
        if harness == "claude":
            options, prompt = claude(stack, folder)
        host = Host(options, show)
        print("a host has spawned:  " + shlex.join(["trunkline", *host.command[3:]]))
        say(
            f"adapter: {harness}. One JSON object a line in both directions; "
            "shown here folded, without fixed and repeated members."
        )
        story = Story(host, harness, prompt)
        try:
            story.tell()
        finally:
            code, words = host.end()
        title("6. The host ends its input; the gateway closes what it had open, and leaves")
        for word in words:
            say(f"stderr: {word}")
        say(f"exit code {code}")
        print(f"\nthe run ended with {story.terminal}; the gateway exited {code}")
        raise SystemExit(0 if story.terminal == "run.completed" and code == 0 else 1)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # whoever watched has gone: the gateway is ended by now
        os._exit(1)
