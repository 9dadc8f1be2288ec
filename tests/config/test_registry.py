"""Codecs by type: ours by table, those of others by entry point, nothing imported before it is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import metadata
from types import SimpleNamespace

import pytest
from trunkline.adapters import registry
from trunkline.gateway.config import parse_config
from trunkline.protocol.errors import ConfigError

from tests.support.isolated import run_isolated

Install = Callable[..., None]


def make_nothing(settings: object) -> object:
    return settings


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def put(*entries: tuple[str, str]) -> None:
        found = [metadata.EntryPoint(name, value, registry.GROUP) for name, value in entries]
        monkeypatch.setattr(metadata, "entry_points", lambda group: found if group == registry.GROUP else [])

    return put


def parse(members: dict[str, object]) -> object:
    return parse_config(json.dumps({"adapters": {"it": {"type": "other", **members}}}).encode(), "c.json", {})


def module(monkeypatch: pytest.MonkeyPatch, maker: object) -> None:
    monkeypatch.setitem(sys.modules, "trunkline_test_codec", SimpleNamespace(maker=maker))


def test_a_codec_of_others_is_found_and_uses_the_process_members(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(("other", "trunkline_test_codec:maker"))
    module(monkeypatch, make_nothing)
    assert registry.serves("other")
    assert registry.load("other") is make_nothing
    parse({"executable": "x"})
    with pytest.raises(ConfigError, match="type other does not use this member"):
        parse({"model": "m"})


def test_a_codec_of_others_may_say_what_it_uses(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    class Maker:
        MEMBERS = ("model",)

    install(("other", "trunkline_test_codec:maker"))
    module(monkeypatch, Maker)
    parse({"model": "m"})
    with pytest.raises(ConfigError, match="does not use this member"):
        parse({"executable": "x"})


def test_a_type_that_two_packages_offer_is_refused(install: Install) -> None:
    install(("other", "a:b"), ("other", "c:d"), ("other", "a:b"))
    with pytest.raises(ConfigError, match="offered by several packages: a:b, c:d"):
        registry.serves("other")


def test_a_codec_of_others_that_does_not_load_is_named(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(("other", "no_such_module_at_all:x"))
    with pytest.raises(ConfigError, match="no_such_module_at_all:x cannot be loaded: ModuleNotFoundError"):
        registry.load("other")
    install(("other", "trunkline_test_codec:maker"))
    module(monkeypatch, 3)
    with pytest.raises(ConfigError, match="is not callable"):
        registry.load("other")


def test_ours_come_first(install: Install) -> None:
    install(("claude", "a:b"))
    assert registry.serves("claude")
    assert registry.members("absent") is None


@pytest.mark.parametrize("type", sorted(registry.CODECS))
def test_every_codec_of_the_table_is_there(type: str) -> None:
    assert callable(registry.load(type))


def test_reading_a_configuration_imports_neither_codecs_nor_entry_points() -> None:
    program = (
        "from trunkline.gateway.config import default_config\n"
        "default_config()\n"
        "heavy = {'json', 're', 'importlib.metadata', 'typing', 'asyncio', 'trunkline.adapters.claude'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = run_isolated(program)
    assert done.returncode == 0, done.stderr
