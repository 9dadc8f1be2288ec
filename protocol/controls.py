"""The refusal ladders: what a submit or an open asks for, against what the descriptor in force offers.

Pure functions over plain payloads that already passed the schema. Each returns the one `Refusal` to answer, or None.
A ladder collects every refusal and takes the least by rank, then capability key, then JSON Pointer: rank 1 not
advertised, rank 2 degraded without the request's consent, rank 3 not satisfiable (spec: envelopes 13).
"""

from __future__ import annotations

from . import names
from .answers import check_answer_input, check_answer_permission
from .capability import Descriptor, refuse_feature, refuse_stale, unadvertised, unsatisfiable
from .errors import Refusal
from .quote import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any, Final, TypeAlias

    from .limits import Limits

    Pointer: TypeAlias = tuple[int | str, ...]
    Found: TypeAlias = tuple[int, str, Pointer, Refusal]
    """Rank, capability key, pointer, refusal."""

__all__ = [
    "Descriptor",
    "check_answer_input",
    "check_answer_permission",
    "refuse_attachments",
    "refuse_delivery",
    "refuse_feature",
    "refuse_stale",
    "refuse_submit",
]

MODEL_SELECTION: Final = "run.model_selection"
INSTRUCTIONS: Final = "run.instructions"
TOOL_SELECTION: Final = "run.tool_selection"
STRUCTURED_OUTPUT: Final = "run.structured_output"
QUEUE: Final = "session.message.delivery.queue"
ATTACH: Final = "action.tool_sources.attach"
MODELS_LIST: Final = "models.list"

CONTROLS: Final[Mapping[str, str]] = {
    "model_id": MODEL_SELECTION,
    "instructions": INSTRUCTIONS,
    "tool_choice": TOOL_SELECTION,
    "output_schema": STRUCTURED_OUTPUT,
}
"""Member of a submit, and the capability key that it needs. Presence counts: an empty string is a control."""

_BINDING: Final = names.LEVELS[:2]
_CHOICES: Final = ("allowed", "disallowed")


def refuse_submit(
    payload: Mapping[str, Any],
    descriptor: Descriptor,
    *,
    models: Collection[str] | None,
    tools: Collection[str] | None,
    limits: Limits | None = None,
) -> Refusal | None:
    """Judge the run controls and the delivery of a submit, or of the `message` of an open (spec: envelopes 13, 14).

    `models` and `tools` are the ids and names of the session's catalogs, None where unknown. A model catalog binds only
    where `models.list` is native or emulated (spec: envelopes 15). `steer` and `btw` are not judged here: the profile
    reserves them, and `refuse_delivery` answers them after this ladder (spec: hub 9.4). `limits` bounds the work on an
    output schema.
    """
    allow = payload.get("allow_degraded_features", ())
    wanted = [key for member, key in CONTROLS.items() if member in payload]
    if payload.get("delivery") == "queue":
        wanted.append(QUEUE)
    if not wanted:
        return None
    found = [ranked for key in wanted if (ranked := _support(descriptor, key, allow)) is not None]
    if not found:
        found = [
            *_model_faults(payload, descriptor, models),
            *_tool_choice_faults(payload, tools),
            *_output_schema_faults(payload, descriptor, limits),
        ]
    return _least(found)


def refuse_delivery(payload: Mapping[str, Any]) -> Refusal | None:
    """Judge what no capability can mend: no messages, or a delivery that the profile reserves (spec: hub 9.4, step 2).

    Returns `invalid_submission`. An absent or empty delivery counts as `auto`.
    """
    if not payload.get("messages"):
        return Refusal(names.INVALID_SUBMISSION, "a submission needs at least one message")
    delivery = payload.get("delivery") or "auto"
    if delivery not in ("auto", "queue"):
        return Refusal(names.INVALID_SUBMISSION, f"delivery {quote(delivery)} is reserved; use 'auto' or 'queue'")
    return None


def refuse_attachments(open_payload: Mapping[str, Any], descriptor: Descriptor) -> Refusal | None:
    """Judge the `tool_sources` of an open (spec: envelopes 16, hub 6 and 9.8).

    An absent or empty list asks for nothing. Rank 3 names the first offending attachment in `source`: an id used twice
    or already declared, `remote` without that mode, a kind or a count outside the disclosed limits, one environment
    variable named twice.
    """
    attachments = open_payload.get("tool_sources")
    if not attachments:
        return None
    if "session_open" not in descriptor.modes(ATTACH):
        return unadvertised(ATTACH)
    early = refuse_feature(descriptor, ATTACH, open_payload.get("allow_degraded_features", ()))
    return early or _least(_attachment_faults(attachments, descriptor))


def _support(descriptor: Descriptor, key: str, allow: Collection[str]) -> Found | None:
    refusal = refuse_feature(descriptor, key, allow)
    if refusal is None:
        return None
    return (1 if refusal.code == names.UNSUPPORTED_FEATURE else 2), key, (), refusal


def _model_faults(
    payload: Mapping[str, Any], descriptor: Descriptor, models: Collection[str] | None
) -> Iterator[Found]:
    if "model_id" not in payload:
        return
    model = payload["model_id"]
    binding = models is not None and descriptor.level(MODELS_LIST) in _BINDING
    if model == "" or (binding and models is not None and model not in models):
        text = f"there is no model {quote(model)} here" if model else "the model id is empty"
        yield 3, MODEL_SELECTION, ("model_id",), Refusal(names.MODEL_NOT_FOUND, text, {"model_id": model})


def _tool_choice_faults(payload: Mapping[str, Any], tools: Collection[str] | None) -> Iterator[Found]:
    if "tool_choice" not in payload:
        return
    choice = payload["tool_choice"]
    kind = next(iter(choice)) if isinstance(choice, dict) and len(choice) == 1 else None
    listed = choice[kind] if kind in _CHOICES else None
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        why = "tool_choice takes an object with one member, 'allowed' or 'disallowed', an array of tool names"
        yield 3, TOOL_SELECTION, ("tool_choice",), unsatisfiable(TOOL_SELECTION, why)
    elif kind == "allowed" and tools is not None:
        for index, name in enumerate(listed):
            if name not in tools:
                why = f"there is no tool {quote(name)} here"
                yield 3, TOOL_SELECTION, ("tool_choice", kind, index), unsatisfiable(TOOL_SELECTION, why, tool=name)
                return


def _output_schema_faults(payload: Mapping[str, Any], descriptor: Descriptor, limits: Limits | None) -> Iterator[Found]:
    if "output_schema" not in payload:
        return
    from .output_schema import schema_fault, value_fault

    schema = payload["output_schema"]
    fault = schema_fault(schema, limits)
    fixed = descriptor.feature(STRUCTURED_OUTPUT).get("constraints", {}).get("fixed_result")
    if fault is None and fixed is not None and (fault := value_fault(schema, fixed, limits)) is not None:
        fault = f"the one result that this endpoint gives does not satisfy it: {fault}"
    if fault is not None:
        refusal = unsatisfiable(STRUCTURED_OUTPUT, f"output_schema cannot be met: {fault}", field="output_schema")
        yield 3, STRUCTURED_OUTPUT, ("output_schema",), refusal


def _attachment_faults(attachments: list[Mapping[str, Any]], descriptor: Descriptor) -> Iterator[Found]:
    taken = {source["id"] for source in descriptor.sources()}
    most = descriptor.feature_limit(ATTACH, "max_sources")
    kinds = descriptor.feature_limit(ATTACH, "transports")
    remote = "remote" in descriptor.modes(ATTACH)
    for index, attachment in enumerate(attachments):
        source, kind = attachment["id"], attachment["kind"]
        why = None
        if source in taken:
            why = "its id is taken"
        elif kind == "remote" and not remote:
            why = "remote sources are not offered"
        elif kinds is not None and kind not in kinds:
            why = f"sources of kind {quote(kind)} are not offered"
        elif most is not None and index >= most:
            why = f"at most {most} can be attached"
        elif (name := _repeated(attachment.get("environment", ()))) is not None:
            why = f"its environment names {quote(name)} twice"
        if why is not None:
            refusal = unsatisfiable(ATTACH, f"source {quote(source)} cannot be attached: {why}", source=source)
            yield 3, ATTACH, ("tool_sources", index), refusal
            return
        taken.add(source)


def _repeated(environment: Collection[str]) -> str | None:
    seen: set[str] = set()
    for element in environment:
        name = element.partition("=")[0]
        if name in seen:
            return name
        seen.add(name)
    return None


def _least(found: Collection[Found] | Iterator[Found]) -> Refusal | None:
    """Return the refusal of the least rank, key and pointer; numbers in pointers order as numbers."""
    least = min(found, key=_order, default=None)
    return None if least is None else least[3]


def _order(found: Found) -> tuple[int, str, tuple[tuple[bool, int, str], ...]]:
    rank, key, pointer, _ = found
    return (
        rank,
        key,
        tuple((isinstance(part, str), *((0, part) if isinstance(part, str) else (part, ""))) for part in pointer),
    )
