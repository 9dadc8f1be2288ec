"""The one redactor: what a child printed passes it before a log, a diagnostic or an answer may hold it (decision 20).

It knows the values that must not be seen (secrets of the child's environment, literals of the configuration) and the
shapes that secrets have. It removes rather too much than too little.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

MASK: Final = "[redacted]"
SHORTEST: Final = 4
"""Characters from which a value is removed wherever it stands; a shorter secret only where it is a word of its own."""

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|AUTH|CREDENTIAL|COOKIE", re.IGNORECASE)
_PLAIN_NAME: Final = frozenset(
    ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER")
)
"""Variables whose value says nothing secret, and whose removal would make a diagnostic useless."""

_SHAPES: Final = (
    # `\b` and the bounded repeats keep every pattern linear: a child chooses the text
    (re.compile(r"\b(Bearer|Basic)\s+[^\s\"',;]+", re.IGNORECASE), rf"\1 {MASK}"),
    (
        re.compile(r"\b(x-api-key|(?:set-)?cookie|(?:proxy-)?authorization)([\"']?\s*[:=]\s*)[^\r\n]+", re.I),
        rf"\1\2{MASK}",
    ),
    (
        re.compile(
            r"(?<![\w-])([\w-]{0,64}?(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"://[^/\s:@]{1,256}:[^/\s@]{1,256}@"), f"://{MASK}@"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{6,}"), MASK),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|xox[abprs]-|AIza|AKIA|glpat-)[A-Za-z0-9_-]{12,}"), MASK),
)
_CUT: Final = re.compile(r"([\"']?(?:\.\.\.|\u2026))")
"""What stands where a text was cut, with the quote that it stands in."""
MOST_CUTS: Final = 16
"""Cut marks of one text before which the beginning of a value is looked for."""
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Redactor:
    """Removes secrets from text. `environment` is what the child sees; `literals` are configured values, by name."""

    __slots__ = ("_values", "_words")

    def __init__(self, environment: Mapping[str, str], literals: Mapping[str, str] | None = None) -> None:
        secrets = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
        secrets |= {
            value
            for name, value in (literals or {}).items()
            if len(value) >= SHORTEST and name.upper() not in _PLAIN_NAME
        }
        secrets.discard("")
        forms = {form for value in secrets for form in _forms(value)}
        self._values = tuple(sorted((form for form in forms if len(form) >= SHORTEST), key=len, reverse=True))
        words = sorted(re.escape(form) for form in forms if len(form) < SHORTEST)
        self._words = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)") if words else None

    def text(self, text: str) -> str:
        """Return the text without secrets and without terminal control characters."""
        text = _CONTROL.sub("", text.replace("\r\n", "\n"))
        for value in self._values:
            text = text.replace(value, MASK)
        text = self._cut(text)
        if self._words is not None:
            text = self._words.sub(MASK, text)
        for shape, mask in _SHAPES:
            text = shape.sub(mask, text)
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value with every text in it without secrets; names of members stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.value(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    def _cut(self, text: str) -> str:
        """Remove a value of which only the beginning or the end is there, because the text was cut in its midst."""
        pieces = _CUT.split(text, MOST_CUTS)  # text and cut mark by turns
        pieces[::2] = [self._ends(piece) for piece in pieces[::2]]
        text = "".join(pieces)
        for value in self._values:
            for length in range(min(len(value) - 1, len(text)), SHORTEST - 1, -1):
                if text.startswith(value[-length:]):
                    text = MASK + text[length:]
                    break
        return text

    def _ends(self, text: str) -> str:
        for value in self._values:
            for length in range(min(len(value) - 1, len(text)), SHORTEST - 1, -1):
                if text.endswith(value[:length]):
                    return text[:-length] + MASK
        return text


class Tail:
    """The last bytes that a child wrote to stderr, at most `limit`; they leave only through the redactor."""

    __slots__ = ("_data", "_limit", "_lost", "_redactor")

    def __init__(self, limit: int, redactor: Redactor) -> None:
        self._limit = limit
        self._redactor = redactor
        self._data = bytearray()
        self._lost = False

    def add(self, chunk: bytes) -> None:
        """Take a chunk; what no longer fits is dropped from the front."""
        self._data += chunk
        if (over := len(self._data) - self._limit) > 0:
            del self._data[:over]
            self._lost = True

    def text(self, limit: int | None = None) -> str:
        """Return the end of what was said, at most `limit` characters (None: as many as bytes are kept)."""
        text = bytes(self._data).decode("utf-8", "replace")
        if self._lost:  # the first line is cut, and in it may stand the rest of a secret without its shape
            text = text.partition("\n")[2] or text.partition(" ")[2]
        text = self._redactor.text(text).strip()
        return text[-(self._limit if limit is None else limit) :]


def _forms(value: str) -> Iterable[str]:
    """Yield a value as it may be printed: as it is, and as the inside of a string of JSON or of a Python message."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield ascii(value)[1:-1]
    yield value.strip()
