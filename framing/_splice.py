"""Events and their lines spliced from encoded parts: the plain reference of the hot path's last step.

No JSON is made or judged here: every part is encoded already, numbers are written in plain digits.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

EVENT: Final = b'%b"id":"event-%d","sequence":%d,%b%b}'
TAIL: Final = b'%d,"envelope":%b}\n'


def splice_events(
    head: bytes, middle: bytes, bodies: Sequence[bytes], number: int, sequence: int
) -> list[tuple[int, bytes]]:
    """Return `(sequence, envelope)` for each body, an encoded object that is not empty; the counts follow on.

    `head` is the envelope up to its id, `middle` what stands between its sequence and the first member of the body.
    """
    entries = []
    for body in bodies:
        number += 1
        sequence += 1
        entries.append((sequence, EVENT % (head, number, sequence, middle, body[1:])))
    return entries


def splice_tails(entries: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """Return for each `(sequence, envelope)` what its subscription line ends with, behind `"sequence":`."""
    return [TAIL % entry for entry in entries]
