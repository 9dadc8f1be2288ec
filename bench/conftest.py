"""How benches run: what `--short` means, where their figures go, and both twins of what has two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import rig

RESULTS = Path(__file__).parent.parent / ".bench" / "in-process.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--short", action="store_true", help="few rounds: shows that every bench runs and is right")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Write the figures below `.bench/` unless another place is named, and make `--short` short."""
    option = config.option
    if not getattr(option, "benchmark_only", False):
        return
    if option.benchmark_json is None:
        RESULTS.parent.mkdir(exist_ok=True)
        option.benchmark_json = RESULTS
    if "process_time" not in option.benchmark_timer:
        option.benchmark_timer = "time.process_time"  # what other programs do meanwhile is not charged
    if option.short:
        option.benchmark_max_time = "0.02"
        option.benchmark_min_rounds = 2


@pytest.fixture(params=rig.TWINS)
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the bench once with each implementation."""
    if request.param not in rig.twins():
        pytest.skip("the accelerators are not built")
    with rig.twin(request.param):
        yield request.param


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a bench runs that cannot run its call twice with the same input."""
    return 10 if request.config.getoption("short") else 200


def pedantic(benchmark: Any, call: Callable[[], object], rounds: int) -> None:
    """Time a call just so many times, once each."""
    benchmark.pedantic(call, rounds=rounds, iterations=1)
