# Strings of JSON: where one ends, whether it is sound, and what it stands for. Included by text.pxi.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

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
