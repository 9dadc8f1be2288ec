# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Text of the wire out of ready pieces, compiled. `framing/_splice.py` is the reference and holds the rules.

One allocation a text: the size is added up first, then the pieces are copied.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    DIGITS = 20  # of an int64, its sign included


cdef struct Number:
    Py_ssize_t size
    char text[20]


cdef inline Number written(int64_t value) noexcept:
    """Return a number in decimal digits."""
    cdef Number number
    cdef char backwards[20]
    cdef Py_ssize_t count = 0, at
    cdef uint64_t left = <uint64_t>value if value >= 0 else 0 - <uint64_t>value
    while True:
        backwards[count] = <char>(48 + left % 10)
        count += 1
        left //= 10
        if left == 0:
            break
    if value < 0:
        backwards[count] = 45
        count += 1
    for at in range(count):
        number.text[at] = backwards[count - 1 - at]
    number.size = count
    return number


cdef inline char* put(char* to, const char* text, Py_ssize_t size) noexcept:
    memcpy(to, text, size)
    return to + size


cdef inline char* put_bytes(char* to, bytes piece) noexcept:
    return put(to, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))


cdef inline char* put_number(char* to, Number* number) noexcept:
    return put(to, number.text, number.size)


def success_line(int64_t id, bytes result not None):
    """See the reference."""
    cdef Number one = written(id)
    cdef Py_ssize_t size = 6 + one.size + 20 + PyBytes_GET_SIZE(result) + 2
    cdef bytes line = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = PyBytes_AS_STRING(line)
    to = put(to, b'{"id":', 6)
    to = put_number(to, &one)
    to = put(to, b',"ok":true,"result":', 20)
    to = put_bytes(to, result)
    put(to, b'}\n', 2)
    return line


def response_line(int64_t id, bytes head not None, int64_t response, int64_t request, bytes payload not None):
    """See the reference."""
    cdef Number one = written(id), two = written(response), three = written(request)
    cdef Py_ssize_t size = 6 + one.size + 20 + PyBytes_GET_SIZE(head) + 19 + two.size + 29 + three.size + 12
    size += PyBytes_GET_SIZE(payload) + 3
    cdef bytes line = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = PyBytes_AS_STRING(line)
    to = put(to, b'{"id":', 6)
    to = put_number(to, &one)
    to = put(to, b',"ok":true,"result":', 20)
    to = put_bytes(to, head)
    to = put(to, b'"id":"oap-response-', 19)
    to = put_number(to, &two)
    to = put(to, b'","in_reply_to":"oap-request-', 29)
    to = put_number(to, &three)
    to = put(to, b'","payload":', 12)
    to = put_bytes(to, payload)
    put(to, b'}}\n', 3)
    return line


cdef bytes event(
    bytes kind, bytes run, int64_t number, int64_t sequence, int64_t now, bytes opening, bytes payload
):
    cdef Number one = written(number), two = written(sequence), three = written(now)
    cdef Py_ssize_t more = PyBytes_GET_SIZE(payload) if PyBytes_GET_SIZE(payload) > 2 else 1
    cdef Py_ssize_t size = PyBytes_GET_SIZE(kind) + PyBytes_GET_SIZE(run) + 12 + one.size + 13 + two.size + 16 + three.size
    size += 11 + PyBytes_GET_SIZE(opening) + more + 1
    cdef bytes text = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = PyBytes_AS_STRING(text)
    to = put_bytes(to, kind)
    to = put_bytes(to, run)
    to = put(to, b'"id":"event-', 12)
    to = put_number(to, &one)
    to = put(to, b'","sequence":', 13)
    to = put_number(to, &two)
    to = put(to, b',"timestamp_ms":', 16)
    to = put_number(to, &three)
    to = put(to, b',"payload":', 11)
    to = put_bytes(to, opening)
    if more > 1:
        to = put(to, b',', 1)
        to = put(to, PyBytes_AS_STRING(payload) + 1, more - 1)
    else:
        to = put(to, b'}', 1)
    put(to, b'}', 1)
    return text


def event_text(
    bytes kind not None,
    bytes run not None,
    int64_t number,
    int64_t sequence,
    int64_t now,
    bytes opening not None,
    bytes payload not None,
):
    """See the reference."""
    return event(kind, run, number, sequence, now, opening, payload)


def delta_entries(
    list entries not None,
    drafts,
    Py_ssize_t start,
    str run_id not None,
    str type not None,
    bytes kind not None,
    bytes run not None,
    bytes opening not None,
    int64_t number,
    int64_t sequence,
    int64_t now,
    dumps,
):
    """See the reference."""
    cdef Py_ssize_t stop = len(drafts), at
    cdef bytes payload
    cdef tuple draft
    for at in range(start, stop):
        draft = drafts[at]
        if len(draft) != 3:
            return at - start
        of = draft[0]
        what = draft[1]
        if (what is not type and what != type) or (of is not run_id and of != run_id):
            return at - start
        value = draft[2]
        if "part" not in value:
            return at - start
        try:
            payload = dumps(value)
        except TypeError:
            return at - start
        number += 1
        sequence += 1
        entries.append((sequence, event(kind, run, number, sequence, now, opening, payload)))
    return stop - start


def event_lines(bytes prefix not None, list entries not None):
    """See the reference."""
    cdef Py_ssize_t before = PyBytes_GET_SIZE(prefix), size = 0
    cdef Number number
    cdef tuple entry
    cdef bytes envelope
    for entry in entries:
        number = written(entry[0])
        envelope = entry[1]
        size += before + number.size + 12 + PyBytes_GET_SIZE(envelope) + 2
    cdef bytes lines = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = PyBytes_AS_STRING(lines)
    for entry in entries:
        number = written(entry[0])
        to = put_bytes(to, prefix)
        to = put_number(to, &number)
        to = put(to, b',"envelope":', 12)
        to = put_bytes(to, <bytes>entry[1])
        to = put(to, b'}\n', 2)
    return lines


def held_bytes(list entries not None, Py_ssize_t start, Py_ssize_t stop):
    """See the reference."""
    cdef Py_ssize_t at, size = 0
    cdef tuple entry
    cdef bytes envelope
    for at in range(start, min(stop, len(entries))):
        entry = entries[at]
        envelope = entry[1]
        size += PyBytes_GET_SIZE(envelope)
    return size
