"""The small language in which `shapes` writes what payloads look like, and its reader.

A definition is one line of text. What it may say:

- `= a b c`                one of these strings
- `@type a b c`            an object told apart by its string member `type`; the rest of each is defined as `name.a` ...
- `text | part+`           a string, or what follows the bar
- otherwise a closed object: its members, and after `;` its rules. A last `...` lets other members in.

A member is `name`, `name?` (may be absent), `name:kind` or `name=value` (that string and no other). Without a kind it
is a string that is not empty. A kind is a word of `SCALARS` or the name of a definition (of the same file, or in full);
behind it may stand `*` (an array), `+` (an array of at least one), a further `!` (all different), `{}` (an object of
such values), `|null`.

Rules: `arms a / b c` - exactly one of these sets is present, whole and alone; `when m=v,w needs x y` and
`when m=v bars x y` - also `when m ...` for "is present".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, TypeAlias

SCALARS: Final = frozenset(("any", "bool", "count", "int", "name", "object", "ordinal", "text"))
"""`name`: non-empty string. `count`: int64 from 0. `ordinal`: int64 from 1. `any`: any JSON value."""


class Enum:
    """One of some strings. `fixed`: the one value is part of the protocol, not a set that may grow."""

    __slots__ = ("fixed", "values")

    def __init__(self, values: tuple[str, ...], fixed: bool = False) -> None:
        self.values = values
        self.fixed = fixed


class Each:
    """An array of at least `least` items of one kind; `unique`: no two are equal."""

    __slots__ = ("item", "least", "unique")

    def __init__(self, item: Kind, least: int, unique: bool) -> None:
        self.item = item
        self.least = least
        self.unique = unique


class Table:
    """An object with any member names, all values of one kind."""

    __slots__ = ("value",)

    def __init__(self, value: Kind) -> None:
        self.value = value


class OrNull:
    """A kind, or null."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind) -> None:
        self.kind = kind


class TextOr:
    """A string, possibly empty, or an array."""

    __slots__ = ("array",)

    def __init__(self, array: Each) -> None:
        self.array = array


class Tagged:
    """An object whose `member` names one of `arms`; the value of an arm is the definition of the other members."""

    __slots__ = ("arms", "member")

    def __init__(self, member: str, arms: Mapping[str, str]) -> None:
        self.member = member
        self.arms = arms


class Rule:
    """When `member` is present (and, with `values`, is one of them), `needs` are present and `bars` are absent."""

    __slots__ = ("bars", "member", "needs", "values")

    def __init__(
        self, member: str, values: tuple[str | bool, ...], needs: tuple[str, ...], bars: tuple[str, ...]
    ) -> None:
        self.member = member
        self.values = values
        self.needs = needs
        self.bars = bars


class Shape:
    """An object: `members` to kinds, the `required` ones, whether it is `closed`, `rules`, and `arms`, if any."""

    __slots__ = ("arms", "closed", "members", "required", "rules")

    def __init__(
        self,
        members: Mapping[str, Kind],
        required: frozenset[str],
        closed: bool,
        rules: tuple[Rule, ...],
        arms: tuple[frozenset[str], ...],
    ) -> None:
        self.members = members
        self.required = required
        self.closed = closed
        self.rules = rules
        self.arms = arms


if TYPE_CHECKING:
    Kind: TypeAlias = str | Enum | Each | Table | OrNull | TextOr | Tagged | Shape
    """A string is a word of `SCALARS`, or the full name of a definition."""


def read(text: str, name: str) -> Kind:
    """Read one definition; `name` is its full name `file.definition`. Raises `ValueError` outside the language."""
    file = name.partition(".")[0]
    words = text.split()
    if words[:1] == ["="]:
        return Enum(tuple(words[1:]))
    if words and words[0].startswith("@"):
        return Tagged(words[0][1:], {word: f"{name}.{word}" for word in words[1:]})
    if words[:2] == ["text", "|"]:
        array = _kind(words[2], file)
        if not isinstance(array, Each) or len(words) != 3:
            raise ValueError(f"{name}: an array must follow the bar")
        return TextOr(array)
    members, *rules = text.split(";")
    return _shape(members.split(), [rule.split() for rule in rules], file)


def _shape(words: list[str], rules: list[list[str]], file: str) -> Shape:
    closed = words[-1:] != ["..."]
    members: dict[str, Kind] = {}
    required = set()
    for word in words if closed else words[:-1]:
        member, equals, value = word.partition("=")
        member, _, kind = member.partition(":")
        if not member.endswith("?"):
            required.add(member)
        members[member.removesuffix("?")] = Enum((value,), fixed=True) if equals else _kind(kind or "name", file)
    arms = [rule[1:] for rule in rules if rule[0] == "arms"]
    return Shape(
        members,
        frozenset(required),
        closed,
        tuple(_rule(rule) for rule in rules if rule[0] == "when"),
        tuple(frozenset(arm.split()) for arm in " ".join(arms[0]).split("/")) if arms else (),
    )


def _rule(words: list[str]) -> Rule:
    _, condition, verb, *members = words
    member, _, values = condition.partition("=")
    if verb not in ("needs", "bars"):
        raise ValueError(f"a rule needs or bars, it does not {verb}")
    read_values = tuple(
        value == "true" if value in ("true", "false") else value for value in values.split(",") if value
    )
    return Rule(
        member, read_values, tuple(members) if verb == "needs" else (), tuple(members) if verb == "bars" else ()
    )


def _kind(word: str, file: str) -> Kind:
    if word.endswith("|null"):
        return OrNull(_kind(word[:-5], file))
    if word.endswith("{}"):
        return Table(_kind(word[:-2], file))
    array = word.rstrip("!")
    if array.endswith(("*", "+")):
        return Each(_kind(array[:-1], file), int(array.endswith("+")), array != word)
    if word in SCALARS or "." in word:
        return word
    return f"{file}.{word}"
