"""The tables against the public schema bundle: both accept or both refuse, and the two engines agree in every word."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from trunkline.framing import scan_envelope
from trunkline.protocol import faults, shapes, validate
from trunkline.protocol.errors import Refusal
from trunkline.protocol.gate import admit
from trunkline.protocol.render import render_schema

from tests.support.bundle import Bundle, Sampler, envelopes_in, mutations, public_bundle, recorded_texts
from tests.support.shared import SHARED, needs_shared, shared

TYPES = sorted(shapes.TYPES)

DIFFERENCES = {
    "payload whole number": "the schema takes 1.0, 1e3 and any size; the typed reader holds plain digits of 64 bits",
    "header whole number": "the same, found by the envelope scanner, which reports all of the header as schema_invalid",
    "free number": "a whole number beyond 64 bits, or beyond a double, in free JSON cannot be written again unchanged",
}
"""Every case in which the gate refuses what the bundle accepts. There is none the other way round.

What no schema can see is refused before any schema looks: repeated names, a byte-order mark, lone surrogates, nesting
deeper than 127. Tests of the scanner and of the gate hold those.
"""


def verdict(text: bytes) -> str | None:
    """Return the code with which the gate refuses a text, None where it takes it."""
    try:
        admit(text, shapes.TYPES, scan=scan_envelope)
    except Refusal as refusal:
        return refusal.code
    return None


def engines(kind: str, payload: Any) -> tuple[str, Any]:
    """Judge by both engines; they must give the same value, or the same refusal in every word."""
    text = json.dumps(payload).encode()
    outcomes = []
    for engine in (validate.compiled, validate.plainly):
        try:
            outcome: tuple[str, Any] = "value", engine(kind, text)
        except Refusal as refusal:
            outcome = refusal.code, (refusal.message, refusal.details)
        outcomes.append(outcome)
    exact, plain = outcomes
    assert exact[0] == "value" or len(exact[1][0]) <= 300
    if plain == ("value", None):  # the plain engine passes the word where only an exact decoder can tell
        return exact
    assert plain == exact
    return exact


def difference(envelope: Any) -> str | None:
    """Name the listed difference for which an envelope gives cause, by looking for the numbers in question."""
    if any(_odd(envelope.get(name)) for name in ("sequence", "timestamp_ms")):
        return "header whole number"
    stack = [envelope.get("payload"), envelope.get("extensions")]
    while stack:
        value = stack.pop()
        if isinstance(value, dict | list):
            stack.extend(value.values() if isinstance(value, dict) else value)
        elif _odd(value):
            return "payload whole number" if isinstance(value, float) or abs(value) <= 1 << 64 else "free number"
    return None


def _odd(value: Any) -> bool:
    if isinstance(value, float):
        return math.isinf(value) or value.is_integer()
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 63


def compare(bundle: Bundle, envelope: Any) -> bool:
    """Put one envelope before both; return whether the bundle accepts it."""
    text = json.dumps(envelope).encode()
    ours, theirs = verdict(text), bundle.accepts(envelope)
    if theirs and ours is not None:
        assert difference(envelope) in DIFFERENCES, (ours, text)
    else:
        assert (ours is None) == theirs, (ours, text)
        assert ours != "invalid_payload", text
    if isinstance(envelope.get("payload"), dict) and envelope.get("type") in TYPES:
        engines(envelope["type"], envelope["payload"])
    return theirs


def recorded() -> list[Path]:
    if SHARED is None:
        return []
    folders = [SHARED / "oap" / "examples", *((SHARED / "oap" / "fixtures").glob("*"))]
    return sorted(path for folder in folders if folder.name != "packs" for path in folder.glob("**/*.*json"))


@needs_shared
def test_the_corpus_is_there() -> None:
    assert len(recorded()) > 100
    assert len(strict_fixtures()) > 50


@needs_shared
@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem)
def test_recorded_envelopes(path: Path) -> None:
    bundle = public_bundle()
    for text in recorded_texts(path) if path.name != "malformed-json.json" else ():
        for envelope in envelopes_in(json.loads(text)):
            compare(bundle, envelope)


def strict_fixtures() -> list[dict[str, Any]]:
    """Return the pinned fixtures that strict reading without packs decides."""
    if SHARED is None:
        return []
    entries = json.loads(shared("oap", "fixtures", "manifest.json").read_text())["fixtures"]
    return [
        entry
        for entry in entries
        if not entry.get("packs") and entry.get("mode") != "tolerant" and entry["kind"] != "load-invalid"
    ]


@needs_shared
@pytest.mark.parametrize("entry", strict_fixtures(), ids=lambda entry: str(entry["id"]))
def test_pin_fixtures_are_refused_in_the_phase_they_state(entry: dict[str, Any]) -> None:
    path = shared("oap", "fixtures", entry["path"])
    codes = {verdict(text.encode()) for text in recorded_texts(path)} - {None}
    if entry["phase"] == "decode":
        assert codes == {"malformed_json"}
    elif entry["phase"] == "schema":
        assert codes == {"schema_invalid"}
    else:
        assert codes == set()


@needs_shared
@pytest.mark.parametrize("kind", TYPES)
def test_sampled_envelopes(kind: str) -> None:
    bundle = public_bundle()
    dice = random.Random(kind)
    samplers = [Sampler(bundle, dice, chance) for chance in (0.1, 0.5, 0.9)]
    assert True in [compare(bundle, sampler.envelope(kind)) for sampler in samplers for _ in range(8)]


@needs_shared
@pytest.mark.parametrize("kind", TYPES)
def test_mutated_envelopes(kind: str) -> None:
    bundle = public_bundle()
    dice = random.Random(kind)
    whole = max((Sampler(bundle, dice, 0.9).valid(kind) for _ in range(6)), key=lambda made: len(json.dumps(made)))
    assert compare(bundle, whole)
    changed = list(mutations(whole, frozenset(("protocol", "version", "profile"))))
    dice.shuffle(changed)
    refused = sum(not compare(bundle, envelope) for envelope in changed[:300])
    assert refused > 20


@needs_shared
def test_the_rendered_bundle_behaves_as_the_public_one() -> None:
    public, rendered = public_bundle(), Bundle(render_schema())
    assert rendered.branches.keys() == public.branches.keys()
    assert len(rendered.branches) == 55
    for kind in TYPES:
        dice = random.Random(kind)
        made = [Sampler(public, dice, 0.8).valid(kind), *(Sampler(public, dice, 0.6).envelope(kind) for _ in range(4))]
        changed = list(mutations(made[0]))
        for envelope in (*made, *dice.sample(changed, min(len(changed), 40))):
            assert rendered.accepts(envelope) == public.accepts(envelope), envelope


@needs_shared
def test_packs_find_the_names_they_refer_to() -> None:
    rendered = render_schema()
    for name, schema in public_bundle().files.items():
        if name != "envelope.schema.json":
            assert schema["$defs"].keys() - rendered[name]["$defs"].keys() <= ALIASES


ALIASES = {
    "openResponse", "stateResponse", "stateUpdated",
    "cancelResponse",
    "permissionResolveResponse",
}  # fmt: skip


def test_header_requirements() -> None:
    assert shapes.header_of("capabilities.request") == ()
    assert shapes.header_of("run.cancel.request") == ("session_id", "run_id")
    assert shapes.header_of("action.call.started") == ("session_id", "run_id", "sequence", "tool_call_id")
    assert shapes.header_of("models.response") == ("in_reply_to", "session_id", "capability_revision")
    assert shapes.header_of("user.input.requested") == ("session_id", "run_id", "sequence")
    assert len(shapes.TYPES) == 55


SUBMIT = "session.message.submit.request"


def submit(**members: Any) -> dict[str, Any]:
    return {"session_id": "s", "messages": [{"role": "user", "content": "hi"}], "delivery": "auto"} | members


@pytest.mark.parametrize(
    ("kind", "payload", "code", "pointer", "words"),
    [
        (SUBMIT, submit(x=1), "schema_invalid", "/payload/x", "is no member here"),
        (SUBMIT, {"delivery": "auto", "session_id": "s"}, "schema_invalid", "/payload/messages", "is missing"),
        (SUBMIT, submit(delivery="Auto"), "schema_invalid", "/payload/delivery", "one of auto, queue, steer, btw"),
        (SUBMIT, submit(messages=[]), "schema_invalid", "/payload/messages", "at least one item"),
        (SUBMIT, submit(model_id=None), "schema_invalid", "/payload/model_id", "must be a string, not null"),
        (
            SUBMIT,
            submit(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "tool_call"}]}]),
            "schema_invalid",
            "/payload/messages/0/content/1/tool_call_id",
            "is missing",
        ),
        (
            SUBMIT,
            submit(messages=[{"role": "user", "content": [{"type": "video"}]}]),
            "schema_invalid",
            "/payload/messages/0/content/0/type",
            "one of text, reasoning",
        ),
        (
            SUBMIT,
            submit(allow_degraded_features=["a", "b", "a"]),
            "schema_invalid",
            "/payload/allow_degraded_features",
            "an item twice",
        ),
        (SUBMIT, submit(**{"a/b~c": 1}), "schema_invalid", "/payload/a~1b~0c", "no member"),
        (SUBMIT, submit(metadata={"n": 1 << 70}), "invalid_payload", "/payload/metadata/n", "beyond 64 bits"),
        (SUBMIT, submit(tool_choice=[1 << 64]), "invalid_payload", "/payload/tool_choice/0", "beyond 64 bits"),
        (
            "run.cancelled",
            {"session_id": "s", "run_id": "r", "duration_ms": 1.0},
            "invalid_payload",
            "/payload/duration_ms",
            "64 bits in plain digits",
        ),
        # A fault of the schema goes before one of the reader, wherever they stand.
        (
            "run.cancelled",
            {"session_id": "s", "duration_ms": 1.0, "run_id": ""},
            "schema_invalid",
            "/payload/run_id",
            "not empty",
        ),
    ],
)
def test_refusals_name_the_place(kind: str, payload: Any, code: str, pointer: str, words: str) -> None:
    got, (message, details) = engines(kind, payload)
    assert (got, details) == (code, {"pointer": pointer})
    assert words in message


@pytest.mark.parametrize("name", ["x" * 100_000, "\x00\x1b[31m\n" * 50, "é" * 5000, "\u202e"])
def test_strangers_text_is_cut_and_escaped_in_messages(name: str) -> None:
    code, (message, details) = engines(SUBMIT, submit(**{name: 1}))
    assert code == "schema_invalid"
    assert len(message) <= 300
    assert message.isprintable()
    assert message.isascii()
    assert len(details["pointer"]) <= 220


def test_numbers_that_can_be_carried_come_back_unchanged() -> None:
    numbers = [0, -0.0, 1.5, 1e300, (1 << 64) - 1, -(1 << 63), 9007199254740993]
    code, value = engines(SUBMIT, submit(metadata={"n": numbers}))
    assert code == "value"
    assert value["metadata"]["n"] == numbers
    assert [type(number) for number in value["metadata"]["n"]] == [type(number) for number in numbers]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "18446744073709551616", "-9223372036854775809"])
def test_numbers_that_cannot_be_carried_are_refused(number: str) -> None:
    text = b'{"metadata":{"n":%s},"session_id":"s","delivery":"auto","messages":[{"role":"user","content":""}]}'
    for _ in range(2):
        with pytest.raises(Refusal) as caught:
            validate.validate_payload(SUBMIT, text % number.encode())
        assert caught.value.code == "invalid_payload"
        validate.warm([SUBMIT])


def test_unknown_type_and_text_that_is_not_json() -> None:
    with pytest.raises(Refusal, match="schema_invalid"):
        validate.validate_payload("com.example.thing", b"{}")
    with pytest.raises(Refusal, match="malformed_json"):
        validate.compiled(SUBMIT, b'{"session_id"')


def test_holds() -> None:
    assert faults.holds({"a": [1, {"b": [(1 << 64) - 1, 1e308, None, True, "x"]}]})
    assert not faults.holds({"a": [1, {"b": [1 << 64]}]})
    assert not faults.holds([float("inf")])
