"""The strict document reader: every fault has its place, and none shows a value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trunkline.gateway import document
from trunkline.protocol.errors import ConfigError
from trunkline.protocol.limits import CONFIG_BYTES

SYNTAX = [
    (b"", "line 1 column 1: Expecting value"),
    (b"{\n  'a': 1}", "line 2 column 3: Expecting property name"),
    (b'{"a": 1,\n}', "line 2 column 1|line 1 column 8"),
    (b'{"a": 1} {}', "line 1 column 10: something follows the document's end"),
    (b'{"a": 1}\n\n x', "line 3 column 2: something follows"),
    (b'{"a": 1}\0', "line 1 column 9: something follows"),
    (b"\xef\xbb\xbf{}", "line 1 column 1: a byte order mark"),
    (b'{}\n{"a": "\xff"}', "line 2 column 8: not UTF-8"),
    ('{"a": 1}'.encode("utf-16"), "line 1 column 1: not UTF-8"),
    (b'{"a": NaN}', "NaN is not JSON"),
    (b'{"a": -Infinity}', "-Infinity is not JSON"),
    (b'{"a": "\n"}', "line 1 column 8: Invalid control character"),
    (b'{"a": 01}', "line 1 column 8"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"a":' * 100_000, "nested too deeply"),
    (b'{"a": ' + b"9" * 5000 + b"}", "a number has too many digits"),
    (b"[]", "the document must be an object, not an array"),
    (b"null", "the document must be an object, not null"),
    (b" " * (CONFIG_BYTES + 1), f"longer than {CONFIG_BYTES} bytes"),
]

CONTENT = [
    (b'{"a": 1, "a": 1}', "a: stands twice"),
    (b'{"a": 1, "\\u0061": 2}', "a: stands twice"),
    (b'{"b": [0, {"a": {"x": 1, "y": 2, "x": 3}}]}', "b[1].a.x: stands twice"),
    (b'{"a": {"Mode": 1, "mode": 2}}', "a.mode: differs from 'Mode' only by case"),
    (b'{"a": ["\\ud800"]}', "a[0]: holds half of a surrogate pair"),
    (b'{"a": {"\\udc00": 1}}', "a: holds half of a surrogate pair"),
    (b'{"a b": {"c.d": 1, "c.d": 2}}', "['a b']['c.d']: stands twice"),
]


@pytest.mark.parametrize(("text", "message"), SYNTAX, ids=[row[0][:20].hex() for row in SYNTAX])
def test_syntax_faults_name_line_and_column(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        document.load(text)
    assert any(str(caught.value).startswith(one) for one in message.split("|"))


@pytest.mark.parametrize(("text", "message"), CONTENT)
def test_content_faults_name_the_place(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        document.load(text)
    assert str(caught.value) == message


def test_the_first_fault_of_the_document_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^a\.x: stands twice"):
        document.load(b'{"a": {"x": 1, "x": 2}, "b": {"y": 1, "y": 2}}')


def test_a_long_name_is_shown_in_part_and_without_control_characters() -> None:
    with pytest.raises(ConfigError) as caught:
        document.members({"\x1b[31m" + "n" * 5000: 1}, "", ("a",))
    assert len(str(caught.value)) < 200
    assert "\x1b" not in str(caught.value)


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(), st.lists, max_leaves=20))
def test_what_is_valid_is_read_as_the_library_reads_it(value: object) -> None:
    text = json.dumps({"value": value}).encode()
    assert document.load(text) == json.loads(text)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_config_error(text: bytes) -> None:
    try:
        outcome: object = document.load(text)
    except ConfigError as error:
        outcome = str(error)
    assert isinstance(outcome, dict) or 0 < len(str(outcome)) < 400


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be a whole number, not a boolean"),
        (1.0, "must be a whole number, not a fraction"),
        ("1", "must be a whole number, not a string"),
        (None, "must be a whole number, not null"),
        (-1, "must be 0 to 9007199254740992"),
        (1 << 60, "must be 0 to 9007199254740992"),
    ],
)
def test_whole_numbers(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^here: {message}"):
        document.whole(value, "here")


@pytest.mark.parametrize("value", [None, 1, ["x"], {}, "", "a\0b"])
def test_texts_are_judged_without_showing_them(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        document.text(value, "here")
    assert str(caught.value).startswith("here: must ")


def test_an_element_of_an_array_is_named_by_its_index() -> None:
    assert document.texts(["", "a"], "args") == ("", "a")
    with pytest.raises(ConfigError, match=r"^args\[1\]: must be a string, not a number$"):
        document.texts(["a", 3], "args")
