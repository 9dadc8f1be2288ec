"""The references of framing and their compiled twins, under one set of names."""

from __future__ import annotations

import os
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.framing._envelope import EnvelopeHead
    from trunkline.framing._ndjson import LineDecoder
    from trunkline.framing._opline import OpLine
    from trunkline.framing._sse import ServerSentEvent, SSEDecoder

    class Twin:
        """One implementation of everything that has two; the types are the references'."""

        name: str
        LineDecoder: type[LineDecoder]
        SSEDecoder: type[SSEDecoder]
        ServerSentEvent: type[ServerSentEvent]
        encode_sse: Callable[..., bytes]
        encode_comment: Callable[..., bytes]
        parse_op_line: Callable[..., OpLine]
        scan_envelope: Callable[..., EnvelopeHead]
        delta_entries: Callable[..., int]
        event_lines: Callable[..., bytes]
        event_text: Callable[..., bytes]
        held_bytes: Callable[..., int]
        response_line: Callable[..., bytes]
        success_line: Callable[..., bytes]


NAMES = ("python", "cython")
MODULES = {
    "python": "trunkline.framing._",
    "cython": "trunkline._speedups.",
}
PARTS = {
    "ndjson": ("LineDecoder",),
    "opline": ("OpLine", "parse_op_line"),
    "envelope": ("EnvelopeHead", "scan_envelope"),
    "splice": ("delta_entries", "event_lines", "event_text", "held_bytes", "response_line", "success_line"),
    "sse": ("SSEDecoder", "ServerSentEvent", "encode_comment", "encode_sse"),
}
"""What has a twin, by module: the last part of the name is the same in both rooms."""


def load(name: str) -> Twin:
    """Return a twin by name. The compiled one must be there where TRUNKLINE_SPEEDUPS=yes, else its absence skips."""
    wanted = os.environ.get("TRUNKLINE_SPEEDUPS", "")
    if name == "cython" and wanted == "no":
        pytest.skip("TRUNKLINE_SPEEDUPS=no: the compiled twins are not judged")
    found = SimpleNamespace(name=name)
    for module, names in PARTS.items():
        try:
            part = import_module(MODULES[name] + module)
        except ImportError:
            if wanted == "yes":
                raise
            pytest.skip(f"the compiled twin of {module} is not built")
        for one in names:
            setattr(found, one, getattr(part, one))
    return cast("Twin", found)
