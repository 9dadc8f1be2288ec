"""The arithmetic of slots, the queue of the writer, cursors and parameters: tables, without a loop or a descriptor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.framing import parse_op_line
from trunkline.gateway.operations import MEMBERS, OPERATIONS, cursor, find
from trunkline.gateway.stdio.admission import AGAIN, Admission, no_subscription_slot
from trunkline.gateway.stdio.writer import BLOCK, Writer
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support.sinks import Pipe, Turn

# -- the writer --------------------------------------------------------------------------------------------------------


def test_lines_of_one_turn_leave_together_in_order() -> None:
    pipe, turn = Pipe(1 << 30), Turn()
    writer = Writer(pipe, Limits(), turn.soon)
    for number in range(5):
        writer.put(b"%d\n" % number)
    assert pipe.blocks == []
    assert len(turn.calls) == 1
    turn.end()
    assert pipe.blocks == [b"0\n1\n2\n3\n4\n"]
    assert writer.empty


def test_a_full_block_leaves_at_once_and_a_long_line_by_itself() -> None:
    pipe, turn = Pipe(1 << 30), Turn()
    writer = Writer(pipe, Limits(), turn.soon)
    long = b"x" * BLOCK + b"\n"
    writer.put(b"a\n")
    writer.put(long)
    assert pipe.blocks == [b"a\n", long]
    assert pipe.blocks[1] is long, "not copied"


def room(writer: Writer) -> bool:
    return writer.room


def test_room_is_bounded_in_lines_and_in_bytes() -> None:
    pipe, turn = Pipe(0), Turn()
    writer = Writer(pipe, Limits(writer_lines=3, writer_bytes=1000), turn.soon)
    writer.put(b"first\n")
    turn.end()
    assert pipe.blocked
    for _ in range(3):
        assert room(writer)
        writer.put(b"x\n")
    assert room(writer) is False
    pipe.drain()
    assert writer.flush() is False, "the pipe is full again"
    assert room(writer) is True
    writer.put(b"y" * 1000)
    assert room(writer) is False
    assert writer.empty is False


def test_a_writer_without_room_never_waits_for_the_end_of_a_turn_to_flush() -> None:
    pipe, turn = Pipe(1 << 30), Turn()
    writer = Writer(pipe, Limits(writer_bytes=1), turn.soon)
    writer.put(b"line\n")
    assert writer.room
    assert pipe.blocks == [b"line\n"]


def test_what_waits_is_counted_as_answers_only() -> None:
    pipe, turn = Pipe(0), Turn()
    writer = Writer(pipe, Limits(), turn.soon)
    writer.put(b'{"id":0,"ok":true}\n')
    turn.end()
    writer.put(b'{"id":1,"ok":true}\n')
    writer.put(b'{"event":"oap-session-closed","id":1}\n')
    writer.put(b'{"id":2,"ok":false}\n')
    assert writer.unwritten == 2


@given(
    st.lists(st.binary(min_size=1, max_size=300), max_size=60),
    st.integers(0, 2000),
    st.integers(1, 10),
    st.integers(1, 3000),
)
def test_every_line_leaves_whole_once_and_in_order(lines: list[bytes], room: int, most: int, size: int) -> None:
    pipe, turn = Pipe(room), Turn()
    writer = Writer(pipe, Limits(writer_lines=most, writer_bytes=size), turn.soon)
    for number, line in enumerate(lines):
        writer.put(line)
        if number % 3 == 0:
            turn.end()
        if number % 5 == 0:
            pipe.drain()
            writer.flush()
    turn.end()
    while not writer.empty:
        pipe.drain()
        writer.flush()
    assert b"".join(pipe.blocks) == b"".join(lines)


# -- admission ---------------------------------------------------------------------------------------------------------


def test_slots_and_bytes() -> None:
    admission = Admission(Limits(ops=2, op_bytes=100))
    assert admission.refuse(10_000) is None, "alone, anything is admitted"
    admission.take(60)
    assert admission.refuse(40) is None
    over = admission.refuse(41)
    assert over is not None
    assert over.code == "busy"
    assert "60 request bytes of 100" in over.message
    assert over.message.endswith(AGAIN)
    admission.take(0)
    full = admission.refuse(0)
    assert full is not None
    assert "2 operations are running" in full.message
    assert full.message.endswith(AGAIN)
    admission.give(60)
    assert admission.refuse(100) is None
    admission.give(0)
    assert (admission.held, admission.bytes) == (0, 0)
    none = no_subscription_slot(64)
    assert none.code == "busy"
    assert "64 subscriptions" in none.message
    assert none.message.endswith(AGAIN)


# -- parameters and cursors --------------------------------------------------------------------------------------------


def op_line(op: str, *members: str) -> bytes:
    values = {"adapter": '"a"', "session_id": '"s"', "run_id": '"r"', "after": "1", "request": "{}"}
    parts = [f'"{member}":{values.get(member, "[]")}' for member in members]
    return ("{" + ",".join(['"id":1', f'"op":"{op}"', *parts]) + "}").encode()


@pytest.mark.parametrize("op", OPERATIONS)
def test_find_names_the_first_surplus_member_and_the_missing_address(op: str) -> None:
    operation = OPERATIONS[op]
    takes = sorted(operation.takes)
    for _ in range(2):  # the second time from what was remembered
        assert find(parse_op_line(op_line(op, *takes))) is operation
        surplus = [member for member in MEMBERS if member not in takes]
        with pytest.raises(Refusal, match=f"op {op} accepts no {surplus[0]} parameter"):
            find(parse_op_line(op_line(op, *takes, *reversed(surplus))))
        if operation.addressed is not None:
            others = [member for member in takes if member != operation.addressed]
            with pytest.raises(Refusal, match=f"op {op} needs the parameter {operation.addressed}"):
                find(parse_op_line(op_line(op, *others)))


def test_an_unknown_op_is_named_in_a_bounded_message() -> None:
    for op in ("State", "open ", "frobnicate", "x" * 100_000):
        with pytest.raises(Refusal) as caught:
            find(parse_op_line(op_line(op, *MEMBERS)))
        assert caught.value.code == "unknown_op"
        assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("raw", "run_id", "after"),
    [
        (None, None, None),
        (b"0", None, 0),
        (b"5", "run-1", 5),
        (b"9223372036854775807", None, (1 << 63) - 1),
    ],
)
def test_cursors(raw: bytes | None, run_id: str | None, after: int | None) -> None:
    assert cursor(raw, run_id) == after


@pytest.mark.parametrize(
    "raw",
    [b'"5"', b"5.0", b"-1", b"-0", b"1e1", b"1E0", b"true", b"[]", b"{}", b'""', b"9223372036854775808", b"9" * 5000],
)
def test_what_is_no_cursor(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        cursor(raw, None)
    assert caught.value.code == "invalid_cursor"
    assert len(caught.value.message) < 300


def test_a_run_without_a_cursor_is_no_cursor() -> None:
    with pytest.raises(Refusal) as caught:
        cursor(None, "run-1")
    assert caught.value.code == "invalid_cursor"
