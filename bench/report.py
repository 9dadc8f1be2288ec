"""Run what is no pytest bench, and say how the figures stand to the goals.

    python bench/report.py [--short] [--only PART,PART] [--rounds N]

Parts: requests, events, framing, memory, start. Options may also stand in the environment variable BENCH, which make
hands on; CI=true means short. Writes `report.json`, `report.svg` and `report.md` (the table of docs/performance.md)
below `.bench/`. Exit code 0 unless a bench could not run, or what it timed was wrong; never because of a time.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import process_codec, process_events, process_memory, process_ops, process_start
from bench.measure import FULL, SHORT, Figure, Plan, machine, pressure_s
from bench.plot import chart
from bench.wire import ROOT

FOLDER: Final = ROOT / ".bench"
PARTS: Final[dict[str, Callable[[Plan], Iterator[Figure]]]] = {
    "requests": process_ops.figures,
    "events": process_events.figures,
    "framing": process_codec.figures,
    "memory": process_memory.figures,
    "start": process_start.figures,
}
WIDTH: Final = 88
BUSY: Final = 0.5
"""Share of the run in which some task waited for a core, from which on the figures say little."""


def main(words: Sequence[str]) -> int:
    plan, only = _options(words)
    started, pressed = time.monotonic(), pressure_s()
    print(f"{'what':{WIDTH}} {'goal':>9} {'measured':>11} {'spread':>7}  ")
    figures: list[Figure] = []
    failed: list[str] = []
    for part in only:
        print(f"-- {part}", flush=True)
        try:
            for figure in PARTS[part](plan):
                figures.append(figure)
                print(_row(figure), flush=True)
        except Exception:
            failed.append(part)
            traceback.print_exc()
    seconds = time.monotonic() - started
    waiting = (pressure_s() - pressed) / seconds
    judged = [figure for figure in figures if figure.met is not None]
    met = sum(1 for figure in judged if figure.met)
    print(f"\n{met} of {len(judged)} goals met, {plan.rounds} rounds, {seconds:.0f} s")
    if waiting > BUSY:
        print(f"The machine was busy: for {waiting:.0%} of the time something waited for a core. Run it again.")
    _write(figures, {"seconds": round(seconds), "waiting_share": round(waiting, 2), "rounds": plan.rounds})
    for part in failed:
        print(f"FAILED: {part} could not run, or was wrong")
    return 1 if failed else 0


def _options(words: Sequence[str]) -> tuple[Plan, list[str]]:
    left = list(words)
    plan = SHORT if os.environ.get("CI") == "true" else FULL
    only = list(PARTS)
    while left:
        word = left.pop(0)
        if word == "--short":
            plan = SHORT
        elif word == "--only" and left:
            only = left.pop(0).split(",")
        elif word == "--rounds" and left and left[0].isdigit() and int(left[0]) > 0:
            plan = plan._replace(rounds=int(left.pop(0)))
        elif not word.startswith("--benchmark"):  # BENCH may hold options of pytest-benchmark
            sys.exit(f"unknown option {word}; see the head of this file")
    if wrong := set(only) - set(PARTS):
        sys.exit(f"no part is named {', '.join(sorted(wrong))}; there are: {', '.join(PARTS)}")
    return plan, only


def _row(figure: Figure) -> str:
    goal = f"{figure.sense} {figure.goal:g} {figure.unit}" if figure.sense else ""
    verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
    measured = f"{figure.median:.3g} {figure.unit}"
    row = f"{figure.what:{WIDTH}} {goal:>9} {measured:>11} {figure.spread:>6.0%}  {verdict:6}"
    return f"{row}  {figure.note}".rstrip()


def _write(figures: Sequence[Figure], run: dict[str, Any]) -> None:
    FOLDER.mkdir(exist_ok=True)
    rows = [
        {**figure._asdict(), "median": figure.median, "spread": round(figure.spread, 3), "met": figure.met}
        for figure in figures
    ]
    report = {"machine": machine(), "run": run, "figures": rows, "in_process": _in_process()}
    (FOLDER / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (FOLDER / "report.svg").write_text(chart([figure for figure in figures if figure.sense]))
    (FOLDER / "report.md").write_text(_markdown(figures))
    print(f"written: report.json, report.svg and report.md in {FOLDER.name}")


def _markdown(figures: Sequence[Figure]) -> str:
    rows = ["| part | what | goal | measured | spread | | in absolute figures |", "|---|---|--:|--:|--:|---|---|"]
    for figure in figures:
        goal = f"{figure.sense} {figure.goal:g} {figure.unit}" if figure.sense else ""
        verdict = {True: "met", False: "**missed**", None: ""}[figure.met]
        measured = f"{figure.median:.3g} {figure.unit}"
        cells = (figure.part, figure.what, goal, measured, f"{figure.spread:.0%}", verdict, figure.note)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _in_process() -> list[dict[str, Any]]:
    """Return what the pytest benches of the last run measured, if there was one: microseconds a round."""
    try:
        found = json.loads((FOLDER / "in-process.json").read_text())
    except (OSError, ValueError):
        return []
    return [
        {"group": bench["group"], "name": bench["name"], "median_us": round(bench["stats"]["median"] * 1e6, 3)}
        for bench in found["benchmarks"]
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or os.environ.get("BENCH", "").split()))
