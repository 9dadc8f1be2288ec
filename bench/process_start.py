"""Spawn to first answer, from an installed wheel; and how long a loop is blocked when it spawns a child."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from trunkline.adapters.base import Launch
from trunkline.gateway.drive.launch import spawn

from bench.measure import AT_MOST, Figure, Plan, interleave, percentile, ratios
from bench.script import op
from bench.wire import ROOT, BenchError

PART: Final = "start"
FOLDER: Final = ROOT / ".bench"
STARTS: Final = 15
SPAWNS: Final = 40
HEAPS_MIB: Final = (1, 200)
INSTALL_S: Final = 600
SOURCES: Final = ("_speedups", "adapters", "framing", "gateway", "protocol", "setup.py", "pyproject.toml")
PAPERS: Final = ("README.md", "LICENSE", "MANIFEST.in")
REFERENCE: Final = """
import asyncio, os, sys, uvloop, orjson
async def main():
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    def ready():
        os.write(1, os.read(0, 65536)); done.set_result(None)
    loop.add_reader(0, ready)
    await done
uvloop.run(main())
"""
"""Python with the libraries that the gateway has anyway, a running loop, and one echoed line."""


def figures(plan: Plan) -> Iterator[Figure]:
    """Measure starts and spawns."""
    yield from _starts(plan)
    yield from _spawns(plan)


# -- start -------------------------------------------------------------------------------------------------------------


def _starts(plan: Plan) -> Iterator[Figure]:
    python = _installed()
    gateway = (str(python.with_name("trunkline")), "serve", "--stdio")
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    submit_ready = op(1, "sessions") + op(2, "state", session_id="nobody")
    cases: dict[str, Callable[[], float]] = {
        "reference": lambda: _first_line((str(python), "-c", REFERENCE), op(1, "sessions"), environment),
        "sessions": lambda: _first_line(gateway, op(1, "sessions"), environment),
        "loop": lambda: _first_line(gateway, submit_ready, environment, lines=2),
    }
    found = interleave(cases, max(3, STARTS // plan.scale), warm=2)
    base = statistics.median(found["reference"]) * 1e3
    first = statistics.median(found["sessions"]) * 1e3
    note = f"{first:.1f} ms beside {base:.1f} ms; stretch goal 0.35x"
    what = "spawn to first answer, of python with asyncio, uvloop and orjson"
    yield Figure(PART, what, ratios(found["sessions"], found["reference"]), "x", AT_MOST, 1.15, note)
    note = f"{statistics.median(found['loop']) * 1e3:.1f} ms"
    what = "spawn to the first answer that needs the loop, of the same"
    yield Figure(PART, what, ratios(found["loop"], found["reference"]), "x", "", 0, note)


def _first_line(command: Sequence[str], said: bytes, environment: Mapping[str, str], lines: int = 1) -> float:
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=dict(environment),
        cwd=FOLDER,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(said)
        answer = b""
        while answer.count(b"\n") < lines:
            chunk = process.stdout.read(1 << 16)
            if not chunk:
                raise BenchError(f"{' '.join(command[:2])} gave no answer")
            answer += chunk
        return time.perf_counter() - start
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()


def _installed() -> Path:
    """Return the Python of an environment that holds a wheel of this tree; made once a state of the sources."""
    FOLDER.mkdir(exist_ok=True)
    home, stamp = FOLDER / "installed", FOLDER / "installed.stamp"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    newest = str(max(path.stat().st_mtime for name in SOURCES for path in _files(ROOT / name)))
    if python.exists() and stamp.exists() and stamp.read_text() == newest:
        return python
    sources, wheels = FOLDER / "sources", FOLDER / "wheels"
    for folder in (home, sources, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    sources.mkdir()
    for name in (*SOURCES, *PAPERS):
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, sources / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.c"))
        elif place.exists():
            shutil.copy2(place, sources / name)
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(sources))
    _run(sys.executable, "-m", "venv", str(home))
    (wheel,) = wheels.glob("*.whl")
    _run(str(python), "-m", "pip", "install", str(wheel))
    stamp.write_text(newest)
    return python


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    else:
        for pattern in ("*.py", "*.pyx", "*.pxi"):
            yield from place.rglob(pattern)


def _run(*command: str) -> None:
    quiet = ("-q", "--disable-pip-version-check") if "pip" in command else ()
    done = subprocess.run(
        [*command[:4], *quiet, *command[4:]], capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    if done.returncode:
        raise BenchError(f"{' '.join(command[1:4])} failed: {done.stderr[-800:]}")


# -- spawn -------------------------------------------------------------------------------------------------------------


def _spawns(plan: Plan) -> Iterator[Figure]:
    """Time the call that starts a harness: the loop does nothing else meanwhile."""
    true = shutil.which("true")
    if true is None:
        return
    launch = Launch([true], {"PATH": os.environ.get("PATH", "")}, None)
    for mib in HEAPS_MIB:
        heap = bytearray(b"x" * (mib << 20))
        samples = []
        for _ in range(plan.rounds):
            times = sorted(_spawn(launch) for _ in range(SPAWNS))
            samples.append(statistics.median(times) * 1e3)
        worst = percentile(times, 0.95) * 1e3
        note = f"95 % of the last {SPAWNS} within {worst:.2f} ms"
        assert len(heap) == mib << 20
        yield Figure(PART, f"loop blocked a child spawn, heap {mib} MiB", samples, "ms", AT_MOST, 1, note)


def _spawn(launch: Launch) -> float:
    start = time.perf_counter()
    spawned = spawn(launch)
    took = time.perf_counter() - start
    for fd in (spawned.stdin, spawned.stdout, spawned.stderr):
        os.close(fd)
    if spawned.process.wait(timeout=10) != 0:
        raise BenchError("a spawned child failed")
    return took
