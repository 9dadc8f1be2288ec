"""Harness codecs, sans-I/O, and the registry that finds them. `Codec`, `Step` and `Launch` are for writing one.

The names are imported when they are asked for: a start does not need them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Codec, CodecFactory, Exit, Launch, Settings, Step

__all__ = ["Codec", "CodecFactory", "Exit", "Launch", "Settings", "Step"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import base

    return getattr(base, name)
