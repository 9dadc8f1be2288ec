# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""The strict request line of the stdio door, compiled. `framing/_opline.py` is the reference and holds the rules."""

cimport cython

from ..protocol.errors import REASONS, LineDefect, shown, stranger

include "text.pxi"

cdef enum Member:
    ID = 1
    OP = 2
    ADAPTER = 4
    SESSION_ID = 8
    RUN_ID = 16
    AFTER = 32
    REQUEST = 64
    FEATURES = 128

cdef dict MEMBERS = {
    "id": ID,
    "op": OP,
    "adapter": ADAPTER,
    "session_id": SESSION_ID,
    "run_id": RUN_ID,
    "after": AFTER,
    "request": REQUEST,
    "allow_degraded_features": FEATURES,
}
cdef list PRESENT = [None] * 256

# The ops of the seed scope: a line's op is one of these objects or a new string. Only a short cut, not a rule.
cdef str OPEN = "open", CLOSE = "close", STATE = "state", SUBMIT = "submit", EVENTS = "events", CANCEL = "cancel"
cdef str MODELS = "models", TOOLS = "tools", RESOLVE = "resolve", SESSIONS = "sessions", ADAPTERS = "adapters"
cdef str CAPABILITIES = "capabilities"


cdef bint names_enter(Text* t) noexcept nogil:
    return True


cdef void names_leave(Text* t) noexcept nogil:
    pass


cdef bint names_take(Text* t, Place start, Place end) noexcept nogil:
    return True


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class OpLine:
    """One well-formed request line; see the reference for what its members hold."""

    cdef readonly long long id
    cdef int seen
    cdef readonly str op
    cdef readonly str adapter
    cdef readonly str session_id
    cdef readonly str run_id
    cdef readonly bytes after
    cdef readonly bytes request
    cdef readonly tuple allow_degraded_features

    @property
    def present(self):
        """The names of the members that stand in the line."""
        if PRESENT[self.seen] is None:
            PRESENT[self.seen] = frozenset([text for text, bit in MEMBERS.items() if self.seen & bit])
        return PRESENT[self.seen]

    def __repr__(self):
        return f"OpLine(id={self.id}, op={shown(self.op)}, present={sorted(self.present)})"


def parse_op_line(bytes line not None, int depth=128):
    """Read one line without its LF; see the reference for the rules and the errors."""
    cdef Text t
    cdef Place p
    if depth < 1 or depth > DEEPEST:
        raise ValueError(f"a depth bound is from 1 to {DEEPEST}, not {depth}")
    t.start = <Place>PyBytes_AS_STRING(line)
    t.end = t.start + PyBytes_GET_SIZE(line)
    t.depth = depth
    t.line = True
    t.names = NULL
    p = white(&t, t.start)
    if p == t.end:
        raise defect(&t, refuse(&t, p, BLANK), "")
    if p[0] != 0x7B:
        if p == t.start and t.end - p >= 3 and memcmp(p, b"\xef\xbb\xbf", 3) == 0:
            raise defect(&t, refuse(&t, p, BOM), "")
        raise defect(&t, fault(&t, p, NO_OBJECT), "")
    found = <OpLine>OpLine.__new__(OpLine)
    p = white(&t, members(&t, p + 1, found))
    if p != t.end:
        raise defect(&t, fault(&t, p, TRAILING), "")
    return found


cdef object defect(Text* t, Place nothing, object detail):
    """The exception for the fault noted in `t`."""
    if t.kind == TOO_DEEP:
        detail = t.depth
    return LineDefect(REASONS[KINDS[<int>t.kind]].format(detail), t.at - t.start)


cdef Place members(Text* t, Place p, OpLine found) except NULL:
    """Read the members of the line's object up to behind its closing brace."""
    cdef int seen = 0
    cdef int bit
    cdef Place end
    p = white(t, p)
    if p == t.end or p[0] != 0x7D:
        while True:
            bit = usual(t, p, &end)
            if bit == 0 or seen & bit:
                end = name(t, p)
                if end == NULL:
                    raise defect(t, NULL, "")
                bit = known(t, p, end, seen)
            seen |= bit
            p = colon(t, end)
            if p == NULL:
                raise defect(t, NULL, "")
            p = white(t, read(t, p, bit, found))
            if p < t.end and p[0] == 0x2C:
                p = white(t, p + 1)
            elif p < t.end and p[0] == 0x7D:
                break
            else:
                raise defect(t, fault(t, p, MEMBER_END), "")
    if seen & 3 != 3:
        raise defect(t, refuse(t, p, MISSING), "'op'" if seen & 1 else "'id'")
    found.seen = seen
    return p + 1


cdef inline int usual(Text* t, Place p, Place* end) noexcept nogil:
    """The bit of a member whose name stands at `p` without escapes, and the place behind it; 0: look closer."""
    cdef int bit = 0
    cdef Py_ssize_t size = 0
    if t.end - p < 4 or p[0] != 0x22:
        return 0
    if p[3] == 0x22:
        size = 4
        bit = ID if memcmp(p + 1, b"id", 2) == 0 else OP if memcmp(p + 1, b"op", 2) == 0 else 0
    elif t.end - p < 10:
        return 0
    elif p[6] == 0x22:
        size, bit = 7, AFTER if memcmp(p + 1, b"after", 5) == 0 else 0
    elif p[7] == 0x22:
        size, bit = 8, RUN_ID if memcmp(p + 1, b"run_id", 6) == 0 else 0
    elif p[8] == 0x22:
        size = 9
        bit = REQUEST if memcmp(p + 1, b"request", 7) == 0 else ADAPTER if memcmp(p + 1, b"adapter", 7) == 0 else 0
    elif t.end - p >= 12 and p[11] == 0x22:
        size, bit = 12, SESSION_ID if memcmp(p + 1, b"session_id", 10) == 0 else 0
    elif t.end - p >= 25 and p[24] == 0x22:
        size, bit = 25, FEATURES if memcmp(p + 1, b"allow_degraded_features", 23) == 0 else 0
    end[0] = p + size
    return bit


cdef int known(Text* t, Place p, Place end, int seen) except 0:
    """The bit of the permitted, new name from quote to quote."""
    text = string(t, p, end)
    cdef int bit = MEMBERS.get(text, 0)
    if bit == 0:
        raise LineDefect(REASONS[stranger(text, MEMBERS)].format(shown(text)), p - t.start)
    if seen & bit:
        raise defect(t, refuse(t, p, TWICE), shown(text))
    return bit


cdef inline str usual_op(Text* t, Place p, Place end):
    """The op of the seed scope from quote to quote, else None."""
    cdef Py_ssize_t size = end - p - 2
    p += 1
    if size == 5:
        return STATE if memcmp(p, b"state", 5) == 0 else CLOSE if memcmp(p, b"close", 5) == 0 else TOOLS if memcmp(p, b"tools", 5) == 0 else None
    if size == 6:
        return SUBMIT if memcmp(p, b"submit", 6) == 0 else EVENTS if memcmp(p, b"events", 6) == 0 else MODELS if memcmp(p, b"models", 6) == 0 else CANCEL if memcmp(p, b"cancel", 6) == 0 else None
    if size == 4:
        return OPEN if memcmp(p, b"open", 4) == 0 else None
    if size == 7:
        return RESOLVE if memcmp(p, b"resolve", 7) == 0 else None
    if size == 8:
        return SESSIONS if memcmp(p, b"sessions", 8) == 0 else ADAPTERS if memcmp(p, b"adapters", 8) == 0 else None
    return CAPABILITIES if size == 12 and memcmp(p, b"capabilities", 12) == 0 else None


cdef Place read(Text* t, Place p, int bit, OpLine found) except NULL:
    """Read the value of one member into `found`."""
    cdef Place end
    if bit == ID:
        return read_id(t, p, found)
    if bit == FEATURES:
        return read_texts(t, p, found)
    if bit == REQUEST or bit == AFTER:
        end = skip_value(t, p, 1)
        if end == NULL:
            raise defect(t, NULL, "")
        if is_null(t, p):
            return end
        raw = PyBytes_FromStringAndSize(<const char*>p, end - p)
        if bit == REQUEST:
            found.request = raw
        else:
            found.after = raw
        return end
    if p == t.end or p[0] != 0x22:
        if bit != OP and is_null(t, p):
            return p + 4
        raise defect(t, fault(t, p, NONEMPTY if bit == OP else TEXT_OR_NULL), name_of(bit))
    if bit == OP and p + 1 < t.end and p[1] == 0x22:
        raise defect(t, refuse(t, p, NONEMPTY), "op")
    end = skip_string(t, p)
    if end == NULL:
        raise defect(t, NULL, "")
    if bit == OP:
        found.op = usual_op(t, p, end)
        if found.op is None:
            found.op = string(t, p, end)
        return end
    text = string(t, p, end)
    if bit == SESSION_ID:
        found.session_id = text
    elif bit == ADAPTER:
        found.adapter = text
    else:
        found.run_id = text
    return end


cdef str name_of(int bit):
    return next(name for name, one in MEMBERS.items() if one == bit)


cdef Place read_id(Text* t, Place p, OpLine found) except NULL:
    cdef Place end = skip_number(t, p)
    if end == NULL or not int64(t, p, end, &found.id):
        raise defect(t, fault(t, p, INT64), "id")
    return end


cdef Place read_texts(Text* t, Place p, OpLine found) except NULL:
    cdef Place end
    cdef list items = []
    if is_null(t, p):
        return p + 4
    if p == t.end or p[0] != 0x5B:
        raise defect(t, fault(t, p, TEXTS), "allow_degraded_features")
    if t.depth < 2:
        raise defect(t, refuse(t, p, TOO_DEEP), "")
    p = white(t, p + 1)
    if p == t.end or p[0] != 0x5D:
        while True:
            if p == t.end or p[0] != 0x22:
                raise defect(t, fault(t, p, TEXTS), "allow_degraded_features")
            end = skip_string(t, p)
            if end == NULL:
                raise defect(t, NULL, "")
            items.append(string(t, p, end))
            p = white(t, end)
            if p < t.end and p[0] == 0x2C:
                p = white(t, p + 1)
            elif p < t.end and p[0] == 0x5D:
                break
            else:
                raise defect(t, fault(t, p, ITEM_END), "")
    found.allow_degraded_features = tuple(items)
    return p + 1
