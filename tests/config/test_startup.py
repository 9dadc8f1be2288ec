"""The configuration as a user meets it: at the start of the real process, and through attachments on the wire."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.host import SERVE, Host, RefusedError

SOURCES = {
    "files": {
        "kind": "process",
        "command": "/opt/hidden-command",
        "args": ["--hidden-argument"],
        "environment": ["TOKEN=hidden-value"],
    }
}


def start(folder: Path, text: bytes) -> subprocess.CompletedProcess[bytes]:
    path = folder / "agents.json"
    path.write_bytes(text)
    return subprocess.run([*SERVE, "--config", str(path)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"adapters": {"memory": {"jurnal": 1}}}', "adapters.memory.jurnal: unknown member"),
        (b'{"adapters": {"codex": {}}}', "adapters.codex: type codex is not served by this version"),
        (b'{"adapters": {,}}', "line 1 column 15: "),
        (
            b'{"tool_sources": {"files": {"kind": "remote", "environment": ["TRUNKLINE_NOT_SET"]}}}',
            "'TRUNKLINE_NOT_SET'",
        ),
        (
            b'{"adapters": {"c": {"type": "claude", "allowed_tools": [], "environment": ["K=hidden", "K"]}}}',
            "'K' is named",
        ),
        (b'{"limits": {"mailbox": 0}}', "limits.mailbox: "),
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_1(tmp_path: Path, text: bytes, says: str) -> None:
    done = start(tmp_path, text)
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert said.count("\n") == 1
    assert said.startswith(f"trunkline: {tmp_path / 'agents.json'}: ")
    assert says in said
    assert "hidden" not in said


def test_an_attachment_publishes_nothing_of_the_operators(tmp_path: Path) -> None:
    config = {"adapters": {"memory": {}}, "tool_sources": SOURCES}
    with Host(tmp_path, config) as host:
        session = host.open("memory", "s", tool_sources=[{"id": "files", "kind": "process"}])
        state = host.call("state", session_id=session)
        assert {"id": "files", "kind": "process"} in state["payload"]["sources"]
        assert host.stop() == 0, host.stderr
    assert "hidden" not in json.dumps([line for way, line in host.lines if way == "<"]) + host.stderr


@pytest.mark.parametrize(
    "attachment",
    [
        {"id": "files", "kind": "process", "command": "/bin/sh"},
        {"id": "files", "kind": "process", "args": []},
        {"id": "files", "kind": "process", "environment": ["X=1"]},
        {"id": "files", "kind": "local"},
        {"id": "other", "kind": "process"},
    ],
)
def test_what_the_wire_may_not_say_is_refused_and_opens_nothing(tmp_path: Path, attachment: dict[str, Any]) -> None:
    with Host(tmp_path, {"adapters": {"memory": {}}, "tool_sources": SOURCES}) as host:
        with pytest.raises(RefusedError) as caught:
            host.open("memory", "s", tool_sources=[attachment])
        assert caught.value.code == "unsupported_feature"
        assert caught.value.details == {
            "feature": "action.tool_sources.attach",
            "reason": "unsatisfiable",
            "source": attachment["id"],
        }
        assert host.call("sessions") == {"sessions": []}
        assert host.stop() == 0, host.stderr
    assert "hidden" not in json.dumps([line for way, line in host.lines if way == "<"])
