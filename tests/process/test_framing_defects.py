"""What ends the session at once, and what the last line then says (spec: stdio 3.1 to 3.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.doors import PairHost
from tests.support.shared import shared
from tests.support.spawn import serve

GOOD = b'{"id":1,"op":"sessions"}\n'
DEEP = b'{"id":2,"op":"open","adapter":"memory","request":%b}\n'

DEFECTS: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"hello\n", "one JSON object (byte 0)"),
    "cut": (b'{"id":2,"op":"sess\n', "ends before the JSON value does (byte 18)"),
    "array": (b'[{"id":2,"op":"sessions"}]\n', "one JSON object (byte 0)"),
    "number": (b"7\n", "one JSON object (byte 0)"),
    "null": (b"null\n", "one JSON object (byte 0)"),
    "blank": (b"\n", "blank; write one request a line (byte 0)"),
    "spaces": (b"  \t\n", "blank; write one request a line (byte 3)"),
    "two objects": (
        b'{"id":2,"op":"sessions"}{}\n',
        "something other than white space follows the JSON value (byte 24)",
    ),
    "trailing text": (b'{"id":2,"op":"sessions"} x\n', "follows the JSON value (byte 25)"),
    "CR LF": (b'{"id":2,"op":"sessions"}\r\n', "ends in CR LF; write LF only (byte 24)"),
    "CR": (b'{"id":2,\r"op":"sessions"}\n', "carriage return stands in the line; write LF only"),
    "CR alone": (b"\r\n", "CR LF; write LF only (byte 0)"),
    "BOM": (b'\xef\xbb\xbf{"id":2,"op":"sessions"}\n', "byte-order mark; write UTF-8 without one (byte 0)"),
    "bad UTF-8": (b'{"id":2,"op":"state","session_id":"\xc0\xaf"}\n', "not valid UTF-8 (byte 35)"),
    "surrogate": (b'{"id":2,"op":"state","session_id":"\\ud800"}\n', "surrogate stands alone"),
    "no newline": (b'{"id":2,"op":"sessions"}', "(24 bytes) has no newline; end every line with LF"),
    "unknown member": (b'{"id":2,"op":"sessions","more":1}\n', "'more' is no member of a request (byte 24)"),
    "case of id": (b'{"ID":2,"op":"sessions"}\n', "'ID' differs from a member of a request by case only"),
    "case of session": (b'{"id":2,"op":"state","Session_ID":"s"}\n', "'Session_ID' differs from a member"),
    "twice": (b'{"id":2,"op":"sessions","id":2}\n', "the member 'id' stands twice in one object (byte 24)"),
    "twice by escape": (b'{"id":2,"op":"sessions","\\u0069d":2}\n', "the member 'id' stands twice"),
    "no id": (b'{"op":"sessions"}\n', "the member 'id' is missing"),
    "id null": (b'{"id":null,"op":"sessions"}\n', "id must be a whole number from -9223372036854775808"),
    "id text": (b'{"id":"1","op":"sessions"}\n', "id must be a whole number"),
    "id true": (b'{"id":true,"op":"sessions"}\n', "id must be a whole number"),
    "id 1.0": (b'{"id":1.0,"op":"sessions"}\n', "id must be a whole number"),
    "id 1e3": (b'{"id":1e3,"op":"sessions"}\n', "id must be a whole number"),
    "id too large": (b'{"id":9223372036854775808,"op":"sessions"}\n', "id must be a whole number"),
    "id too small": (b'{"id":-9223372036854775809,"op":"sessions"}\n', "id must be a whole number"),
    "no op": (b'{"id":2}\n', "the member 'op' is missing"),
    "op null": (b'{"id":2,"op":null}\n', "op must be a string that is not empty (byte 13)"),
    "op empty": (b'{"id":2,"op":""}\n', "op must be a string that is not empty (byte 13)"),
    "op number": (b'{"id":2,"op":7}\n', "op must be a string that is not empty (byte 13)"),
    "adapter number": (b'{"id":2,"op":"capabilities","adapter":7}\n', "adapter must be a string or null (byte 38)"),
    "session number": (b'{"id":2,"op":"state","session_id":7}\n', "session_id must be a string or null (byte 34)"),
    "run array": (b'{"id":2,"op":"events","run_id":[]}\n', "run_id must be a string or null (byte 31)"),
    "opt-ins text": (
        b'{"id":2,"op":"models","allow_degraded_features":"x"}\n',
        "allow_degraded_features must be an array of strings or null (byte 48)",
    ),
    "opt-ins numbers": (b'{"id":2,"op":"models","allow_degraded_features":[1]}\n', "must be an array of strings"),
    "too deep": (DEEP % (b"[" * 128 + b"]" * 128), "nesting is deeper than 128 levels"),
    "far too deep": (DEEP % (b"[" * 200_000), "nesting is deeper than 128 levels"),
    "long unknown member": (
        b'{"id":2,"op":"sessions","%b":1}\n' % (b"k" * 9000),
        "is no member of a request (byte 24)",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_ends_the_session_with_one_line_that_says_where_and_how_to_mend_it(name: str) -> None:
    line, says = DEFECTS[name]
    after = b"" if name == "no newline" else b'{"id":3,"op":"sessions"}\n'
    ended = serve(GOOD + line + after)
    ended.failed("line 2 is not a valid request: ", says)
    assert [answer["id"] for answer in ended.lines] == [1]
    assert "dropped" not in ended.stderr


@pytest.mark.parametrize("name", DEFECTS)
def test_the_pair_finds_the_same_defect(name: str) -> None:
    line, says = DEFECTS[name]
    with PairHost() as host:
        host.write(GOOD)
        host.write(line[:1])
        host.write(line[1:])
        host.close_input()
        assert host.wait() == 1
        assert "line 2 is not a valid request: " in host.stderr
        assert says in host.stderr
        assert [line["id"] for _, line in host.lines] == [1]


def test_lines_are_counted_from_one_over_all_of_them() -> None:
    serve(b"\n").failed("line 1 is not a valid request")
    serve(GOOD * 2500 + b"\n" + GOOD).failed("line 2501 is not a valid request")


@pytest.mark.parametrize("limit", [256, 1000])
def test_a_frame_of_exactly_the_limit_is_read_and_one_byte_more_is_fatal(limit: int) -> None:
    line = b'{"id":2,"op":"sessions"}'
    exact = line + b" " * (limit - len(line))
    ended = serve(GOOD + exact + b"\n" + GOOD, "--frame-limit", str(limit))
    ended.ended_well()
    assert [answer["id"] for answer in ended.lines] == [1, 2, 1]
    for more in (exact + b" \n", exact + b"  ", exact + b" " * 100_000 + b"\n"):
        ended = serve(GOOD + more, "--frame-limit", str(limit))
        ended.failed(f"line 2 is not a valid request: it is longer than the frame limit of {limit} bytes")
        assert [answer["id"] for answer in ended.lines] == [1]


def test_the_default_limit_holds_for_a_line_of_its_size() -> None:
    limit = 18 * 1024 * 1024
    line = b'{"id":2,"op":"sessions"}'
    exact = line + b" " * (limit - len(line))
    ended = serve(exact + b"\n" + GOOD)
    ended.ended_well()
    assert [answer["id"] for answer in ended.lines] == [2, 1]
    serve(exact + b" ").failed(f"the frame limit of {limit} bytes")


def test_null_carries_no_value_but_counts_as_present() -> None:
    lines = [
        b'{"id":1,"op":"capabilities","adapter":null}',
        b'{"id":2,"op":"state","session_id":null}',
        b'{"id":3,"op":"state","session_id":"s","adapter":null}',
        b'{"id":4,"op":"open","adapter":"memory","request":null}',
        b'{"id":5,"op":"sessions","after":null}',
        b'{"id":6,"op":"models","session_id":"s","allow_degraded_features":null}',
        b'{"id":7,"op":"events","session_id":"s","after":null,"run_id":null}',
        b'{"id":8,"op":"frobnicate","session_id":null,"after":{"a":1,"a":2}}',
        b'{"id":9,"op":"open","adapter":"memory","request":{"a":1,"a":2}}',
        b'{"id":10,"op":"events","session_id":"s","after":"x"}',
    ]
    ended = serve(b"\n".join(lines) + b"\n")
    ended.ended_well()
    assert [answer["error"]["code"] for answer in ended.lines] == [
        *["invalid_request"] * 5,
        *["unknown_session"] * 2,
        "unknown_op",
        "malformed_json",
        "unknown_session",
    ]


def vector_line(vector: dict[str, Any]) -> bytes:
    if "line_hex" in vector:
        return bytes.fromhex(vector["line_hex"])
    return b"".join(bytes.fromhex(part) * repeat for part, repeat in vector["line_parts"])


def test_every_vector_of_the_request_line_has_one_of_its_outcomes() -> None:
    vectors = json.loads(shared("cases", "op-line-vectors.json").read_text())["op"]
    assert len(vectors) > 50
    for vector in vectors:
        with PairHost(frame_limit=vector.get("frame_limit")) as host:
            host.write(vector_line(vector) + b"\n")
            host.close_input()
            code = host.wait()
            answers = [line for _, line in host.lines]
            if "framing_defect" in vector["outcome"] and code == 1:
                assert not answers, vector["name"]
                assert "line 1 is not a valid request" in host.stderr, vector["name"]
                continue
            assert len(answers) == 1, vector["name"]
            assert str(answers[0]["id"]) == vector.get("id_echoed", str(answers[0]["id"])), vector["name"]
            refusal = answers[0].get("error", {"code": ""})["code"]
            if "accept" not in vector["outcome"]:
                assert refusal in vector["outcome"] or refusal in ("malformed_json", "schema_invalid"), vector["name"]


def test_the_vectors_that_are_answered_are_answered_on_one_real_pipe() -> None:
    vectors = json.loads(shared("cases", "op-line-vectors.json").read_text())["op"]
    lines = [vector_line(one) for one in vectors if "framing_defect" not in one["outcome"]]
    ended = serve(b"".join(line + b"\n" for line in lines))
    ended.ended_well()
    assert len(ended.lines) == len(lines)


def test_the_streams_of_the_vectors() -> None:
    streams = {
        one["name"]: one for one in json.loads(shared("cases", "op-line-vectors.json").read_text())["op-streams"]
    }
    ended = serve(bytes.fromhex(streams["eof-after-newline"]["input_hex"]))
    ended.ended_well()
    assert [answer["id"] for answer in ended.lines] == [1]
    ended = serve(b"")
    ended.ended_well()
    assert ended.stdout == b""
    ended = serve(bytes.fromhex(streams["good-then-bad"]["input_hex"]))
    ended.failed("line 2 is not")
    assert [answer["id"] for answer in ended.lines] == [1]
    serve(bytes.fromhex(streams["bad-line-number-counts-blank"]["input_hex"])).failed("line 2 is not", "blank")
    ended = serve(bytes.fromhex(streams["same-id-twice-in-flight"]["input_hex"]))
    ended.ended_well()
    assert [answer["id"] for answer in ended.lines] == [1, 1]
    assert ended.lines[0]["ok"]


def test_separators_that_are_not_line_feed_cut_nothing_and_locale_changes_nothing() -> None:
    name = "Сессия  \x85 ✓"
    line = json.dumps({"id": 1, "op": "state", "session_id": name}, ensure_ascii=False).encode()
    lines = line + b"\n" + line + b"\n"
    for ended in (serve(lines), serve(lines, LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")):
        ended.ended_well()
        assert len(ended.lines) == 2
        assert name in ended.lines[0]["error"]["message"]
        assert ended.lines[0]["error"] == ended.lines[1]["error"]
        assert b"\r" not in ended.stdout
