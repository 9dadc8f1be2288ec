"""The op table: each op's name, its parameters and the function of the switch that serves it. One table for every door.

`perform` keeps the check order of spec stdio 4.3: op known, parameters as declared, request gate, then the switch. It
is a plain function: what must wait comes back as a Future, a refusal is raised.
"""

from __future__ import annotations

from ..framing import scan_envelope, success_line
from ..protocol import names
from ..protocol.envelope import Envelope
from ..protocol.errors import Refusal
from ..protocol.gate import admit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Collection, Mapping
    from typing import Any, Final, TypeAlias

    from ..framing import OpLine
    from .hub.switch import Switch

    Result: TypeAlias = Envelope | dict[str, Any] | bytes | None
    """What an op's success carries: an envelope, a listing, either as its bytes, or null."""
    Outcome: TypeAlias = Result | Future[Envelope] | Future[None]
    """The result now, or later."""
    Perform: TypeAlias = Callable[[Switch, OpLine], Outcome]

MEMBERS: Final = ("adapter", "session_id", "after", "run_id", "request", "allow_degraded_features")
"""The parameters an op line may carry, in the order in which a surplus one is named."""


class Operation:
    """One op: `takes` are its parameters, `addressed` the one that must not be empty, `perform` serves it.

    `perform` is None for `events`, which a door serves itself because it lasts.
    """

    __slots__ = ("addressed", "perform", "seen", "takes")

    def __init__(self, takes: Collection[str], addressed: str | None, perform: Perform | None) -> None:
        self.takes = frozenset(takes)
        self.addressed = addressed
        self.perform = perform
        self.seen: set[frozenset[str]] = set()


def _gate(switch: Switch, line: OpLine, accepted: Collection[str]) -> Envelope:
    return admit(line.request, accepted, scan=scan_envelope, limit=switch.limits.envelope_bytes)


def _open(switch: Switch, line: OpLine) -> Outcome:
    return switch.open(line.adapter or "", _gate(switch, line, _OPENS))


def _submit(switch: Switch, line: OpLine) -> Outcome:
    return switch.submit(line.session_id or "", _gate(switch, line, _SUBMITS))


def _resolve(switch: Switch, line: OpLine) -> Outcome:
    return switch.resolve(line.session_id or "", _gate(switch, line, _RESOLVES))


def _cancel(switch: Switch, line: OpLine) -> Outcome:
    return switch.cancel(line.session_id or "", _gate(switch, line, _CANCELS))


_OPENS: Final = frozenset((names.OPEN,))
_SUBMITS: Final = frozenset((names.SUBMIT,))
_RESOLVES: Final = frozenset((names.RESOLVE_PERMISSION, names.RESOLVE_INPUT))
_CANCELS: Final = frozenset((names.CANCEL,))

_SESSION: Final = "session_id"
_OPT_INS: Final = "allow_degraded_features"

OPERATIONS: Final[Mapping[str, Operation]] = {
    "adapters": Operation((), None, lambda switch, line: switch.listing()),
    "capabilities": Operation(("adapter",), "adapter", lambda switch, line: switch.capabilities(line.adapter or "")),
    "open": Operation(("adapter", "request"), "adapter", _open),
    "sessions": Operation((), None, lambda switch, line: switch.sessions_text()),
    "state": Operation((_SESSION,), _SESSION, lambda switch, line: switch.session(line.session_id or "").state_text()),
    "models": Operation(
        (_SESSION, _OPT_INS),
        _SESSION,
        lambda switch, line: switch.models(line.session_id or "", line.allow_degraded_features or ()),
    ),
    "tools": Operation(
        (_SESSION, _OPT_INS),
        _SESSION,
        lambda switch, line: switch.tools(line.session_id or "", line.allow_degraded_features or ()),
    ),
    "submit": Operation((_SESSION, "request"), _SESSION, _submit),
    "resolve": Operation((_SESSION, "request"), _SESSION, _resolve),
    "cancel": Operation((_SESSION, "request"), _SESSION, _cancel),
    "close": Operation((_SESSION,), _SESSION, lambda switch, line: switch.close(line.session_id or "")),
    "events": Operation((_SESSION, "after", "run_id"), _SESSION, None),
}
"""The twelve ops (spec: stdio 4)."""


def find(line: OpLine) -> Operation:
    """Return the op of a line, its parameters checked. Raises `unknown_op`, `invalid_request`.

    A set of members that was found good for an op is remembered with it: there are few, and hosts repeat them.
    """
    operation = OPERATIONS.get(line.op)
    if operation is None:
        op = line.op if len(line.op) <= 40 else line.op[:40] + "…"
        raise Refusal(names.UNKNOWN_OP, f"no op is named {op!r}; there are: {', '.join(OPERATIONS)}")
    if line.present not in operation.seen:
        if surplus := line.present - operation.takes - _ALWAYS:
            first = next(member for member in MEMBERS if member in surplus)
            raise Refusal(names.INVALID_REQUEST, f"op {line.op} accepts no {first} parameter")
        operation.seen.add(line.present)
    addressed = operation.addressed
    if addressed is not None and not getattr(line, addressed):
        raise Refusal(names.INVALID_REQUEST, f"op {line.op} needs the parameter {addressed}, a non-empty string")
    return operation


def known_answer(switch: Switch, line: OpLine, longest: int) -> bytes | None:
    """Return the answer line of an op that asks for what is known already; None: serve it the ordinary way.

    Hosts ask `sessions` and `state` again and again, and mostly nothing has changed.
    """
    known = _KNOWN.get(line.op)
    if known is None or line.present not in known[0]:
        return None
    return known[1](switch, line, longest)


def _known_sessions(switch: Switch, line: OpLine, longest: int) -> bytes | None:
    text = switch.services.listed
    return None if text is None or len(text) > longest - 64 else success_line(line.id, text)


def _known_state(switch: Switch, line: OpLine, longest: int) -> bytes | None:
    session = switch.table.get(line.session_id or "")
    return None if session is None else session.state_line(line.id, longest)


_KNOWN: Final[Mapping[str, tuple[set[frozenset[str]], Callable[[Switch, OpLine, int], bytes | None]]]] = {
    "sessions": (OPERATIONS["sessions"].seen, _known_sessions),
    "state": (OPERATIONS["state"].seen, _known_state),
}


def cursor(raw: bytes | None, run_id: str | None) -> int | None:
    """Return the sequence after which to resume, None for live. Raises `invalid_cursor` (spec: stdio 6.1).

    `raw` is the JSON text of `after`: only a plain unsigned decimal integer is a cursor.
    """
    if raw is None:
        if run_id is not None:
            raise Refusal(names.INVALID_CURSOR, "run_id names a run to resume and needs an after cursor beside it")
        return None
    if not raw.isdigit() or (len(raw) > 1 and raw[:1] == b"0") or len(raw) > _DIGITS or int(raw) >= 1 << 63:
        raise Refusal(names.INVALID_CURSOR, "after must be a plain unsigned integer, the last sequence received")
    return int(raw)


_DIGITS: Final = 19
_ALWAYS: Final = frozenset(("id", "op"))
