"""Judging a JSON Schema that a host sends as `output_schema`, and a value against it, in bounded time.

The schema comes from outside, so four hazards are closed here: a schema of any size, references that fetch or never
end, evaluation that doubles at each level, and regular expressions that backtrack without end. What cannot be judged
within the bounds is refused with a reason; it never blocks the loop (spec: envelopes 13, output_schema).
"""

from __future__ import annotations

from . import limits as _limits
from .quote import clip, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

FAULT_CHARS: Final = 200
_REFERENCES: Final = ("$ref", "$dynamicRef")
_CEILING: Final = 1 << 62
_WAYS_A_STEP: Final = 64
"""Ways through a regular expression that cost about as much as one keyword evaluation."""
_WITH_PATTERNS: Final = frozenset(("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties"))


class _SpentError(Exception):
    pass


def schema_fault(schema: Mapping[str, Any], bounds: _limits.Limits | None = None) -> str | None:
    """Say why a schema cannot serve as an output schema, or return None.

    It must be an object schema (root `type` absent, `"object"` or `["object"]`), compile under JSON Schema 2020-12 and
    refer only to schemas inside itself. A `$schema` at the root is ignored; one further down is refused, because it
    would change the rules half-way.
    """
    bounds = bounds or _limits.Limits()
    if schema.get("type", "object") not in ("object", ["object"]):
        return "its root type must be object"
    return _size_fault(schema, bounds) or _meta_fault(schema) or _reference_fault(schema)


def value_fault(schema: Mapping[str, Any], value: object, bounds: _limits.Limits | None = None) -> str | None:
    """Say why a value does not satisfy a schema that passed `schema_fault`, or return None.

    A value that cannot be judged within `schema_steps` keyword evaluations counts as not satisfying it.
    """
    bounds = bounds or _limits.Limits()
    from referencing.exceptions import Unresolvable

    try:
        for error in _counting_validator(schema, value, bounds.schema_steps).iter_errors(value):
            return clip(f"{_pointer(error.absolute_path) or 'the value'} breaks {quote(error.validator)}", FAULT_CHARS)
    except _SpentError:
        return f"it takes more than {bounds.schema_steps} steps to judge"
    except (RecursionError, OverflowError, Unresolvable):
        return "it cannot be judged to an end"
    return None


def _size_fault(schema: Mapping[str, Any], bounds: _limits.Limits) -> str | None:
    import re

    nodes = 0
    for holder, depth in _holders(schema):
        nodes += 1 + len(holder)
        if nodes > bounds.schema_nodes:
            return f"it has more than {bounds.schema_nodes} members and items"
        if depth > bounds.depth:
            return f"it is nested more than {bounds.depth} levels deep"
        if depth > 1 and isinstance(holder, dict) and isinstance(holder.get("$schema"), str):
            return "it names a $schema below its root"
    for pattern in _patterns(schema):
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            return f"the pattern {quote(pattern)} does not compile"
    return None


def _meta_fault(schema: Mapping[str, Any]) -> str | None:
    from jsonschema import Draft202012Validator

    try:
        for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(_plain(schema)):
            where = _pointer(error.absolute_path) or "its root"
            return clip(f"it is no JSON Schema 2020-12: {where} breaks {quote(error.validator)}", FAULT_CHARS)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _reference_fault(schema: Mapping[str, Any]) -> str | None:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(_plain(schema))
    resolver: Any = Registry().with_resource("", root).resolver_with_root(root)
    places: dict[int, tuple[Any, Any]] = {}
    stack: list[tuple[Any, Any]] = [(root.contents, resolver)]
    while stack:
        contents, resolver = stack.pop()
        if not isinstance(contents, dict) or id(contents) in places:
            continue
        places[id(contents)] = contents, resolver
        old = contents.get("definitions")
        found = (*DRAFT202012.subresources_of(contents), *(old.values() if isinstance(old, dict) else ()))
        below = [schema for schema in found if isinstance(schema, dict)]
        stack.extend((schema, resolver.in_subresource(DRAFT202012.create_resource(schema))) for schema in below)
    for contents, resolver in places.values():
        for name in _REFERENCES:
            if not isinstance(reference := contents.get(name), str):
                continue
            try:
                target = resolver.lookup(reference).contents
            except (Unresolvable, ValueError):
                return f"it refers to {quote(reference)}, which is not inside it"
            if not isinstance(target, bool) and id(target) not in places:
                return f"it refers to {quote(reference)}, which is not a schema"
    return None


def _counting_validator(schema: Mapping[str, Any], value: object, steps: int) -> Any:
    """Return a validator of the schema that raises `_SpentError` after so many keyword evaluations."""
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    left = steps
    longest = _longest_text(value)
    pattern_steps = sum(pattern_cost(pattern, longest) for pattern in _patterns(schema)) // _WAYS_A_STEP

    def counted(keyword: str, judge: Any) -> Any:
        def run(validator: Any, wanted: Any, value: Any, whole: Any) -> Iterator[Any]:
            nonlocal left
            left -= 1
            if keyword == "uniqueItems" and isinstance(value, list):
                left -= len(value) ** 2 // 64  # compares each with each where items cannot be sorted
            elif keyword == "enum":
                left -= len(wanted) // 8
            elif keyword in _WITH_PATTERNS:
                left -= pattern_steps
            if left < 0:
                raise _SpentError
            yield from judge(validator, wanted, value, whole) or ()

        return run

    extend: Any = validators.extend
    extended = extend(
        Draft202012Validator, {name: counted(name, judge) for name, judge in Draft202012Validator.VALIDATORS.items()}
    )
    return extended(_plain(schema), registry=Registry())


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "$schema"}


def _holders(value: object) -> Iterator[tuple[Any, int]]:
    """Walk all objects and arrays below a JSON value, with their depth from 1, without recursion."""
    stack = [(value, 1)]
    while stack:
        here, depth = stack.pop()
        if isinstance(here, dict | list):
            yield here, depth
            stack.extend((below, depth + 1) for below in (here.values() if isinstance(here, dict) else here))


def _patterns(schema: object) -> Iterator[str]:
    for holder, _ in _holders(schema):
        if isinstance(holder, dict):
            if isinstance(pattern := holder.get("pattern"), str):
                yield pattern
            if isinstance(named := holder.get("patternProperties"), dict):
                yield from named


def _longest_text(value: object) -> int:
    longest = 0
    for holder, _ in _holders([value]):
        texts = (*holder, *holder.values()) if isinstance(holder, dict) else holder
        longest = max(longest, max((len(text) for text in texts if isinstance(text, str)), default=0))
    return longest


def pattern_cost(pattern: str, length: int) -> int:
    """Estimate from above the ways in which a pattern can be tried on a text of so many characters.

    Each quantifier multiplies the ways by the length, each alternative doubles them, and a group that holds either and
    is itself repeated counts as exponential. Reads the text of the pattern, not its meaning: too high does no harm, too
    low would.
    """
    ways = length + 1
    groups: list[int] = []
    choices, inside, closed = 0, 0, False
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        closes = sign == ")"
        if sign == "\\":
            at += 1
        elif sign == "[":
            at = _class_end(pattern, at)
        elif sign == "(":
            if _changes_reading(pattern, at):
                return _CEILING
            groups.append(choices)
            at += pattern[at + 1 : at + 2] == "?"  # the mark of a special group is no quantifier
        elif closes:
            inside = choices - groups.pop()
        elif sign == "|" or sign == "?":
            choices += 1
            ways *= 2
        elif sign in "*+{":
            choices += 1
            times = max(length, _count(pattern, at))
            ways *= times + 1
            if closed and inside:
                ways <<= min(times, 62)
        ways = min(ways, _CEILING)
        closed = closes
        at += 1
    return ways


def _changes_reading(pattern: str, at: int) -> bool:
    """Say whether the group at `at` is a comment or turns on the mode in which spaces do not count."""
    mark = pattern[at + 1 : at + 2] == "?" and pattern[at + 2 :].lstrip("aiLmsu")[:1]
    return mark in ("#", "x")


def _count(pattern: str, at: int) -> int:
    """Return the largest number in the braces at `at`, or 0 where there are none."""
    if pattern[at] != "{":
        return 0
    numbers = pattern[at + 1 : pattern.find("}", at)].split(",")
    return max((int(number) for number in numbers if number.isdecimal() and len(number) < 10), default=0)


def _class_end(pattern: str, at: int) -> int:
    """Return the place of the bracket that ends the character class which begins at `at`."""
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    if pattern[at : at + 1] == "]":
        at += 1
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at


def _pointer(path: Any) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
