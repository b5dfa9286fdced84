"""Pictures as SVG that takes its colours from the page.

Matplotlib draws with colours that occur nowhere else, and these are replaced by CSS
variables, so that one picture serves light and dark pages.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyadic.inspection import write_tick

INK, ACCENT, SECOND, MUTED = "#010203", "#040506", "#070809", "#0a0b0c"
_THIRD, _FOURTH, _FIFTH = "#0d0e0f", "#101112", "#131415"
CYCLE = (ACCENT, SECOND, _THIRD, _FOURTH, _FIFTH, MUTED)
"""Colours of several lines, one after the other."""

_VARIABLES = {
    INK: "var(--ink)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    MUTED: "var(--muted)",
    _THIRD: "var(--third)",
    _FOURTH: "var(--fourth)",
    _FIFTH: "var(--fifth)",
}
_LONG_TICK = 7  # characters
_WIDTH = 4.4  # of every picture, so that type has one size on the page
_STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "text.parse_math": False,  # a name with dollar signs is a name
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_mathtext": False,
}


@dataclass(frozen=True)
class Figure:
    """A picture, what it shows in words, and the line under it."""

    name: str
    svg: str
    text: str
    caption: str


def draw(name: str, paint: Callable[[Any], Any], height: float = 3.1) -> str:
    """Return the SVG of what `paint` draws on an axis."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure as Canvas

    stream = io.StringIO()
    cycle = cycler(linestyle=["-", "--"]) * cycler(color=list(CYCLE))
    style = {**_STYLE, "svg.hashsalt": name, "axes.prop_cycle": cycle}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Text stays text in the SVG: the reader's fonts draw it, not Matplotlib's.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        canvas: Any = Canvas(figsize=(_WIDTH, height), layout="constrained")
        axes = canvas.subplots()
        paint(axes)
        _write_ticks(axes)
        canvas.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return _inline(stream.getvalue(), name)


def fit_text(text: str, length: int = 40) -> str:
    """Return a name as a picture has room for: in one line, and not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _write_ticks(axes: Any) -> None:
    """Write the numbers of both axes out, where they are not labels of their own."""
    from matplotlib.ticker import AutoLocator, MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_locator(), AutoLocator | MaxNLocator):
            axis.set_major_formatter(write_tick)
    if isinstance(axes.xaxis.get_major_locator(), AutoLocator):
        # Long numbers need room beside each other.
        longest = max(len(write_tick(float(f"{end:.2g}"))) for end in axes.get_xlim())
        axes.locator_params(axis="x", nbins=5 if longest < _LONG_TICK else 4)


def _inline(svg: str, name: str) -> str:
    """Make a file's SVG fit for a page: its size from CSS, its names its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"font: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    return svg
