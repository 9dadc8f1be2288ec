"""Attachments of the wire against the operator's map: one row a rule of the table (spec: hub 7)."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.gateway.config import parse_config
from trunkline.gateway.tool_sources import resolve_attachments
from trunkline.protocol.errors import ConfigError, Refusal

TEXT = b"""{"tool_sources": {
 "files": {"kind": "process", "display_name": "Files", "protocol": "mcp", "endpoint": "stdio:files",
           "command": "/opt/mcp/files", "args": ["--root", "/srv"], "environment": ["TOKEN", "DEBUG="]},
 "search": {"kind": "remote"}}}"""
ENVIRON = {"TOKEN": "t", "DEBUG": "all", "LANG": "C"}
SOURCES = parse_config(TEXT, "test.json", ENVIRON).tool_sources


def resolve(*attachments: dict[str, Any]) -> list[Any]:
    return resolve_attachments(attachments, SOURCES, ENVIRON)


def test_the_operators_entry_is_used() -> None:
    (files,) = resolve({"id": "files", "kind": "process"})
    assert files.configured
    assert (files.kind, files.command, files.args) == ("process", "/opt/mcp/files", ("--root", "/srv"))
    assert files.environment == {"TOKEN": "t", "DEBUG": ""}
    assert files.published == {
        "id": "files",
        "kind": "process",
        "display_name": "Files",
        "protocol": "mcp",
        "endpoint": "stdio:files",
    }


def test_stating_the_same_is_fine() -> None:
    (files,) = resolve({"id": "files", "kind": "process", "display_name": "Files", "endpoint": "stdio:files"})
    assert files.published["endpoint"] == "stdio:files"


def test_bare_names_are_added_but_never_over_the_operators() -> None:
    (files,) = resolve({"id": "files", "kind": "process", "environment": ["DEBUG", "LANG", "MISSING"]})
    assert files.environment == {"TOKEN": "t", "DEBUG": "", "LANG": "C"}
    assert SOURCES["files"].environment == {"TOKEN": "t", "DEBUG": ""}


def test_an_unconfigured_source_that_is_no_process_is_passed_on() -> None:
    (web,) = resolve({"id": "web", "kind": "hosted", "endpoint": "e", "environment": ["LANG", "MISSING"]})
    assert not web.configured
    assert web.command is None
    assert web.published == {"id": "web", "kind": "hosted", "endpoint": "e"}
    assert web.environment == {"LANG": "C"}


def test_order_is_kept() -> None:
    found = resolve({"id": "web", "kind": "local"}, {"id": "search", "kind": "remote"})
    assert [source.id for source in found] == ["web", "search"]


REFUSED: dict[str, dict[str, Any]] = {
    "command": {"id": "files", "kind": "process", "command": "/opt/mcp/files"},
    "empty command": {"id": "files", "kind": "process", "command": ""},
    "args": {"id": "files", "kind": "process", "args": ["--root", "/srv"]},
    "empty args": {"id": "files", "kind": "process", "args": []},
    "command, not configured": {"id": "web", "kind": "remote", "command": "/bin/sh"},
    "literal": {"id": "files", "kind": "process", "environment": ["LANG=C"]},
    "literal without value": {"id": "web", "kind": "remote", "environment": ["LANG="]},
    "nameless": {"id": "web", "kind": "remote", "environment": [""]},
    "newline": {"id": "web", "kind": "remote", "environment": ["A\nB"]},
    "named twice": {"id": "web", "kind": "remote", "environment": ["A", "A"]},
    "other kind": {"id": "files", "kind": "local"},
    "other display_name": {"id": "files", "kind": "process", "display_name": "files"},
    "other protocol": {"id": "files", "kind": "process", "protocol": "MCP"},
    "other endpoint": {"id": "files", "kind": "process", "endpoint": ""},
    "states what the operator left out": {"id": "search", "kind": "remote", "endpoint": "https://example.invalid"},
    "process, not configured": {"id": "shell", "kind": "process"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        resolve({"id": "search", "kind": "remote"}, REFUSED[name])
    assert caught.value.code == "unsupported_feature"
    assert caught.value.details == {
        "feature": "action.tool_sources.attach",
        "reason": "unsatisfiable",
        "source": REFUSED[name]["id"],
    }
    assert len(caught.value.message) <= 300


def test_one_source_attached_twice_is_refused() -> None:
    with pytest.raises(Refusal, match="twice"):
        resolve({"id": "search", "kind": "remote"}, {"id": "search", "kind": "remote"})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{}", "tool_sources.s.kind: required"),
        ('{"kind": "stdio"}', "tool_sources.s.kind: must be one of native, local, process, remote, hosted"),
        ('{"kind": ["process"]}', "tool_sources.s.kind: must be one of"),
        ('{"kind": "process"}', "tool_sources.s.command: required for kind process"),
        ('{"kind": "process", "command": ""}', "tool_sources.s.command: must not be empty"),
        ('{"kind": "remote", "args": "x"}', "tool_sources.s.args: must be an array of strings, not a string"),
        ('{"kind": "remote", "url": "x"}', "tool_sources.s.url: unknown member"),
        ('{"kind": "remote", "environment": ["NOPE"]}', "tool_sources.s.environment: source 's' needs variable 'NOPE'"),
        ("[]", "tool_sources.s: must be an object, not an array"),
    ],
)
def test_entries_are_judged_at_startup(entry: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(b'{"tool_sources": {"s": %b}}' % entry.encode(), "c.json", {})
    assert str(caught.value).startswith(f"c.json: {message}")


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        parse_config(b'{"tool_sources": {"": {"kind": "remote"}}}', "c.json", {})
