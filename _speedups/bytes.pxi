# The two loops over a string's bytes, in C for the vector instructions: where it ends, and whether it is UTF-8.
# Each has a plain form that does the same on any machine. Included by strings.pxi.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* TRUNKLINE_NO_VECTORS: build the plain forms, to judge them on a machine that has vectors */
    #if (defined(__SSE2__) || defined(_M_X64)) && !defined(TRUNKLINE_NO_VECTORS)
      #define TRUNKLINE_SSE2 1
      #include <emmintrin.h>
    #endif
    #if defined(TRUNKLINE_SSE2) && (defined(__GNUC__) || defined(__clang__))
      #define TRUNKLINE_SSSE3 1  /* compiled in any case, used where the processor has it */
      #include <tmmintrin.h>
    #endif
    #if defined(_MSC_VER)
      #include <intrin.h>
    #endif

    enum { TRUNKLINE_ESCAPED = 1, TRUNKLINE_WIDE = 2 };

    /* What may follow a backslash, but u. */
    static inline int trunkline_simple(unsigned char c) {
        return c == '"' || c == '\\\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't';
    }

    #if defined(TRUNKLINE_SSE2)
    static inline unsigned trunkline_first(unsigned mask) {
    #if defined(_MSC_VER)
        unsigned long first;
        _BitScanForward(&first, mask);
        return (unsigned)first;
    #else
        return (unsigned)__builtin_ctz(mask);
    #endif
    }
    #endif

    /* From p inside a string to its closing quote, a raw control, an escape that needs a closer look, or end.
       Adds to flags whether simple escapes and bytes beyond ASCII were passed. No byte before start is read. */
    static const unsigned char *string_run(const unsigned char *start, const unsigned char *p,
                                           const unsigned char *end, int *flags) {
    #if defined(TRUNKLINE_SSE2)
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\\\'), control = _mm_set1_epi8(0x1f);
        while (p < end) {
            const unsigned char *base = p;
            unsigned shift = 0, hit, high;
            __m128i v;
            if (end - p < 16) {  /* the rest is seen through the last whole block */
                if (end - start < 16) break;
                base = end - 16;
                shift = (unsigned)(p - base);
            }
            v = _mm_loadu_si128((const __m128i *)base);
            hit = (unsigned)_mm_movemask_epi8(
                _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(v, control), v),
                             _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)))) >> shift << shift;
            high = (unsigned)_mm_movemask_epi8(v) >> shift << shift;
            p = base + 16;
            while (hit) {
                const unsigned i = trunkline_first(hit);
                if (base[i] == '\\\\' && end - base > (int)i + 1 && trunkline_simple(base[i + 1])) {
                    *flags |= TRUNKLINE_ESCAPED;
                    if (i >= 14) {
                        p = base + i + 2;
                        break;
                    }
                    hit = hit >> (i + 2) << (i + 2);
                    continue;
                }
                if (high & ((1u << i) - 1)) *flags |= TRUNKLINE_WIDE;
                return base + i;
            }
            if (high) *flags |= TRUNKLINE_WIDE;
        }
    #endif
        (void)start;
        for (; p < end; p++) {
    #if !defined(TRUNKLINE_SSE2)
            const uint64_t ones = 0x0101010101010101ULL, tops = 0x8080808080808080ULL;
            while (end - p >= 8) {
                uint64_t w, q, s;
                memcpy(&w, p, 8);
                q = w ^ (ones * '"');
                s = w ^ (ones * '\\\\');
                if ((((w - ones * 0x20) & ~w) | ((q - ones) & ~q) | ((s - ones) & ~s)) & tops) break;
                if (w & tops) *flags |= TRUNKLINE_WIDE;
                p += 8;
            }
            if (p == end) break;
    #endif
            if (*p >= 0x80) {
                *flags |= TRUNKLINE_WIDE;
            } else if (*p == '\\\\' && end - p >= 2 && trunkline_simple(p[1])) {
                *flags |= TRUNKLINE_ESCAPED;
                p++;
            } else if (*p < 0x20 || *p == '"' || *p == '\\\\') {
                return p;
            }
        }
        return p;
    }

    #define TRUNKLINE_CONTINUES(c) (((c) & 0xC0) == 0x80)

    /* The length of the UTF-8 sequence at p, a byte from 0x80; 0 where it is none (RFC 3629, section 4). */
    static inline int utf8_sequence(const unsigned char *p, const unsigned char *end) {
        const unsigned char c = p[0];
        const int64_t left = end - p;
        if (c < 0xC2 || c > 0xF4 || left < 2 || !TRUNKLINE_CONTINUES(p[1])) return 0;
        if (c < 0xE0) return 2;
        if (left < 3 || !TRUNKLINE_CONTINUES(p[2])) return 0;
        if (c < 0xF0) return (c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) ? 0 : 3;
        if (left < 4 || !TRUNKLINE_CONTINUES(p[3])) return 0;
        return (c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F) ? 0 : 4;
    }

    #if defined(TRUNKLINE_SSSE3)
    /* Whether p to end is UTF-8, 16 bytes a step. Three tables, looked up by the halves of each byte and of the one
       before it, give the faults that this pair may be part of; a fault that all three name is one, but for two
       continuations in a row, which must stand exactly where a sequence of three or four asks for them.
       (The method is that of Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte", 2021.) */
    __attribute__((target("ssse3")))
    static int utf8_fast(const unsigned char *p, const unsigned char *end) {
        enum {
            SHORT = 1, LONG = 2, OVER3 = 4, LARGE = 8, SURROGATE_ = 16, OVER2 = 32, LARGE1000 = 64, OVER4 = 64,
            TWO = 128, CARRY = SHORT | LONG | TWO, BEYOND = CARRY | LARGE | LARGE1000,
            LOW = LONG | OVER2 | TWO
        };
        const __m128i before_high = _mm_setr_epi8(
            LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, (char)TWO, (char)TWO, (char)TWO, (char)TWO,
            SHORT | OVER2, SHORT, SHORT | OVER3 | SURROGATE_, SHORT | LARGE | LARGE1000 | OVER4);
        const __m128i before_low = _mm_setr_epi8(
            (char)(CARRY | OVER3 | OVER2 | OVER4), (char)(CARRY | OVER2), (char)CARRY, (char)CARRY,
            (char)(CARRY | LARGE), (char)BEYOND, (char)BEYOND, (char)BEYOND, (char)BEYOND, (char)BEYOND, (char)BEYOND,
            (char)BEYOND, (char)BEYOND, (char)(BEYOND | SURROGATE_), (char)BEYOND, (char)BEYOND);
        const __m128i this_high = _mm_setr_epi8(
            SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT,
            (char)(LOW | OVER3 | LARGE1000 | OVER4), (char)(LOW | OVER3 | LARGE), (char)(LOW | SURROGATE_ | LARGE),
            (char)(LOW | SURROGATE_ | LARGE), SHORT, SHORT, SHORT, SHORT);
        const __m128i half = _mm_set1_epi8(0x0f), top = _mm_set1_epi8((char)0x80);
        const __m128i third = _mm_set1_epi8(0xE0 - 0x80), fourth = _mm_set1_epi8(0xF0 - 0x80);
        __m128i last = _mm_setzero_si128(), fault = _mm_setzero_si128();
        int more = 1;
        while (more) {
            __m128i v, one, two, three, pair, must;
            if (end - p >= 16) {
                v = _mm_loadu_si128((const __m128i *)p);
                p += 16;
            } else {  /* the rest, and at least one zero behind it, so that a cut sequence shows */
                unsigned char rest[16] = {0};
                memcpy(rest, p, (size_t)(end - p));
                v = _mm_loadu_si128((const __m128i *)rest);
                more = 0;
            }
            one = _mm_alignr_epi8(v, last, 15);
            two = _mm_alignr_epi8(v, last, 14);
            three = _mm_alignr_epi8(v, last, 13);
            pair = _mm_and_si128(
                _mm_and_si128(_mm_shuffle_epi8(before_high, _mm_and_si128(_mm_srli_epi16(one, 4), half)),
                              _mm_shuffle_epi8(before_low, _mm_and_si128(one, half))),
                _mm_shuffle_epi8(this_high, _mm_and_si128(_mm_srli_epi16(v, 4), half)));
            must = _mm_and_si128(_mm_or_si128(_mm_subs_epu8(two, third), _mm_subs_epu8(three, fourth)), top);
            fault = _mm_or_si128(fault, _mm_xor_si128(must, pair));
            last = v;
        }
        return _mm_movemask_epi8(_mm_cmpeq_epi8(fault, _mm_setzero_si128())) == 0xffff;
    }
    #endif

    /* The first byte from p that begins no UTF-8 sequence, or NULL where all to end is UTF-8. */
    static const unsigned char *utf8_bad(const unsigned char *p, const unsigned char *end) {
    #if defined(TRUNKLINE_SSSE3)
        if (end - p >= 64 && __builtin_cpu_supports("ssse3") && utf8_fast(p, end)) return NULL;
    #endif
        while (p < end) {
            int length = 1;
            uint64_t w;
            if (end - p >= 8) {
                memcpy(&w, p, 8);
                if (!(w & 0x8080808080808080ULL)) {
                    p += 8;
                    continue;
                }
            }
            if (*p >= 0x80) {
                length = utf8_sequence(p, end);
                if (!length) return p;
            }
            p += length;
        }
        return NULL;
    }
    """
    const unsigned char* string_run(
        const unsigned char* start, const unsigned char* p, const unsigned char* end, int* flags
    ) noexcept nogil
    const unsigned char* utf8_bad(const unsigned char* p, const unsigned char* end) noexcept nogil
    enum:
        FLAG_ESCAPED "TRUNKLINE_ESCAPED"
        FLAG_WIDE "TRUNKLINE_WIDE"
