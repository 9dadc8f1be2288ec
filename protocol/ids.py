"""Minted identifiers: `<kind>-<n>` from one rising counter, so that a run of the program is repeatable."""

from __future__ import annotations


class Ids:
    """One counter for all kinds of one owner (spec: hub 9.2). Not random, hence no secret: an id proves nothing."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def mint(self, kind: str) -> str:
        """Return the next id of a kind, for instance `run-1`."""
        self.last += 1
        return f"{kind}-{self.last}"
