# Strict JSON text, read in place: the compiled counterpart of framing/_scan.py, included by opline.pyx and envelope.pyx.
# Every function takes a pointer into the text and returns the pointer behind what it read, or NULL with the fault noted.
# Faults come in the order of the reference, the first in reading order, to the byte.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__SSE2__) || defined(_M_X64)
      #include <emmintrin.h>
      #define TRUNKLINE_SSE2 1
      #if defined(_MSC_VER)
        #include <intrin.h>
      #endif
    #endif

    /* 1 for the bytes that may stand in a string as they are and need no look: ASCII but quote, backslash, controls. */
    static const unsigned char trunkline_plain[256] = {
        0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
        1,1,0,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
        1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,0,1,1,1,
        1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
    };

    static inline int trunkline_first(unsigned mask) {
    #if defined(_MSC_VER)
        unsigned long first;
        _BitScanForward(&first, mask);
        return (int)first;
    #else
        return __builtin_ctz(mask);
    #endif
    }

    /* The first byte from p that is not plain, or end; start is the first byte that may be read. */
    static inline const unsigned char *plain_run(const unsigned char *start, const unsigned char *p,
                                                 const unsigned char *end) {
    #if defined(TRUNKLINE_SSE2)
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\\\'), space = _mm_set1_epi8(0x20);
        /* signed: below 0x20 are the controls and all bytes from 0x80 */
        #define TRUNKLINE_MASK(v) (unsigned)_mm_movemask_epi8(_mm_or_si128( \\
            _mm_cmplt_epi8(v, space), _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash))))
        while (end - p >= 16) {
            const __m128i v = _mm_loadu_si128((const __m128i *)p);
            const unsigned mask = TRUNKLINE_MASK(v);
            if (mask) return p + trunkline_first(mask);
            p += 16;
        }
        if (end - start >= 16) {  /* the rest is seen through the last whole block */
            const __m128i v = _mm_loadu_si128((const __m128i *)(end - 16));
            const unsigned mask = TRUNKLINE_MASK(v) >> (16 - (end - p));
            return mask ? p + trunkline_first(mask) : end;
        }
    #else
        const uint64_t ones = 0x0101010101010101ULL, tops = 0x8080808080808080ULL;
        while (end - p >= 8) {
            uint64_t w, q, s;
            memcpy(&w, p, 8);
            q = w ^ (ones * '"');
            s = w ^ (ones * '\\\\');
            /* the lowest set top bit may be preceded by no other, so a word without one is plain in whole */
            if ((((w - ones * 0x20) & ~w) | w | ((q - ones) & ~q) | ((s - ones) & ~s)) & tops) break;
            p += 8;
        }
    #endif
        (void)start;
        while (p < end && trunkline_plain[*p]) p++;
        return p;
    }
    """
    const unsigned char* plain_run(const unsigned char* start, const unsigned char* p, const unsigned char* end) noexcept nogil
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text) noexcept

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
    """Read the escape at `p`; both halves of a pair."""
    cdef int code
    if p + 1 < t.end:
        if p[1] in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
            return p + 2
        code = unit(p, t.end)
        if code >= 0 and (code < 0xD800 or code > 0xDFFF):
            return p + 6
        if code >= 0xD800 and code < 0xDC00 and p + 6 < t.end and p[6] == 0x5C:
            if 0xDC00 <= unit(p + 6, t.end) <= 0xDFFF:
                return p + 12
        if code >= 0:
            return refuse(t, p, SURROGATE)
    return refuse(t, p, ESCAPE)


cdef inline int sequence(Place p, Place end) noexcept nogil:
    """The length of the UTF-8 sequence at `p`, a byte from 0x80; 0 where it is none."""
    cdef unsigned char c = p[0]
    cdef Py_ssize_t left = end - p
    if c < 0xC2 or left < 2:
        return 0
    if c < 0xE0:
        return 2 if p[1] & 0xC0 == 0x80 else 0
    if left < 3 or p[1] & 0xC0 != 0x80 or p[2] & 0xC0 != 0x80:
        return 0
    if c < 0xF0:
        return 0 if (c == 0xE0 and p[1] < 0xA0) or (c == 0xED and p[1] > 0x9F) else 3
    if left < 4 or p[3] & 0xC0 != 0x80 or c > 0xF4:
        return 0
    return 0 if (c == 0xF0 and p[1] < 0x90) or (c == 0xF4 and p[1] > 0x8F) else 4


cdef Place skip_string(Text* t, Place p) noexcept nogil:
    """Read the string whose opening quote is at `p`."""
    cdef int length
    t.escaped = t.wide = False
    p += 1
    while True:
        p = plain_run(t.start, p, t.end)
        if p == t.end:
            return refuse(t, p, ENDS)
        if p[0] == 0x22:
            return p + 1
        if p[0] == 0x5C:
            t.escaped = True
            p = skip_escape(t, p)
            if p == NULL:
                return NULL
        elif p[0] < 0x20:
            return fault(t, p, CONTROL)
        else:
            t.wide = True
            while p < t.end and p[0] >= 0x80:
                length = sequence(p, t.end)
                if length == 0:
                    return refuse(t, p, UTF8)
                p += length


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
