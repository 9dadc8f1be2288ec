"""The small parts by themselves: launch line, environment, prompt, usage, descriptor, pins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.adapters.base import Launch, Settings
from trunkline.adapters.claude import ClaudeAdapter
from trunkline.adapters.claude.capabilities import DESCRIPTOR, FEATURES, REVISION
from trunkline.adapters.claude.launch import WIRE
from trunkline.adapters.claude.usage import Meter
from trunkline.adapters.pins import PROVED, VERSION_ARGS, deviation, read_version
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support.claude_wire import desk, result
from tests.support.public_schema import public_fault


def launched(metadata: Any = None, **settings: Any) -> Launch:
    payload: dict[str, Any] = {} if metadata is None else {"metadata": {names.EXTENSION: metadata}}
    codec = ClaudeAdapter(Settings("coder", Limits(), **settings)).new()
    return codec.launch(Envelope(names.OPEN, "open", payload))


# -- launch ------------------------------------------------------------------------------------------------------------


def test_the_plain_launch() -> None:
    launch = launched(options={"unrestricted_tools": True}, working_directory="/w")
    assert launch.argv == ["claude", *WIRE]
    assert launch.cwd == "/w"
    assert set(launch.environment) == {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "PATH"}


def test_executable_and_arguments_come_first() -> None:
    launch = launched(executable="/opt/node", args=["cli.js", "--strict"], options={"model": "small"})
    assert launch.argv == ["/opt/node", "cli.js", "--strict", *WIRE, "--model", "small"]


@pytest.mark.parametrize(
    ("tools", "flags"),
    [
        ([], ["--tools", ""]),
        (["Bash"], ["--tools", "Bash", "--allowedTools", "Bash"]),
        (
            ["Bash(git *)", "Bash(ls *)", "Read", "mcp__files__get"],
            ["--tools", "Bash,Read", "--allowedTools", "Bash(git *),Bash(ls *),Read,mcp__files__get"],
        ),
    ],
)
def test_allowed_tools(tools: list[str], flags: list[str]) -> None:
    assert launched(options={"allowed_tools": tools}).argv == ["claude", *WIRE, *flags]


def test_the_environment_is_the_listed_one() -> None:
    listed = {
        "PATH": "/bin",
        "HOME": "/h",
        "DISABLE_AUTOUPDATER": "0",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "x",
    }
    environment = launched(environment=listed).environment
    assert environment["PATH"] == "/bin"
    assert environment["HOME"] == "/h"
    assert environment["DISABLE_AUTOUPDATER"] == "0"
    assert "CLAUDECODE" not in environment
    assert "CLAUDE_CODE_ENTRYPOINT" not in environment


def test_a_session_is_resumed() -> None:
    assert launched({"resume": "0b5c"}).argv == ["claude", *WIRE, "--resume", "0b5c"]
    assert launched({}).argv == ["claude", *WIRE]
    assert launched("x").argv == ["claude", *WIRE]


@pytest.mark.parametrize("native", ["", "--dangerously-skip-permissions", 7, ["x"], "x" * 300])
def test_what_is_no_session_id_never_reaches_the_command_line(native: Any) -> None:
    with pytest.raises(Refusal) as caught:
        launched({"resume": native})
    assert caught.value.code == names.OPEN_FAILED


# -- prompt ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "content"),
    [
        ([{"role": "user", "content": "hi"}], "hi"),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], [{"type": "text", "text": "hi"}]),
        (
            [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
        (
            [{"role": "user", "content": [{"type": "image", "image": {"data": "aGk=", "media_type": "image/png"}}]}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
        ),
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "image", "image": {"url": "http://h/x"}}, {"type": "text", "text": ""}],
                }
            ],
            [{"type": "image", "source": {"type": "url", "url": "http://h/x"}}],
        ),
    ],
)
def test_prompts(messages: list[Any], content: Any) -> None:
    host = desk()
    assert host.submit(None, messages=messages) is None
    assert host.written[-1] == {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": None,
        "session_id": "",
    }


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}], "/messages/0"),
        ([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}], "/messages/1"),
        ([{"role": "user", "content": ""}], "/messages"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "/messages"),
        ([{"role": "user", "content": [{"type": "reasoning", "reasoning": "hm"}]}], "/messages/0/content/0"),
        (
            [{"role": "user", "content": [{"type": "tool_result", "tool_call_id": "t", "result": 1}]}],
            "/messages/0/content/0",
        ),
    ],
)
def test_prompts_that_cannot_be_told(messages: list[Any], field: str) -> None:
    host = desk()
    written = len(host.written)
    refusal = host.submit(None, messages=messages)
    assert isinstance(refusal, Refusal)
    assert refusal.code == names.INVALID_SUBMISSION
    assert refusal.details == {"field": field}
    assert len(host.written) == written
    assert host.events == []


# -- usage -------------------------------------------------------------------------------------------------------------


def test_what_usage_leaves_out_is_in_the_totals() -> None:
    """Seen with sub-agents and with the request made again without streaming: `usage` misses their tokens."""
    meter = Meter()
    assert meter.turn(result(), True)[1]["input_tokens"] == 100
    payload, about = meter.turn(result(requests=0, total=3), True)
    assert payload == {"input_tokens": 200, "output_tokens": 8}
    assert about["cache_read_tokens"] == 100
    assert about["confidence"] == "approximate"


def test_a_count_that_begins_anew() -> None:
    meter = Meter()
    meter.turn(result(requests=5, total=5), True)
    payload, about = meter.turn(result(requests=1, total=1), True)
    assert payload["input_tokens"] == 100
    assert about["cost_usd"] == 0.25


def test_nothing_counted_of_a_turn_that_was_seen_is_no_count() -> None:
    nothing = result(requests=0, total=0, modelUsage={})
    assert Meter().turn(nothing, True)[1]["confidence"] == "unverified"
    assert Meter().turn(nothing, False)[1]["confidence"] == "approximate"
    assert Meter().turn(nothing, True)[0] == {}


def test_totals_that_are_not_stated_are_kept() -> None:
    meter = Meter()
    meter.turn(result(), True)
    meter.turn(result(requests=0, modelUsage={}, total_cost_usd=None), True)
    payload, about = meter.turn(result(requests=1, total=2), True)
    assert payload["input_tokens"] == 100
    assert about["cost_usd"] == 0.25


@pytest.mark.parametrize("odd", [None, "x", -1, 1.5, True, 1 << 60, [], {}])
def test_odd_counts_count_nothing(odd: Any) -> None:
    frame = result(
        usage={"input_tokens": odd}, modelUsage={"big-1": {"inputTokens": odd}, "x": odd}, total_cost_usd="x"
    )
    payload, about = Meter().turn(frame, False)
    assert payload == {}
    assert "cost_usd" not in about


# -- descriptor and pins -----------------------------------------------------------------------------------------------


def test_the_descriptor_is_a_valid_payload() -> None:
    revision, payload = ClaudeAdapter(Settings("coder", Limits())).describe()
    envelope = Envelope("capabilities.response", "x", payload, in_reply_to="y", capability_revision=revision)
    assert public_fault(json.loads(envelope.encode())) is None
    assert (revision, payload) == (REVISION, DESCRIPTOR)


def test_what_is_less_than_native_says_why() -> None:
    for key, support in FEATURES.items():
        assert support["level"] in names.LEVELS, key
        assert support["level"] == "native" or len(support["reason"]) > 20, key
    assert FEATURES["run.model_selection"]["scope"] == "run"
    limits = DESCRIPTOR["limits"]
    assert limits["max_active_runs_per_session"] == limits["max_queued_runs_per_session"] + 1


@pytest.mark.parametrize(
    ("printed", "version"),
    [("2.1.197 (Claude Code)\n", "2.1.197"), ("codex-cli 0.171.0", "0.171.0"), ("hello", None), ("", None)],
)
def test_versions_are_read(printed: str, version: str | None) -> None:
    assert read_version(printed) == version


def test_pins() -> None:
    assert deviation("claude", PROVED["claude"]) is None
    assert "9.9.9" in (deviation("claude", "9.9.9") or "")
    assert deviation("unheard-of", "1") is None
    assert set(VERSION_ARGS) == set(PROVED)


def test_the_installed_version_is_the_proved_one() -> None:
    from tests.harness.install import pinned

    assert pinned()["@anthropic-ai/claude-code"] == PROVED["claude"]
