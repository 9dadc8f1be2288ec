"""The command line: usage, exit codes, and which command runs. No argument parser is imported: start-up time counts."""

from __future__ import annotations

import sys

from .shutdown import say, speak

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, NoReturn

HELP: Final = """\
usage: trunkline COMMAND [OPTIONS]

Drives many coding-agent sessions over one pipe, in one vocabulary (Open Agent Protocol 0.1).

commands:
  serve --stdio    the hub on this process's own pipes: NDJSON in, NDJSON out

options:
  -h, --help       this text; also after a command
  --version        the version

examples:
  trunkline serve --stdio
  trunkline serve --stdio --config agents.json
  trunkline serve --help
"""

SERVE_HELP: Final = """\
usage: trunkline serve --stdio [--config FILE] [--frame-limit BYTES] [--log-level LEVEL]

Reads one request object a line from standard input and writes one answer or event object a line to standard output;
diagnostics go to standard error. Whoever starts the process is authorised; nothing listens on a port.

options:
  --stdio              required: serve on standard input and output
  --config FILE        adapters, tool sources and limits, as JSON; without it the memory adapter alone is served
  --frame-limit BYTES  longest line in either direction, without its newline (default 18874368, at least 256)
  --log-level LEVEL    error, warning, info or debug (default warning)
  -h, --help           this text

environment:
  TRUNKLINE_SPEEDUPS   yes: refuse to run without the compiled parts; no: run the plain ones
  TRUNKLINE_LOOP       asyncio: use the plain event loop; unset: uvloop where it is installed

exit codes:
  0  a clean end: the input ended, or SIGINT or SIGTERM came, and every request was answered
  1  anything else; one line on standard error says what, and where

example: ask which adapters there are
  printf '%s\\n' '{"id":1,"op":"adapters"}' | trunkline serve --stdio
"""

LEVELS: Final = ("error", "warning", "info", "debug")
SERVE_FLAGS: Final = ("--config", "--frame-limit", "--log-level", "--addr")


class UsageError(Exception):
    """The command line cannot be understood; the text says why."""


class ServeOptions:
    """What `serve` was told. `frame_limit` is in bytes, None for the default."""

    __slots__ = ("config", "frame_limit", "log_level")

    def __init__(self) -> None:
        self.config: str | None = None
        self.frame_limit: int | None = None
        self.log_level = "warning"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 good, 1 the thing failed (and wrong usage of `serve`), 2 wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        speak(HELP)
        sys.exit(2)
    command, rest = words[0], words[1:]
    if command in ("-h", "--help"):
        _print(HELP)
    if command in ("--version", "-V"):
        from .version import VERSION

        _print(f"trunkline {VERSION}\n")
    if command != "serve":
        say(f"no command is named {command!r}; see trunkline --help")
        sys.exit(2)
    if any(word in ("-h", "--help") for word in rest):
        _print(SERVE_HELP)
    try:
        options = serve_options(rest)
    except UsageError as fault:
        say(f"{fault}; see trunkline serve --help")
        sys.exit(1)
    try:
        from .serve import serve_stdio

        serve_stdio(options)
    except ImportError as error:
        say(f"cannot start: {error} (TRUNKLINE_SPEEDUPS=yes asks for the compiled parts, unset takes what is there)")
        sys.exit(1)
    except KeyboardInterrupt:  # before the signals are caught: nothing was served
        say("stopped")
        sys.exit(0)


def serve_options(words: Sequence[str]) -> ServeOptions:
    """Read the options of `serve`. Raises `UsageError`; `--addr` with `--stdio` and positional arguments are wrong."""
    options = ServeOptions()
    found: dict[str, str] = {}
    stdio = False
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word == "--stdio":
            stdio = True
        elif name in SERVE_FLAGS:
            if not equals:
                if not left:
                    raise UsageError(f"{name} needs a value")
                value = left.pop(0)
            if name in found:
                raise UsageError(f"{name} is given twice")
            found[name] = value
        elif word.startswith("-"):
            raise UsageError(f"unknown option {word}")
        else:
            raise UsageError(f"unexpected argument {word!r}")
    if not stdio:
        raise UsageError("only serve --stdio is served by this version; add --stdio")
    if "--addr" in found:
        raise UsageError("--stdio and --addr exclude each other")
    options.config = found.get("--config")
    options.frame_limit = _frame_limit(found.get("--frame-limit"))
    options.log_level = found.get("--log-level", options.log_level)
    if options.log_level not in LEVELS:
        raise UsageError(f"--log-level must be one of {', '.join(LEVELS)}")
    return options


def _frame_limit(text: str | None) -> int | None:
    from ..protocol.limits import SMALLEST_FRAME_BYTES

    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UsageError("--frame-limit must be a whole number of bytes")
    if int(text) < SMALLEST_FRAME_BYTES:
        raise UsageError(f"--frame-limit must be at least {SMALLEST_FRAME_BYTES} bytes")
    return int(text)


def _print(text: str) -> NoReturn:
    try:
        with open(1, "w", encoding="utf-8", closefd=False) as out:
            out.write(text)
    except OSError as error:
        say(f"the output could not be written: {error.strerror}")
        sys.exit(1)
    sys.exit(0)
