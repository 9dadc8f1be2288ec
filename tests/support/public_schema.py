"""The public schema bundle beside the checkout, as a judge of single envelopes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.support.shared import SHARED

BASE = "https://open-agent-protocol.local/v0.1/"
ROOT = "envelope.schema.json"


@cache
def _validator(kind: str) -> Any:
    """Return the validator of one envelope type, or None for a type that the bundle does not have.

    The root's `oneOf` is replaced by the one branch that pins the type: 55 branches judged for each envelope are slow.
    """
    assert SHARED is not None
    folder = SHARED / "oap" / "schema" / "v0.1"
    files = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    root = files[ROOT]
    branches = {
        definition["properties"]["type"]["const"]: name
        for name, definition in root["$defs"].items()
        if "const" in definition.get("properties", {}).get("type", {})
    }
    if kind not in branches:
        return None
    files[ROOT] = {**root, "oneOf": [{"$ref": f"#/$defs/{branches[kind]}"}]}
    registry: Registry[Any] = Registry().with_resources(
        [(BASE + name, DRAFT202012.create_resource(contents)) for name, contents in files.items()]
    )
    return Draft202012Validator({"$ref": BASE + ROOT}, registry=registry)


def public_fault(envelope: dict[str, Any]) -> str | None:
    """Return what the public schema has against an envelope; None: nothing, or the bundle is not here to ask."""
    if SHARED is None:
        return None
    validator = _validator(str(envelope.get("type")))
    if validator is None:
        return f"the public schema knows no type {envelope.get('type')!r}"
    error = next(iter(validator.iter_errors(envelope)), None)
    return None if error is None else f"the public schema refuses it: {error.message[:400]}"
