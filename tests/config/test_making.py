"""A codec that cannot be made is a startup error of one line, not a traceback."""

from __future__ import annotations

import pytest
from trunkline.adapters import registry
from trunkline.gateway.config import parse_config
from trunkline.gateway.registry import Registry
from trunkline.protocol.errors import ConfigError


def test_a_codec_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: object) -> object:
        raise RuntimeError("secret")

    monkeypatch.setattr(registry, "load", lambda type: broken)
    text = b'{"adapters":{"coder":{"type":"claude","unrestricted_tools":true,"working_directory":"/"}}}'
    with pytest.raises(ConfigError, match=r"'coder': its codec cannot be made \(RuntimeError\)"):
        Registry.of(parse_config(text, "test", {}))
