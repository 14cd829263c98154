"""The figures as a table and as a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .timing import Figure

_LEFT, _WIDTH, _ROW, _FROM, _TO = 470, 520, 18, 0.05, 100.0
_COLOURS = {"toolnexus": "#1f77b4", "floor": "#999999"}


def table(figures: Sequence[Figure]) -> str:
    """Markdown: the median of the rounds and their range, the median ratio to the baseline, and of ours to each."""
    lines = ["| figure | subject | median | range | ratio | toolnexus to it |", "|---|---|---:|---:|---:|---:|"]
    for figure in figures:
        for subject, values in figure.values.items():
            ratio, ours = figure.ratio(subject), figure.ratio("toolnexus", subject)
            lines.append(
                f"| {figure.title} | {subject} | {figure.median(subject):.3g} {figure.unit} "
                f"| {min(values):.3g}–{max(values):.3g} "
                f"| {f'{ratio:.2f} × {figure.baseline}' if ratio is not None else ''} "
                f"| {f'{ours:.3f} ×' if ours is not None and subject != 'toolnexus' else ''} |"
            )
    return "\n".join(lines) + "\n"


def chart(figures: Sequence[Figure]) -> str:
    """SVG: each subject's cost as a multiple of its baseline's, on a logarithmic scale."""
    body: list[str] = []
    y = 30
    for figure in figures:
        if figure.baseline is None:
            continue
        y += 8
        body.append(f'<text x="8" y="{y + 12}" font-weight="bold">{escape(figure.title)}</text>')
        for subject in figure.values:
            ratio = figure.ratio(subject) or 0.0
            y += _ROW
            x, one = _x(ratio), _x(1.0)
            colour = _COLOURS.get(subject.split()[0], "#e0a050")
            body.append(f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(subject)}</text>')
            body.append(
                f'<rect x="{min(x, one):.1f}" y="{y + 2}" width="{max(abs(x - one), 1.5):.1f}" height="12" '
                f'fill="{colour}"/>'
            )
            label = f"{figure.median(subject):.3g} {figure.unit}, {ratio:.2f} ×"
            body.append(f'<text x="{max(x, one) + 5:.1f}" y="{y + 12}">{escape(label)}</text>')
        y += _ROW
    height = y + 20
    ticks = [0.1, 1.0, 10.0, 100.0]
    grid = "".join(
        f'<line x1="{_x(tick):.1f}" x2="{_x(tick):.1f}" y1="24" y2="{height - 10}" stroke="#ddd"/>'
        f'<text x="{_x(tick):.1f}" y="18" text-anchor="middle">{tick:g} ×</text>'
        for tick in ticks
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 160}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{grid}{''.join(body)}</svg>\n"
    )


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, _FROM), _TO) / _FROM) / math.log(_TO / _FROM)
    return _LEFT + share * _WIDTH
