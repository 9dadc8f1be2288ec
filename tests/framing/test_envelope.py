"""The scan of one envelope: sound text, no name twice at any depth, a header by the rules; in both twins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.protocol.errors import EnvelopeDefect

from tests.support.oracle import HEADER_TEXTS, Refused, envelope
from tests.support.shared import shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.twins import Twin

MIN, MAX = -(1 << 63), (1 << 63) - 1
BASE: dict[str, Any] = {
    "protocol": "open-agent-protocol",
    "version": "0.1",
    "profile": "open-agent-protocol.agent-control-core",
    "type": "run.started",
    "id": "e-1",
    "payload": {},
}


def text(**changes: Any) -> bytes:
    """The smallest envelope with changes; `...` leaves a member out."""
    members = {name: value for name, value in (BASE | changes).items() if value is not ...}
    return json.dumps(members, ensure_ascii=False).encode()


def carrying(payload: str | bytes) -> bytes:
    """The smallest envelope with a payload as written, `@` kept as a mark."""
    raw = payload.encode() if isinstance(payload, str) else payload
    return text(payload=...)[:-1] + b', "payload": ' + raw + b"}"


def defect(twin: Twin, raw: bytes, depth: int = 127) -> EnvelopeDefect:
    with pytest.raises(EnvelopeDefect) as caught:
        twin.scan_envelope(raw, depth)
    assert len(caught.value.reason) <= 300
    assert 0 <= caught.value.offset <= len(raw)
    return caught.value


def test_a_full_header(twin: Twin) -> None:
    raw = text(
        session_id="s", run_id="r", turn_id="t", tool_call_id="c", in_reply_to="q", capability_revision="v",
        sequence=1, timestamp_ms=-5, extensions={"dev.example": [1]}, payload={"a": "}"}, other=None,
    )  # fmt: skip
    head = twin.scan_envelope(raw)
    assert [getattr(head, name) for name in ("type", "id", *HEADER_TEXTS)] == ["run.started", "e-1", *"srtcqv"]
    assert (head.sequence, head.timestamp_ms) == (1, -5)
    assert head.extensions == b'{"dev.example": [1]}'
    assert head.payload == b'{"a": "}"}'
    assert raw[head.payload_start :].startswith(head.payload)


def test_a_short_header(twin: Twin) -> None:
    head = twin.scan_envelope(text())
    optional = (*HEADER_TEXTS, "sequence", "timestamp_ms", "extensions")
    assert [getattr(head, name) for name in optional] == [None] * 9
    assert head.payload == b"{}"
    assert "run.started" in repr(head)


def test_white_space_of_json_may_stand_anywhere(twin: Twin) -> None:
    raw = json.dumps(BASE | {"sequence": 3}, indent="\t").replace("\n", "\r\n").encode()
    assert twin.scan_envelope(b" \r\n\t" + raw + b"\n").sequence == 3


def test_escapes_in_names_and_values(twin: Twin) -> None:
    raw = (
        text(type=..., protocol=...)[:-1]
        + b', "\\u0074ype": "\\ud83d\\ude00\\n", "protocol": "open\\u002dagent-protocol"}'
    )
    assert twin.scan_envelope(raw).type == "\U0001f600\n"


MALFORMED: list[tuple[bytes, str]] = [
    (b"@", "ends"),
    (b" \n@", "ends"),
    (b"@\xef\xbb\xbf" + text(), "byte-order mark"),
    (b"@nope", "JSON value"),
    (text() + b" @x", "follows"),
    (text()[:-1] + b"@", "ends"),
    (carrying('{"a":1,@"a":2}'), "'a' stands twice"),
    (carrying('{"a":1,@"\\u0061":2}'), "'a' stands twice"),
    (carrying('{"\\u0061":1,"b":{"a":1},@"a":2}'), "'a' stands twice"),
    (carrying('[[{"x":[{"a":1,"b":2,@"a":3}]}]]'), "'a' stands twice"),
    (carrying('{"":1,@"":2}'), "'' stands twice"),
    (carrying('{"\u00e9":1,@"\\u00e9":2}'), "stands twice"),
    (text()[:-1] + b', @"id": "x"}', "'id' stands twice"),
    (text()[:-1] + b', @"\\u0069d": "x"}', "'id' stands twice"),
    (text()[:-1] + b', "other": 1, @"other": 1}', "'other' stands twice"),
    (carrying('{"a":@}'), "JSON value"),
    (b'{"x":1,@}', "member name"),
    (text(payload=...)[:-1] + b',"x":1,@}', "member name"),
    (text(payload=...)[:-1] + b',"x":1, @"x":2, "payload": {}}', "'x' stands twice"),
    (text(payload=...)[:-1] + b',"\\u0078":1, @"x":2, "payload": {}}', "'x' stands twice"),
    (carrying('{"a":1@ "b":2}'.replace("@ ", " @")), "closing brace"),
    (carrying('{"a":0@1}'), "closing brace"),
    (carrying('{"a":"@\n"}'), "control"),
    (carrying('{"a":"@\\ud800"}'), "surrogate"),
    (carrying(b'{"a":"@\xff"}'), "UTF-8"),
    (carrying(b'{"@\xff":1}'), "UTF-8"),
]


@pytest.mark.parametrize(("marked", "words"), MALFORMED)
def test_malformed_text_says_what_and_where(twin: Twin, marked: bytes, words: str) -> None:
    found = defect(twin, marked.replace(b"@", b""))
    assert found.code == "malformed_json"
    assert words in found.reason
    assert found.offset == marked.index(b"@")


def test_one_name_in_two_objects_is_no_repeat(twin: Twin) -> None:
    payload = '{"a":{"a":{"a":1},"b":2},"b":[{"a":1},{"a":1}],"c":{}}'
    assert twin.scan_envelope(carrying(payload)).payload == payload.encode()


INVALID: list[tuple[dict[str, Any], str]] = [
    *(({name: ...}, f"'{name}' is missing") for name in BASE),
    *(({name: None}, name) for name in BASE),
    ({"protocol": "Open-Agent-Protocol"}, "protocol"),
    ({"version": 0.1}, "version"),
    ({"version": "0.2"}, "version"),
    ({"profile": ""}, "profile"),
    ({"type": ""}, "type"),
    ({"id": 5}, "id"),
    ({"payload": []}, "payload"),
    ({"payload": "x"}, "payload"),
    ({"extensions": None}, "extensions"),
    ({"extensions": [1]}, "extensions"),
    *(({name: value}, name) for name in HEADER_TEXTS for value in (None, "", 5, ["x"])),
    *(({"sequence": value}, "sequence") for value in (0, -1, 1.0, 1.5, None, "1", True, MAX + 1)),
    *(({"timestamp_ms": value}, "timestamp_ms") for value in (1.0, None, "1", False, MAX + 1, MIN - 1)),
]


@pytest.mark.parametrize(("changes", "words"), INVALID, ids=repr)
def test_invalid_headers_say_what(twin: Twin, changes: dict[str, Any], words: str) -> None:
    found = defect(twin, text(**changes))
    assert found.code == "schema_invalid"
    assert words in found.reason


@pytest.mark.parametrize("raw", [b"[]", b"5", b'"x"', b"null", b" true "])
def test_an_envelope_is_an_object(twin: Twin, raw: bytes) -> None:
    found = defect(twin, raw)
    assert (found.code, found.reason) == ("schema_invalid", "an envelope is one JSON object")


def test_a_fault_of_the_text_outranks_one_of_the_header(twin: Twin) -> None:
    assert defect(twin, text(id=5)[:-1] + b',"a":1,"a":2}').code == "malformed_json"
    assert defect(twin, b"[1,]").code == "malformed_json"
    assert defect(twin, text(sequence=0) + b"x").code == "malformed_json"


def test_of_header_faults_the_first_is_told(twin: Twin) -> None:
    raw = text(id=5, sequence=0, payload=...)
    found = defect(twin, raw)
    assert "id must be" in found.reason
    assert found.offset == raw.index(b"5")


@pytest.mark.parametrize(
    ("name", "value"), [("sequence", MAX), ("sequence", 1), ("timestamp_ms", MIN), ("timestamp_ms", MAX)]
)
def test_numbers_are_exact(twin: Twin, name: str, value: int) -> None:
    assert getattr(twin.scan_envelope(text(**{name: value})), name) == value


@pytest.mark.parametrize("depth", [2, 3, 127, 1024])
@pytest.mark.parametrize(("open", "close"), [("[", "]"), ('{"a":', "}")])
def test_depth_counts_from_the_envelope(twin: Twin, depth: int, open: str, close: str) -> None:
    def nested(levels: int) -> bytes:
        return text()[:-1] + f',"x":{open * levels}0{close * levels}}}'.encode()

    assert twin.scan_envelope(nested(depth - 1), depth).id == "e-1"
    found = defect(twin, nested(depth), depth)
    assert (found.code, f"{depth} levels" in found.reason) == ("malformed_json", True)


@pytest.mark.parametrize("depth", [0, -1, 1025])
def test_a_depth_bound_has_bounds(twin: Twin, depth: int) -> None:
    with pytest.raises(ValueError, match="1024"):
        twin.scan_envelope(text(), depth)


@pytest.mark.parametrize("bad", ["text", bytearray(b"{}"), None])
def test_a_text_is_bytes(twin: Twin, bad: Any) -> None:
    with pytest.raises(TypeError):
        twin.scan_envelope(bad)


@pytest.mark.parametrize("count", [1, 11, 12, 13, 31, 32, 33, 64, 65, 128, 129, 5000])
def test_a_repeat_is_seen_in_objects_of_any_size(twin: Twin, count: int) -> None:
    names = [f'"name{i}":{i}' for i in range(count)]
    inner = "{" + ",".join(names) + "}"
    whole = "{" + ",".join([*names, f'"inner":{inner}', f'"again":{inner}']) + "}"
    assert twin.scan_envelope(carrying(whole)).payload == whole.encode()
    for at in {0, count // 2, count - 1}:
        for again in (f'"name{at}":0', f'"\\u006eame{at}":0'):
            raw = carrying(whole[:-1] + "," + again + "}")
            found = defect(twin, raw)
            assert f"'name{at}' stands twice" in found.reason
            assert found.offset == raw.rindex(again.encode())


def test_an_object_of_many_names_costs_no_more_than_it_should(twin: Twin) -> None:
    """Looking each name up among all others one by one would take hours."""
    whole = ("{" + ",".join(f'"\\u0061{i}":0' if i % 7 == 0 else f'"a{i}":0' for i in range(600_000)) + "}").encode()
    assert twin.scan_envelope(carrying(whole)).payload == whole


def test_a_large_text(twin: Twin) -> None:
    payload = ('{"a":"' + "ab\\n\u20ac" * (16 << 17) + '"}').encode()
    assert twin.scan_envelope(carrying(payload)).payload == payload


def test_json_test_suite(twin: Twin) -> None:
    repeated = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
    texts = sorted(shared("cases", "json-test-suite", "test_parsing").glob("[yn]_*.json"))
    assert texts
    for path in texts:
        raw = path.read_bytes()
        wrapped = text()[:-1] + b',"x":' + raw + b"}"
        if path.name[0] == "n" or path.name in repeated:
            assert defect(twin, raw).code == "malformed_json", path.name
            assert defect(twin, wrapped).code == "malformed_json", path.name
        else:
            assert defect(twin, raw).code == "schema_invalid", path.name
            assert twin.scan_envelope(wrapped).id == "e-1", path.name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
OPTIONAL = (*HEADER_TEXTS, "sequence", "timestamp_ms", "extensions")
HEADER_VALUE: st.SearchStrategy[Any] = (
    st.sampled_from(["", "x", 0, 1, -1, 1.0, 1.5, MAX, MAX + 1, MIN - 1, None, True, {}, []]) | JSON
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Envelopes that are nearly right, perhaps with a member twice, perhaps with a byte changed."""
    members: list[tuple[str, Any]] = list(BASE.items())
    more = draw(st.lists(st.sampled_from([*OPTIONAL, *BASE, "x", "y"]), max_size=4))
    members += [(name, draw(HEADER_VALUE)) for name in more]
    members = draw(st.permutations(members))[draw(st.sampled_from([0, 0, 0, 1])) :]
    ascii = draw(st.booleans())
    pairs = (f"{json.dumps(n)}: {json.dumps(v, ensure_ascii=ascii)}" for n, v in members)
    raw = bytearray(("{" + ",\n".join(pairs) + "}").encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b"\r", b'"', b"\\", b'{"a":1,"a":1}', b"]", b",", b"\xc3", b"e", b"0", b"\\u0061"])
        )
    return bytes(raw)


@given(raw=texts())
def test_it_agrees_with_an_oracle_of_another_make(twin: Twin, raw: bytes) -> None:
    try:
        expected = envelope(raw)
    except Refused as refused:
        code = "malformed_json" if str(refused).startswith("malformed") else "schema_invalid"
        assert defect(twin, raw).code == code
        return
    head = twin.scan_envelope(raw)
    assert {name: getattr(head, name) for name in expected} == expected
    assert json.loads(head.payload) == json.loads(raw)["payload"]
    assert raw[head.payload_start :].startswith(head.payload)


def header_schema() -> Any:
    """The header's part of the published schema: without the types of the payload."""
    schema = json.loads(shared("oap", "schema", "v0.1", "envelope.schema.json").read_text())
    common = json.loads(shared("oap", "schema", "v0.1", "common.schema.json").read_text())
    schema = {name: schema[name] for name in ("type", "required", "properties")}
    return schema | {"$defs": common["$defs"]}


@given(changes=st.dictionaries(st.sampled_from([*OPTIONAL, *BASE]), HEADER_VALUE | st.just(...), max_size=3))
def test_it_agrees_with_the_published_schema(twin: Twin, changes: dict[str, Any]) -> None:
    schema = json.loads(json.dumps(header_schema()).replace("common.schema.json#/", "#/"))
    raw = text(**changes)
    valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(raw))
    for name in ("sequence", "timestamp_ms"):
        # the two rules that are stricter here: plain digits, and within 64 bits (docs/json-choices.md)
        value = changes.get(name)
        if isinstance(value, float) or (isinstance(value, int) and not MIN <= value <= MAX):
            valid = False
    if changes.get("type") == "":
        valid = False  # the whole schema refuses it too: it is none of the types listed there
    if valid:
        assert twin.scan_envelope(raw).payload
    else:
        assert defect(twin, raw).code == "schema_invalid"


def envelopes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every envelope inside a value, outermost first."""
    if isinstance(value, dict):
        if "protocol" in value and "profile" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from envelopes(inner)


def test_the_examples_of_the_protocol(twin: Twin) -> None:
    folder = shared("oap")
    texts = [
        path.read_bytes() for path in sorted((*folder.glob("examples/*.json"), *folder.glob("fixtures/valid/*.json")))
    ]
    texts += (folder / "examples" / "stdio-session-transcript.ndjson").read_bytes().splitlines()
    found = [one for raw in texts for one in envelopes(json.loads(raw))]
    assert len(found) > 100
    for one in found:
        head = twin.scan_envelope(json.dumps(one, ensure_ascii=False).encode())
        assert (head.type, head.id, head.session_id) == (one["type"], one["id"], one.get("session_id"))
        assert json.loads(head.payload) == one["payload"]


def test_the_repeat_among_the_protocols_own_fixtures(twin: Twin) -> None:
    raw = shared("oap", "fixtures", "schema-invalid", "duplicate-key.json").read_bytes()
    assert "stands twice" in defect(twin, raw).reason
