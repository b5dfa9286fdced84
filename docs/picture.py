"""Draw the picture of the model on the start page, light and dark: ``python docs/picture.py``.

Its curves are made up; the numbers beside them follow from the curves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

INK, FAINT, PAPER, BOX, EDGE = "#22303c", "#8796a5", "#ffffff", "#f3f6f9", "#d5dde5"
COLOURS = ("#1f6fb2", "#c2571a", "#2f855a")  # one for each term
# What they are on a dark page.
DARK = {
    INK: "#dfe5ec",
    FAINT: "#9aa7b5",
    PAPER: "#14181e",
    BOX: "#222832",
    EDGE: "#3b4553",
    **dict(zip(COLOURS, ("#6cb0ee", "#f29a5e", "#6cc79a"), strict=True)),
}
CELL, HEIGHT, GAP, LEFT, TOP = 138.0, 62.0, 34.0, 14.0, 104.0

# The three inputs: what a row says, where that stands between 0 and 1, and the curve of each term.
Curve = Callable[[float], float]
INPUTS: list[tuple[str, str, float, list[Curve]]] = [
    (
        "time",
        "14 May, 15:00",
        0.37,
        [
            lambda t: 0.55 - 0.4 * math.cos(2 * math.pi * t),
            lambda t: 0.5 + 0.35 * math.sin(14 * t),
            lambda t: 0.3 + 0.5 * t,
        ],
    ),
    (
        "humidity",
        "a gap: 61 % is likely",
        0.61,
        [
            lambda t: 0.9 - 0.35 * t,
            lambda t: 0.25 + 1.6 * t * (1 - t),
            lambda t: 0.2 + 0.6 / (1 + math.exp(-14 * (t - 0.5))),
        ],
    ),
]
LEVELS = ("EWR", "JFK", "LGA")
LEVEL = 1
HEIGHTS = ((0.8, 0.62, 0.72), (0.35, 0.7, 0.5), (0.5, 0.3, 0.85))


def text(x: float, y: float, words: str, size: float = 15, fill: str = INK, **more: str) -> str:
    """Return words at a place, in the middle of it unless said otherwise."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    if "text_anchor" not in more:
        rest += ' text-anchor="middle"'
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{rest}>{words}</text>'


def frame(x: float, y: float) -> str:
    """Return the box of one curve."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{CELL}" height="{HEIGHT}" rx="7" fill="{BOX}" '
        f'stroke="{EDGE}"/>'
    )


def curve(x: float, y: float, function: Curve, at: float, colour: str) -> str:
    """Return a curve in its box, with a dot where the row is."""

    def place(t: float) -> str:
        return f"{x + 6 + t * (CELL - 12):.1f},{y + HEIGHT - 6 - function(t) * (HEIGHT - 12):.1f}"

    line = " ".join(place(step / 60) for step in range(61))
    px, py = place(at).split(",")
    return (
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.2"/>'
        f'<line x1="{px}" y1="{y}" x2="{px}" y2="{y + HEIGHT}" stroke="{FAINT}" '
        f'stroke-dasharray="2 3"/><circle cx="{px}" cy="{py}" r="5" fill="{colour}"/>'
    )


def bars(x: float, y: float, heights: tuple[float, ...], colour: str) -> str:
    """Return the levels of a category as bars, that of the row filled."""
    wide = (CELL - 24) / 3
    parts = []
    for place, height in enumerate(heights):
        tall = height * (HEIGHT - 24)
        left = x + 12 + place * wide + 5
        solid = 1.0 if place == LEVEL else 0.25
        parts.append(
            f'<rect x="{left:.1f}" y="{y + HEIGHT - 17 - tall:.1f}" width="{wide - 10:.1f}" '
            f'height="{tall:.1f}" fill="{colour}" fill-opacity="{solid}"/>'
            + text(left + wide / 2 - 5, y + HEIGHT - 4, LEVELS[place], 11, FAINT)
        )
    return "".join(parts)


def draw() -> str:
    """Return the picture as SVG."""
    columns = [LEFT + place * (CELL + GAP) for place in range(3)]
    names = [*((name, value) for name, value, _, _ in INPUTS), ("airport", LEVELS[LEVEL])]
    parts = [text(LEFT, 24, "One row of a table", 16, font_weight="bold", text_anchor="start")]
    for x, (name, value) in zip(columns, names, strict=True):
        parts.append(text(x + CELL / 2, 56, name, 16, font_weight="bold"))
        parts.append(text(x + CELL / 2, 76, value, 14, FAINT))
        parts.append(
            f'<path d="M{x + CELL / 2} 82 v12 m-4 -5 l4 5 l4 -5" stroke="{FAINT}" fill="none"/>'
        )
    total = 0.0
    right = columns[-1] + CELL
    for term, colour in enumerate(COLOURS):
        y = TOP + term * (HEIGHT + 24)
        product = HEIGHTS[term][LEVEL]
        for x, (_, _, at, curves) in zip(columns, INPUTS, strict=False):
            parts += [frame(x, y), curve(x, y, curves[term], at, colour)]
            product *= curves[term](at)
        parts += [frame(columns[-1], y), bars(columns[-1], y, HEIGHTS[term], colour)]
        for x in columns[1:]:
            parts.append(text(x - GAP / 2, y + HEIGHT / 2 + 7, "×", 22))
        parts.append(text(right + GAP / 2, y + HEIGHT / 2 + 7, "=", 22))
        parts.append(text(right + 62, y + HEIGHT / 2 + 6, f"{product:.2f}", 19, colour))
        if term < 2:
            parts.append(text(right + 62, y + HEIGHT + 19, "+", 20))
        total += product
    y = TOP + 3 * (HEIGHT + 24)
    parts.append(
        f'<line x1="{right + 34}" y1="{y - 14}" x2="{right + 90}" y2="{y - 14}" stroke="{INK}"/>'
    )
    parts.append(text(right + 62, y + 12, f"{total:.2f}", 20, font_weight="bold"))
    parts.append(text(right + 62, y + 31, "f(x)", 15, FAINT))
    parts += [
        text(
            LEFT, y + 8, "A term is one curve for each input, multiplied.", 15, text_anchor="start"
        ),
        text(
            LEFT,
            y + 29,
            "A model is a sum of R terms: no kernel matrix, and",
            15,
            text_anchor="start",
        ),
        text(
            LEFT,
            y + 50,
            "R·D curves are learned in place of a tensor of Iᴰ.",
            15,
            text_anchor="start",
        ),
    ]
    width, height = right + 106, y + 66
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="system-ui, sans-serif" role="img">'
        f"<title>A model is a sum of products of curves, one for each input</title>"
        f'<rect width="100%" height="100%" rx="12" fill="{PAPER}"/>{"".join(parts)}</svg>\n'
    )


def darken(svg: str) -> str:
    """Return a picture in the colours of a dark page."""
    for light, dark in DARK.items():
        svg = svg.replace(light, dark)
    return svg


if __name__ == "__main__":
    folder = Path(__file__).resolve().parent / "_static"
    (folder / "model.svg").write_text(draw(), encoding="utf-8")
    (folder / "model-dark.svg").write_text(darken(draw()), encoding="utf-8")
