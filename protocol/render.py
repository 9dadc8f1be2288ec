"""The tables of `shapes` as a JSON Schema 2020-12 bundle, for packs, for tolerant reading and for other programs.

Nothing here judges an envelope of the gateway: `validate` does that from the same tables.
"""

from __future__ import annotations

from . import kinds, names, shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, TypeAlias

    Schema: TypeAlias = dict[str, Any] | bool

BASE: Final = "https://open-agent-protocol.local/v0.1/"
"""Every file is registered below this address, and none is ever fetched."""
ROOT: Final = "envelope.schema.json"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_NAME: Final = {"type": "string", "minLength": 1}
_SCALAR: Final[dict[str, Schema]] = {
    "any": True,
    "bool": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 0},
    "int": {"type": "integer"},
    "name": _NAME,
    "object": {"type": "object"},
    "ordinal": {"type": "integer", "minimum": 1},
    "text": {"type": "string"},
}
_COMMON: Final[dict[str, Schema]] = {"nonEmptyString": _NAME, "opaqueID": _NAME, "jsonObject": {"type": "object"}}
"""Names that packs refer to; the tables have words for them instead."""

_HEADER: Final[dict[str, Schema]] = {
    "protocol": {"const": names.PROTOCOL},
    "version": {"const": names.VERSION},
    "profile": {"const": names.PROFILE},
    "type": {"type": "string"},
    "id": _NAME,
    "payload": {"type": "object"},
    "sequence": _SCALAR["ordinal"],
    "timestamp_ms": _SCALAR["int"],
    "in_reply_to": _NAME,
    "session_id": _NAME,
    "run_id": _NAME,
    "turn_id": _NAME,
    "tool_call_id": _NAME,
    "capability_revision": _NAME,
    "extensions": {"type": "object"},
}


def render_schema() -> dict[str, dict[str, Any]]:
    """Return the bundle: file name to schema; the root is `envelope.schema.json`. Made anew at each call."""
    files: dict[str, dict[str, Schema]] = {"common": dict(_COMMON)}
    for name in shapes.DEFINITIONS:
        file, _, short = name.partition(".")
        if "." not in short:
            files.setdefault(file, {})[short] = _schema(shapes.definition(name), file)
    envelope = files.setdefault("envelope", {})
    branches = []
    for envelope_type in shapes.TYPES:
        branch = _branch_name(envelope_type)
        envelope[branch] = _branch(envelope_type)
        branches.append({"$ref": f"#/$defs/{branch}"})
    bundle: dict[str, dict[str, Any]] = {
        f"{file}.schema.json": {"$schema": _DIALECT, "$id": f"{file}.schema.json", "$defs": definitions}
        for file, definitions in files.items()
    }
    bundle[ROOT] |= {
        "type": "object",
        "required": ["protocol", "version", "profile", "type", "id", "payload"],
        "properties": _HEADER,
        "oneOf": branches,
    }
    return bundle


def _branch_name(envelope_type: str) -> str:
    first, *more = envelope_type.replace("_", ".").split(".")
    return first + "".join(word.capitalize() for word in more)


def _branch(envelope_type: str) -> Schema:
    return {
        "required": list(shapes.header_of(envelope_type)),
        "properties": {
            "type": {"const": envelope_type},
            "payload": _schema(shapes.payload_of(envelope_type), "envelope"),
        },
    }


def _schema(kind: kinds.Kind, file: str) -> Schema:
    if isinstance(kind, str):
        return _SCALAR[kind] if kind in kinds.SCALARS else _reference(kind, file)
    if isinstance(kind, kinds.Enum):
        return {"const": kind.values[0]} if kind.fixed else {"enum": list(kind.values)}
    if isinstance(kind, kinds.Each):
        array: dict[str, Any] = {"type": "array", "items": _schema(kind.item, file)}
        if kind.least:
            array["minItems"] = kind.least
        if kind.unique:
            array["uniqueItems"] = True
        return array
    if isinstance(kind, kinds.Table):
        return {"type": "object", "additionalProperties": _schema(kind.value, file)}
    if isinstance(kind, kinds.OrNull):
        return {"oneOf": [_schema(kind.kind, file), {"type": "null"}]}
    if isinstance(kind, kinds.TextOr):
        return {"oneOf": [_SCALAR["text"], _schema(kind.array, file)]}
    if isinstance(kind, kinds.Tagged):
        return {"oneOf": [_arm(kind.member, tag, name, file) for tag, name in kind.arms.items()]}
    return _object(kind, file)


def _reference(name: str, file: str) -> Schema:
    home, _, short = name.partition(".")
    if "." in short:
        return _schema(shapes.definition(name), file)
    return {"$ref": f"{'' if home == file else home + '.schema.json'}#/$defs/{short}"}


def _arm(member: str, tag: str, name: str, file: str) -> Schema:
    schema = _schema(shapes.definition(name), file)
    assert isinstance(schema, dict)
    schema["properties"] = {member: {"const": tag}} | schema["properties"]
    schema["required"] = [member, *schema["required"]]
    return schema


def _object(shape: kinds.Shape, file: str) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "required": [name for name in shape.members if name in shape.required],
        "properties": {name: _schema(kind, file) for name, kind in shape.members.items()},
    }
    if shape.closed:
        schema["additionalProperties"] = False
    if shape.rules:
        schema["allOf"] = [{"if": _condition(rule), "then": _consequence(rule)} for rule in shape.rules]
    if shape.arms:
        every = [name for name in shape.members if any(name in arm for arm in shape.arms)]
        schema["oneOf"] = [
            {"required": sorted(arm), **_absent([name for name in every if name not in arm])} for arm in shape.arms
        ]
    return schema


def _condition(rule: kinds.Rule) -> dict[str, Any]:
    condition: dict[str, Any] = {"required": [rule.member]}
    if rule.values:
        condition["properties"] = {rule.member: {"enum": list(rule.values)}}
    return condition


def _consequence(rule: kinds.Rule) -> dict[str, Any]:
    return ({"required": list(rule.needs)} if rule.needs else {}) | _absent(rule.bars)


def _absent(members: tuple[str, ...] | list[str]) -> dict[str, Any]:
    return {"not": {"anyOf": [{"required": [name]} for name in members]}} if members else {}
