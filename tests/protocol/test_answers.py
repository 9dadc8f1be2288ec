"""Answers to gates: what fits the offer and what is `resolution_rejected`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from trunkline.protocol.answers import check_answer_input, check_answer_permission, choice_grants

if TYPE_CHECKING:
    from trunkline.protocol.errors import Refusal

SCOPE = {
    "interaction_id": "i1",
    "requested_by": "agent",
    "responded_by": "user",
    "session_id": "s1",
    "run_id": "r1",
}
GATE: dict[str, Any] = SCOPE | {
    "title": "Allow",
    "choices": [{"id": name, "label": name} for name in ("approve", "deny", "option-3")],
}


def judged(refusal: Refusal | None) -> bool:
    if refusal is None:
        return True
    assert (refusal.code, refusal.details) == ("resolution_rejected", None)
    assert refusal.message
    return False


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"granted": True}, True),
        ({"granted": False}, True),
        ({"granted": True, "choice_id": "approve"}, True),
        ({"granted": False, "choice_id": "deny"}, True),
        ({"granted": True, "choice_id": "option-3"}, True),
        ({"granted": False, "choice_id": "option-3"}, True),
        ({"granted": True, "choice_id": "deny"}, False),
        ({"granted": False, "choice_id": "approve"}, False),
        ({"granted": True, "choice_id": "maybe"}, False),
        ({"granted": True, "choice_id": ""}, False),
        ({"granted": True, "interaction_id": "i2"}, False),
        ({"granted": True, "run_id": "r2"}, False),
        ({"granted": True, "requested_by": "other"}, False),
        ({"granted": True, "responded_by": "eve"}, False),
    ],
)
def test_permission(changes: dict[str, Any], fits: bool) -> None:
    assert judged(check_answer_permission(GATE, SCOPE | changes)) is fits


@pytest.mark.parametrize(
    ("choice", "grants"),
    [
        ("approve", True),
        ("allow_always", True),
        ("acceptForSession", True),
        ("ALLOW", True),
        ("Proceed Once", True),
        ("yes", True),
        ("deny", False),
        ("reject-once", False),
        ("No", False),
        ("abort.all", False),
        ("option-3", None),
        ("nothing", None),
        ("allowance", None),
        ("", None),
        ("42", None),
        ("é", None),
    ],
)
def test_reading_a_choice(choice: str, grants: bool | None) -> None:
    assert choice_grants(choice) is grants


OPTIONS = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
INPUT: dict[str, Any] = SCOPE | {
    "title": "Questions",
    "questions": [
        {"id": "t", "prompt": "?", "kind": "text", "required": True},
        {
            "id": "s",
            "prompt": "?",
            "kind": "single_choice",
            "options": OPTIONS,
        },
        {
            "id": "m",
            "prompt": "?",
            "kind": "multi_choice",
            "options": OPTIONS,
        },
    ],
}
T = {"question_id": "t", "text": "x"}


def chosen(question: str, *options: str) -> dict[str, Any]:
    return {"question_id": question, "selected_option_ids": list(options)}


@pytest.mark.parametrize(
    ("answers", "fits"),
    [
        ([T], True),
        ([T, chosen("s", "a"), chosen("m", "b", "a")], True),
        ([chosen("m", "a"), T], True),
        ([chosen("s", "a")], False),
        ([T, T], False),
        ([T, chosen("s", "a"), chosen("s", "a")], False),
        ([T, {"question_id": "z", "text": "x"}], False),
        ([{"question_id": "t", "text": ""}], False),
        ([chosen("t", "a")], False),
        ([T, {"question_id": "s", "text": "a"}], False),
        ([T, chosen("s", "a", "b")], False),
        ([T, chosen("s", "z")], False),
        ([T, chosen("m", "a", "a")], False),
        ([T, chosen("m")], False),
        ([T, chosen("m", "a", "z")], False),
    ],
)
def test_input(answers: list[dict[str, Any]], fits: bool) -> None:
    assert judged(check_answer_input(INPUT, SCOPE | {"answers": answers})) is fits


@pytest.mark.parametrize("member", ["interaction_id", "run_id", "requested_by", "responded_by"])
def test_input_scope(member: str) -> None:
    assert judged(check_answer_input(INPUT, SCOPE | {"answers": [T]}))
    assert not judged(check_answer_input(INPUT, SCOPE | {"answers": [T], member: "other"}))
