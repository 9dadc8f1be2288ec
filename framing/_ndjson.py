"""Lines out of reads, reference implementation. `_speedups/ndjson.pyx` is the compiled twin."""

from __future__ import annotations

from ..protocol.errors import FrameTooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview

ENDED: Final = "the input has ended: eof was called"


def contiguous(data: Buffer) -> bytes:
    """Return the bytes of any bytes-like value. Raises `TypeError` for others, `BufferError` for one with gaps."""
    if type(data) is bytes:
        return data
    view = memoryview(data)
    if not view.contiguous:
        raise BufferError("the bytes-like value has gaps")
    return view.tobytes()


def check_limit(limit: int) -> None:
    """Raise `TypeError` or `ValueError` unless the limit is a whole number of at least 1 byte."""
    if not isinstance(limit, int):
        raise TypeError(f"a limit is a whole number of bytes, not {type(limit).__name__}")
    if limit < 1:
        raise ValueError(f"a limit is at least 1 byte, not {limit}")


class LineDecoder:
    """Cuts a stream of bytes into frames at LF and at nothing else; a frame is all between two LFs, CR and all.

    The frames do not depend on how the stream was cut into reads. At most `limit` bytes and one read are held. `limit`
    counts the bytes of a frame without its LF. Raises `TypeError` or `ValueError` where it is not a whole number of at
    least 1.
    """

    __slots__ = ("_end", "_held", "limit")

    def __init__(self, limit: int) -> None:
        check_limit(limit)
        self.limit = limit
        self._held = bytearray()
        self._end = ""

    @property
    def held(self) -> int:
        """How many bytes of an unfinished frame are kept."""
        return len(self._held)

    def feed(self, data: Buffer) -> list[bytes]:
        """Return the frames that end in `data`, a bytes-like value of any size.

        Raises `FrameTooLarge` as soon as a frame passes the limit, its LF seen or not, with the frames that ended
        before it in this same feed. After that, and after `eof`, raises `ValueError`.
        """
        if self._end:
            raise ValueError(self._end)
        data = contiguous(data)
        frames = data.split(b"\n")
        tail = frames.pop()
        held = self._held
        if frames and held:
            if len(held) + len(frames[0]) > self.limit:
                raise self._too_large([])
            held += frames[0]
            frames[0] = bytes(held)
            self._held = held = bytearray()
        if len(held) + len(data) > self.limit:
            self._check(frames, tail)
        if tail:
            held += tail
        return frames

    def _check(self, frames: list[bytes], tail: bytes) -> None:
        for number, frame in enumerate(frames):
            if len(frame) > self.limit:
                raise self._too_large(frames[:number])
        if len(self._held) + len(tail) > self.limit:
            raise self._too_large(frames)

    def _too_large(self, frames: list[bytes]) -> FrameTooLarge:
        self._held = bytearray()
        self._end = f"the decoder is dead: a frame was longer than {self.limit} bytes"
        return FrameTooLarge(self.limit, frames)

    def eof(self) -> bytes:
        """End the input; return the bytes behind the last LF, which are no frame, and `b""` if there are none.

        A second call returns `b""`. After `FrameTooLarge` raises `ValueError`.
        """
        if self._end and self._end != ENDED:
            raise ValueError(self._end)
        self._end = ENDED
        tail = bytes(self._held)
        self._held = bytearray()
        return tail
