"""The goals as one bar chart, in SVG: how far each figure is from its goal, with its spread. No library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from bench.measure import AT_LEAST, Figure

ROW: Final = 18
LEFT: Final = 560
SCALE: Final = 160
"""Pixels from nothing to the goal."""
MOST: Final = 2.5
"""Goals up to which a bar is drawn; a longer one is cut, with an arrow and its number."""
RIGHT: Final = 190
MET, MISSED, LINE = "#3a7d44", "#b5482a", "#444"


def chart(figures: Sequence[Figure]) -> str:
    """Return the chart of all figures that have a goal. The axis starts at 0; 1 is the goal, more is better."""
    width, height = LEFT + int(SCALE * MOST) + RIGHT, ROW * (len(figures) + 4)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _text(LEFT, ROW, "measured, as a multiple of the goal; 1 is the goal, more is better; whiskers: all rounds"),
    ]
    bottom = ROW * (len(figures) + 2)
    for mark in (0, 0.5, 1, 1.5, 2, 2.5):
        x = LEFT + SCALE * mark
        stroke = LINE if mark in (0, 1) else "#ddd"
        parts.append(f'<line x1="{x}" y1="{ROW * 1.5}" x2="{x}" y2="{bottom}" stroke="{stroke}"/>')
        parts.append(_text(x, bottom + ROW * 0.8, f"{mark:g}", "middle"))
    for number, figure in enumerate(figures):
        parts += _bar(figure, ROW * (number + 2))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(figure: Figure, y: float) -> list[str]:
    value = _share(figure, figure.median)
    low, high = sorted((_share(figure, min(figure.samples)), _share(figure, max(figure.samples))))
    length = SCALE * min(value, MOST)
    cut = " →" if value > MOST else ""
    middle = y + ROW / 2 - 2
    number = f"{figure.median:.3g} {figure.unit} ({figure.sense} {figure.goal:g}){cut}"
    parts = [
        _text(LEFT - 8, y + ROW * 0.6, f"{figure.part}: {figure.what}", "end"),
        f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 5}" fill="{MET if figure.met else MISSED}"/>',
        _text(LEFT + SCALE * MOST + 8, y + ROW * 0.6, number),
    ]
    if low < MOST:
        x1, x2 = LEFT + SCALE * low, LEFT + SCALE * min(high, MOST)
        parts.append(f'<line x1="{x1:.1f}" y1="{middle}" x2="{x2:.1f}" y2="{middle}" stroke="#000"/>')
    return parts


def _share(figure: Figure, value: float) -> float:
    """Return a value as a multiple of its goal, the right way up."""
    if figure.sense == AT_LEAST:
        return value / figure.goal
    return figure.goal / value if value > 0 else MOST * 2


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}" fill="{LINE}">{escape(text)}</text>'
