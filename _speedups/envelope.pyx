# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""The text and the header of one envelope, compiled. `framing/_envelope.py` is the reference and holds the rules."""

cimport cython

from ..protocol.errors import REASONS, EnvelopeDefect, shown

include "text.pxi"
include "names.pxi"

cdef enum Member:
    PROTOCOL, VERSION, PROFILE, TYPE, ID, PAYLOAD, SESSION_ID, RUN_ID, TURN_ID, TOOL_CALL_ID, IN_REPLY_TO,
    CAPABILITY_REVISION, SEQUENCE, TIMESTAMP_MS, EXTENSIONS, MEMBER_COUNT

cdef tuple NAMES = (
    "protocol", "version", "profile", "type", "id", "payload", "session_id", "run_id", "turn_id", "tool_call_id",
    "in_reply_to", "capability_revision", "sequence", "timestamp_ms", "extensions",
)
cdef dict MEMBERS = {text: number for number, text in enumerate(NAMES)}
# The fixed values are those of protocol/names.py; the twins' tests would tell a difference.
cdef tuple FIXED = ("open-agent-protocol", "0.1", "open-agent-protocol.agent-control-core")
cdef enum:
    REQUIRED = 6  # the members from protocol to payload


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class EnvelopeHead:
    """The header of one envelope whose text is sound; see the reference for what its members hold."""

    cdef readonly str type
    cdef readonly str id
    cdef readonly str session_id
    cdef readonly str run_id
    cdef readonly str turn_id
    cdef readonly str tool_call_id
    cdef readonly str in_reply_to
    cdef readonly str capability_revision
    cdef readonly object sequence
    cdef readonly object timestamp_ms
    cdef readonly bytes payload
    cdef readonly Py_ssize_t payload_start
    cdef readonly bytes extensions

    def __repr__(self):
        return f"EnvelopeHead(type={shown(self.type)}, id={shown(self.id)}, payload_start={self.payload_start})"


cdef struct Invalid:
    # the first fault of the header; SOUND while there is none
    Kind kind
    Place at
    int member


def scan_envelope(bytes text not None, int depth=127):
    """Read one envelope's text; see the reference for the rules and the errors."""
    cdef Text t
    cdef Names names
    cdef Invalid invalid
    if depth < 1 or depth > DEEPEST:
        raise ValueError(f"a depth bound is from 1 to {DEEPEST}, not {depth}")
    t.start = <Place>PyBytes_AS_STRING(text)
    t.end = t.start + PyBytes_GET_SIZE(text)
    t.depth = depth
    t.line = False
    t.kind = SOUND
    t.names = &names
    if not names_open(&names, depth):
        raise MemoryError
    set_invalid(&invalid, SOUND, t.start, 0)
    head = <EnvelopeHead>EnvelopeHead.__new__(EnvelopeHead)
    try:
        if not read(&t, head, &invalid):
            raise malformed(&t)
    finally:
        names_close(&names)
    if invalid.kind != SOUND:
        detail = NAMES[invalid.member] if invalid.kind != MISSING else repr(NAMES[invalid.member])
        raise EnvelopeDefect("schema_invalid", REASONS[KINDS[<int>invalid.kind]].format(detail), invalid.at - t.start)
    return head


cdef object malformed(Text* t):
    """The exception for the fault noted in `t`."""
    cdef Place end
    detail = ""
    if t.kind == NO_MEMORY:
        return MemoryError()
    if t.kind == TOO_DEEP:
        detail = t.depth
    elif t.kind == TWICE:
        end = skip_string(t, t.at)
        detail = shown(string(t, t.at, end))
    return EnvelopeDefect("malformed_json", REASONS[KINDS[<int>t.kind]].format(detail), t.at - t.start)


cdef bint read(Text* t, EnvelopeHead head, Invalid* invalid) except -1:
    """Read the whole text. False: a fault of the text is noted in `t`."""
    cdef Place p = white(t, t.start)
    if t.end - t.start >= 3 and memcmp(t.start, b"\xef\xbb\xbf", 3) == 0:
        refuse(t, t.start, BOM)
        return False
    if p < t.end and p[0] == 0x7B:
        p = members(t, p + 1, head, invalid)
    else:
        set_invalid(invalid, ENVELOPE, p, 0)
        p = skip_value(t, p, 0)
    if p == NULL:
        return False
    p = white(t, p)
    if p != t.end:
        fault(t, p, TRAILING)
        return False
    return True


cdef Place members(Text* t, Place p, EnvelopeHead head, Invalid* invalid) except? NULL:
    """Read the members of the envelope's object up to behind its closing brace; NULL: a fault is noted in `t`."""
    cdef int seen = 0
    cdef int number
    cdef Place end
    names_enter(t)
    p = white(t, p)
    if p == t.end or p[0] != 0x7D:
        while True:
            end = name(t, p)
            if end == NULL or not names_take(t, p, end):
                return NULL
            number = known(t, p, end)
            p = colon(t, end)
            if p == NULL:
                return NULL
            end = skip_value(t, p, 1)
            if end == NULL:
                return NULL
            if number >= 0:
                seen |= 1 << number
                if invalid.kind == SOUND:
                    keep(t, p, end, number, head, invalid)
            p = white(t, end)
            if p < t.end and p[0] == 0x2C:
                p = white(t, p + 1)
            elif p < t.end and p[0] == 0x7D:
                break
            else:
                return fault(t, p, MEMBER_END)
    names_leave(t)
    if invalid.kind == SOUND:
        for number in range(REQUIRED):
            if not seen & 1 << number:
                set_invalid(invalid, MISSING, p, number)
                break
    return p + 1


cdef void set_invalid(Invalid* invalid, Kind kind, Place at, int member) noexcept nogil:
    invalid.kind = kind
    invalid.at = at
    invalid.member = member


cdef int plain_member(Place p, Py_ssize_t size) noexcept nogil:
    """The number of a name without escapes, -1 where it is not of the header."""
    if size == 2:
        return ID if memcmp(p, b"id", 2) == 0 else -1
    if size == 4:
        return TYPE if memcmp(p, b"type", 4) == 0 else -1
    if size == 6:
        return RUN_ID if memcmp(p, b"run_id", 6) == 0 else -1
    if size == 7:
        if memcmp(p, b"payload", 7) == 0:
            return PAYLOAD
        return VERSION if memcmp(p, b"version", 7) == 0 else PROFILE if memcmp(p, b"profile", 7) == 0 else TURN_ID if memcmp(p, b"turn_id", 7) == 0 else -1
    if size == 8:
        return PROTOCOL if memcmp(p, b"protocol", 8) == 0 else SEQUENCE if memcmp(p, b"sequence", 8) == 0 else -1
    if size == 10:
        return SESSION_ID if memcmp(p, b"session_id", 10) == 0 else EXTENSIONS if memcmp(p, b"extensions", 10) == 0 else -1
    if size == 11:
        return IN_REPLY_TO if memcmp(p, b"in_reply_to", 11) == 0 else -1
    if size == 12:
        return TOOL_CALL_ID if memcmp(p, b"tool_call_id", 12) == 0 else TIMESTAMP_MS if memcmp(p, b"timestamp_ms", 12) == 0 else -1
    return CAPABILITY_REVISION if size == 19 and memcmp(p, b"capability_revision", 19) == 0 else -1


cdef int known(Text* t, Place p, Place end) except -2:
    """The number of the header member whose name stands from quote to quote and was read last, else -1."""
    if not t.escaped:
        return plain_member(p + 1, end - p - 2)
    return MEMBERS.get(string(t, p, end), -1)


cdef int keep(Text* t, Place p, Place end, int number, EnvelopeHead head, Invalid* invalid) except -1:
    """Put the value of a header member into the head, or note that it is not what the rules say."""
    cdef long long value = 0
    if number == PAYLOAD or number == EXTENSIONS:
        if p[0] != 0x7B:
            set_invalid(invalid, IS_OBJECT, p, number)
        elif number == PAYLOAD:
            head.payload = PyBytes_FromStringAndSize(<const char*>p, end - p)
            head.payload_start = p - t.start
        else:
            head.extensions = PyBytes_FromStringAndSize(<const char*>p, end - p)
    elif number == SEQUENCE:
        if not int64(t, p, end, &value) or value < 1:
            set_invalid(invalid, POSITIVE, p, number)
        else:
            head.sequence = value
    elif number == TIMESTAMP_MS:
        if not int64(t, p, end, &value):
            set_invalid(invalid, INT64, p, number)
        else:
            head.timestamp_ms = value
    elif p[0] != 0x22 or end - p == 2:
        set_invalid(invalid, CONST if number <= PROFILE else NONEMPTY, p, number)
    elif number <= PROFILE:
        if string(t, p, end) != FIXED[number]:
            set_invalid(invalid, CONST, p, number)
    else:
        keep_text(string(t, p, end), number, head)
    return 0


cdef void keep_text(str text, int number, EnvelopeHead head) noexcept:
    if number == TYPE:
        head.type = text
    elif number == ID:
        head.id = text
    elif number == SESSION_ID:
        head.session_id = text
    elif number == RUN_ID:
        head.run_id = text
    elif number == TURN_ID:
        head.turn_id = text
    elif number == TOOL_CALL_ID:
        head.tool_call_id = text
    elif number == IN_REPLY_TO:
        head.in_reply_to = text
    else:
        head.capability_revision = text
