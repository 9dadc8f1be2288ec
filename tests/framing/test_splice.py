"""Events and their lines from encoded parts: what is spliced reads as what it was made of, and both twins agree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.framing import _splice

from tests.support.twins import load

if TYPE_CHECKING:
    from tests.support.twins import Twin

HEAD = b'{"type":"content.delta",'
MIDDLE = b'"timestamp_ms":5,"payload":{"run_id":"run-1",'
BODIES = st.lists(
    st.dictionaries(st.text(), st.text() | st.integers(), min_size=1).map(lambda value: json.dumps(value).encode())
)
COUNTS = st.integers(0, (1 << 53) - 1) | st.sampled_from([0, 8, 9, 98, 99, 10**9 - 1, 10**18])


def test_an_event_is_its_parts(twin: Twin) -> None:
    bodies = [b'{"message_id":"m","part":{"type":"text","text":"%d"}}' % number for number in range(12)]
    entries = twin.splice_events(HEAD, MIDDLE, bodies, 8, 98)
    assert [sequence for sequence, _ in entries] == list(range(99, 111))
    for at, (sequence, event) in enumerate(entries):
        assert json.loads(event) == {
            "type": "content.delta",
            "id": f"event-{9 + at}",
            "sequence": sequence,
            "timestamp_ms": 5,
            "payload": {"run_id": "run-1", **json.loads(bodies[at])},
        }


def test_nothing_is_spliced_from_nothing(twin: Twin) -> None:
    assert twin.splice_events(HEAD, MIDDLE, [], 1, 1) == []
    assert twin.splice_tails([]) == []


@given(bodies=BODIES, number=COUNTS, sequence=COUNTS)
def test_the_twin_equals_the_reference(bodies: list[bytes], number: int, sequence: int) -> None:
    twin = load("cython")
    entries = _splice.splice_events(HEAD, MIDDLE, bodies, number, sequence)
    assert twin.splice_events(HEAD, MIDDLE, bodies, number, sequence) == entries
    assert twin.splice_tails(entries) == _splice.splice_tails(entries)


def test_what_is_no_bytes_is_refused(twin: Twin) -> None:
    with pytest.raises(TypeError):
        twin.splice_events(HEAD, MIDDLE, ["{}"], 1, 1)
    with pytest.raises(TypeError):
        twin.splice_tails([(1, "{}")])
