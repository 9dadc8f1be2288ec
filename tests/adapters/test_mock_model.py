"""The mock model does what its script says; otherwise the real-process suite would prove nothing."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from demo.mock_model import MockModel
from tests.support.shared import ROOT

TOOLS = [{"name": "Bash", "input_schema": {}}, {"name": "Write", "input_schema": {}}]


def ask(mock: MockModel, text: Any, stream: bool = True, **more: Any) -> list[dict[str, Any]]:
    """Return the stream events of a reply, or the one message."""
    messages = more.pop("messages", [{"role": "user", "content": text}])
    body = {"model": "m", "stream": stream, "messages": messages, "tools": TOOLS, **more}
    request = Request(
        f"{mock.url}/v1/messages?beta=true", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urlopen(request, timeout=20) as response:
        data = response.read().decode()
    if not stream:
        return [json.loads(data)]
    return [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: ")]


def text_of(events: list[dict[str, Any]], kind: str = "text") -> str:
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta.get(kind, "") for delta in deltas)


def test_text_and_reasoning() -> None:
    with MockModel() as mock:
        events = ask(mock, "#think hm hm\n#say hello there")
        assert text_of(events) == "hello there"
        assert text_of(events, "thinking") == "hm hm"
        assert [event["type"] for event in events[:2]] == ["message_start", "content_block_start"]
        assert events[-1]["type"] == "message_stop"
        assert events[-2]["usage"] == {
            "input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 50,
            "output_tokens": 4,
        }
        assert text_of(ask(mock, "plain words")) == "you said: plain words"
        assert ask(mock, "#say whole", stream=False)[0]["content"] == [{"type": "text", "text": "whole"}]
        assert [request["asked"] for request in mock.requests] == [
            "#think hm hm\n#say hello there",
            "plain words",
            "#say whole",
        ]


def test_deltas_have_number_and_size() -> None:
    with MockModel() as mock:
        deltas = [e for e in ask(mock, "#deltas 30 100") if e["type"] == "content_block_delta"]
        assert len(deltas) == 30
        assert {len(event["delta"]["text"]) for event in deltas} == {100}


def test_calls_and_what_follows_them() -> None:
    with MockModel() as mock:
        events = ask(mock, "#bash echo 1\n#bash echo 2")
        starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        assert [block["name"] for block in starts] == ["Bash", "Bash"]
        assert events[-2]["delta"]["stop_reason"] == "tool_use"
        result = {"type": "tool_result", "tool_use_id": starts[0]["id"], "content": "1"}
        messages = [
            {"role": "user", "content": [{"type": "text", "text": "#bash echo 1"}]},
            {"role": "assistant", "content": []},
            {"role": "user", "content": [result, {"type": "text", "text": "<system-reminder>x</system-reminder>"}]},
        ]
        assert text_of(ask(mock, None, messages=messages)) == "the tool said: 1"
        assert text_of(ask(mock, "#call Unheard {}")) == "no such tool is offered"


def test_failures_and_how_often() -> None:
    with MockModel() as mock:
        with pytest.raises(HTTPError) as caught:
            ask(mock, "#error 400")
        caught.value.close()
        assert caught.value.code == 400
        with pytest.raises(HTTPError) as caught:
            ask(mock, "#error 500 1")
        caught.value.close()
        assert text_of(ask(mock, "#error 500 1")) == "it works now"
        assert ask(mock, "#broken")[-1]["type"] == "error"
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            ask(mock, "#cut 1")
        assert text_of(ask(mock, "#cut 1")) == "it works now"


def test_it_serves_as_a_program(tmp_path: Any) -> None:
    log = tmp_path / "asked.ndjson"
    command = [sys.executable, str(ROOT / "demo" / "mock_model.py"), "--port", "0", "--log", str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        hello = json.loads(process.stdout.readline())
        mock = MockModel()
        mock.url = hello["url"]
        assert hello["url"].endswith(f":{hello['port']}")
        assert text_of(ask(mock, "#say over there")) == "over there"
        assert json.loads(log.read_text())["model"] == "m"
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()
