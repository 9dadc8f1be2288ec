"""Where the shared reference data lies, if it lies there: beside the checkout, never inside it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = ROOT.parent / "shared"
SHARED: Path | None = _FOLDER if _FOLDER.is_dir() else None

needs_shared = pytest.mark.skipif(SHARED is None, reason="the shared reference data is not beside the checkout")


def shared(*parts: str) -> Path:
    """Return a path below the shared data; skips the test, by name, where that path is absent."""
    path = _FOLDER.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no shared data: {'/'.join(parts)}")
    return path
