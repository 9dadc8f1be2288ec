"""The refusal ladders as tables: every rank, the order of keys and pointers, and the exact details."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from trunkline.protocol.controls import CONTROLS, Descriptor, refuse_attachments, refuse_delivery, refuse_submit

FIXED = {"level": "emulated", "constraints": {"fixed_result": {"ok": True}}}
ALL: dict[str, Any] = {
    "run.model_selection": {"level": "emulated", "scope": "run"},
    "run.instructions": {"level": "emulated"},
    "run.tool_selection": {"level": "emulated", "scope": "run"},
    "run.structured_output": FIXED,
    "session.message.delivery.queue": {"level": "emulated"},
    "models.list": {"level": "native"},
}
BAD: dict[str, Any] = {
    "model_id": "",
    "instructions": "",
    "tool_choice": None,
    "output_schema": {"type": "array"},
}
"""Each member at its worst: `instructions` has no worst, any string will do."""

Expected = tuple[str, dict[str, Any]] | None


def submit(features: dict[str, Any], payload: dict[str, Any], tools: list[str] | None = None) -> Expected:
    refusal = refuse_submit(
        {"messages": [], "delivery": "auto"} | payload,
        Descriptor("r1", {"features": features}),
        models=["m1", "m2"],
        tools=["grep", "edit"] if tools is None else tools,
    )
    return None if refusal is None else (refusal.code, dict(refusal.details or {}))


def unadvertised(key: str) -> Expected:
    return "unsupported_feature", {"feature": key, "reason": "unadvertised"}


def unsatisfiable(key: str, **culprit: str) -> Expected:
    return "unsupported_feature", {"feature": key, "reason": "unsatisfiable"} | culprit


TOOLS = "run.tool_selection"
SCHEMA = "run.structured_output"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, None),
        ({"model_id": "m1", "instructions": "", "tool_choice": {"allowed": []}, "output_schema": {}}, None),
        ({"delivery": "queue"}, None),
        ({"delivery": "steer"}, None),
        ({"delivery": "btw"}, None),
        ({"model_id": ""}, ("model_not_found", {"model_id": ""})),
        ({"model_id": "m3"}, ("model_not_found", {"model_id": "m3"})),
        ({"tool_choice": {"allowed": ["grep", "edit"]}}, None),
        ({"tool_choice": {"disallowed": []}}, None),
        ({"tool_choice": {"disallowed": ["no_such_tool"]}}, None),
        ({"tool_choice": {"allowed": ["grep", "x", "y"]}}, unsatisfiable(TOOLS, tool="x")),
        ({"tool_choice": {"allowed": [""]}}, unsatisfiable(TOOLS, tool="")),
        ({"tool_choice": None}, unsatisfiable(TOOLS)),
        ({"tool_choice": "auto"}, unsatisfiable(TOOLS)),
        ({"tool_choice": []}, unsatisfiable(TOOLS)),
        ({"tool_choice": {}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"mode": "any"}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"allowed": ["grep"], "disallowed": []}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"allowed": ["x"], "more": 1}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"allowed": None}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"allowed": "grep"}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"allowed": ["grep", 3]}}, unsatisfiable(TOOLS)),
        ({"tool_choice": {"disallowed": [None]}}, unsatisfiable(TOOLS)),
        ({"output_schema": {"type": "object"}}, None),
        ({"output_schema": {"type": ["object"], "properties": {"ok": {"const": True}}}}, None),
        ({"output_schema": {"type": "array"}}, unsatisfiable(SCHEMA, field="output_schema")),
        ({"output_schema": {"type": ["object", "null"]}}, unsatisfiable(SCHEMA, field="output_schema")),
        ({"output_schema": {"required": ["answer"]}}, unsatisfiable(SCHEMA, field="output_schema")),
        ({"output_schema": {"properties": 3}}, unsatisfiable(SCHEMA, field="output_schema")),
        ({"output_schema": {"$ref": "https://example.org/s.json"}}, unsatisfiable(SCHEMA, field="output_schema")),
        # Within rank 3 the least key answers: model selection, structured output, tool selection.
        ({"model_id": "", "tool_choice": None, "output_schema": {"type": 1}}, ("model_not_found", {"model_id": ""})),
        ({"tool_choice": None, "output_schema": {"type": 1}}, unsatisfiable(SCHEMA, field="output_schema")),
    ],
    ids=str,
)
def test_satisfiable_or_not(payload: dict[str, Any], expected: Expected) -> None:
    assert submit(ALL, payload) == expected


def test_more_than_nine_tools_are_ordered_by_number() -> None:
    names = [f"t{number}" for number in range(12)]
    choice = {"tool_choice": {"allowed": names}}
    assert submit(ALL, choice, tools=[name for name in names if name not in ("t2", "t10")]) == unsatisfiable(
        TOOLS, tool="t2"
    )


@pytest.mark.parametrize("members", [c for size in (1, 2, 3, 4) for c in combinations(BAD, size)], ids=str)
def test_within_rank_1_and_2_the_least_key_answers(members: tuple[str, ...]) -> None:
    payload = {member: BAD[member] for member in members} | {"delivery": "queue"}
    least = min(CONTROLS[member] for member in members)
    assert submit({}, payload) == unadvertised(least)
    degraded = {key: {"level": "degraded"} for key in ALL}
    assert submit(degraded, payload) == ("capability_degraded", {"feature": least})
    keys = [CONTROLS[member] for member in members]
    assert submit(degraded, payload | {"allow_degraded_features": keys}) == (
        "capability_degraded",
        {"feature": "session.message.delivery.queue"},
    )


@pytest.mark.parametrize("missing", sorted(ALL.keys() - {"models.list"}))
def test_rank_1_goes_before_lower_keys_of_rank_2_and_3(missing: str) -> None:
    payload = BAD | {"delivery": "queue"}
    features = {key: {"level": "degraded"} for key in ALL if key != missing}
    assert submit(features, payload) == unadvertised(missing)
    assert submit({key: ALL[key] for key in features}, payload) == unadvertised(missing)


@pytest.mark.parametrize("lowered", sorted(ALL.keys() - {"models.list"}))
def test_rank_2_goes_before_rank_3(lowered: str) -> None:
    features = ALL | {lowered: {"level": "degraded"}}
    assert submit(features, BAD | {"delivery": "queue"}) == ("capability_degraded", {"feature": lowered})


@pytest.mark.parametrize(
    ("level", "bound"),
    [("native", True), ("emulated", True), ("degraded", False), ("unavailable", False), (None, False)],
)
def test_the_model_catalog_binds_by_its_level(level: str | None, bound: bool) -> None:
    features = {key: value for key, value in ALL.items() if key != "models.list"}
    if level is not None:
        features["models.list"] = {"level": level}
    assert submit(features, {"model_id": "m9"}) == (("model_not_found", {"model_id": "m9"}) if bound else None)
    assert submit(features, {"model_id": ""}) == ("model_not_found", {"model_id": ""})


def test_unknown_catalogs_refuse_nothing() -> None:
    payload = {"messages": [], "delivery": "auto", "model_id": "m9", "tool_choice": {"allowed": ["whatever"]}}
    assert refuse_submit(payload, Descriptor("r1", {"features": ALL}), models=None, tools=None) is None


def test_without_a_fixed_result_any_object_schema_will_do() -> None:
    features = ALL | {SCHEMA: {"level": "native"}}
    assert submit(features, {"output_schema": {"required": ["answer"]}}) is None


@pytest.mark.parametrize(
    ("payload", "refused"),
    [
        ({"messages": [{}], "delivery": "auto"}, False),
        ({"messages": [{}], "delivery": "queue"}, False),
        ({"messages": [{}], "delivery": ""}, False),
        ({"messages": [{}]}, False),
        ({"messages": [{}], "delivery": "steer"}, True),
        ({"messages": [{}], "delivery": "btw"}, True),
        ({"messages": [], "delivery": "auto"}, True),
        ({"delivery": "auto"}, True),
    ],
)
def test_delivery(payload: dict[str, Any], refused: bool) -> None:
    refusal = refuse_delivery(payload)
    assert (refusal is not None) is refused
    if refusal is not None:
        assert (refusal.code, refusal.details) == ("invalid_submission", None)


ATTACH = "action.tool_sources.attach"
OFFERED: dict[str, Any] = {
    "level": "emulated",
    "modes": ["session_open"],
    "limits": {"max_sources": 2, "transports": ["process", "local"]},
}


def source(name: str, kind: str = "process", *environment: str) -> dict[str, Any]:
    return {"id": name, "kind": kind, "environment": list(environment)}


@pytest.mark.parametrize(
    ("feature", "sources", "expected"),
    [
        (OFFERED, None, None),
        (OFFERED, [], None),
        (None, [], None),
        (OFFERED, [source("a"), source("b", "local")], None),
        (None, [source("a")], unadvertised(ATTACH)),
        (OFFERED | {"level": "unavailable"}, [source("a")], unadvertised(ATTACH)),
        (OFFERED | {"modes": []}, [source("a")], unadvertised(ATTACH)),
        ({"level": "native"}, [source("a")], unadvertised(ATTACH)),
        ({"level": "degraded"}, [source("a")], unadvertised(ATTACH)),
        (OFFERED | {"level": "degraded"}, [source("declared")], ("capability_degraded", {"feature": ATTACH})),
        (OFFERED, [source("declared")], unsatisfiable(ATTACH, source="declared")),
        (OFFERED, [source("layered")], unsatisfiable(ATTACH, source="layered")),
        (OFFERED, [source("a"), source("a")], unsatisfiable(ATTACH, source="a")),
        (OFFERED, [source("a"), source("b"), source("c")], unsatisfiable(ATTACH, source="c")),
        (OFFERED, [source("a", "hosted")], unsatisfiable(ATTACH, source="a")),
        (OFFERED, [source("a", "remote")], unsatisfiable(ATTACH, source="a")),
        (OFFERED | {"limits": {}}, [source("a", "remote")], unsatisfiable(ATTACH, source="a")),
        (OFFERED | {"limits": {}, "modes": ["session_open", "remote"]}, [source("a", "remote")], None),
        (OFFERED | {"modes": ["session_open", "remote"]}, [source("a", "remote")], unsatisfiable(ATTACH, source="a")),
        (OFFERED | {"limits": {}}, [source(str(number), "hosted") for number in range(9)], None),
        (OFFERED, [source("a", "local", "KEY", "KEY=1")], unsatisfiable(ATTACH, source="a")),
        (OFFERED, [source("a", "local", "KEY", "OTHER"), source("b", "local", "KEY")], None),
        (OFFERED, [source("a"), source("b", "native"), source("a")], unsatisfiable(ATTACH, source="b")),
    ],
)
def test_attachments(feature: dict[str, Any] | None, sources: list[dict[str, Any]] | None, expected: Expected) -> None:
    payload: dict[str, Any] = {
        "features": {} if feature is None else {ATTACH: feature},
        "sources": [{"id": "declared", "kind": "native"}],
        "layers": {"l": {"sources": [{"id": "layered", "kind": "native"}]}},
    }
    request = {} if sources is None else {"tool_sources": sources}
    refusal = refuse_attachments(request, Descriptor("r1", payload))
    assert (None if refusal is None else (refusal.code, dict(refusal.details or {}))) == expected


def test_a_degraded_attachment_that_is_allowed_is_judged_further() -> None:
    descriptor = Descriptor("r1", {"features": {ATTACH: OFFERED | {"level": "degraded"}}})
    allowed = {"allow_degraded_features": [ATTACH], "tool_sources": [source("a")]}
    assert refuse_attachments(allowed, descriptor) is None
    refusal = refuse_attachments(allowed | {"tool_sources": [source("a", "native")]}, descriptor)
    assert refusal is not None
    assert refusal.details == {"feature": ATTACH, "reason": "unsatisfiable", "source": "a"}
