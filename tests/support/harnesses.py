"""Small programs that play harnesses which behave badly, and the launch of one. Run by an isolated interpreter.

A script finds `MARK` (to be put into the command lines of what it starts), and the functions below.
"""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.adapters.base import Launch

from tests.support.procs import PYTHON

PRELUDE = """
import os, signal, subprocess, sys, time
MARK = sys.argv[1]
SLEEP = [sys.executable, "-I", "-S", "-c", "import sys, time; time.sleep(600)", MARK]

def say(text):
    os.write(1, text.encode() + b"\\n")

def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

def lines():
    rest = b""
    while chunk := os.read(0, 1 << 16):
        rest += chunk
        while (cut := rest.find(b"\\n")) >= 0:
            yield rest[:cut].decode()
            rest = rest[cut + 1:]
"""


def script(body: str, mark: str, environment: Mapping[str, str] | None = None, cwd: str | None = None) -> Launch:
    """Return how to start a script; `mark` stands in its command line."""
    return Launch([*PYTHON, "-c", PRELUDE + body, mark], environment or {}, cwd)
