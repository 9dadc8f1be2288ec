"""UTF-8 is judged exactly, wherever in a string it stands: the reader may look at blocks, the rule is by the byte."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.protocol.errors import LineDefect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.twins import Twin

START = b'{"id":1,"op":"x","adapter":"'
EDGES = (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
"""Second bytes on both sides of every bound of RFC 3629, section 4."""


def judge(twin: Twin, text: bytes) -> None:
    """Hold a string's inside, free of quotes, backslashes and controls, against the decoder of the language."""
    at = fault_at(text)
    if at is None:
        assert twin.parse_op_line(START + text + b'"}').adapter == text.decode()
        return
    with pytest.raises(LineDefect, match="not valid UTF-8") as caught:
        twin.parse_op_line(START + text + b'"}')
    assert caught.value.offset == len(START) + at, text


def fault_at(text: bytes) -> int | None:
    """Where the decoder of the language finds that this is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def sequences() -> Iterator[bytes]:
    """Yield every first byte before every second one of interest, and with three and four bytes at the bounds."""
    second = [byte for byte in range(0x20, 0x100, 3) if byte not in b'"\\']
    for first in range(0x80, 0x100):
        for byte in {*second, *EDGES}:
            yield bytes((first, byte))
    for first, two, three in product((0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF), EDGES, EDGES):
        yield bytes((first, two, three))
    for first, two, three, four in product(
        (0xF0, 0xF1, 0xF3, 0xF4, 0xF5), EDGES, (0x7F, 0x80, 0xBF, 0xC0), (0x7F, 0x80, 0xC0)
    ):
        yield bytes((first, two, three, four))


@pytest.mark.parametrize("before", [0, 13, 14, 15, 62, 63, 64, 77, 78, 79])
def test_every_kind_of_sequence_at_the_edges_of_blocks(twin: Twin, before: int) -> None:
    after = b"x" * (90 - before)
    for sequence in sequences():
        judge(twin, b"x" * before + sequence + after)


def test_sequences_cut_by_the_end(twin: Twin) -> None:
    for before in range(60, 84):
        for sequence in ("\u00e9", "\u20ac", "\U0001f600"):
            whole = b"x" * before + sequence.encode()
            for cut in range(1, len(sequence.encode()) + 1):
                judge(twin, whole[: before + cut])


def test_a_whole_range_of_code_points(twin: Twin) -> None:
    ranges = (
        (0x20, 0x900),
        (0x1FF0, 0x2100),
        (0xD700, 0xD800),
        (0xE000, 0xE100),
        (0xFFF0, 0x10010),
        (0x10FF00, 0x110000),
    )
    points = [point for first, last in ranges for point in range(first, last)]
    text = "".join(chr(point) for point in points if chr(point) not in '"\\')
    for shift in range(16):
        judge(twin, b"x" * shift + text.encode())


@given(
    text=st.text(st.characters(exclude_characters='"\\', exclude_categories=("Cc", "Cs")), max_size=150),
    at=st.integers(0, 400),
    byte=st.integers(0x80, 0xFF),
    put=st.sampled_from(["insert", "replace", "drop", "leave"]),
)
def test_damaged_text(twin: Twin, text: str, at: int, byte: int, put: str) -> None:
    data = bytearray(text.encode())
    at = min(at, len(data))
    if put == "insert":
        data.insert(at, byte)
    elif put == "replace":
        data[at : at + 1] = bytes((byte,))
    elif put == "drop":
        del data[at : at + 1]
    judge(twin, bytes(data))


def test_other_faults_and_bad_utf8_come_in_reading_order(twin: Twin) -> None:
    for bad, other in ((b"\xff", b"\x01"), (b"\xe2\x82", b"\\x"), (b"\xc3", b"\\ud800")):
        for gap in (b"", b"y" * 80):
            for first, early in ((bad + gap + other, True), (other + gap + bad, False)):
                with pytest.raises(LineDefect) as caught:
                    twin.parse_op_line(START + b"x" * 20 + first + b'"}')
                assert caught.value.offset == len(START) + 20
                assert ("not valid UTF-8" in caught.value.reason) == early
