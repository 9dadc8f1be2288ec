"""What holds for every test: judge no compiled twin that is older than its source, and nothing by the clock."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no fault of the code: hypothesis is not to judge by the time that an example takes.
settings.register_profile("trunkline", deadline=None)
settings.load_profile("trunkline")


def pytest_sessionstart() -> None:
    """Refuse to test stale accelerators."""
    if os.environ.get("TRUNKLINE_SPEEDUPS") == "no":
        return
    room = Path(__file__).parent.parent / "_speedups"
    shared = max((source.stat().st_mtime for source in room.glob("*.pxi")), default=0.0)
    for built in room.glob(f"*{EXTENSION_SUFFIXES[0]}"):
        source = built.with_name(built.name.removesuffix(EXTENSION_SUFFIXES[0]) + ".pyx")
        newest = max(shared, source.stat().st_mtime) if source.exists() else float("inf")
        if built.stat().st_mtime < newest:
            pytest.exit(f"{built.name} is older than its source: run `make build`", returncode=4)
