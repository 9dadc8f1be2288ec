"""The language of the tables: each form once, and that all tables are of it."""

from __future__ import annotations

import pytest
from trunkline.protocol import kinds, shapes
from trunkline.protocol.faults import first_fault


def test_every_definition_is_read_and_every_name_it_uses_exists() -> None:
    def names(kind: kinds.Kind) -> set[str]:
        if isinstance(kind, str):
            return set() if kind in kinds.SCALARS else {kind}
        if isinstance(kind, kinds.Shape):
            return {name for member in kind.members.values() for name in names(member)}
        if isinstance(kind, kinds.Each):
            return names(kind.item)
        if isinstance(kind, kinds.Table):
            return names(kind.value)
        if isinstance(kind, kinds.OrNull):
            return names(kind.kind)
        if isinstance(kind, kinds.TextOr):
            return names(kind.array)
        return set(kind.arms.values()) if isinstance(kind, kinds.Tagged) else set()

    used = {shapes.payload_of(envelope_type) for envelope_type in shapes.TYPES}
    for name in shapes.DEFINITIONS:
        used |= names(shapes.definition(name))
    assert used == shapes.DEFINITIONS.keys()


def test_rules_and_arms_speak_of_members_that_exist() -> None:
    for name in shapes.DEFINITIONS:
        kind = shapes.definition(name)
        if isinstance(kind, kinds.Shape):
            for rule in kind.rules:
                assert {rule.member, *rule.needs, *rule.bars} <= kind.members.keys(), name
            assert {member for arm in kind.arms for member in arm} <= kind.members.keys(), name


def test_forms() -> None:
    shape = kinds.read(
        "a b?:count c=x d:e* f?:other.g+! h:int{} i:name|null ... ; when a=v,true needs b ; arms a / b c", "m.n"
    )
    assert isinstance(shape, kinds.Shape)
    assert list(shape.members) == ["a", "b", "c", "d", "f", "h", "i"]
    assert shape.required == {"a", "c", "d", "h", "i"}
    assert not shape.closed
    assert [sorted(arm) for arm in shape.arms] == [["a"], ["b", "c"]]
    assert [(rule.member, rule.values, rule.needs, rule.bars) for rule in shape.rules] == [
        ("a", ("v", True), ("b",), ())
    ]
    members = shape.members
    assert (members["a"], members["b"]) == ("name", "count")
    assert isinstance(members["c"], kinds.Enum)
    assert (members["c"].values, members["c"].fixed) == (("x",), True)
    assert isinstance(members["d"], kinds.Each)
    assert (members["d"].item, members["d"].least, members["d"].unique) == ("m.e", 0, False)
    assert isinstance(members["f"], kinds.Each)
    assert (members["f"].item, members["f"].least, members["f"].unique) == ("other.g", 1, True)
    assert isinstance(members["h"], kinds.Table)
    assert isinstance(members["i"], kinds.OrNull)


def test_whole_definitions() -> None:
    tagged = kinds.read("@type a b", "m.n")
    assert isinstance(tagged, kinds.Tagged)
    assert (tagged.member, dict(tagged.arms)) == ("type", {"a": "m.n.a", "b": "m.n.b"})
    either = kinds.read("text | part+", "m.n")
    assert isinstance(either, kinds.TextOr)
    assert either.array.item == "m.part"
    enum = kinds.read("= a b", "m.n")
    assert isinstance(enum, kinds.Enum)
    assert (enum.values, enum.fixed) == (("a", "b"), False)
    empty = kinds.read("", "m.n")
    assert isinstance(empty, kinds.Shape)
    assert empty.closed
    assert not empty.members


@pytest.mark.parametrize("line", ["text | part", "text | part+ more", "a ; when a likes b"])
def test_lines_that_are_not_of_the_language(line: str) -> None:
    with pytest.raises(ValueError, match=r"m\.n|needs or bars"):
        kinds.read(line, "m.n")


def test_rules_are_judged_by_the_plain_engine() -> None:
    answer = {"question_id": "q"}
    assert first_fault("interaction.answer", answer | {"text": ""}) is None
    for wrong in ({}, {"text": "", "selected_option_ids": ["a"]}):
        fault = first_fault("interaction.answer", answer | wrong)
        assert fault is not None
        assert (fault.pointer, fault.readable) == ("", True)
