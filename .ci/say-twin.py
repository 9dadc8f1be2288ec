"""Say which implementation of the hot paths is in use, once after each build."""

from __future__ import annotations

from trunkline.framing import IMPLEMENTATION

WORDS = {
    "cython": "setup: the compiled accelerators are in use",
    "python": "setup: no accelerators (no C compiler, or TRUNKLINE_SPEEDUPS=no): plain Python does the same, slower",
}
print(WORDS[IMPLEMENTATION])
