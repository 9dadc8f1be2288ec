"""The request gate: five checks in their order, the same for every door (spec: stdio 4.4).

1. absent or null: `invalid_request`
2. longer than the bound: `request_too_large`
3. not JSON, a member name twice in one object, too deep: `malformed_json`
4. a header or payload that the schema refuses, or a type that it does not know: `schema_invalid`
5. a sound envelope of a type that this operation does not take: `type_mismatch`

The typed decode of the payload, which the doors name as a sixth check (`invalid_payload`), is made by the validators of
check 4: the same pass says whether the schema refuses a value or only no typed reader can hold it.
Whether header and payload name the same session, and whether it is the addressed one, is for the operation to check.
"""

from __future__ import annotations

from . import json, limits, names, shapes
from .envelope import Envelope
from .errors import EnvelopeDefect, Refusal
from .quote import quote
from .validate import validate_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any, Final, Protocol

    class Head(Protocol):
        """What the scanner says of one envelope; None stands for an absent member (`framing.EnvelopeHead`)."""

        type: str
        id: str
        session_id: str | None
        run_id: str | None
        turn_id: str | None
        tool_call_id: str | None
        in_reply_to: str | None
        capability_revision: str | None
        sequence: int | None
        timestamp_ms: int | None
        payload: bytes
        extensions: bytes | None


ENVELOPE_BYTES: Final[int] = limits.Limits().envelope_bytes


def admit(
    text: bytes | None,
    accepted: Collection[str],
    *,
    scan: Callable[[bytes], Head],
    limit: int = ENVELOPE_BYTES,
) -> Envelope:
    """Take the raw bytes of a request through the five checks and return its envelope.

    `accepted` are the types that the operation takes; `scan` is `framing.scan_envelope`; `limit` is in bytes, white
    space around the value included. Raises `Refusal`; its details, where it has any, are `pointer` (a JSON Pointer into
    the envelope) or `expected` (the accepted types).
    """
    if text is None or text.strip(b" \t\r\n") == b"null":
        raise Refusal(names.INVALID_REQUEST, "the request is absent or null; send one envelope")
    if len(text) > limit:
        raise Refusal(names.REQUEST_TOO_LARGE, f"the request is longer than {limit} bytes")
    try:
        head = scan(text)
    except EnvelopeDefect as defect:
        raise Refusal(defect.code, str(defect)) from None
    _check_header(head)
    payload = validate_payload(head.type, head.payload)
    if head.type not in accepted:
        raise Refusal(
            names.TYPE_MISMATCH,
            f"this operation takes {' or '.join(sorted(accepted))}, not {quote(head.type)}",
            {"expected": sorted(accepted)},
        )
    return Envelope(
        head.type,
        head.id,
        payload,
        session_id=head.session_id,
        run_id=head.run_id,
        turn_id=head.turn_id,
        tool_call_id=head.tool_call_id,
        sequence=head.sequence,
        timestamp_ms=head.timestamp_ms,
        in_reply_to=head.in_reply_to,
        capability_revision=head.capability_revision,
        extensions=None if head.extensions is None else _extensions(head.extensions),
    )


def admit_value(
    value: Envelope | Mapping[str, Any] | bytes | None,
    accepted: Collection[str],
    *,
    scan: Callable[[bytes], Head],
    limit: int = ENVELOPE_BYTES,
) -> Envelope:
    """Take a request of the Python interface through the same gate, by way of its bytes; as `admit`.

    A value that has no JSON form is `malformed_json`.
    """
    if value is None or isinstance(value, bytes):
        return admit(value, accepted, scan=scan, limit=limit)
    try:
        text = json.dumps(value.as_dict() if isinstance(value, Envelope) else dict(value))
    except (TypeError, ValueError) as error:
        raise Refusal(names.MALFORMED_JSON, f"the request has no JSON form: {quote(error, 120)}") from None
    return admit(text, accepted, scan=scan, limit=limit)


def _check_header(head: Head) -> None:
    if head.type not in shapes.TYPES:
        raise Refusal(names.SCHEMA_INVALID, f"{quote(head.type)} is no envelope type", {"pointer": "/type"})
    for member in shapes.header_of(head.type):
        if getattr(head, member) is None:
            pointer = f"/{member}"
            raise Refusal(
                names.SCHEMA_INVALID, f"'{pointer}' is missing; {head.type} requires it", {"pointer": pointer}
            )


def _extensions(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise Refusal(
            names.INVALID_PAYLOAD, "'/extensions' holds a number beyond what a double holds", {"pointer": "/extensions"}
        ) from None
