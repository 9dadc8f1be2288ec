"""Every bound of the system in one value. Units stand in the names: `_bytes`, `_s` (seconds), else a count.

Written by hand and not as a dataclass because it is imported before the first answer (a dataclass import costs more
than the answer). `DEFAULTS` is the one table; the class only gives it types.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

MIB: Final = 1 << 20

DEFAULTS: Final[Mapping[str, int | float | None]] = {
    # the line, both directions (spec: stdio 2)
    "frame_bytes": 18 * MIB,
    "envelope_bytes": 16 * MIB,
    "depth": 128,
    # the stdio door (spec: stdio 2 and 7)
    "ops": 16,
    "op_bytes": 16 * MIB,
    "subscriptions": 64,
    "writer_lines": 256,
    "writer_bytes": 36 * MIB,
    "refusals": 256,
    "message_chars": 300,
    # judging an output schema (spec: envelopes 13)
    "schema_nodes": 2048,
    "schema_steps": 20_000,
    # shutdown (spec: stdio 10, hub 8)
    "window_s": 5.0,
    "sweep_s": 10.0,
    # hub and journal (decisions 18, 21, 22, 23)
    "mailbox": 64,
    "journal_events": 4096,
    "journal_bytes": 8 * MIB,
    "max_sessions": 16_384,
    "closed_sessions_kept": 1024,
    "id_chars": 512,
    "runs_kept": 256,
    "gates_per_run": 256,
    "calls_per_run": 4096,
    "notes_per_run": 256,
    "gate_deadline_s": None,
    # the sink gate (decision 26)
    "frames_per_turn": 32,
    "stall_s": 0.020,
    "stall_run_s": 0.250,
    # harness processes
    "harness_frame_bytes": 64 * MIB,
    "harness_write_bytes": 64 * MIB,
    "harness_write_s": 30.0,
    "harness_start_s": 60.0,
    "harness_idle_s": 3600.0,
    "harness_cancel_s": 10.0,
    "harness_drain_s": 0.5,
    "harness_stop_s": 1.0,
    "harness_stderr_bytes": 16 * 1024,
    "harness_stray_lines": 256,
}
"""Default of every limit; `None` means no bound, and only where that is the documented meaning."""

SMALLEST_FRAME_BYTES: Final = 256
CONFIG_BYTES: Final = MIB
"""Length of a configuration file; no field of `Limits`, because it is needed before there are any."""
_MOST: Final = {"depth": 1024}
"""Upper ends that the readers themselves have: deeper nesting would meet their recursion."""
_MAY_BE_NONE: Final = frozenset(("gate_deadline_s", "harness_idle_s"))


class Limits:
    """All bounds, read-only. Build one with keyword arguments for what differs from `DEFAULTS`.

    Raises `ValueError` for an unknown name, a negative number, a non-number, a frame limit under 256 bytes.
    """

    __slots__ = tuple(DEFAULTS)

    frame_bytes: int
    envelope_bytes: int
    depth: int
    ops: int
    op_bytes: int
    subscriptions: int
    writer_lines: int
    writer_bytes: int
    refusals: int
    message_chars: int
    schema_nodes: int
    schema_steps: int
    window_s: float
    sweep_s: float
    mailbox: int
    journal_events: int
    journal_bytes: int
    max_sessions: int
    closed_sessions_kept: int
    id_chars: int
    runs_kept: int
    gates_per_run: int
    calls_per_run: int
    notes_per_run: int
    gate_deadline_s: float | None
    frames_per_turn: int
    stall_s: float
    stall_run_s: float
    harness_frame_bytes: int
    harness_write_bytes: int
    harness_write_s: float
    harness_start_s: float
    harness_idle_s: float | None
    harness_cancel_s: float
    harness_drain_s: float
    harness_stop_s: float
    harness_stderr_bytes: int
    harness_stray_lines: int

    def __init__(self, **changes: float | None) -> None:
        for name in changes:
            if name not in DEFAULTS:
                raise ValueError(f"no limit is named {name!r}")
        for name, default in DEFAULTS.items():
            object.__setattr__(self, name, _checked(name, changes.get(name, default), default))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"limits are read-only; use replace({name}=...)")

    def replace(self, **changes: float | None) -> Limits:
        """Return a copy with some limits changed."""
        return Limits(**({name: getattr(self, name) for name in DEFAULTS} | changes))


def _checked(name: str, value: object, default: object) -> object:
    if value is None and name in _MAY_BE_NONE:
        return None
    seconds = name.endswith("_s")
    if isinstance(value, bool) or not isinstance(value, int | float if seconds else int):
        raise ValueError(f"limit {name} takes {'a number of seconds' if seconds else 'a whole number'}, not {value!r}")
    least = SMALLEST_FRAME_BYTES if name == "frame_bytes" else 0 if seconds else 1
    most = _MOST.get(name, 1 << 53)
    if not least <= value <= most:
        bound = f"at most {most}" if value > most else f"at least {least}"
        raise ValueError(f"limit {name} must be {bound}, not {value!r}")
    return value
