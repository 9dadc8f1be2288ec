"""The version of this distribution; a test compares it with the project file."""

from __future__ import annotations

VERSION = "0.1.0"
