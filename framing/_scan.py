"""Strict JSON text, read in place: the plain scanner under `_opline` and `_envelope`.

Nothing is built but offsets. Every fault is the first one in reading order, so that two readers of one text can agree
on it to the byte. The compiled twins (`_speedups/*.pxi`) follow the same order.
"""

from __future__ import annotations

from ..protocol.errors import REASONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match, Pattern
    from typing import Final

DEEPEST: Final = 1024
"""The largest depth bound that may be asked for: both twins keep one small stack of this size."""

_HEX: Final = "[0-9a-fA-F]"
# A high surrogate counts only with its low one; a low one alone matches nothing.
_ESCAPE: Final = (
    rf'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF]{_HEX}{{3}}'
    rf"|[dD](?:[0-7]{_HEX}{{2}}|[89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})))"
)
_OPEN_STRING: Final = rf'"(?:[^"\\\x00-\x1f]++|{_ESCAPE})*+'
_STRING: Final = _OPEN_STRING + '"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_OTHER: Final = f"(?:{_NUMBER}|true|false|null)"


class Fault(Exception):
    """One fault of a text: its kind (a key of `REASONS`), its byte, and what fills the reason's gap."""

    def __init__(self, kind: str, at: int, detail: object = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.at = at
        self.detail = detail

    @property
    def reason(self) -> str:
        """The words of the fault."""
        return REASONS[self.kind].format(self.detail)


class Patterns:
    """The compiled patterns for one set of white space. `re` is imported with the first text, not with the package."""

    __slots__ = ("colon", "items", "member", "members", "number", "open_string", "other", "string", "usual", "white")

    def __init__(self, white: str) -> None:
        from re import compile

        def pattern(text: str) -> Pattern[bytes]:
            return compile(text.encode("ascii"))

        scalar = f"(?:{_STRING}|{_OTHER})"
        self.white = pattern(white)
        self.string = pattern(_STRING)
        self.open_string = pattern(_OPEN_STRING)
        self.number = pattern(_NUMBER)
        self.other = pattern(_OTHER)
        self.colon = pattern(f"{white}:{white}")
        # Runs of members and items without nesting are one match; the steps take over where a run stops.
        self.member = pattern(f"{white}({_STRING}){white}:{white}({scalar}){white},")
        self.members = pattern(f"(?:{white}{_STRING}{white}:{white}{scalar}{white},)*+")
        self.items = pattern(f"(?:{white}{scalar}{white},)*+")
        # A member as it mostly stands: no escape in the name; a string without escapes, or digits.
        self.usual = pattern(
            rf'"([a-z_]++)"{white}:{white}(?:"([^"\\\x00-\x1f]*+)"|(-?(?:0|[1-9][0-9]*+)(?![.eE0-9]))){white}(?:(,){white}|(?=}}))'
        )


_patterns: dict[str, Patterns] = {}


def patterns(white: str) -> Patterns:
    """Return the patterns for a class of white space such as `[ \\t]*+`, compiled once."""
    if white not in _patterns:
        _patterns[white] = Patterns(white)
    return _patterns[white]


def check_depth(depth: int) -> None:
    """Raise `ValueError` unless `1 <= depth <= DEEPEST`."""
    if not 1 <= depth <= DEEPEST:
        raise ValueError(f"a depth bound is from 1 to {DEEPEST}, not {depth}")


class Scan:
    """One text being read. Methods take an offset and return the offset behind what they read, or raise `Fault`."""

    __slots__ = ("bad", "depth", "line", "pattern", "size", "text")

    def __init__(self, text: bytes, depth: int, *, line: bool) -> None:
        self.text = text
        self.size = len(text)
        self.depth = depth
        self.line = line
        self.pattern = patterns(r"[ \t]*+" if line else r"[ \t\n\r]*+")
        try:
            text.decode()
            self.bad = self.size + 1
        except UnicodeDecodeError as error:
            self.bad = error.start  # a fault only where a string holds it: elsewhere an earlier rule refuses the byte

    def fault(self, kind: str, at: int, detail: object = "") -> Fault:
        """Return the fault that `at` does not hold what `kind` asks for; some bytes have a reason of their own."""
        if at == self.size:
            return Fault("ends", at)
        if self.line:
            byte = self.text[at]
            if byte == 0x0D:
                return Fault("cr_end" if at == self.size - 1 else "cr", at)
            if byte == 0x0A:
                return Fault("lf", at)
        return Fault(kind, at, detail)

    def white(self, at: int) -> int:
        """Skip white space."""
        found = self.pattern.white.match(self.text, at)
        return found.end() if found else at

    def string(self, at: int) -> int:
        """Read the string whose opening quote is at `at`."""
        found = self.pattern.string.match(self.text, at)
        if found is None:
            raise self._broken_string(at)
        end = found.end()
        if at < self.bad < end:
            raise Fault("utf8", self.bad)
        return end

    def _broken_string(self, at: int) -> Fault:
        found = self.pattern.open_string.match(self.text, at)
        stop = found.end() if found else at
        if self.bad < stop:
            return Fault("utf8", self.bad)
        if self.text[stop : stop + 1] != b"\\":
            return self.fault("control", stop)
        unit = self.text[stop + 2 : stop + 6]
        alone = self.text[stop + 1 : stop + 2] == b"u" and len(unit) == 4 and not unit.strip(b"0123456789abcdefABCDEF")
        return Fault("surrogate" if alone else "escape", stop)

    def name(self, at: int) -> int:
        """Read a member name at `at`, behind white space."""
        if self.text[at : at + 1] != b'"':
            raise self.fault("name", at)
        return self.string(at)

    def colon(self, at: int) -> int:
        """Read the colon and the white space around it."""
        found = self.pattern.colon.match(self.text, at)
        if found is None:
            raise self.fault("colon", self.white(at))
        return found.end()

    def scalar(self, at: int) -> int:
        """Read a string, number, true, false or null at `at`."""
        if self.text[at : at + 1] == b'"':
            return self.string(at)
        found = self.pattern.other.match(self.text, at)
        if found is None:
            raise self.fault("value", at)
        return found.end()

    def value(self, at: int, level: int) -> int:
        """Read any value at `at`, which stands inside `level` arrays and objects."""
        text = self.text
        stack: list[bool] = []  # one entry a level: whether it is an object
        while True:
            byte = text[at : at + 1]
            if byte == b"{" or byte == b"[":
                stack.append(byte == b"{")
                if level + len(stack) > self.depth:
                    raise Fault("depth", at, self.depth)
                at = self.opened(at + 1, stack)
                if at < 0:
                    at = -at
                else:
                    continue
            else:
                at = self.scalar(at)
            at = self.after(at, stack)
            if at < 0:
                return -at

    def opened(self, at: int, stack: list[bool]) -> int:
        """Read on behind an opening bracket to the first value; minus the end where there is none."""
        at = self.white(at)
        if self.text[at : at + 1] == (b"}" if stack[-1] else b"]"):
            stack.pop()
            return -(at + 1)
        if not stack[-1]:
            return self.items(at)
        self.enter()
        return self.members(at)

    def after(self, at: int, stack: list[bool]) -> int:
        """Read on behind a value to the next one; minus the end where the outermost value is done."""
        text = self.text
        while stack:
            at = self.white(at)
            byte = text[at : at + 1]
            if byte == b",":
                at = self.white(at + 1)
                return self.members(at) if stack[-1] else self.items(at)
            if stack[-1]:
                if byte != b"}":
                    raise self.fault("member_end", at)
                self.leave()
            elif byte != b"]":
                raise self.fault("item_end", at)
            stack.pop()
            at += 1
        return -at

    def items(self, at: int) -> int:
        """Read array items up to the first that is nested, last or faulty; return where its value starts."""
        found = self.pattern.items.match(self.text, at)
        return self.white(self._run_end(at, found))

    def members(self, at: int) -> int:
        """Read object members up to the first that is nested, last or faulty; return where its value starts."""
        found = self.pattern.members.match(self.text, at)
        at = self.white(self._run_end(at, found))
        return self.colon(self.name(at))

    def _run_end(self, at: int, found: Match[bytes] | None) -> int:
        end = found.end() if found else at
        if at < self.bad < end:
            raise Fault("utf8", self.bad)  # only a string can hold it, since a run is otherwise ASCII
        return end

    def enter(self) -> None:
        """Take note that an object with members begins."""

    def leave(self) -> None:
        """Take note that an object with members ends."""


_UNITS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescaped(found: Match[str]) -> str:
    code = found[1]
    if code[0] != "u":
        return _UNITS.get(code, code)
    if len(code) == 5:
        return chr(int(code[1:], 16))
    high, low = int(code[1:5], 16), int(code[7:], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def unescape(raw: bytes) -> str:
    """Return what the inside of a string that `Scan` accepted stands for."""
    text = raw.decode()
    if "\\" not in text:
        return text
    from re import sub

    return sub(r"\\(u[dD][89abAB]..\\u....|u....|.)", _unescaped, text)


def int64(token: bytes) -> int | None:
    """Return the value of a JSON number written as an integer and within 64 bits, else None."""
    if len(token) > 20 or not token.lstrip(b"-").isdigit():
        return None
    value = int(token)
    return value if -(1 << 63) <= value < 1 << 63 else None
