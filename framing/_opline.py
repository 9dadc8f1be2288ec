"""The strict request line of the stdio door, reference implementation: one pass, nothing built but the routing.

Rules: spec stdio 3.1 to 3.3. `_speedups/opline.pyx` is the compiled twin and gives the same value or the same defect.
"""

from __future__ import annotations

from ..protocol.errors import LineDefect, shown, stranger
from ._scan import Fault, Scan, check_depth, int64, unescape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match
    from typing import Final

MEMBERS: Final = {
    "id": 1,
    "op": 2,
    "adapter": 4,
    "session_id": 8,
    "run_id": 16,
    "after": 32,
    "request": 64,
    "allow_degraded_features": 128,
}
"""Every permitted member and its bit in the set of those present (spec: stdio 3)."""

_present: dict[int, frozenset[str]] = {}


class OpLine:
    """One well-formed request line.

    `id` is an int64, `op` a string that is not empty. `adapter`, `session_id`, `run_id` are strings, None where absent
    or null. `after` and `request` are the raw bytes of the value, checked as JSON and no further, None where absent or
    null. `allow_degraded_features` is a tuple of strings or None. `present` names every member that stands in the line,
    null or not.
    """

    __slots__ = (
        "adapter",
        "after",
        "allow_degraded_features",
        "id",
        "op",
        "present",
        "request",
        "run_id",
        "session_id",
    )

    id: int
    op: str
    adapter: str | None
    session_id: str | None
    run_id: str | None
    after: bytes | None
    request: bytes | None
    allow_degraded_features: tuple[str, ...] | None
    present: frozenset[str]

    def __init__(self) -> None:
        self.adapter = self.session_id = self.run_id = None
        self.after = self.request = self.allow_degraded_features = None

    def __repr__(self) -> str:
        return f"OpLine(id={self.id}, op={shown(self.op)}, present={sorted(self.present)})"


def parse_op_line(line: bytes, depth: int = 128) -> OpLine:
    """Read one line without its LF. `depth` bounds nesting, counted from the line's own object.

    Raises `LineDefect` for the first fault in reading order, `TypeError` where `line` is not bytes, `ValueError` where
    `depth` is not from 1 to 1024.
    """
    if type(line) is not bytes:
        raise TypeError(f"a line is bytes, not {type(line).__name__}")
    check_depth(depth)
    try:
        return _parse(Scan(line, depth, line=True))
    except Fault as fault:
        raise LineDefect(fault.reason, fault.at) from None


def _parse(scan: Scan) -> OpLine:
    line, size = scan.text, scan.size
    at = scan.white(0)
    if at == size:
        raise Fault("blank", at)
    if line.startswith(b"\xef\xbb\xbf"):
        raise Fault("bom", 0)
    if line[at] != 0x7B:
        raise scan.fault("object", at)
    found = OpLine()
    at = _members(scan, at + 1, found)
    at = scan.white(at)
    if at != size:
        raise scan.fault("trailing", at)
    return found


def _members(scan: Scan, at: int, found: OpLine) -> int:
    line = scan.text
    seen = 0
    at = scan.white(at)
    more = line[at : at + 1] != b"}"
    while more:
        usual = scan.pattern.usual.match(line, at)
        if usual is not None and (bit := _usual(scan, usual, seen, found)):
            seen |= bit
            at = usual.end()
            more = usual[4] is not None
            continue
        name, at = _name(scan, at, seen)
        seen |= MEMBERS[name]
        at = scan.white(_READ[name](scan, at, name, found))
        byte = line[at : at + 1]
        if byte == b",":
            at = scan.white(at + 1)
        elif byte == b"}":
            more = False
        else:
            raise scan.fault("member_end", at)
    if seen & 3 != 3:
        raise Fault("missing", at, "'op'" if seen & 1 else "'id'")
    if seen not in _present:
        _present[seen] = frozenset(name for name, bit in MEMBERS.items() if seen & bit)
    found.present = _present[seen]
    return at + 1


def _usual(scan: Scan, member: Match[bytes], seen: int, found: OpLine) -> int:
    """Take a member that stands as it mostly does and return its bit; 0: the steps must refuse it or take it."""
    name = member[1].decode()
    bit = MEMBERS.get(name, 0)
    if not bit or seen & bit or member.start() < scan.bad < member.end():
        return 0
    if member[3] is not None:
        if name == "id" and (value := int64(member[3])) is not None:
            found.id = value
            return bit
        return 0
    if _READ[name] is _text or (name == "op" and member[2]):
        setattr(found, name, member[2].decode())
        return bit
    return 0


def _name(scan: Scan, at: int, seen: int) -> tuple[str, int]:
    """Read one permitted member name and its colon; return it and where its value starts."""
    end = scan.name(at)
    name = unescape(scan.text[at + 1 : end - 1])
    if name not in MEMBERS:
        raise Fault(stranger(name, MEMBERS), at, shown(name))
    if seen & MEMBERS[name]:
        raise Fault("twice", at, shown(name))
    return name, scan.colon(end)


def _id(scan: Scan, at: int, name: str, found: OpLine) -> int:
    token = scan.pattern.number.match(scan.text, at)
    value = int64(token[0]) if token else None
    if token is None or value is None:
        raise scan.fault("int64", at, name)
    found.id = value
    return token.end()


def _op(scan: Scan, at: int, name: str, found: OpLine) -> int:
    if scan.text[at : at + 1] != b'"' or scan.text[at + 1 : at + 2] == b'"':
        raise scan.fault("nonempty", at, name)
    end = scan.string(at)
    found.op = unescape(scan.text[at + 1 : end - 1])
    return end


def _null(scan: Scan, at: int) -> bool:
    return scan.text[at : at + 4] == b"null"


def _text(scan: Scan, at: int, name: str, found: OpLine) -> int:
    if scan.text[at : at + 1] == b'"':
        end = scan.string(at)
        setattr(found, name, unescape(scan.text[at + 1 : end - 1]))
        return end
    if not _null(scan, at):
        raise scan.fault("text", at, name)
    return at + 4


def _raw(scan: Scan, at: int, name: str, found: OpLine) -> int:
    end = scan.value(at, 1)
    if not _null(scan, at):
        setattr(found, name, scan.text[at:end])
    return end


def _texts(scan: Scan, at: int, name: str, found: OpLine) -> int:
    text = scan.text
    if _null(scan, at):
        return at + 4
    if text[at : at + 1] != b"[":
        raise scan.fault("texts", at, name)
    if scan.depth < 2:
        raise Fault("depth", at, scan.depth)
    items: list[str] = []
    at = scan.white(at + 1)
    more = text[at : at + 1] != b"]"
    while more:
        if text[at : at + 1] != b'"':
            raise scan.fault("texts", at, name)
        end = scan.string(at)
        items.append(unescape(text[at + 1 : end - 1]))
        at = scan.white(end)
        byte = text[at : at + 1]
        if byte == b",":
            at = scan.white(at + 1)
        elif byte == b"]":
            more = False
        else:
            raise scan.fault("item_end", at)
    found.allow_degraded_features = tuple(items)
    return at + 1


_READ: Final = {
    "id": _id,
    "op": _op,
    "adapter": _text,
    "session_id": _text,
    "run_id": _text,
    "after": _raw,
    "request": _raw,
    "allow_degraded_features": _texts,
}

__all__ = ["MEMBERS", "OpLine", "parse_op_line"]
