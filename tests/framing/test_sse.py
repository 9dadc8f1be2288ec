"""SSEDecoder against the WHATWG rules, and a writer that lets no field be forged."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.framing._sse import LIMIT
from trunkline.protocol.errors import FrameTooLarge
from trunkline.protocol.limits import DEFAULTS

from tests.support.shared import shared

if TYPE_CHECKING:
    from trunkline.framing._sse import SSEDecoder

    from tests.support.twins import Twin

Event = tuple[str, str, str]
MAX = (1 << 63) - 1


def seen(events: list[Any]) -> list[Event]:
    return [(event.event, event.data, event.last_event_id) for event in events]


def read(twin: Twin, chunks: list[bytes], limit: int = 1 << 20) -> tuple[list[Event], SSEDecoder, bool]:
    """Feed the chunks and the end: the events, the decoder, and whether the limit was passed."""
    decoder = twin.SSEDecoder(limit)
    events: list[Event] = []
    for chunk in chunks:
        try:
            events += seen(decoder.feed(chunk))
        except FrameTooLarge as fault:
            return events + seen(fault.frames), decoder, True
    decoder.eof()
    return events, decoder, False


CASES: dict[str, tuple[bytes, list[Event]]] = {
    "LF": (b"data: a\n\n", [("message", "a", "")]),
    "CR": (b"data: a\r\r", [("message", "a", "")]),
    "CR LF": (b"data: a\r\n\r\n", [("message", "a", "")]),
    "mixed endings": (b"data: a\r\ndata: b\rdata: c\n\r", [("message", "a\nb\nc", "")]),
    "byte-order mark": (b"\xef\xbb\xbfdata: a\n\n", [("message", "a", "")]),
    "two byte-order marks": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("message", "b", "")]),
    "part of a byte-order mark": (b"\xef\xbbdata: a\n\ndata: b\n\n", [("message", "b", "")]),
    "one space goes": (b"data:  a \n\n", [("message", " a ", "")]),
    "no colon": (b"data\n\n", [("message", "", "")]),
    "empty data lines": (b"data\ndata:\ndata: \n\n", [("message", "\n\n", "")]),
    "a comment inside": (b"data: a\n: data: x\ndata: b\n\n", [("message", "a\nb", "")]),
    "names are exact": (b" data: a\nData: b\ndata : c\ndatum: d\n\n", []),
    "the last event name wins and does not stay": (b"event: x\nevent: y\ndata: a\n\ndata: b\n\n",
        [("y", "a", ""), ("message", "b", "")]),
    "an empty event name is the default": (b"event: x\nevent\ndata: a\n\n", [("message", "a", "")]),
    "an event without data is none": (b"event: x\n\ndata: a\n\n", [("message", "a", "")]),
    "an id stays": (b"id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
        [("message", "a", "7"), ("message", "b", "7"), ("message", "c", "")]),
    "an id with NUL is ignored": (b"id: 7\nid: 8\x009\ndata: a\n\n", [("message", "a", "7")]),
    "NUL in data is kept": (b"data: a\x00b\n\n", [("message", "a\x00b", "")]),
    "bad UTF-8 is replaced": (b"data: \xff\xe2\x82\nevent: \xc3\ndata: \xe2\x82\xac\n\n",
        [("\ufffd", "\ufffd\ufffd\n\u20ac", "")]),
    "a cut event is dropped": (b"data: a\n\ndata: b\n", [("message", "a", "")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_events(twin: Twin, name: str, size: int) -> None:
    data, events = CASES[name]
    assert read(twin, [data[i : i + size] for i in range(0, len(data), size)])[0] == events


def test_shared_vectors(twin: Twin) -> None:
    vectors = json.loads(shared("cases", "sse-vectors.json").read_text())["sse"]
    assert vectors
    for vector in vectors:
        chunks = [bytes.fromhex(chunk) for chunk in vector["chunks_hex"]]
        whole = b"".join(chunks)
        expected = [(event["event"], event["data"], event["last_event_id"]) for event in vector["events"]]
        for cut in (chunks, *([whole[i : i + n] for i in range(0, len(whole), n)] for n in range(1, 8))):
            events, decoder, over = read(twin, cut)
            assert (events, over) == (expected, False), vector["name"]
            assert decoder.last_event_id == vector["last_event_id_after"], vector["name"]
            assert decoder.retry_ms == vector["retry_ms"], vector["name"]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (b"10", 10),
        (b"007", 7),
        (b"0", 0),
        (b"", None),
        (b"-1", None),
        (b"+1", None),
        (b"1.5", None),
        (b"1 ", None),
        ("\u0661".encode(), None),
        (b"9223372036854775807", MAX),
        (b"0" * 5000 + b"9223372036854775807", MAX),
        (b"9223372036854775808", None),
        (b"9" * 5000, None),
    ],
)
def test_retry_takes_digits_alone(twin: Twin, text: bytes, ms: int | None) -> None:
    decoder = twin.SSEDecoder()
    assert decoder.feed(b"retry: " + text + b"\n") == []
    assert decoder.retry_ms == ms


def test_an_id_counts_from_its_blank_line(twin: Twin) -> None:
    decoder = twin.SSEDecoder()
    decoder.feed(b"id: 7\n")
    assert decoder.last_event_id == ""
    decoder.feed(b"\n")
    assert decoder.last_event_id == "7"


@pytest.mark.parametrize(
    ("data", "events", "over"),
    [
        (b"data: ab\n\n", 1, False),
        (b"data: abc\n\n", 0, True),
        (b"data: a\n\ndata: abc", 1, True),
        (b"data: a\n\n: comment", 1, True),
        (b"data: a\ndata: b\ndata: c\n\n", 1, False),
        (b"data: a\ndata: bc\ndata: cd\ndata\n\n", 1, False),
        (b"data: a\ndata: bc\ndata: cd\ndata:\ndata\n\n", 0, True),
        (b"data: a\n\ndata: ab\ndata: ab\ndata: ab\ndata: ab\n\n", 1, True),
    ],
)
def test_the_limit_bounds_lines_and_data(twin: Twin, data: bytes, events: int, over: bool) -> None:
    for size in (1, 3, 4096):
        found, decoder, passed = read(twin, [data[i : i + size] for i in range(0, len(data), size)], limit=8)
        assert (len(found), passed) == (events, over)
        if over:
            for call in (lambda decoder=decoder: decoder.feed(b""), decoder.eof):
                with pytest.raises(ValueError, match="dead"):
                    call()


def test_the_default_limit_is_that_of_a_line(twin: Twin) -> None:
    assert twin.SSEDecoder().limit == LIMIT == DEFAULTS["frame_bytes"]


def test_eof_closes(twin: Twin) -> None:
    decoder = twin.SSEDecoder()
    decoder.eof()
    decoder.eof()
    with pytest.raises(ValueError, match="eof"):
        decoder.feed(b"data: a\n\n")


def test_many_empty_data_lines_in_tiny_reads(twin: Twin) -> None:
    decoder = twin.SSEDecoder(1 << 20)
    for _ in range(100_000):
        assert decoder.feed(b"data\n") == []
    (event,) = decoder.feed(b"\n")
    assert event.data == "\n" * 99_999


PIECES = [
    b"data:", b"data: x", b"id: 1", b"event: e", b"retry: 5", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"\xef\xbb\xbf",
    b"\xe2\x82", b"\0", b"a" * 40,
]  # fmt: skip


@given(
    data=st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    limit=st.integers(1, 100),
)
def test_any_chunking_gives_the_same(twin: Twin, data: bytes, cuts: list[int], limit: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    one, whole, passed = read(twin, [data], limit)
    events, decoder, over = read(twin, [data[a:b] for a, b in itertools.pairwise(edges)], limit)
    assert (events, over) == (one, passed)
    assert (decoder.last_event_id, decoder.retry_ms) == (whole.last_event_id, whole.retry_ms)


def broken(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(
    data=st.text(max_size=60) | st.text("\r\n: ", max_size=12),
    event=st.none() | st.text(max_size=8),
    id=st.none() | st.text(max_size=8),
    retry=st.none() | st.integers(-5, 1 << 64),
    whole=st.booleans(),
)
def test_what_is_written_is_read_back(
    twin: Twin, data: str, event: str | None, id: str | None, retry: int | None, whole: bool
) -> None:
    fields = {"event": event, "id": id, "retry": retry}
    forged = any(mark in (event or "") + (id or "") for mark in "\r\n")
    if forged or "\0" in (id or "") or (retry is not None and not 0 <= retry <= MAX):
        with pytest.raises(ValueError, match=r"forge|NUL|retry"):
            twin.encode_sse(data, **fields)
        return
    text = twin.encode_sse(data if whole else data.encode(), **fields)
    events, decoder, _ = read(twin, [b"id: before\n\n", text, b"data: next\n\n"])
    assert events[0] == (event or "message", broken(data), "before" if id is None else id)
    assert [one[1] for one in events[1:]] == ["next"]
    assert decoder.retry_ms == retry


def test_shared_encode_vectors(twin: Twin) -> None:
    vectors = json.loads(shared("cases", "sse-vectors.json").read_text())["sse-encode"]
    assert vectors
    for vector in vectors:
        try:
            if vector["data"] is None:
                text = twin.encode_comment(vector["comment"])
            else:
                text = twin.encode_sse(vector["data"], event=vector["event"], id=vector["id"])
        except ValueError:
            outcome = "refuse"
        else:
            events, _, _ = read(twin, [text])
            same = (vector["event"], vector["data"], vector["id"])
            outcome = "no-event" if not events else "round-trip" if events == [same] else "one-event"
            assert len(events) < 2, vector["name"]
        assert outcome in vector["expect"], vector["name"]


def test_the_order_of_fields(twin: Twin) -> None:
    text = twin.encode_sse("a\nb", event="e", id="3", retry=5)
    assert text == b"id: 3\nevent: e\nretry: 5\ndata: a\ndata: b\n\n"
    assert twin.encode_sse(b"{}") == b"data: {}\n\n"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_text_without_utf8_is_refused(twin: Twin, text: str) -> None:
    for fields in ({"data": text}, {"data": "x", "event": text}, {"data": "x", "id": text}):
        with pytest.raises(ValueError, match="surrogates"):
            twin.encode_sse(**fields)
    with pytest.raises(ValueError, match="surrogates"):
        twin.encode_comment(text)


OTHER_TYPES: list[dict[str, Any]] = [
    {"data": 1},
    {"data": None},
    {"data": bytearray(b"x")},
    {"event": b"e"},
    {"id": 3},
    {"retry": "5"},
    {"retry": True},
]


@pytest.mark.parametrize("fields", OTHER_TYPES, ids=repr)
def test_other_types_are_refused(twin: Twin, fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        twin.encode_sse(**({"data": "x"} | fields))


def test_comments(twin: Twin) -> None:
    assert twin.encode_comment() == b":\n\n"
    assert twin.encode_comment("tick é") == ": tick é\n\n".encode()
    for text in ("a\nb", "a\rb", "\n"):
        with pytest.raises(ValueError, match="forge"):
            twin.encode_comment(text)
    assert read(twin, [b"data: a\n", twin.encode_comment("x").rstrip() + b"\n", b"data: b\n\n"])[0] == [
        ("message", "a\nb", "")
    ]
