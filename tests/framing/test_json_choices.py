"""docs/json-choices.md says what the readers do: every row is judged, and no open point lacks a row."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from trunkline.protocol.errors import EnvelopeDefect, LineDefect

from tests.support.shared import ROOT, shared

if TYPE_CHECKING:
    from tests.support.twins import Twin

DOCUMENT = (ROOT / "docs" / "json-choices.md").read_text()
ROWS: dict[str, str] = dict(re.findall(r"^\| (\S+) \| (accept|refuse|framing_defect) \| \S.*\|$", DOCUMENT, re.M))
HEAD = (
    b'{"protocol":"open-agent-protocol","version":"0.1","profile":"open-agent-protocol.agent-control-core",'
    b'"type":"t","id":"i","payload":{},"x":'
)
OWN = {
    "accept": [b"1e9999", b"-1e9999", b"1e-9999", b"123456789012345678901234567890", b'"\\u0000"', b"-0", b"0.0"],
    "refuse": [
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf1",
        b"[" * 200 + b"]" * 200,
    ],
}
"""Siblings of the rows, so that the choices are judged without the shared data."""


def line_choice(twin: Twin, value: bytes) -> str:
    try:
        twin.parse_op_line(b'{"id":1,"op":"x","request":' + value + b"}")
    except LineDefect:
        return "refuse"
    return "accept"


def envelope_choice(twin: Twin, value: bytes) -> str:
    try:
        twin.scan_envelope(HEAD + value + b"}")
    except EnvelopeDefect as fault:
        return "refuse" if fault.code == "malformed_json" else fault.code
    return "accept"


@pytest.mark.parametrize("choice", OWN)
def test_own_values(twin: Twin, choice: str) -> None:
    for value in OWN[choice]:
        assert (line_choice(twin, value), envelope_choice(twin, value)) == (choice, choice), value


def test_every_open_file_has_its_row_and_the_row_is_true(twin: Twin) -> None:
    files = {
        path.name: path.read_bytes() for path in shared("cases", "json-test-suite", "test_parsing").glob("i_*.json")
    }
    assert files
    assert set(files) == {name for name in ROWS if name.startswith("i_")}
    for name, value in files.items():
        assert (line_choice(twin, value), envelope_choice(twin, value)) == (ROWS[name], ROWS[name]), name


def test_every_open_line_has_its_row_and_the_row_is_true(twin: Twin) -> None:
    vectors: list[dict[str, Any]] = json.loads(shared("cases", "op-line-vectors.json").read_text())["op"]
    assert {vector["name"] for vector in vectors if vector["decided_by"] == "open"} <= set(ROWS)
    judged = 0
    for vector in vectors:
        if vector["name"] in ROWS:
            parts = vector.get("line_parts") or [[vector["line_hex"], 1]]
            text = b"".join(bytes.fromhex(part) * times for part, times in parts)
            try:
                twin.parse_op_line(text)
            except LineDefect:
                choice = "framing_defect"
            else:
                choice = "accept"
            assert choice == ROWS[vector["name"]], vector["name"]
            judged += 1
    assert judged == len([name for name in ROWS if not name.startswith("i_")])
