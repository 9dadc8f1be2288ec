"""Environment lists: the shared vectors, and what they leave open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from trunkline.gateway.config import parse_config
from trunkline.gateway.tool_sources import resolve_attachments
from trunkline.protocol.errors import ConfigError, Refusal

from tests.support.shared import shared

VECTORS = (
    "bare-present",
    "bare-absent-adapter",
    "bare-absent-tool-source",
    "literal-empty",
    "literal-with-equals",
    "wire-literal",
    "ambient-nesting",
    "name-with-newline",
    "name-empty",
    "diagnostic-leak",
)


def vectors() -> dict[str, dict[str, Any]]:
    rows = json.loads(shared("cases", "env-vectors.json").read_text())["env"]
    return {row["name"]: row for row in rows}


def adapter(entry: list[str], environ: Mapping[str, str]) -> dict[str, str]:
    text = json.dumps({"adapters": {"coder": {"type": "claude", "allowed_tools": [], "environment": entry}}})
    return parse_config(text.encode(), "test.json", environ).adapters["coder"].environment


def source(entry: list[str], environ: Mapping[str, str]) -> dict[str, str]:
    text = json.dumps({"tool_sources": {"files": {"kind": "process", "command": "/bin/true", "environment": entry}}})
    return parse_config(text.encode(), "test.json", environ).tool_sources["files"].environment


def test_every_vector_is_named_here() -> None:
    assert set(vectors()) == set(VECTORS)


@pytest.mark.parametrize("name", VECTORS)
def test_vector(name: str) -> None:
    row = vectors()[name]
    environ = row.get("daemon_env", {})
    if "wire" in row:
        with pytest.raises(Refusal) as caught:
            resolve_attachments([{"id": "web", "kind": "remote", "environment": row["wire"]}], {}, environ)
        assert caught.value.code == "unsupported_feature"
    elif "startup" in row:
        kinds = (source,) if row.get("kind") == "tool_source" else (source, adapter)
        for read in kinds:
            with pytest.raises(ConfigError) as fault:
                read(row["entry"], environ)
        if row.get("kind") == "tool_source":
            assert "'files'" in str(fault.value)
            assert repr(row["entry"][0]) in str(fault.value)
    else:
        sees = adapter(row["entry"], environ)
        for variable in row.get("child_lacks", ()):
            assert variable not in sees
        for variable, value in row.get("child_sees", {}).items():
            assert sees[variable] == value


@pytest.mark.parametrize("read", [adapter, source])
@pytest.mark.parametrize("entry", [["A=1", "A=2"], ["A=1", "A"], ["A", "A"]])
def test_one_variable_named_twice_is_an_error_in_both(read: Any, entry: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"environment\[1\]: variable 'A' is named twice"):
        read(entry, {"A": "x"})


@pytest.mark.parametrize("element", ["A\0B", "A\rB", "A=x\0y", "\x1b[0m=1", ""])
def test_control_characters_and_empty_elements_are_refused(element: str) -> None:
    with pytest.raises(ConfigError, match=r"adapters\.coder\.environment\[0\]"):
        adapter([element], {})


def test_a_literal_may_hold_a_newline() -> None:
    assert adapter(["KEY=one\ntwo"], {}) == {"KEY": "one\ntwo"}


def test_a_fault_never_shows_a_value() -> None:
    for entry in (["TOKEN=secret", "TOKEN=secret"], ["TOKEN=secret\0"], ["OK=secret", "=secret"]):
        with pytest.raises(ConfigError) as caught:
            adapter(entry, {})
        assert "secret" not in str(caught.value)


def test_an_empty_literal_makes_a_variable_of_a_tool_source_optional() -> None:
    assert source(["NOPE="], {}) == {"NOPE": ""}


def test_nothing_else_of_the_daemon_passes() -> None:
    assert adapter([], {"HOME": "/h", "PATH": "/p"}) == {}
    assert source(["PATH"], {"HOME": "/h", "PATH": "/p"}) == {"PATH": "/p"}
