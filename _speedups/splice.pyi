"""Types of the compiled twin; the rules are in the reference."""

from collections.abc import Sequence

def splice_events(
    head: bytes, middle: bytes, bodies: Sequence[bytes], number: int, sequence: int
) -> list[tuple[int, bytes]]: ...
def splice_tails(entries: Sequence[tuple[int, bytes]]) -> list[bytes]: ...
