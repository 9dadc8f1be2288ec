# Strings of JSON: where one ends, whether it is sound, and what it stands for. Included by text.pxi.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

include "bytes.pxi"

cdef extern from *:
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text) noexcept


cdef inline int hex_digit(unsigned char c) noexcept nogil:
    if c >= 0x30 and c <= 0x39:
        return c - 0x30
    c |= 0x20
    if c >= 0x61 and c <= 0x66:
        return c - 0x57
    return -1


cdef inline int unit(Place p, Place end) noexcept nogil:
    """The UTF-16 unit of the escape at `p`, which begins with a backslash; -1 where it is no such escape."""
    cdef int a, b, c, d
    if end - p < 6 or p[1] != 0x75:
        return -1
    a = hex_digit(p[2])
    b = hex_digit(p[3])
    c = hex_digit(p[4])
    d = hex_digit(p[5])
    if (a | b | c | d) < 0:
        return -1
    return a << 12 | b << 8 | c << 4 | d


cdef Place skip_escape(Text* t, Place p) noexcept nogil:
    """Read the escape at `p`, which is none of the simple ones; both halves of a pair."""
    cdef int code = unit(p, t.end)
    if code < 0:
        return refuse(t, p, ESCAPE)
    if code < 0xD800 or code > 0xDFFF:
        return p + 6
    if code < 0xDC00 and p + 6 < t.end and p[6] == 0x5C and 0xDC00 <= unit(p + 6, t.end) <= 0xDFFF:
        return p + 12
    return refuse(t, p, SURROGATE)


cdef Place skip_string(Text* t, Place p) noexcept nogil:
    """Read the string whose opening quote is at `p`. UTF-8 is judged at its end, but told first if it comes first."""
    cdef Place start = p + 1
    cdef Place stop
    cdef Place next
    cdef Place bad
    cdef int flags = 0
    p = start
    while True:
        stop = string_run(t.start, p, t.end, &flags)
        if stop == t.end:
            next = refuse(t, stop, ENDS)
        elif stop[0] == 0x22:
            next = stop + 1
        elif stop[0] == 0x5C:
            flags |= FLAG_ESCAPED
            p = skip_escape(t, stop)
            if p != NULL:
                continue
            next = NULL
        else:
            next = fault(t, stop, CONTROL)
        t.escaped = flags & FLAG_ESCAPED != 0
        t.wide = flags & FLAG_WIDE != 0
        if t.wide:
            bad = utf8_bad(start, stop)
            if bad != NULL:
                return refuse(t, bad, UTF8)
        return next


cdef Py_ssize_t unescape(Place p, Place end, unsigned char* to) noexcept nogil:
    """Write what a sound string's inside stands for as UTF-8, never longer than it was; return the length."""
    cdef unsigned char* start = to
    cdef int code
    cdef unsigned char c
    while p < end:
        c = p[0]
        if c != 0x5C:
            to[0] = c
            to += 1
            p += 1
            continue
        c = p[1]
        if c != 0x75:
            to[0] = (
                0x08 if c == 0x62 else 0x0C if c == 0x66 else 0x0A if c == 0x6E else 0x0D if c == 0x72
                else 0x09 if c == 0x74 else c
            )
            to += 1
            p += 2
            continue
        code = unit(p, end)
        p += 6
        if code < 0x80:
            to[0] = code
            to += 1
        elif code < 0x800:
            to[0] = 0xC0 | code >> 6
            to[1] = 0x80 | code & 0x3F
            to += 2
        elif code < 0xD800 or code > 0xDFFF:
            to[0] = 0xE0 | code >> 12
            to[1] = 0x80 | code >> 6 & 0x3F
            to[2] = 0x80 | code & 0x3F
            to += 3
        else:
            code = 0x10000 + ((code - 0xD800) << 10) + (unit(p, end) - 0xDC00)
            p += 6
            to[0] = 0xF0 | code >> 18
            to[1] = 0x80 | code >> 12 & 0x3F
            to[2] = 0x80 | code >> 6 & 0x3F
            to[3] = 0x80 | code & 0x3F
            to += 4
    return to - start


cdef str string(Text* t, Place p, Place end):
    """What the string from quote to quote stands for; only for the string that was read last, whose flags stand."""
    cdef Py_ssize_t size = end - p - 2
    cdef str text
    cdef unsigned char* plain
    p += 1
    if t.escaped:
        plain = <unsigned char*>malloc(size)
        if plain == NULL:
            raise MemoryError
        try:
            return PyUnicode_DecodeUTF8(<char*>plain, unescape(p, p + size, plain), NULL)
        finally:
            free(plain)
    if t.wide:
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    if size == 0:
        return ""
    text = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(text), p, size)
    return text
