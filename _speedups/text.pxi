# Strict JSON text, read in place: the compiled counterpart of framing/_scan.py, included by opline.pyx and envelope.pyx.
# Every function takes a pointer into the text and returns the pointer behind what it read, or NULL with the fault noted.
# Faults come in the order of the reference, the first in reading order, to the byte.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

cdef enum:
    DEEPEST = 1024

cdef enum Kind:
    SOUND, ENDS, NAME, COLON, VALUE, MEMBER_END, ITEM_END, TRAILING, CONTROL, ESCAPE, SURROGATE, UTF8, BOM, TOO_DEEP,
    TWICE, BLANK, NO_OBJECT, CR_END, CR_INSIDE, LF_INSIDE, INT64, POSITIVE, NONEMPTY, TEXT_OR_NULL, TEXTS, CONST,
    IS_OBJECT, ENVELOPE, MISSING, STRANGER, NO_MEMORY

cdef tuple KINDS = (
    "", "ends", "name", "colon", "value", "member_end", "item_end", "trailing", "control", "escape", "surrogate", "utf8",
    "bom", "depth", "twice", "blank", "object", "cr_end", "cr", "lf", "int64", "positive", "nonempty", "text", "texts",
    "const", "is_object", "envelope", "missing", "", "",
)

cdef struct Text:
    const unsigned char* start
    const unsigned char* end
    int depth
    bint line  # LF and CR are faults, not white space
    bint escaped  # the string read last holds an escape
    bint wide  # the string read last holds a byte beyond ASCII
    Kind kind
    const unsigned char* at
    void* names  # the open objects' names, NULL where a repeat is of no concern


ctypedef const unsigned char* Place

include "strings.pxi"

# The includer defines names_enter, names_leave and names_take; opline.pyx, to which repeats are of no concern, as no-ops.

cdef Place refuse(Text* t, Place at, Kind kind) noexcept nogil:
    """Note a fault as it is and return NULL."""
    t.kind = kind
    t.at = at
    return NULL


cdef Place fault(Text* t, Place at, Kind kind) noexcept nogil:
    """Note that `at` does not hold what `kind` asks for; some bytes have a reason of their own."""
    if at == t.end:
        kind = ENDS
    elif t.line and at[0] == 0x0D:
        kind = CR_END if at == t.end - 1 else CR_INSIDE
    elif t.line and at[0] == 0x0A:
        kind = LF_INSIDE
    return refuse(t, at, kind)


cdef inline Place white(Text* t, Place p) noexcept nogil:
    while p < t.end and p[0] <= 0x20:
        if p[0] == 0x20 or p[0] == 0x09 or (not t.line and (p[0] == 0x0A or p[0] == 0x0D)):
            p += 1
        else:
            break
    return p


cdef inline Place digits(Place p, Place end) noexcept nogil:
    while p < end and p[0] >= 0x30 and p[0] <= 0x39:
        p += 1
    return p


cdef Place skip_number(Text* t, Place p) noexcept nogil:
    """Read the longest number at `p`; what is left of a malformed one is for the caller to refuse."""
    cdef Place start = p
    cdef Place q
    if p < t.end and p[0] == 0x2D:
        p += 1
    if p == t.end or p[0] < 0x30 or p[0] > 0x39:
        return fault(t, start, VALUE)
    p = p + 1 if p[0] == 0x30 else digits(p, t.end)
    if p < t.end and p[0] == 0x2E:
        q = digits(p + 1, t.end)
        if q == p + 1:
            return p
        p = q
    if p < t.end and p[0] | 0x20 == 0x65:
        q = p + 1
        if q < t.end and (p[1] == 0x2B or p[1] == 0x2D):
            q += 1
        if digits(q, t.end) != q:
            p = digits(q, t.end)
    return p


cdef inline Place word(Text* t, Place p, const char* literal, Py_ssize_t length) noexcept nogil:
    if t.end - p >= length and memcmp(p, literal, length) == 0:
        return p + length
    return fault(t, p, VALUE)


cdef inline bint is_null(Text* t, Place p) noexcept nogil:
    return t.end - p >= 4 and memcmp(p, b"null", 4) == 0


cdef inline Place colon(Text* t, Place p) noexcept nogil:
    p = white(t, p)
    if p == t.end or p[0] != 0x3A:
        return fault(t, p, COLON)
    return white(t, p + 1)


cdef inline Place name(Text* t, Place p) noexcept nogil:
    if p == t.end or p[0] != 0x22:
        return fault(t, p, NAME)
    return skip_string(t, p)


cdef inline Place member(Text* t, Place p) noexcept nogil:
    """Read a member's name and colon up to where its value starts."""
    cdef Place end = name(t, p)
    if end == NULL or (t.names != NULL and not names_take(t, p, end)):
        return NULL
    return colon(t, end)


cdef Place skip_scalar(Text* t, Place p) noexcept nogil:
    if p[0] == 0x22:
        return skip_string(t, p)
    if p[0] == 0x74:
        return word(t, p, b"true", 4)
    if p[0] == 0x66:
        return word(t, p, b"false", 5)
    if p[0] == 0x6E:
        return word(t, p, b"null", 4)
    return skip_number(t, p)


cdef Place skip_value(Text* t, Place p, int level) noexcept nogil:
    """Read any value at `p`, which stands inside `level` arrays and objects."""
    cdef unsigned char stack[DEEPEST]
    cdef int top = 0
    cdef unsigned char c
    while True:
        if p == t.end:
            return refuse(t, p, ENDS)
        c = p[0]
        if c == 0x7B or c == 0x5B:
            if level + top >= t.depth:
                return refuse(t, p, TOO_DEEP)
            p = white(t, p + 1)
            if p < t.end and p[0] == c + 2:
                p += 1
            else:
                stack[top] = c
                top += 1
                if c == 0x7B:
                    if t.names != NULL and not names_enter(t):
                        return NULL
                    p = member(t, p)
                    if p == NULL:
                        return NULL
                continue
        else:
            p = skip_scalar(t, p)
            if p == NULL:
                return NULL
        while True:
            if top == 0:
                return p
            p = white(t, p)
            c = stack[top - 1]
            if p < t.end and p[0] == 0x2C:
                p = white(t, p + 1)
                if c == 0x7B:
                    p = member(t, p)
                    if p == NULL:
                        return NULL
                break
            if p == t.end or p[0] != c + 2:
                return fault(t, p, MEMBER_END if c == 0x7B else ITEM_END)
            if c == 0x7B and t.names != NULL:
                names_leave(t)
            top -= 1
            p += 1


cdef bint int64(Text* t, Place p, Place end, long long* value) noexcept nogil:
    """Whether the number from `p` to `end` is written as an integer and within 64 bits."""
    cdef unsigned long long size = 0
    cdef bint minus = p[0] == 0x2D
    if minus:
        p += 1
    if end - p > 19:
        return False
    while p < end:
        if p[0] < 0x30 or p[0] > 0x39:
            return False
        size = size * 10 + (p[0] - 0x30)
        p += 1
    if size > (<unsigned long long>1 << 63) - (not minus):
        return False
    value[0] = <long long>(0 - size) if minus else <long long>size
    return True
