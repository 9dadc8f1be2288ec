# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Events and their lines spliced, compiled. `framing/_splice.py` is the reference and holds the rules.

One allocation and a few copies an event: formatting by `%` costs three times as much (bench: test_events.py).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef enum:
    DIGITS = 20  # of a 64-bit number, sign aside

cdef bytes ID = b'"id":"event-'
cdef bytes SEQUENCE = b'","sequence":'
cdef bytes ENVELOPE = b',"envelope":'


cdef inline int write_digits(char* room, unsigned long long value) noexcept nogil:
    """Write a number at the end of a room of `DIGITS` bytes; return how many it took."""
    cdef int at = DIGITS
    while True:
        at -= 1
        room[at] = <char>(48 + value % 10)
        value //= 10
        if value == 0:
            return DIGITS - at


cdef inline char* put(char* to, const char* data, Py_ssize_t size) noexcept nogil:
    memcpy(to, data, size)
    return to + size


def splice_events(bytes head not None, bytes middle not None, bodies, number, sequence):
    """Return `(sequence, envelope)` for each body; see the reference."""
    cdef unsigned long long numbered = number
    cdef unsigned long long placed = sequence
    cdef char id_digits[DIGITS]
    cdef char place_digits[DIGITS]
    cdef int id_size, place_size
    cdef Py_ssize_t fixed = PyBytes_GET_SIZE(head) + PyBytes_GET_SIZE(middle) + len(ID) + len(SEQUENCE) + 1
    cdef Py_ssize_t size
    cdef bytes body, event
    cdef char* to
    cdef list entries = []
    for body in bodies:
        numbered += 1
        placed += 1
        id_size = write_digits(id_digits, numbered)
        place_size = write_digits(place_digits, placed)
        size = PyBytes_GET_SIZE(body) - 1
        if size < 1:
            raise ValueError("a body is an encoded object")
        event = PyBytes_FromStringAndSize(NULL, fixed + size + id_size + place_size + 1)
        to = PyBytes_AS_STRING(event)
        to = put(to, PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        to = put(to, PyBytes_AS_STRING(ID), PyBytes_GET_SIZE(ID))
        to = put(to, id_digits + DIGITS - id_size, id_size)
        to = put(to, PyBytes_AS_STRING(SEQUENCE), PyBytes_GET_SIZE(SEQUENCE))
        to = put(to, place_digits + DIGITS - place_size, place_size)
        to[0] = 44  # the comma
        to = put(to + 1, PyBytes_AS_STRING(middle), PyBytes_GET_SIZE(middle))
        to = put(to, PyBytes_AS_STRING(body) + 1, size)
        to[0] = 125  # the closing brace
        entries.append((placed, event))
    return entries


def splice_tails(entries):
    """Return what each subscription line ends with; see the reference."""
    cdef unsigned long long placed
    cdef char digits[DIGITS]
    cdef int digits_size
    cdef Py_ssize_t size
    cdef bytes event, tail
    cdef char* to
    cdef list tails = []
    for sequence, event in entries:
        placed = sequence
        digits_size = write_digits(digits, placed)
        size = PyBytes_GET_SIZE(event)
        tail = PyBytes_FromStringAndSize(NULL, digits_size + PyBytes_GET_SIZE(ENVELOPE) + size + 2)
        to = PyBytes_AS_STRING(tail)
        to = put(to, digits + DIGITS - digits_size, digits_size)
        to = put(to, PyBytes_AS_STRING(ENVELOPE), PyBytes_GET_SIZE(ENVELOPE))
        to = put(to, PyBytes_AS_STRING(event), size)
        to[0] = 125
        to[1] = 10
        tails.append(tail)
    return tails
