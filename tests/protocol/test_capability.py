"""The descriptor: effective support across layers, and the two ranks that every feature passes."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.protocol.capability import Descriptor, refuse_feature, refuse_stale

LAYERED: dict[str, Any] = {
    "endpoint": {"id": "e"},
    "features": {"top": {"level": "native"}, "lowered": {"level": "unavailable"}, "odd": {"level": "splendid"}},
    "layers": {
        "b": {
            "features": {"shared": {"level": "native"}, "only.b": {"level": "degraded", "modes": ["m"]}},
            "tools": [{"name": "tool-b"}],
        },
        "a": {
            "features": {"shared": {"level": "emulated"}, "top": {"level": "degraded"}, "lowered": {"level": "native"}},
            "tools": [{"name": "tool-a"}],
            "sources": [{"id": "source-a", "kind": "native"}],
        },
    },
    "tools": [{"name": "tool-top"}],
    "limits": {"max_queued_runs_per_session": 3},
}


@pytest.mark.parametrize(
    ("key", "level"),
    [
        ("top", "native"),
        ("lowered", "unavailable"),
        ("shared", "emulated"),
        ("only.b", "degraded"),
        ("odd", "unavailable"),
        ("absent", "unavailable"),
    ],
)
def test_effective_level(key: str, level: str) -> None:
    descriptor = Descriptor("r1", LAYERED)
    assert descriptor.level(key) == level
    assert descriptor.affirmative(key) is (level != "unavailable")


def test_effective_lists_and_limits() -> None:
    descriptor = Descriptor("r1", LAYERED)
    assert [tool["name"] for tool in descriptor.tools()] == ["tool-top", "tool-a", "tool-b"]
    assert [source["id"] for source in descriptor.sources()] == ["source-a"]
    assert descriptor.limit("max_queued_runs_per_session") == 3
    assert descriptor.limit("max_active_runs_per_session") is None
    assert descriptor.modes("only.b") == ["m"]
    assert descriptor.feature("absent") == {}
    assert descriptor.feature_limit("only.b", "max_sources") is None


def test_a_descriptor_without_optional_members_offers_nothing() -> None:
    descriptor = Descriptor("r1", {"endpoint": {"id": "e"}})
    assert descriptor.level("run.cancel") == "unavailable"
    assert descriptor.tools() == []
    assert descriptor.limit("max_queued_runs_per_session") is None


@pytest.mark.parametrize(
    ("level", "allow", "code", "details"),
    [
        ("native", [], None, None),
        ("emulated", [], None, None),
        ("degraded", ["f"], None, None),
        ("degraded", [], "capability_degraded", {"feature": "f"}),
        ("degraded", ["g"], "capability_degraded", {"feature": "f"}),
        ("unavailable", ["f"], "unsupported_feature", {"feature": "f", "reason": "unadvertised"}),
        ("nonsense", ["f"], "unsupported_feature", {"feature": "f", "reason": "unadvertised"}),
        (None, ["f"], "unsupported_feature", {"feature": "f", "reason": "unadvertised"}),
    ],
)
def test_refuse_feature(level: str | None, allow: list[str], code: str | None, details: dict[str, str] | None) -> None:
    features = {} if level is None else {"f": {"level": level}}
    descriptor = Descriptor("r1", {"features": features})
    refusal = refuse_feature(descriptor, "f", allow)
    assert descriptor.usable("f", allow) is (code is None)
    if code is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert (refusal.code, refusal.details) == (code, details)


@pytest.mark.parametrize("cited", [None, "r1"])
def test_current_or_uncited_revision_is_not_stale(cited: str | None) -> None:
    assert refuse_stale(Descriptor("r1", {}), cited) is None


def test_stale_revision_names_both() -> None:
    refusal = refuse_stale(Descriptor("r1", {}), "r0")
    assert refusal is not None
    assert refusal.code == "stale_capabilities"
    assert refusal.details == {"expected_revision": "r0", "current_revision": "r1"}
