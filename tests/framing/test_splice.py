"""Splicing: what comes out is the JSON that encoding the whole would give, and both twins give the same bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.support.twins import Twin

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PAYLOADS = st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=4)
HEAD = b'{"protocol":"p","type":"content.delta",'
OPENING = b'{"session_id":"s","run_id":"run-1"'


@given(id=INT64, value=PAYLOADS)
def test_an_answer_is_its_result_in_a_line(twin: Twin, id: int, value: dict[str, str]) -> None:
    line = twin.success_line(id, orjson.dumps(value))
    assert line[-1:] == b"\n"
    assert orjson.loads(line) == {"id": id, "ok": True, "result": value}


@given(id=INT64, response=INT64, request=INT64, value=PAYLOADS)
def test_a_response_stands_in_its_line(twin: Twin, id: int, response: int, request: int, value: dict[str, str]) -> None:
    line = orjson.loads(twin.response_line(id, HEAD, response, request, orjson.dumps(value)))
    about = {"id": f"oap-response-{response}", "in_reply_to": f"oap-request-{request}", "payload": value}
    assert line == {"id": id, "ok": True, "result": {"protocol": "p", "type": "content.delta", **about}}


@given(number=INT64, sequence=INT64, now=INT64, value=PAYLOADS)
def test_an_event_is_spliced_of_its_pieces(
    twin: Twin, number: int, sequence: int, now: int, value: dict[str, str]
) -> None:
    value.pop("session_id", None)
    value.pop("run_id", None)
    text = twin.event_text(HEAD, b'"run_id":"run-1",', number, sequence, now, OPENING, orjson.dumps(value))
    assert json.loads(text) == {
        "protocol": "p",
        "type": "content.delta",
        "run_id": "run-1",
        "id": f"event-{number}",
        "sequence": sequence,
        "timestamp_ms": now,
        "payload": {"session_id": "s", "run_id": "run-1", **value},
    }


def deltas(twin: Twin, drafts: Any, start: int = 0) -> tuple[int, list[tuple[int, bytes]]]:
    entries: list[tuple[int, bytes]] = []
    kind = "content.delta"
    count = twin.delta_entries(entries, drafts, start, "run-1", kind, HEAD, b"", OPENING, 4, 8, 77, orjson.dumps)
    return count, entries


def delta(text: str, run: str = "run-1", kind: str = "content.delta") -> tuple[str, str, dict[str, Any]]:
    return run, kind, {"message_id": "m", "part": {"type": "text", "text": text}}


def test_a_stretch_of_deltas_counts_on(twin: Twin) -> None:
    count, entries = deltas(twin, [delta("a"), delta("b"), delta("c")], 1)
    assert count == 2
    assert [sequence for sequence, _ in entries] == [9, 10]
    assert [json.loads(event)["id"] for _, event in entries] == ["event-5", "event-6"]
    assert [json.loads(event)["payload"]["part"]["text"] for _, event in entries] == ["b", "c"]


@pytest.mark.parametrize(
    "stranger",
    [
        delta("x", run="run-2"),
        delta("x", kind="run.completed"),
        (*delta("x"), {"native": 1}),
        ("run-1", "content.delta", {"message_id": "m"}),
        delta("\ud800"),
    ],
    ids=["run", "type", "extensions", "no part", "no JSON form"],
)
def test_a_stretch_ends_before_what_is_not_plain(twin: Twin, stranger: Any) -> None:
    assert deltas(twin, [delta("a"), stranger, delta("b")])[0] == 1
    assert deltas(twin, [stranger, delta("b")]) == (0, [])
    assert deltas(twin, (delta("a"), stranger))[0] == 1


@given(entries=st.lists(st.tuples(st.integers(0, (1 << 63) - 1), st.binary(max_size=50)), max_size=9))
def test_lines_stand_around_stored_envelopes(twin: Twin, entries: list[tuple[int, bytes]]) -> None:
    prefix = b'{"event":"envelope","id":1,"sequence":'
    whole = b"".join(prefix + str(sequence).encode() + b',"envelope":' + text + b"}\n" for sequence, text in entries)
    assert twin.event_lines(prefix, entries) == whole
    assert twin.held_bytes(entries, 0, len(entries)) == sum(len(text) for _, text in entries)
    assert twin.held_bytes(entries, 1, 3) == sum(len(text) for _, text in entries[1:3])


def test_numbers_out_of_range_and_wrong_pieces_are_refused(twin: Twin) -> None:
    with pytest.raises((OverflowError, TypeError)):
        twin.success_line("1", b"{}")
    with pytest.raises(TypeError):
        twin.success_line(1, None)
