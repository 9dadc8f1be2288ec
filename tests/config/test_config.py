"""The configuration document: what each type uses, defaults, and every refusal with its place (spec: hub 7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trunkline.adapters import registry
from trunkline.gateway.config import (
    READERS,
    SYNTHETIC_DEFAULTS,
    TYPES,
    Config,
    default_config,
    parse_config,
    read_config,
)
from trunkline.protocol.errors import ConfigError
from trunkline.protocol.limits import CONFIG_BYTES, DEFAULTS, Limits

EXAMPLES: dict[str, Any] = {
    "type": "memory",
    "journal_capacity": 5,
    "journal_bytes": 6,
    "executable": "/bin/agent",
    "args": ["--acp"],
    "environment": ["A=1"],
    "working_directory": "/srv",
    "model": "m",
    "provider": "p",
    "max_tokens": 7,
    "allowed_tools": ["Read"],
    "unrestricted_tools": True,
    "approval_policy": "never",
    "sandbox": "read-only",
    "agent": "build",
    "agent_config": {},
    "system_prompt": "s",
    "endpoint": "http://127.0.0.1:1",
    "deltas": 3,
    "delta_bytes": 4,
    "interval_ms": 5,
    "pace": "reader",
}


def parse(value: object) -> Config:
    return parse_config(json.dumps(value).encode(), "c.json", {})


def entry(type: str, **members: Any) -> dict[str, Any]:
    return {"adapters": {"it": {"type": type, **members}}}


def fault(value: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(value)
    return str(caught.value)


def test_without_a_file_there_is_one_memory_adapter() -> None:
    config = default_config()
    memory = config.adapters["memory"]
    assert list(config.adapters) == ["memory"]
    assert (memory.type, memory.journal_events, memory.journal_bytes) == ("memory", 64, DEFAULTS["journal_bytes"])
    assert not config.tool_sources


def test_with_a_file_only_what_is_listed_is_there() -> None:
    assert parse({}).adapters == {}
    assert list(parse({"adapters": {"b": {"type": "memory"}, "memory": {}}}).adapters) == ["b", "memory"]


def test_the_type_is_the_name_unless_stated() -> None:
    assert parse({"adapters": {"synthetic": {}}}).adapters["synthetic"].type == "synthetic"
    assert "adapters.mine.type: unknown type 'mine'" in fault({"adapters": {"mine": {}}})
    assert "unknown type 'gemini'; known are acp, claude, codex" in fault(entry("gemini"))


def test_every_member_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(READERS)
    assert {name for used in TYPES.values() for name in used} < set(READERS)


def outcome(value: object) -> str:
    try:
        parse(value)
    except ConfigError as error:
        return str(error)
    return "good"


@pytest.mark.parametrize("member", sorted(set(EXAMPLES) - {"type", "journal_capacity", "journal_bytes"}))
@pytest.mark.parametrize("type", sorted(TYPES))
def test_a_member_that_the_type_does_not_use_is_refused(type: str, member: str) -> None:
    value = entry(type, **{member: EXAMPLES[member]})
    unused = f"c.json: adapters.it.{member}: type {type} does not use this member"
    if member in TYPES[type]:
        assert outcome(value) != unused
    else:
        assert fault(value) == unused


@pytest.mark.parametrize("type", sorted(TYPES))
def test_the_journal_is_bounded_for_every_type(type: str) -> None:
    for member in ("journal_capacity", "journal_bytes"):
        assert fault(entry(type, **{member: -1})).startswith(f"c.json: adapters.it.{member}: must be 0 to")


def test_zero_and_absent_mean_the_default() -> None:
    limits = Limits()
    for members in ({}, {"journal_capacity": 0, "journal_bytes": 0}):
        synthetic = parse(entry("synthetic", **members)).adapters["it"]
        assert (synthetic.journal_events, synthetic.journal_bytes) == (limits.journal_events, limits.journal_bytes)
        assert parse(entry("memory", **members)).adapters["it"].journal_events == 64
    stated = parse(entry("memory", journal_capacity=9, journal_bytes=1000)).adapters["it"]
    assert (stated.journal_events, stated.journal_bytes) == (9, 1000)


def test_a_limit_sets_the_default_of_the_journal() -> None:
    config = parse({**entry("synthetic"), "limits": {"journal_events": 7, "gate_deadline_s": 1.5}})
    assert config.adapters["it"].journal_events == 7
    assert config.limits.gate_deadline_s == 1.5


def test_synthetic_members_have_defaults() -> None:
    assert parse(entry("synthetic")).adapters["it"].options == SYNTHETIC_DEFAULTS
    changed = parse(entry("synthetic", deltas=0, pace="reader")).adapters["it"].options
    assert changed == {**SYNTHETIC_DEFAULTS, "deltas": 0, "pace": "reader"}


def test_a_codec_gets_its_settings() -> None:
    config = parse(
        entry(
            "claude",
            executable="claude",
            args=["-x"],
            environment=["A=1"],
            working_directory="/srv",
            model="m",
            allowed_tools=["Read"],
            journal_capacity=5,
        )
    )
    settings = config.adapters["it"].settings(config.limits)
    assert (settings.name, settings.executable, settings.args) == ("it", "claude", ("-x",))
    assert (settings.environment, settings.working_directory) == ({"A": "1"}, "/srv")
    assert settings.options == {"model": "m", "allowed_tools": ("Read",)}
    assert settings.limits is config.limits


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "adapters.it: state exactly one of allowed_tools (names) and unrestricted_tools (true)"),
        ({"unrestricted_tools": False}, "adapters.it: state exactly one of"),
        ({"unrestricted_tools": True, "allowed_tools": []}, "adapters.it: state exactly one of"),
        ({"unrestricted_tools": "true"}, "adapters.it.unrestricted_tools: must be true or false, not a string"),
        ({"allowed_tools": "Read"}, "adapters.it.allowed_tools: must be an array of strings, not a string"),
        ({"allowed_tools": ["Read", ""]}, "adapters.it.allowed_tools[1]: must not be empty"),
        ({"allowed_tools": ["Read", None]}, "adapters.it.allowed_tools[1]: must be a string, not null"),
    ],
)
def test_claude_states_exactly_one_choice_of_tools(members: dict[str, Any], message: str) -> None:
    assert fault(entry("claude", **members)).startswith(f"c.json: {message}")


def test_both_choices_of_tools_are_good_by_themselves() -> None:
    assert parse(entry("claude", allowed_tools=[])).adapters["it"].options == {"allowed_tools": ()}
    assert parse(entry("claude", unrestricted_tools=True)).adapters["it"].options == {"unrestricted_tools": True}
    both = parse(entry("claude", allowed_tools=["Read"], unrestricted_tools=False))
    assert both.adapters["it"].options == {"allowed_tools": ("Read",)}


@pytest.mark.parametrize("type", sorted(set(TYPES) - {"memory", "synthetic"} - set(registry.CODECS)))
def test_a_known_type_without_a_codec_is_a_clear_startup_error(type: str) -> None:
    assert fault(entry(type)) == f"c.json: adapters.it: type {type} is not served by this version"
    with pytest.raises(ConfigError, match="not served by this version"):
        registry.load(type)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"adapter": {}}, "adapter: unknown member"),
        ({"zeta": 1, "alpha": 2, "Beta": 3}, "Beta: unknown member"),
        ({"Adapters": {}}, "Adapters: unknown member; write 'adapters'"),
        ({"adapters": {}, "Adapters": {}}, "Adapters: differs from 'adapters' only by case"),
        ({"adapters": {"memory": {}, "Memory": {}}}, "adapters.Memory: differs from 'memory' only by case"),
        ({"adapters": []}, "adapters: must be an object, not an array"),
        ({"adapters": None}, "adapters: must be an object, not null"),
        ({"adapters": {"": {}}}, "adapters['']: a name must not be empty"),
        ({"adapters": {"memory": None}}, "adapters.memory: must be an object, not null"),
        (entry("memory", zeta=1, model="m", beta=2), "adapters.it.beta: unknown member"),
        (entry("memory", Journal_Capacity=1), "adapters.it.Journal_Capacity: unknown member; write 'journal_capacity'"),
        ({"adapters": {"it": {"type": 3}}}, "adapters.it.type: must be a string, not a number"),
        (entry(""), "adapters.it.type: must not be empty"),
        (entry("memory", journal_capacity=1.0), "adapters.it.journal_capacity: must be a whole number, not a fraction"),
        (entry("memory", journal_capacity=True), "adapters.it.journal_capacity: must be a whole number, not a boolean"),
        (entry("acp", args=["a", 1]), "adapters.it.args[1]: must be a string, not a number"),
        (entry("acp", working_directory="srv"), "adapters.it.working_directory: must be an absolute path"),
        (entry("acp", executable=""), "adapters.it.executable: must not be empty"),
        (entry("synthetic", pace="fast"), "adapters.it.pace: must be one of free, reader"),
        (entry("synthetic", pace=["free"]), "adapters.it.pace: must be one of free, reader"),
        (entry("synthetic", delta_bytes=0), "adapters.it.delta_bytes: must be 1 to"),
        (entry("synthetic", delta_bytes=1 << 40), "adapters.it.delta_bytes: must be at most limits.envelope_bytes"),
        ({"adapters": {"a.b": {"type": "x"}}}, "adapters['a.b'].type: unknown type 'x'"),
        ({"limits": {"mailbx": 1}}, "limits.mailbx: unknown member"),
        ({"limits": {"mailbox": "9"}}, "limits.mailbox: must be a number, not a string"),
        ({"limits": {"mailbox": 0}}, "limits.mailbox: limit mailbox must be at least 1"),
        ({"limits": {"mailbox": None}}, "limits.mailbox: limit mailbox takes a whole number"),
        ({"limits": {"mailbox": 1.0}}, "limits.mailbox: limit mailbox takes a whole number"),
        ({"limits": {"window_s": True}}, "limits.window_s: limit window_s takes a number of seconds"),
        ({"limits": {"frame_bytes": 255}}, "limits.frame_bytes: limit frame_bytes must be at least 256"),
        ({"limits": 3}, "limits: must be an object, not a number"),
    ],
)
def test_faults_name_member_and_place(value: object, message: str) -> None:
    assert fault(value).startswith(f"c.json: {message}")


def test_a_message_is_bounded_whatever_the_file_holds() -> None:
    for value in ({"limits": {"mailbox": 10**4000}}, entry("t" * 5000), entry("memory", **{"n" * 5000: 1})):
        assert len(fault(value)) < 500


def test_infinity_written_as_a_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"limits\.window_s"):
        parse_config(b'{"limits": {"window_s": 1e999}}', "c.json", {})


def test_a_file_is_read_with_the_environment_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_TEST_VALUE", "from the process")
    path = tmp_path / "c.json"
    path.write_text(json.dumps(entry("claude", allowed_tools=[], environment=["TRUNKLINE_TEST_VALUE"])))
    assert read_config(str(path)).adapters["it"].environment == {"TRUNKLINE_TEST_VALUE": "from the process"}
    assert read_config(str(path), {}).adapters["it"].environment == {}


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_config(str(tmp_path / "absent.json"))
    with pytest.raises(ConfigError, match="directory"):
        read_config(str(tmp_path))
    with pytest.raises(ConfigError, match="null"):
        read_config("a\0b")
    (tmp_path / "long.json").write_bytes(b" " * (CONFIG_BYTES + 5))
    with pytest.raises(ConfigError, match=f"longer than {CONFIG_BYTES} bytes"):
        read_config(str(tmp_path / "long.json"))


def test_the_example_of_the_specification_is_read_but_for_the_codec_that_is_not_here() -> None:
    coder = {
        "type": "acp",
        "executable": "/opt/agent/bin/agent",
        "args": ["--acp"],
        "environment": ["LANG", "MODE=strict"],
        "working_directory": "/srv/project",
    }
    assert "type acp is not served" in fault({"adapters": {"memory": {"journal_capacity": 64}, "coder": coder}})
