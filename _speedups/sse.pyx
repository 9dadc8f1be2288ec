# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Server-sent events, read and written, compiled. `framing/_sse.py` is the reference and holds the rules."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from ..protocol.errors import FrameTooLarge

cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_MAX
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    void* PyUnicode_1BYTE_DATA(object text) noexcept
    bint PyUnicode_IS_ASCII "PyUnicode_IS_COMPACT_ASCII"(object text) noexcept

cdef enum:
    KEEP = 65536  # bytes of room that an empty buffer may keep

cdef str ENDED = "the input has ended: eof was called"
cdef object INT64_MAX = (1 << 63) - 1


cdef struct Buffer:
    char* at
    Py_ssize_t used
    Py_ssize_t room


cdef int add(Buffer* buffer, const char* p, Py_ssize_t size) except -1:
    cdef Py_ssize_t need = buffer.used + size
    cdef char* moved
    if need > buffer.room:
        moved = <char*>realloc(buffer.at, max(need, 256) * 2)
        if moved == NULL:
            raise MemoryError
        buffer.at = moved
        buffer.room = max(need, 256) * 2
    if size:
        memcpy(buffer.at + buffer.used, p, size)
    buffer.used = need
    return 0


cdef void clear(Buffer* buffer) noexcept:
    buffer.used = 0
    if buffer.room > KEEP:
        free(buffer.at)
        buffer.at = NULL
        buffer.room = 0


cdef inline str text_of(const char* p, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(p, size, "replace")


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class ServerSentEvent:
    """One event that was dispatched; see the reference for what its members hold."""

    cdef readonly str event
    cdef readonly str data
    cdef readonly str last_event_id

    def __init__(self, str event not None, str data not None, str last_event_id not None):
        self.event = event
        self.data = data
        self.last_event_id = last_event_id

    def __repr__(self):
        return f"ServerSentEvent(event={self.event!r}, {len(self.data)} characters, last_event_id={self.last_event_id!r})"


@cython.final
cdef class SSEDecoder:
    """Reads an event stream; see the reference for the rules and the errors."""

    cdef readonly object limit
    cdef readonly str last_event_id
    cdef readonly object retry_ms
    cdef Py_ssize_t bound
    cdef Buffer held  # the unfinished line
    cdef Buffer data  # the event's data so far, unless it is still in the read
    cdef const char* view  # the event's only data line so far, within the read; NULL: in `data` or none
    cdef Py_ssize_t view_size
    cdef bint has_data
    cdef bint start
    cdef bint cr
    cdef str id
    cdef str event
    cdef bytes event_bytes  # what `event` was made from, so that a repeated name is made once
    cdef bint has_event
    cdef str end

    def __init__(self, limit=18 << 20):
        if not isinstance(limit, int):
            raise TypeError(f"a limit is a whole number of bytes, not {type(limit).__name__}")
        if limit < 1:
            raise ValueError(f"a limit is at least 1 byte, not {limit}")
        self.limit = limit
        self.bound = PY_SSIZE_T_MAX if limit > PY_SSIZE_T_MAX else limit
        self.last_event_id = self.id = self.end = ""
        self.retry_ms = None
        self.start = True
        self.cr = self.has_data = self.has_event = False
        self.view = NULL
        self.event = "message"
        self.event_bytes = b"message"
        clear(&self.held)
        clear(&self.data)

    def __dealloc__(self):
        free(self.held.at)
        free(self.data.at)

    def feed(self, data):
        """Return the events that `data` completes; see the reference."""
        cdef Py_buffer view
        if self.end:
            raise ValueError(self.end)
        if PyBytes_CheckExact(data):
            return self._feed(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self._feed(<const char*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def eof(self):
        """End the stream; what is not complete is dropped."""
        if self.end and self.end != ENDED:
            raise ValueError(self.end)
        self.end = ENDED
        self._drop()

    cdef list _feed(self, const char* p, Py_ssize_t size):
        cdef list events = []
        cdef const char* end = p + size
        if size == 0:
            return events
        if self.start:
            p = self._begin(p, end)
            if p == NULL:
                return events
        elif self.cr and p[0] == 10:
            p += 1
        self.cr = False
        p = self._lines(p, end, events)
        if p < end:
            if end - p > self.bound - self.held.used:
                raise self._too_large(events)
            add(&self.held, p, end - p)
        self._keep_view()
        return events

    cdef const char* _begin(self, const char* p, const char* end) except? NULL:
        """Pass a byte-order mark at the stream's start; NULL while it may still turn out as one."""
        while p < end and self.held.used < 3 and <unsigned char>p[0] == (0xEF, 0xBB, 0xBF)[self.held.used]:
            add(&self.held, p, 1)
            p += 1
        if p == end and self.held.used < 3:
            return NULL
        self.start = False
        if self.held.used == 3:
            clear(&self.held)
        return p

    cdef const char* _lines(self, const char* p, const char* end, list events) except NULL:
        """Take all lines that end before `end`; return what is left."""
        cdef const char* cr = <const char*>memchr(p, 13, end - p)
        cdef const char* cut
        while p < end:
            if cr != NULL and cr < p:
                cr = <const char*>memchr(p, 13, end - p)
            cut = <const char*>memchr(p, 10, (end if cr == NULL else cr) - p)
            if cut == NULL:
                cut = cr
            if cut == NULL:
                break
            if cut - p > self.bound - self.held.used:
                raise self._too_large(events)
            if self.held.used:
                add(&self.held, p, cut - p)
                self._line(self.held.at, self.held.used, events)
                self._keep_view()
                clear(&self.held)
            else:
                self._line(p, cut - p, events)
            p = cut + 1
            if cut == cr:
                if p == end:
                    self.cr = True
                elif p[0] == 10:
                    p += 1
        return p

    cdef int _keep_view(self) except -1:
        """Copy a data line out of memory that is about to go."""
        if self.view != NULL:
            add(&self.data, self.view, self.view_size)
            self.view = NULL
        return 0

    cdef int _line(self, const char* p, Py_ssize_t size, list events) except -1:
        cdef const char* split
        cdef Py_ssize_t name
        if size == 0:
            return self._dispatch(events)
        if size >= 5 and memcmp(p, b"data:", 5) == 0:
            name = 4
        else:
            split = <const char*>memchr(p, 58, size)
            name = size if split == NULL else split - p
        cdef const char* value = p + name
        size -= name
        if size:  # the colon
            value += 1
            size -= 1
            if size and value[0] == 32:
                value += 1
                size -= 1
        if name == 4 and memcmp(p, b"data", 4) == 0:
            self._take_data(value, size, events)
        elif name == 5 and memcmp(p, b"event", 5) == 0:
            self._take_event(value, size)
        elif name == 2 and memcmp(p, b"id", 2) == 0:
            if memchr(value, 0, size) == NULL:
                self.id = text_of(value, size)
        elif name == 5 and memcmp(p, b"retry", 5) == 0:
            self._take_retry(value, size)
        return 0

    cdef int _take_data(self, const char* p, Py_ssize_t size, list events) except -1:
        cdef Py_ssize_t before = self.view_size if self.view != NULL else self.data.used
        if not self.has_data:
            self.has_data = True
            self.view = p
            self.view_size = size
            return 0
        if before + 1 > self.bound or size > self.bound - before - 1:
            raise self._too_large(events)
        self._keep_view()
        add(&self.data, b"\n", 1)
        add(&self.data, p, size)
        return 0

    cdef int _take_event(self, const char* p, Py_ssize_t size) except -1:
        self.has_event = size > 0
        if size and (size != PyBytes_GET_SIZE(self.event_bytes) or memcmp(p, PyBytes_AS_STRING(self.event_bytes), size)):
            self.event_bytes = PyBytes_FromStringAndSize(p, size)
            self.event = text_of(p, size)
        return 0

    cdef int _take_retry(self, const char* p, Py_ssize_t size) except -1:
        cdef Py_ssize_t i
        cdef unsigned long long value = 0
        for i in range(size):
            if p[i] < 48 or p[i] > 57:
                return 0
        while size > 1 and p[0] == 48:
            p += 1
            size -= 1
        if size == 0 or size > 19:
            return 0
        for i in range(size):
            value = value * 10 + <unsigned long long>(p[i] - 48)
        if value < <unsigned long long>1 << 63:
            self.retry_ms = value
        return 0

    cdef int _dispatch(self, list events) except -1:
        cdef ServerSentEvent found
        self.last_event_id = self.id
        if self.has_data:
            found = <ServerSentEvent>ServerSentEvent.__new__(ServerSentEvent)
            found.event = self.event if self.has_event else "message"
            found.last_event_id = self.id
            if self.view != NULL:
                found.data = text_of(self.view, self.view_size)
                self.view = NULL
            else:
                found.data = text_of(self.data.at, self.data.used)
                clear(&self.data)
            self.has_data = False
            events.append(found)
        self.has_event = False
        return 0

    cdef void _drop(self) noexcept:
        clear(&self.held)
        clear(&self.data)
        self.view = NULL
        self.has_data = False

    cdef object _too_large(self, list events):
        self._drop()
        self.end = f"the decoder is dead: a frame was longer than {self.limit} bytes"
        return FrameTooLarge(self.limit, events)


cdef struct Piece:
    # bytes of a text that something else keeps alive
    const char* at
    Py_ssize_t size


cdef object utf8(object text, Piece* to):
    """Point at a str's UTF-8; return what keeps it alive. A wide str is encoded aside: asked itself, it would keep it."""
    if PyUnicode_IS_ASCII(text):
        to.at = <const char*>PyUnicode_1BYTE_DATA(text)
        to.size = PyUnicode_GET_LENGTH(text)
        return text
    cdef bytes made = (<str>text).encode("utf-8")
    to.at = PyBytes_AS_STRING(made)
    to.size = PyBytes_GET_SIZE(made)
    return made


cdef object one_line(str what, object text, Piece* to):
    """The same for a text that may hold no line break."""
    cdef Py_ssize_t i
    if not isinstance(text, str):
        raise TypeError(f"{what} is str, not {type(text).__name__}")
    if not PyUnicode_IS_ASCII(text) and ("\n" in <str>text or "\r" in <str>text):
        raise ValueError(f"a line break in {what} would forge a field")  # told before want of a UTF-8 form
    text = utf8(text, to)
    for i in range(to.size):
        if to.at[i] == 10 or to.at[i] == 13:
            raise ValueError(f"a line break in {what} would forge a field")
    return text


cdef bytes retry_line(object retry):
    if not isinstance(retry, int) or isinstance(retry, bool):
        raise TypeError(f"retry is a whole number of milliseconds, not {type(retry).__name__}")
    if not 0 <= retry <= INT64_MAX:
        raise ValueError("retry is from 0 to 9223372036854775807 milliseconds")
    return b"retry: %d\n" % retry


cdef inline char* put(char* to, const char* p, Py_ssize_t size) noexcept:
    memcpy(to, p, size)
    return to + size


cdef inline char* put_field(char* to, const char* name, Py_ssize_t size, Piece* value) noexcept:
    to = put(put(to, name, size), value.at, value.size)
    to[0] = 10
    return to + 1


cdef Py_ssize_t count(const char* p, Py_ssize_t size, int byte) noexcept:
    cdef const char* end = p + size
    cdef Py_ssize_t found = 0
    while True:
        p = <const char*>memchr(p, byte, end - p)
        if p == NULL:
            return found
        found += 1
        p += 1


cdef char* put_lines(char* to, const char* p, Py_ssize_t size) noexcept:
    """Write data with `data: ` behind each line break."""
    cdef const char* end = p + size
    cdef const char* start = p
    while p < end:
        if p[0] == 10 or p[0] == 13:
            to = put(to, start, p - start)
            to = put(to, b"\ndata: ", 7)
            if p[0] == 13 and p + 1 < end and p[1] == 10:
                p += 1
            start = p + 1
        p += 1
    return put(to, start, end - start)


def encode_sse(data, *, event=None, id=None, retry=None):
    """Return one event as bytes; see the reference for the rules and the errors."""
    cdef Piece text, id_text, event_text
    cdef Py_ssize_t total, breaks
    cdef bytes made, retries = None
    cdef char* to
    id_text.size = event_text.size = -1
    if isinstance(data, bytes):
        text.at = PyBytes_AS_STRING(data)
        text.size = PyBytes_GET_SIZE(data)
    elif isinstance(data, str):
        data = utf8(data, &text)
    else:
        raise TypeError(f"data is str or bytes, not {type(data).__name__}")
    if id is not None:
        id = one_line("id", id, &id_text)
        if memchr(id_text.at, 0, id_text.size) != NULL:
            raise ValueError("an id that holds NUL is ignored by readers")
    if event is not None:
        event = one_line("event", event, &event_text)
    if retry is not None:
        retries = retry_line(retry)
    breaks = count(text.at, text.size, 10) + count(text.at, text.size, 13)
    total = 8 + text.size + breaks * 7 + (5 + id_text.size if id_text.size >= 0 else 0)
    total += (8 + event_text.size if event_text.size > 0 else 0) + (0 if retries is None else PyBytes_GET_SIZE(retries))
    made = PyBytes_FromStringAndSize(NULL, total)
    to = PyBytes_AS_STRING(made)
    if id_text.size >= 0:
        to = put_field(to, b"id: ", 4, &id_text)
    if event_text.size > 0:
        to = put_field(to, b"event: ", 7, &event_text)
    if retries is not None:
        to = put(to, PyBytes_AS_STRING(retries), PyBytes_GET_SIZE(retries))
    to = put(to, b"data: ", 6)
    to = put_lines(to, text.at, text.size) if breaks else put(to, text.at, text.size)
    to = put(to, b"\n\n", 2)
    if breaks:  # one break may have been two bytes
        return made[: to - PyBytes_AS_STRING(made)]
    return made


def encode_comment(text=""):
    """Return a comment and a blank line; see the reference for the errors."""
    cdef Piece line
    kept = one_line("comment", text, &line)
    return b": " + line.at[: line.size] + b"\n\n" if line.size else b":\n\n"
