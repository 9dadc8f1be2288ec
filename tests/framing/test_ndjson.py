"""LineDecoder: frames at LF and nothing else, the same for every chunking, never more held than the limit."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.protocol.errors import FrameTooLarge

from tests.support.shared import shared

if TYPE_CHECKING:
    from tests.support.twins import Twin

Outcome = tuple[list[bytes], str]


def decode(twin: Twin, limit: int, chunks: list[Any]) -> Outcome:
    """Feed the chunks, then the end: the frames and `clean`, `partial` or `over-limit`."""
    decoder = twin.LineDecoder(limit)
    frames: list[bytes] = []
    for chunk in chunks:
        try:
            frames += decoder.feed(chunk)
        except FrameTooLarge as fault:
            return frames + fault.frames, "over-limit"
        assert decoder.held <= limit
    return frames, "partial" if decoder.eof() else "clean"


CASES = {
    "nothing": (8, b"", [], "clean"),
    "one": (8, b"{}\n", [b"{}"], "clean"),
    "empty frames are frames": (8, b"\n\na\n", [b"", b"", b"a"], "clean"),
    "CR is content": (8, b"a\r\nb\rc\n", [b"a\r", b"b\rc"], "clean"),
    "other line ends of Unicode are content": (
        99,
        "a\x0b\x0c\x1c\x85\u2028b\n".encode(),
        ["a\x0b\x0c\x1c\x85\u2028b".encode()],
        "clean",
    ),
    "NUL and bad UTF-8 are content": (8, b"\x00\xff\xfe\n", [b"\x00\xff\xfe"], "clean"),
    "a tail is no frame": (8, b"a\nb", [b"a"], "partial"),
    "exactly the limit": (4, b"abcd\nefgh\n", [b"abcd", b"efgh"], "clean"),
    "the limit without its newline": (4, b"abcd", [], "partial"),
    "one byte more": (4, b"abcde\n", [], "over-limit"),
    "one byte more, no newline": (4, b"abcde", [], "over-limit"),
    "good ones before the fault": (4, b"ab\n\ncd\nabcde\nef\n", [b"ab", b"", b"cd"], "over-limit"),
    "a read far beyond the limit": (4, b"abc\n" * 500, [b"abc"] * 500, "clean"),
    "CR counts": (2, b"a\r\n", [b"a\r"], "clean"),
    "CR counts beyond": (1, b"a\r\n", [], "over-limit"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 4096])
def test_frames(twin: Twin, name: str, size: int) -> None:
    limit, data, frames, end = CASES[name]
    assert decode(twin, limit, [data[i : i + size] for i in range(0, len(data), size)]) == (frames, end)


def test_shared_vectors(twin: Twin) -> None:
    vectors = json.loads(shared("cases", "ndjson-vectors.json").read_text())["ndjson"]
    assert vectors
    for vector in vectors:
        chunks = [bytes.fromhex(chunk) for chunk in vector["chunks_hex"]]
        whole = b"".join(chunks)
        expected = [bytes.fromhex(frame) for frame in vector["frames_hex"]]
        for cut in (chunks, [whole], [whole[i : i + 1] for i in range(len(whole))]):
            frames, end = decode(twin, vector["limit"], cut)
            kept = [frame.removesuffix(b"\r") for frame in frames]
            assert ([frame for frame in kept if frame], end) == (expected, vector["end"]), vector["name"]


@given(
    data=st.lists(st.sampled_from([b"\n", b"\r", b"a", b"bcdef", b"x" * 300, b"\n\n"]), max_size=40).map(b"".join),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    limit=st.integers(1, 700),
)
def test_any_chunking_gives_the_same(twin: Twin, data: bytes, cuts: list[int], limit: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[a:b] for a, b in itertools.pairwise(edges)]
    frames = data.split(b"\n")
    tail = frames.pop()
    long = next((i for i, frame in enumerate(frames) if len(frame) > limit), None)
    if long is not None:
        expected: Outcome = (frames[:long], "over-limit")
    elif len(tail) > limit:
        expected = (frames, "over-limit")
    else:
        expected = (frames, "partial" if tail else "clean")
    assert decode(twin, limit, chunks) == expected
    assert decode(twin, limit, [data]) == expected


def test_it_takes_any_bytes_like(twin: Twin) -> None:
    for make in (bytes, bytearray, memoryview):
        decoder = twin.LineDecoder(9)
        assert decoder.feed(make(b"ab\ncd")) == [b"ab"]
        frames = decoder.feed(make(b"e\nf\n"))
        assert frames == [b"cde", b"f"]
        assert [type(frame) for frame in frames] == [bytes, bytes]


def test_frames_do_not_follow_a_buffer_that_changes(twin: Twin) -> None:
    decoder = twin.LineDecoder(9)
    read = bytearray(b"ab\ncd")
    frames = decoder.feed(read)
    read[:] = b"xxxxx"
    frames += decoder.feed(b"e\n")
    frames += decoder.feed(b"fgh")
    frames += decoder.feed(b"\n")
    assert frames == [b"ab", b"cde", b"fgh"]


@pytest.mark.parametrize("bad", ["text", 5, None, [1]])
def test_it_refuses_what_is_not_bytes_like(twin: Twin, bad: Any) -> None:
    decoder = twin.LineDecoder(9)
    with pytest.raises(TypeError):
        decoder.feed(bad)
    assert decoder.feed(b"a\n") == [b"a"], "the refused value changed nothing"


def test_a_value_with_gaps_is_refused(twin: Twin) -> None:
    with pytest.raises(BufferError):
        twin.LineDecoder(9).feed(memoryview(b"abcdef")[::2])


@pytest.mark.parametrize(("limit", "error"), [(0, ValueError), (-1, ValueError), ("9", TypeError), (1.5, TypeError)])
def test_a_limit_is_a_whole_number_from_1(twin: Twin, limit: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        twin.LineDecoder(limit)


def test_a_limit_beyond_the_machine_is_no_limit(twin: Twin) -> None:
    decoder = twin.LineDecoder(1 << 80)
    assert decoder.limit == 1 << 80
    assert decoder.feed(b"ab\nc") == [b"ab"]
    assert decoder.eof() == b"c"


def test_it_is_dead_after_a_fault(twin: Twin) -> None:
    decoder = twin.LineDecoder(2)
    with pytest.raises(FrameTooLarge) as caught:
        decoder.feed(b"a\nbcd\ne\n")
    assert (caught.value.limit, caught.value.frames) == (2, [b"a"])
    assert decoder.held == 0
    for call in (lambda: decoder.feed(b"a\n"), lambda: decoder.feed(b""), decoder.eof):
        with pytest.raises(ValueError, match="dead"):
            call()


def test_a_frame_over_several_feeds_is_refused_before_its_newline(twin: Twin) -> None:
    decoder = twin.LineDecoder(4)
    assert decoder.feed(b"ok\nab") == [b"ok"]
    assert decoder.feed(b"cd") == []
    with pytest.raises(FrameTooLarge) as caught:
        decoder.feed(b"e")
    assert caught.value.frames == []


def test_eof_gives_the_tail_once_and_closes(twin: Twin) -> None:
    decoder = twin.LineDecoder(9)
    decoder.feed(b"a\nbc")
    assert decoder.held == 2
    assert decoder.eof() == b"bc"
    assert decoder.eof() == b""
    with pytest.raises(ValueError, match="eof"):
        decoder.feed(b"d")


def test_a_large_frame_in_tiny_reads(twin: Twin) -> None:
    """A decoder that looked at its held bytes again with each read would need hours for this."""
    frame = b"x" * (1 << 20)
    decoder = twin.LineDecoder(1 << 20)
    for _ in range(1 << 20):
        assert decoder.feed(b"x") == []
    assert decoder.feed(b"\n") == [frame]
