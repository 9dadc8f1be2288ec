"""Output schemas: what is accepted, what is refused, and that no schema can hold the loop for long."""

from __future__ import annotations

import re
from typing import Any

import pytest
from trunkline.protocol.limits import Limits
from trunkline.protocol.output_schema import pattern_cost, schema_fault, value_fault


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["object"]},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}, "additionalProperties": False},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}},
        {"$ref": "#"},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
        {
            "$ref": "inner.json",
            "$defs": {"a": {"$id": "inner.json", "properties": {"b": {"$ref": "#/$defs/c"}}, "$defs": {"c": {}}}},
        },
        {"$dynamicRef": "#node", "$defs": {"a": {"$dynamicAnchor": "node"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": True}},
        {"properties": {"$ref": {"type": "string"}}},
        {"enum": [{"$ref": "https://example.org/not-a-reference"}]},
        nested(40),
    ],
    ids=str,
)
def test_accepted(schema: dict[str, Any]) -> None:
    assert schema_fault(schema) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array"}, "root type"),
        ({"type": []}, "root type"),
        ({"type": ["object", "null"]}, "root type"),
        ({"type": ["object", "object"]}, "root type"),
        ({"type": None}, "root type"),
        ({"properties": 3}, "/properties"),
        ({"required": [1]}, "/required/0"),
        ({"properties": {"a/b~": {"type": "thing"}}}, "/properties/a~1b~0/type"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"$ref": "#/$defs/a"}, "not inside"),
        ({"$ref": "other.json"}, "not inside"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "not inside"),
        ({"$ref": "http://[::1"}, "not inside"),
        ({"$dynamicRef": "#nowhere"}, "not inside"),
        ({"$ref": "#/title", "title": "t"}, "not a schema"),
        ({"$ref": "#/examples/0", "examples": [{"$ref": "https://example.org/"}]}, "not a schema"),
        ({"definitions": {"a": {"$ref": "https://example.org/"}}}, "not inside"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, r"\$schema"),
        ({"properties": {"a": {"pattern": "("}}}, "does not compile"),
        ({"patternProperties": {"[": {}}}, "does not compile"),
        ({"pattern": "a{99999999999}"}, "does not compile"),
        (nested(100), "levels deep"),
        ({"properties": {str(number): {} for number in range(2048)}}, "2048 members"),
    ],
    ids=str,
)
def test_refused(schema: dict[str, Any], reason: str) -> None:
    fault = schema_fault(schema)
    assert fault is not None
    assert re.search(reason, fault)
    assert len(fault) <= 200


DOUBLING: dict[str, Any] = {
    "$ref": "#/$defs/0",
    "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)} | {"40": {}},
}


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"required": ["ok"]}, {"ok": True}, None),
        ({"properties": {"e": {"pattern": r"^[a-z]+@[a-z]+\.[a-z]+$"}}}, {"e": "joe@example.org"}, None),
        ({"required": ["answer"]}, {"ok": True}, "required"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "/a/1 breaks 'type'"),
        ({"not": {}}, {}, "breaks 'not'"),
        ({"$ref": "#"}, {"ok": True}, "to an end"),
        (DOUBLING, {"ok": True}, "steps"),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 40 + "!": 1}, "steps"),
        ({"patternProperties": {"^(a|a)+$": {}}}, {"a" * 40 + "!": 1}, "steps"),
        ({"patternProperties": {"^(a|a)+$": {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}, "steps"),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"n": n} for n in range(3000)]}, "steps"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_values(schema: dict[str, Any], value: dict[str, Any], reason: str | None) -> None:
    fault = value_fault(schema, value)
    assert (fault is None) is (reason is None)
    assert reason is None or reason in (fault or "")


def test_bounds_are_limits() -> None:
    schema: dict[str, Any] = {"properties": {"a": {}, "b": {}}}
    assert schema_fault(schema, Limits(schema_nodes=3)) is not None
    assert schema_fault(schema, Limits(depth=2)) is not None
    assert value_fault({"required": ["a"], "minProperties": 1}, {"a": 1}, Limits(schema_steps=1)) is not None


@pytest.mark.parametrize(
    ("pattern", "cheap"),
    [
        ("abc", True),
        ("^a+$", True),
        (r"^[a-z]+@[a-z]+\.[a-z]+$", True),
        (r"\(\+\)\+", True),
        ("[(+)+]*", True),
        ("[]+(]*", True),
        ("(abc)+", True),
        ("^(a+)?$", True),
        ("(?:ab)*c", True),
        ("(a+)+", False),
        ("(a|a)*", False),
        ("(a|b){2,30}", False),
        ("(|a){30}", False),
        ("(?:(?:a*)b)*", False),
        ("((a)|b)+", False),
        ("(?x) (a+) +", False),
        ("(?i-x: (a+) +)", True),
        ("(?ix: (a+) +)", False),
        ("(a+)(?# here )+", False),
        ("a*" * 30, False),
        ("a?" * 40 + "a" * 40, False),
        ("(a|b)" * 40, False),
    ],
)
def test_pattern_cost(pattern: str, cheap: bool) -> None:
    re.compile(pattern)
    assert (pattern_cost(pattern, 30) < 1 << 20) is cheap
