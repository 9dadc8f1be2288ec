"""Every combination of controls that can be refused, and which one refusal is given (spec: hub 9.4, envelopes 13)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.hubs import Fake, Seat, refusal_of

KEYS = {
    "model_id": "run.model_selection",
    "instructions": "run.instructions",
    "tool_choice": "run.tool_selection",
    "output_schema": "run.structured_output",
    "delivery": "session.message.delivery.queue",
}
GOOD: dict[str, Any] = {
    "model_id": "reference-model-a",
    "instructions": "Be brief.",
    "tool_choice": {"allowed": ["scripted_tool"]},
    "output_schema": {"type": "object"},
}
BAD: dict[str, Any] = {
    "model_id": "no-such-model",
    "tool_choice": {"allowed": ["no_such_tool"]},
    "output_schema": {"type": "object", "required": ["never"]},
}


def opened() -> Seat:
    seat = Seat()
    seat.open()
    return seat


@pytest.mark.parametrize("names", [c for n in (1, 2, 3) for c in itertools.combinations(sorted(BAD), n)], ids=str)
@pytest.mark.parametrize("busy", [False, True])
def test_of_several_unsatisfiable_controls_the_least_key_is_named_and_nothing_is_minted(
    names: tuple[str, ...], busy: bool
) -> None:
    seat = opened()
    if busy:
        seat.run()
        seat.run()
    last = seat.session().ids.last
    refusal = refusal_of(lambda: seat.submit(**{name: BAD[name] for name in names}))
    first = min(names, key=KEYS.__getitem__)
    details = dict(refusal.details or {})
    if first == "model_id":
        assert (refusal.code, details) == ("model_not_found", {"model_id": "no-such-model"})
    else:
        assert refusal.code == "unsupported_feature"
        assert (details["feature"], details["reason"]) == (KEYS[first], "unsatisfiable")
        culprit = {"tool_choice": ("tool", "no_such_tool"), "output_schema": ("field", "output_schema")}[first]
        assert details[culprit[0]] == culprit[1]
    assert seat.session().ids.last == last


LEVELS = ("native", "degraded", None)


@pytest.mark.parametrize("levels", list(itertools.product(LEVELS, repeat=5)), ids=str)
def test_rank_then_key_decides_over_every_descriptor(levels: tuple[str | None, ...]) -> None:
    """All five keys asked for at once, every level each: rank 1 before rank 2, within a rank the least key."""
    members = list(KEYS)
    wanted = dict(zip((KEYS[member] for member in members), levels, strict=True))
    seat = Seat({"fake": Fake(features=wanted)})
    seat.open(adapter="fake")
    controls = {**GOOD, "delivery": "queue"}
    absent = sorted(key for key, level in wanted.items() if level is None)
    degraded = sorted(key for key, level in wanted.items() if level == "degraded")
    if not absent and not degraded:
        assert seat.submit(**controls).payload["accepted"] is True
        return
    refusal = refusal_of(lambda: seat.submit(**controls))
    if absent:
        expected = ("unsupported_feature", {"feature": absent[0], "reason": "unadvertised"})
    else:
        expected = ("capability_degraded", {"feature": degraded[0]})
    assert (refusal.code, refusal.details) == expected
    assert seat.session().ids.last == 0
    if not absent:
        assert seat.submit(**controls, allow_degraded_features=degraded).payload["accepted"] is True


@pytest.mark.parametrize(
    "value", [None, [], "all", {}, {"allowed": None}, {"allowed": [], "disallowed": []}, {"x": []}]
)
def test_a_malformed_tool_choice_is_unsatisfiable_without_a_tool(value: Any) -> None:
    refusal = refusal_of(lambda: opened().submit(tool_choice=value))
    assert refusal.code == "unsupported_feature"
    assert refusal.details == {"feature": "run.tool_selection", "reason": "unsatisfiable"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": ["object", "null"]},
        {"$ref": "https://example.invalid/schema"},
        {"properties": {"ok": {"type": "string"}}, "required": ["ok"]},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "minimum": "none"},
    ],
    ids=str,
)
def test_a_schema_that_the_fixed_result_cannot_meet_is_unsatisfiable(schema: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: opened().submit(output_schema=schema))
    assert refusal.code == "unsupported_feature"
    assert (refusal.details or {})["field"] == "output_schema"


def test_an_empty_model_id_is_never_found() -> None:
    refusal = refusal_of(lambda: opened().submit(model_id=""))
    assert (refusal.code, refusal.details) == ("model_not_found", {"model_id": ""})


def test_what_comes_after_the_controls_comes_in_its_order() -> None:
    seat = opened()
    seat.run()
    seat.run()
    bad = {"model_id": "no-such-model"}
    steer: dict[str, Any] = {"delivery": "steer"}
    assert refusal_of(lambda: seat.submit(**bad, **steer)).code == "model_not_found"
    assert refusal_of(lambda: seat.submit(**steer)).code == "invalid_submission"
    assert refusal_of(lambda: seat.submit(delivery="btw")).code == "invalid_submission"
    assert refusal_of(lambda: seat.submit()).code == "run_active"
    assert refusal_of(lambda: seat.submit(session_id="other")).code == "scope_mismatch"
    assert refusal_of(lambda: seat.submit(revision="old", **bad)).code == "stale_capabilities"
    for run in [run.id for run in seat.session().live()][::-1]:
        seat.cancel(run)
    seat.switch.close("s")
    assert refusal_of(lambda: seat.submit(**steer)).code == "session_closed"
    assert refusal_of(lambda: seat.submit(instructions="x")).code == "session_closed"
    assert refusal_of(lambda: seat.submit("nobody")).code == "unknown_session"


def test_auto_on_a_busy_session_needs_consent_to_a_degraded_queue() -> None:
    seat = Seat({"fake": Fake(features={KEYS["delivery"]: "degraded"})})
    seat.open(adapter="fake")
    seat.run()
    refusal = refusal_of(seat.submit)
    assert (refusal.code, refusal.details) == ("capability_degraded", {"feature": KEYS["delivery"]})
    assert seat.submit(allow_degraded_features=[KEYS["delivery"]]).payload["admission"] == "queued"
    without = Seat({"fake": Fake(features={KEYS["delivery"]: None})})
    without.open(adapter="fake")
    without.run()
    assert refusal_of(without.submit).code == "run_active"


def test_a_catalog_that_is_not_there_now_binds_nothing() -> None:
    def broken(session: Any, what: Any) -> Any:
        raise RuntimeError("not yet")

    seat = Seat({"fake": Fake(features=dict.fromkeys(KEYS.values(), "native"), models=broken, tools=broken)})
    seat.open(adapter="fake")
    assert seat.submit(model_id="any", tool_choice={"allowed": ["any"]}).payload["model_id"] == "any"
    assert len(seat.notes) == 2
