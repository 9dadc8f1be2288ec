# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Lines out of reads, compiled. `framing/_ndjson.py` is the reference and holds the rules."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE, _PyBytes_Resize
)
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.string cimport memchr, memcpy

from ..protocol.errors import FrameTooLarge

cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    SMALLEST = 256  # bytes that are set aside for a frame's first piece

cdef str ENDED = "the input has ended: eof was called"


@cython.final
cdef class LineDecoder:
    """Cuts a stream of bytes into frames at LF; see the reference for the rules and the errors."""

    cdef readonly object limit
    cdef Py_ssize_t bound
    # The unfinished frame: a bytes object that nobody else has, larger than what is used of it. It becomes the frame.
    cdef PyObject* room
    cdef Py_ssize_t used
    cdef str end

    def __init__(self, limit):
        if not isinstance(limit, int):
            raise TypeError(f"a limit is a whole number of bytes, not {type(limit).__name__}")
        if limit < 1:
            raise ValueError(f"a limit is at least 1 byte, not {limit}")
        self.limit = limit
        self.bound = PY_SSIZE_T_MAX if limit > PY_SSIZE_T_MAX else limit
        self.end = ""
        self._drop()

    def __dealloc__(self):
        Py_XDECREF(self.room)

    @property
    def held(self):
        """How many bytes of an unfinished frame are kept."""
        return self.used

    def feed(self, data):
        """Return the frames that end in `data`; see the reference."""
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

    cdef list _feed(self, const char* p, Py_ssize_t size):
        cdef list frames = []
        cdef const char* end = p + size
        cdef const char* cut
        while p < end:
            cut = <const char*>memchr(p, 10, end - p)
            if cut == NULL:
                break
            if cut - p > self.bound - self.used:
                raise self._too_large(frames)
            if self.used:
                self._hold(p, cut - p)
                frames.append(self._take())
            else:
                frames.append(PyBytes_FromStringAndSize(p, cut - p))
            p = cut + 1
        if p < end:
            if end - p > self.bound - self.used:
                raise self._too_large(frames)
            self._hold(p, end - p)
        return frames

    cdef int _hold(self, const char* p, Py_ssize_t size) except -1:
        """Add to the unfinished frame; its room doubles, up to the limit."""
        cdef Py_ssize_t need = self.used + size
        cdef Py_ssize_t room
        if self.room == NULL:
            made = PyBytes_FromStringAndSize(NULL, max(need, SMALLEST))
            Py_INCREF(made)
            self.room = <PyObject*>made
        elif need > PyBytes_GET_SIZE(<object>self.room):
            room = min(need, self.bound // 2) * 2
            _PyBytes_Resize(&self.room, max(need, room))
        memcpy(PyBytes_AS_STRING(<object>self.room) + self.used, p, size)
        self.used = need
        return 0

    cdef bytes _take(self):
        """Return the unfinished frame as it is and hold nothing."""
        cdef bytes frame
        if self.used != PyBytes_GET_SIZE(<object>self.room):
            _PyBytes_Resize(&self.room, self.used)
        frame = <bytes>self.room
        self._drop()
        return frame

    cdef void _drop(self) noexcept:
        Py_XDECREF(self.room)
        self.room = NULL
        self.used = 0

    cdef object _too_large(self, list frames):
        self._drop()
        self.end = f"the decoder is dead: a frame was longer than {self.limit} bytes"
        return FrameTooLarge(self.limit, frames)

    def eof(self):
        """End the input and return the bytes behind the last LF; see the reference."""
        if self.end and self.end != ENDED:
            raise ValueError(self.end)
        self.end = ENDED
        return self._take() if self.used else b""
