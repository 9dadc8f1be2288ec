"""Whether an answer to a gate fits what the gate offered. Everything wrong is `resolution_rejected`.

`interaction` is the payload of the `...requested` event, `payload` that of the resolve request; both passed the schema
(spec: envelopes 9, 10; hub 9.6). That the interaction exists and is still open is for the caller, who keeps it.
"""

from __future__ import annotations

from . import names
from .errors import Refusal
from .quote import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

_SCOPE: Final = ("interaction_id", "run_id", "requested_by", "responded_by")

_GRANTING: Final = frozenset(
    (
        "accept",
        "accepted",
        "allow",
        "allowed",
        "approve",
        "approved",
        "confirm",
        "grant",
        "granted",
        "permit",
        "proceed",
        "yes",
    )
)
_DENYING: Final = frozenset(
    (
        "abort",
        "block",
        "cancel",
        "decline",
        "declined",
        "denied",
        "deny",
        "disallow",
        "forbid",
        "no",
        "refuse",
        "refused",
        "reject",
        "rejected",
        "stop",
    )
)
"""The words with which harnesses begin the ids of their choices."""


def choice_grants(choice_id: str) -> bool | None:
    """Say whether the id of a choice reads as a grant or as a denial; None: it reads as neither.

    Only the first word of the id counts: `allow_always` and `acceptForSession` grant, `reject-once` denies, `option-2`
    says nothing. Labels are never read: they are prose for people.
    """
    if choice_id.isupper():
        choice_id = choice_id.lower()
    end = 1
    while end < len(choice_id) and choice_id[end].islower():
        end += 1
    word = choice_id[:end].lower()
    if word in _GRANTING:
        return True
    return False if word in _DENYING else None


def check_answer_permission(interaction: Mapping[str, Any], payload: Mapping[str, Any]) -> Refusal | None:
    """Judge a permission answer: its scope, that the choice was offered, and that it does not contradict `granted`."""
    if (refusal := _scope(interaction, payload)) is not None:
        return refusal
    if "choice_id" not in payload:
        return None
    choice = payload["choice_id"]
    if all(offered["id"] != choice for offered in interaction["choices"]):
        return _rejected(f"choice {quote(choice)} was not offered")
    grants = choice_grants(choice)
    if grants is not None and grants is not payload["granted"]:
        return _rejected(f"choice {quote(choice)} contradicts granted:{str(payload['granted']).lower()}")
    return None


def check_answer_input(interaction: Mapping[str, Any], payload: Mapping[str, Any]) -> Refusal | None:
    """Judge the answers to an input gate: each names an offered question once, and every required one is answered."""
    if (refusal := _scope(interaction, payload)) is not None:
        return refusal
    questions = {question["id"]: question for question in interaction["questions"]}
    answered: set[str] = set()
    for answer in payload["answers"]:
        name = answer["question_id"]
        if name not in questions:
            return _rejected(f"question {quote(name)} was not asked")
        if name in answered:
            return _rejected(f"question {quote(name)} is answered twice")
        answered.add(name)
        if (why := _answer_fault(questions[name], answer)) is not None:
            return _rejected(f"question {quote(name)} {why}")
    for name, question in questions.items():
        if question.get("required") and name not in answered:
            return _rejected(f"question {quote(name)} is required and has no answer")
    return None


def _answer_fault(question: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    if question["kind"] == "text":
        return None if answer.get("text") else "takes a text that is not empty"
    selected = answer.get("selected_option_ids")
    if not selected:
        return "takes selected_option_ids"
    offered = {option["id"] for option in question["options"]}
    for option in selected:
        if option not in offered:
            return f"has no option {quote(option)}"
    if len(set(selected)) != len(selected):
        return "has an option selected twice"
    if question["kind"] == "single_choice" and len(selected) != 1:
        return "takes exactly one option"
    return None


def _scope(interaction: Mapping[str, Any], payload: Mapping[str, Any]) -> Refusal | None:
    for member in _SCOPE:
        if payload[member] != interaction.get(member, payload[member]):
            return _rejected(f"{member} {quote(payload[member])} is not that of the open interaction")
    return None


def _rejected(why: str) -> Refusal:
    return Refusal(names.RESOLUTION_REJECTED, why)
