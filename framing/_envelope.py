"""The text and the header of one envelope, reference implementation: one pass, repeated names refused at every depth.

Rules: spec envelopes 2 and stdio 4.4. `_speedups/envelope.pyx` is the compiled twin with the same heads and defects.
"""

from __future__ import annotations

from ..protocol.errors import EnvelopeDefect, shown
from ..protocol.names import MALFORMED_JSON, PROFILE, PROTOCOL, SCHEMA_INVALID, VERSION
from ._scan import Fault, Scan, check_depth, int64, unescape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_RULES: Final = {
    "protocol": "const",
    "version": "const",
    "profile": "const",
    "type": "nonempty",
    "id": "nonempty",
    "payload": "is_object",
    "session_id": "nonempty",
    "run_id": "nonempty",
    "turn_id": "nonempty",
    "tool_call_id": "nonempty",
    "in_reply_to": "nonempty",
    "capability_revision": "nonempty",
    "sequence": "positive",
    "timestamp_ms": "int64",
    "extensions": "is_object",
}
"""What each known header member must be: a kind of `REASONS` (spec: envelopes 2)."""

_FIXED: Final = {"protocol": PROTOCOL, "version": VERSION, "profile": PROFILE}
_REQUIRED: Final = ("protocol", "version", "profile", "type", "id", "payload")


class EnvelopeHead:
    """The header of one envelope whose text is sound; None stands for an absent optional member.

    `payload` and `extensions` are the raw bytes of the object. `payload_start` is the byte of the text at which the
    payload begins.
    """

    __slots__ = (
        "capability_revision",
        "extensions",
        "id",
        "in_reply_to",
        "payload",
        "payload_start",
        "run_id",
        "sequence",
        "session_id",
        "timestamp_ms",
        "tool_call_id",
        "turn_id",
        "type",
    )

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
    payload_start: int
    extensions: bytes | None

    def __init__(self) -> None:
        self.session_id = self.run_id = self.turn_id = self.tool_call_id = None
        self.in_reply_to = self.capability_revision = self.sequence = self.timestamp_ms = self.extensions = None

    def __repr__(self) -> str:
        return f"EnvelopeHead(type={shown(self.type)}, id={shown(self.id)}, payload_start={self.payload_start})"


def scan_envelope(text: bytes, depth: int = 127) -> EnvelopeHead:
    """Read one envelope's text. `depth` bounds nesting, counted from the envelope's own object.

    Raises `EnvelopeDefect` with the code `malformed_json` for the first fault of the text (not JSON, not UTF-8, a name
    twice in one object, too deep), or, only where the whole text is sound, with `schema_invalid` for the first fault of
    the header. Raises `TypeError` where `text` is not bytes, `ValueError` where `depth` is not from 1 to 1024.
    """
    if type(text) is not bytes:
        raise TypeError(f"an envelope's text is bytes, not {type(text).__name__}")
    check_depth(depth)
    try:
        head, invalid = _read(_Scan(text, depth, line=False))
    except Fault as fault:
        raise EnvelopeDefect(MALFORMED_JSON, fault.reason, fault.at) from None
    if invalid is not None:
        raise EnvelopeDefect(SCHEMA_INVALID, invalid.reason, invalid.at)
    return head


class _Scan(Scan):
    """A scan that refuses a name given twice in one object, after escapes. One set an open object, on a stack."""

    __slots__ = ("names",)

    def __init__(self, text: bytes, depth: int, *, line: bool) -> None:
        super().__init__(text, depth, line=line)
        self.names: list[set[bytes]] = []

    def enter(self) -> None:
        self.names.append(set())

    def leave(self) -> None:
        if self.names:
            self.names.pop()

    def members(self, at: int) -> int:
        found = self.pattern.members.match(self.text, at)
        end = found.end() if found else at
        if end > at:
            self._run(at, end)
        at = self.white(end)
        end = self.name(at)
        self._take(self.text[at:end], at)
        return self.colon(end)

    def _run(self, at: int, end: int) -> None:
        """Take the names of a run of members at one blow, or step by step where one needs a closer look."""
        if self.plain_run(at, end) is not None:
            return
        for member in self.pattern.member.finditer(self.text, at, end):
            if self.bad < member.end(1):
                raise Fault("utf8", self.bad)
            self._take(member[1], member.start(1))
            if self.bad < member.end():
                raise Fault("utf8", self.bad)

    def plain_run(self, at: int, end: int) -> list[tuple[bytes, bytes]] | None:
        """Take the names of a run of members if none is escaped, repeated or not UTF-8; return names and values."""
        members: list[tuple[bytes, bytes]] = self.pattern.member.findall(self.text, at, end)
        names = [name for name, _ in members]
        whole = self.names[-1].union(names)
        if len(whole) != len(self.names[-1]) + len(names) or b"\\" in b"".join(names) or at < self.bad < end:
            return None
        self.names[-1] = whole
        return members

    def _take(self, quoted: bytes, at: int) -> None:
        if b"\\" in quoted:
            quoted = b'"' + unescape(quoted[1:-1]).encode() + b'"'
        seen = self.names[-1]
        if quoted in seen:
            raise Fault("twice", at, shown(quoted[1:-1].decode()))
        seen.add(quoted)


def _read(scan: _Scan) -> tuple[EnvelopeHead, Fault | None]:
    text, size = scan.text, scan.size
    start = scan.white(0)
    if text.startswith(b"\xef\xbb\xbf"):
        raise Fault("bom", 0)
    head = EnvelopeHead()
    if text[start : start + 1] == b"{":
        at, invalid = _members(scan, start + 1, head)
    else:
        at, invalid = scan.value(start, 0), Fault("envelope", start)
    at = scan.white(at)
    if at != size:
        raise scan.fault("trailing", at)
    return head, invalid


def _members(scan: _Scan, at: int, head: EnvelopeHead) -> tuple[int, Fault | None]:
    text = scan.text
    invalid: Fault | None = None
    known: set[str] = set()
    scan.enter()
    start = scan.white(at)
    at = _usual(scan, start, head, known)
    more = at > start or text[at : at + 1] != b"}"
    while more:
        end = scan.name(at)
        scan._take(text[at:end], at)
        name = unescape(text[at + 1 : end - 1])
        at = scan.colon(end)
        end = scan.value(at, 1)
        if name in _RULES:
            known.add(name)
            if invalid is None and not _keep(head, name, text[at:end], at):
                invalid = Fault(_RULES[name], at, name)
        at = scan.white(end)
        byte = text[at : at + 1]
        if byte == b",":
            at = scan.white(at + 1)
        elif byte == b"}":
            more = False
        else:
            raise scan.fault("member_end", at)
    scan.leave()
    if invalid is None:
        invalid = next((Fault("missing", at, repr(name)) for name in _REQUIRED if name not in known), None)
    return at + 1, invalid


def _usual(scan: _Scan, at: int, head: EnvelopeHead, known: set[str]) -> int:
    """Take the header's first members in one run where nothing is wrong with them; return where to go on in steps."""
    found = scan.pattern.members.match(scan.text, at)
    end = found.end() if found else at
    if end == at:
        return at
    before = scan.names[-1]
    members = scan.plain_run(at, end)
    if members is None:
        return at
    taken = {name[1:-1].decode(): raw for name, raw in members}
    if not all(name not in _RULES or _keep(head, name, raw, at) for name, raw in taken.items()):
        scan.names[-1] = before  # the steps find it again, and where it is
        return at
    known |= taken.keys() & _RULES.keys()
    return scan.white(end)


def _keep(head: EnvelopeHead, name: str, raw: bytes, at: int) -> bool:
    """Put the value of a known member into the head; False where it is not what its rule says."""
    rule = _RULES[name]
    if rule == "is_object":
        if raw[0] != 0x7B:
            return False
        setattr(head, name, raw)
        if name == "payload":
            head.payload_start = at
        return True
    if rule in {"int64", "positive"}:
        number = int64(raw)
        if number is None or (rule == "positive" and number < 1):
            return False
        setattr(head, name, number)
        return True
    if raw[0] != 0x22 or raw == b'""':
        return False
    value = unescape(raw[1:-1])
    if rule == "const":
        return value == _FIXED[name]
    setattr(head, name, value)
    return True
