"""Judging one payload: bytes in, its value out, or a refusal that names the place.

Two engines over the one source `shapes`: compiled `pydantic-core` validators, made at the first use of a type and run
on the bytes, and the plain judge of `faults`. The plain one works alone until `warm` was called, because importing the
other costs more than answering the first requests; from then on it only writes the messages of what was refused.
"""

from __future__ import annotations

from . import faults, json, kinds, names, shapes
from .errors import Refusal
from .quote import clip, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    from pydantic_core import CoreSchema, SchemaValidator

COLD_CALLS: Final = 64
"""So many payloads are judged plainly before the compiled engine is loaded without being asked for."""
COLD_BYTES: Final = 1 << 16
"""A payload longer than this loads the compiled engine at once: it would gain more than the loading costs."""

_validators: dict[str, SchemaValidator] = {}
_cold_left = COLD_CALLS


def warm(types: Iterable[str] = ()) -> None:
    """Load the compiled engine (20 to 30 ms, once) and compile these types; call it after the first answer."""
    global _cold_left
    import pydantic_core  # noqa: F401 - loading it is the point

    _cold_left = 0
    for envelope_type in types:
        validator(envelope_type)


def validate_payload(envelope_type: str, payload: bytes) -> dict[str, Any]:
    """Return the payload's value. `payload` is sound JSON without repeated names: the envelope scanner saw to it.

    Raises `Refusal`: `schema_invalid` where the schema refuses it (also for an unknown type), `invalid_payload` where
    the schema takes it and no typed reader can hold it. Details: `pointer`, from the envelope's root, cut when long.
    """
    if envelope_type not in shapes.TYPES:
        raise Refusal(names.SCHEMA_INVALID, f"{quote(envelope_type)} is no envelope type", {"pointer": "/type"})
    if _cold(len(payload)):
        value = plainly(envelope_type, payload)
        if value is not None:
            return value
    return compiled(envelope_type, payload)


def compiled(envelope_type: str, payload: bytes) -> dict[str, Any]:
    """Judge with the compiled validator, whether warm or not; as `validate_payload`."""
    from pydantic_core import ValidationError, from_json

    try:
        value: dict[str, Any] = validator(envelope_type).validate_json(payload)
    except ValidationError:
        try:
            fault = faults.first_fault(shapes.payload_of(envelope_type), from_json(payload))
        except ValueError as error:
            raise Refusal(names.MALFORMED_JSON, f"the payload is not JSON: {clip(str(error), 120)}") from None
        raise _refusal(fault or faults.Fault(None, "does not fit its type", True)) from None
    return value


def plainly(envelope_type: str, payload: bytes) -> dict[str, Any] | None:
    """Judge with the plain engine alone; None where only an exact decoder can tell. Raises as `validate_payload`."""
    try:
        value = json.loads(payload)
    except ValueError:  # sound JSON with a number beyond a double
        return None
    try:
        fault = faults.first_fault(shapes.payload_of(envelope_type), value, exact=False)
    except faults.UnsureError:
        return None
    if fault is not None:
        raise _refusal(fault)
    checked: dict[str, Any] = value
    return checked


def validator(envelope_type: str) -> SchemaValidator:
    """Return the compiled validator of a type's payload, made at the first call. Raises `KeyError`: no such type."""
    found = _validators.get(envelope_type)
    if found is None:
        from pydantic_core import SchemaValidator

        found = _validators[envelope_type] = SchemaValidator(_core(shapes.payload_of(envelope_type), None))
    return found


def _cold(size: int) -> bool:
    global _cold_left
    if _cold_left <= 0:
        return False
    _cold_left = _cold_left - 1 if size <= COLD_BYTES else 0
    return _cold_left > 0


def _refusal(fault: faults.Fault) -> Refusal:
    pointer = f"/payload{fault.pointer}"
    code = names.SCHEMA_INVALID if fault.readable else names.INVALID_PAYLOAD
    return Refusal(code, f"{quote(pointer, 120)} {fault.reason}", {"pointer": pointer})


def _core(kind: kinds.Kind, tag: str | None) -> CoreSchema:
    """Translate a kind; `tag` is the member that tells the arms of a tagged object apart."""
    from pydantic_core import core_schema as cs

    if isinstance(kind, str):
        return _SCALAR[kind]() if kind in kinds.SCALARS else _core(shapes.definition(kind), tag)
    if isinstance(kind, kinds.Shape):
        return _core_shape(kind, tag)
    if isinstance(kind, kinds.Enum):
        return cs.literal_schema(list(kind.values))
    if isinstance(kind, kinds.Each):
        array = cs.list_schema(_core(kind.item, None), min_length=kind.least or None, strict=True, fail_fast=True)
        return cs.no_info_after_validator_function(_all_different, array) if kind.unique else array
    if isinstance(kind, kinds.Table):
        return cs.dict_schema(cs.str_schema(strict=True), _core(kind.value, None), strict=True)
    if isinstance(kind, kinds.OrNull):
        return cs.nullable_schema(_core(kind.kind, None))
    if isinstance(kind, kinds.TextOr):
        return cs.union_schema([cs.str_schema(strict=True), _core(kind.array, None)], mode="left_to_right")
    arms = {name: _core(arm, kind.member) for name, arm in kind.arms.items()}
    return cs.tagged_union_schema(arms, kind.member, strict=True)


def _core_shape(kind: kinds.Shape, tag: str | None) -> CoreSchema:
    from pydantic_core import core_schema as cs

    fields = {
        name: cs.typed_dict_field(_core(member, None), required=name in kind.required)
        for name, member in kind.members.items()
    }
    if tag is not None:
        fields[tag] = cs.typed_dict_field(cs.any_schema())  # the union has chosen this arm by its very value
    if kind.closed:
        shape: CoreSchema = cs.typed_dict_schema(fields, extra_behavior="forbid", strict=True)
    else:
        shape = cs.typed_dict_schema(fields, extra_behavior="allow", extras_schema=_any(), strict=True)
    if not kind.rules and not kind.arms:
        return shape
    return cs.no_info_after_validator_function(_rules(kind), shape)


def _rules(kind: kinds.Shape) -> Callable[[dict[str, Any]], dict[str, Any]]:
    arm_members = frozenset(name for arm in kind.arms for name in arm)

    def check(value: dict[str, Any]) -> dict[str, Any]:
        if kind.arms and arm_members & value.keys() not in kind.arms:
            raise ValueError
        for rule in kind.rules:
            if (
                rule.member in value
                and (not rule.values or value[rule.member] in rule.values)
                and not (all(name in value for name in rule.needs) and all(name not in value for name in rule.bars))
            ):
                raise ValueError
        return value

    return check


def _all_different(value: list[Any]) -> list[Any]:
    if len(set(value)) != len(value):
        raise ValueError
    return value


def _held(value: Any) -> Any:
    if not isinstance(value, str) and not faults.holds(value):
        raise ValueError
    return value


def _any() -> CoreSchema:
    from pydantic_core import core_schema as cs

    return cs.no_info_after_validator_function(_held, cs.any_schema())


def _object() -> CoreSchema:
    from pydantic_core import core_schema as cs

    free = cs.dict_schema(cs.str_schema(strict=True), cs.any_schema(), strict=True)
    return cs.no_info_after_validator_function(_held, free)


def _bool() -> CoreSchema:
    from pydantic_core import core_schema as cs

    return cs.bool_schema(strict=True)


def _text(least: int) -> CoreSchema:
    from pydantic_core import core_schema as cs

    return cs.str_schema(strict=True, min_length=least or None)


def _int(least: int) -> CoreSchema:
    from pydantic_core import core_schema as cs

    return cs.int_schema(strict=True, ge=least, le=faults.INT64[1])


_SCALAR: Final[dict[str, Callable[[], CoreSchema]]] = {
    "any": _any,
    "bool": _bool,
    "count": lambda: _int(0),
    "int": lambda: _int(faults.INT64[0]),
    "name": lambda: _text(1),
    "object": _object,
    "ordinal": lambda: _int(1),
    "text": lambda: _text(0),
}
