"""Charts as SVG, by hand: bars beside each other, and curves over a logarithmic axis, light or dark.

An SVG that a page shows as a picture knows whether its reader prefers dark, and nothing else of the page; so
the background stays free, and ink and colours follow that preference. Every value is written beside its mark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

WIDTH: Final = 760
MARGIN: Final = 16
TITLE_HEIGHT: Final = 44
BAR_HEIGHT: Final = 18
BAR_GAP: Final = 6
GROUP_GAP: Final = 10
HEADING_HEIGHT: Final = 22
LABEL_WIDTH: Final = 210
VALUE_WIDTH: Final = 90
PLOT_HEIGHT: Final = 260
AXIS_HEIGHT: Final = 34
LEGEND_LINE: Final = 20
FONT: Final = "13px system-ui, sans-serif"
# Apart in lightness, too, for who does not tell these hues apart; payd's is the first.
LIGHT: Final = ("#0b5cad", "#c2570c", "#5f6b7a", "#2f855a", "#8b3fa0", "#9a7b00")
DARK: Final = ("#6cb2f5", "#f2a365", "#a9b4c2", "#7fd1a5", "#d19be3", "#e0c65a")

STYLE: Final = """\
text{{font:{font};fill:#1f2328}}.title{{font-weight:600}}.faint{{fill:#59636e}}
.grid{{stroke:#d1d9e0}}.mark{{fill:none;stroke-width:2}}
{light}
@media(prefers-color-scheme:dark){{text{{fill:#f0f6fc}}.faint{{fill:#9198a1}}.grid{{stroke:#3d444d}}
{dark}}}"""


class Bar(NamedTuple):
    """One value. Bars with the same colour stand for the same thing."""

    label: str
    value: float
    colour: int = 0


class Group(NamedTuple):
    """Bars that are to be compared, and what they are of."""

    heading: str
    bars: Sequence[Bar]


class Curve(NamedTuple):
    """Values by what they depend on."""

    name: str
    points: Sequence[tuple[float, float]]


def bars(title: str, groups: Sequence[Group]) -> str:
    """Horizontal bars from zero, group by group; all on one scale."""
    most = max(bar.value for group in groups for bar in group.bars) or 1.0
    room = WIDTH - 2 * MARGIN - LABEL_WIDTH - VALUE_WIDTH
    left, y = MARGIN + LABEL_WIDTH, TITLE_HEIGHT
    marks = []
    for group in groups:
        marks.append(_text(MARGIN, y + HEADING_HEIGHT - 8, group.heading))
        y += HEADING_HEIGHT
        for bar in group.bars:
            width = max(1.0, room * bar.value / most)
            base = y + BAR_HEIGHT - 5
            marks += [
                _text(left - 8, base, bar.label, anchor="end", faint=True),
                _rect(bar.colour, left, y, width, BAR_HEIGHT),
                _text(left + width + 6, base, number(bar.value)),
            ]
            y += BAR_HEIGHT + BAR_GAP
        y += GROUP_GAP
    return _svg(title, y, marks)


def curves(title: str, x_title: str, shown: Sequence[Curve]) -> str:
    """Curves with a mark at each value: logarithmic to the right, from zero upwards."""
    xs = sorted({x for curve in shown for x, _ in curve.points})
    most = max(y for curve in shown for _, y in curve.points) or 1.0
    low, high = math.log10(xs[0]), math.log10(xs[-1])
    left, right = MARGIN + 60, WIDTH - MARGIN - 40
    bottom = TITLE_HEIGHT + 8 + PLOT_HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(x) - low) / (high - low) if high > low else 0.5
        return left + share * (right - left), bottom - y / most * PLOT_HEIGHT

    marks = []
    for step in range(5):
        value = most * step / 4
        _, y = place(xs[0], value)
        marks += [
            f'<path class="grid" d="M{left} {y:.1f}H{right}"/>',
            _text(left - 8, y + 4, number(value), anchor="end", faint=True),
        ]
    marks += [_text(place(x, 0)[0], bottom + 18, number(x), anchor="middle", faint=True) for x in xs]
    marks.append(_text((left + right) / 2, bottom + AXIS_HEIGHT, x_title, anchor="middle", faint=True))
    for colour, curve in enumerate(shown):
        marks += _curve([place(x, y) for x, y in curve.points], colour)
        y = bottom + AXIS_HEIGHT + LEGEND_LINE * (colour + 1)
        last = curve.points[-1][1]
        marks += [
            _rect(colour, left, y - 10, 14, 10),
            _text(left + 22, y, f"{curve.name}: {number(curve.points[0][1])} → {number(last)}"),
        ]
    return _svg(title, bottom + AXIS_HEIGHT + LEGEND_LINE * (len(shown) + 1), marks)


def number(value: float) -> str:
    """As few digits as tell it."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"


def _curve(places: Sequence[tuple[float, float]], colour: int) -> list[str]:
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = [f'<circle class="c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    return [f'<path class="mark s{colour}" d="M{line}"/>', *dots]


def _rect(colour: int, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="c{colour}" x="{x}" y="{y}" width="{width:.1f}" height="{height}" rx="2"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", faint: bool = False) -> str:
    kind = ' class="faint"' if faint else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(title: str, height: float, marks: Sequence[str]) -> str:
    light, dark = (
        "".join(f".c{n}{{fill:{colour}}}.s{n}{{stroke:{colour}}}" for n, colour in enumerate(colours))
        for colours in (LIGHT, DARK)
    )
    words = escape(title)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
            f' height="{height:.0f}" role="img">',
            f"<title>{words}</title>",
            f"<style>{STYLE.format(font=FONT, light=light, dark=dark)}</style>",
            f'<text class="title" x="{MARGIN}" y="24">{words}</text>',
            *marks,
            "</svg>\n",
        )
    )
