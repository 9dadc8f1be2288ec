"""The twins are one thing: the same names, the same values, the same defects to the byte, the same words."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framing.test_envelope import texts
from tests.framing.test_op_line import lines
from tests.fuzz.targets import both
from tests.support.shared import ROOT
from tests.support.twins import NAMES, PARTS, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.twins import Twin


@pytest.fixture(scope="module")
def twins() -> list[Twin]:
    return [load(name) for name in NAMES]


@given(line=lines(), depth=st.integers(1, 5) | st.just(128))
def test_op_lines(twins: list[Twin], line: bytes, depth: int) -> None:
    both("op_line", twins)(line)
    assert len({outcome(twin.parse_op_line, line, depth) for twin in twins}) == 1


@given(text=texts(), depth=st.integers(1, 5) | st.just(127))
def test_envelopes(twins: list[Twin], text: bytes, depth: int) -> None:
    both("envelope", twins)(text)
    assert len({outcome(twin.scan_envelope, text, depth) for twin in twins}) == 1


def outcome(call: Callable[..., Any], *arguments: Any) -> str:
    """The words of a value or of an error: no object of one twin equals one of the other."""
    try:
        return repr(call(*arguments))
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__}: {error}"


WRONG: list[Callable[[Twin], Any]] = [
    lambda twin: twin.LineDecoder(0),
    lambda twin: twin.SSEDecoder(-1),
    lambda twin: twin.LineDecoder(3).feed(b"abcd"),
    lambda twin: twin.SSEDecoder(3).feed(b"abcd"),
    lambda twin: twin.parse_op_line(b"", 0),
    lambda twin: twin.scan_envelope(b"", 5000),
    lambda twin: twin.encode_sse("x", event="a\nb"),
    lambda twin: twin.encode_sse("x", id="a\rb"),
    lambda twin: twin.encode_sse("x", id="a\0b"),
    lambda twin: twin.encode_sse("x", retry=-1),
    lambda twin: twin.encode_sse("x", retry="1"),
    lambda twin: twin.encode_sse(1),
    lambda twin: twin.encode_sse("\ud800"),
    lambda twin: twin.encode_comment("a\n"),
    lambda twin: twin.encode_comment(b"a"),
    lambda twin: twin.ServerSentEvent("a", "b", "c"),
]


@pytest.mark.parametrize("call", WRONG)
def test_they_speak_with_one_voice(twins: list[Twin], call: Callable[[Twin], Any]) -> None:
    assert len({outcome(call, twin) for twin in twins}) == 1


def test_they_die_with_one_voice(twins: list[Twin]) -> None:
    for make in ("LineDecoder", "SSEDecoder"):
        said: set[tuple[str, ...]] = set()
        for twin in twins:
            dead, closed = getattr(twin, make)(3), getattr(twin, make)(3)
            outcome(dead.feed, b"abcd")
            outcome(closed.eof)
            said.add((outcome(dead.feed, b""), outcome(dead.eof), outcome(closed.feed, b"")))
        assert len(said) == 1


def test_they_have_the_same_public_names(twins: list[Twin]) -> None:
    for names in PARTS.values():
        for name in names:
            parts = [getattr(twin, name) for twin in twins]
            if inspect.isclass(parts[0]):
                first, second = ({one for one in dir(part) if not one.startswith("_")} for part in parts)
                assert first == second, name
            assert all(part.__doc__ for part in parts), name


@pytest.mark.parametrize("module", PARTS)
def test_the_stubs_name_what_is_there(twins: list[Twin], module: str) -> None:
    stub = ast.parse((ROOT / "_speedups" / f"{module}.pyi").read_text())
    public = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(public) == set(PARTS[module])
    for name, node in public.items():
        if isinstance(node, ast.ClassDef):
            said = {part.name for part in node.body if isinstance(part, ast.FunctionDef) and part.name != "__init__"}
            assert said == {part for part in dir(getattr(twins[1], name)) if not part.startswith("_")}, name
