"""Rounds, ratios and goals. All cases of one comparison run in turn in every round, so that drift hits them alike."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

AT_LEAST: Final = ">="
AT_MOST: Final = "<="


class Plan(NamedTuple):
    """How much is run. `scale` divides the sizes of the whole-process benches; `core` is where both ends run."""

    rounds: int
    scale: int
    core: int | None


FULL: Final = Plan(rounds=5, scale=1, core=0)
SHORT: Final = Plan(rounds=2, scale=8, core=0)


class Figure(NamedTuple):
    """One row of the table: samples of one number, a sample a round, and what it is to be.

    `sense` is `>=`, `<=` or "" where the number is only reported; `note` gives absolutes of the machine at hand.
    """

    part: str
    what: str
    samples: Sequence[float]
    unit: str = "x"
    sense: str = ""
    goal: float = 0.0
    note: str = ""

    @property
    def median(self) -> float:
        """The number that is judged."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Largest minus smallest sample, as a share of the median."""
        return (max(self.samples) - min(self.samples)) / abs(self.median) if self.median else 0.0

    @property
    def met(self) -> bool | None:
        """Whether the median meets the goal; None where there is none."""
        if not self.sense:
            return None
        return self.median >= self.goal if self.sense == AT_LEAST else self.median <= self.goal


def interleave(cases: Mapping[str, Callable[[], T]], rounds: int, warm: int = 1) -> dict[str, list[T]]:
    """Run one of each case a round, starting with another each time; return the results by case, warm-up left out."""
    names = list(cases)
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(-warm, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            result = cases[name]()
            if number >= 0:
                results[name].append(result)
    return results


def cpu_seconds(call: Callable[[], object]) -> Callable[[], float]:
    """Return a case that measures the CPU seconds of a call, garbage collection off: other programs are not charged."""

    def case() -> float:
        gc.disable()
        try:
            start = time.process_time()
            call()
            return time.process_time() - start
        finally:
            gc.enable()

    return case


def ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Divide sample by sample: both were taken in the same round."""
    return [a / b for a, b in zip(of, to, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """Return a value of a sorted sequence, for instance at 0.99."""
    return values[min(len(values) - 1, int(len(values) * share))]


def pressure_s() -> float:
    """Return for how many seconds since the start of the machine some task had to wait for a core (Linux), else 0."""
    try:
        return int(Path("/proc/pressure/cpu").read_text().split("total=", 1)[1].split()[0]) / 1e6
    except (OSError, IndexError, ValueError):
        return 0.0


def machine() -> dict[str, object]:
    """Return what the figures depend on."""
    from importlib.metadata import version

    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "processor": _processor(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("orjson", "uvloop", "pydantic-core")},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
