"""Fixtures of the process tests."""

from tests.support.doors import start, start_pair, start_process

__all__ = ["start", "start_pair", "start_process"]
