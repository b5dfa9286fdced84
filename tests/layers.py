"""The layers of the package, who imports whom, and a picture of it.

``python -m tests.layers`` draws docs/imports.svg anew.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "polyadic"
PICTURE = ROOT / "docs" / "imports.svg"
# Each layer may import those before it, and itself.
LAYERS = (
    "_version", "features", "model", "rows", "engines", "samples", "compute", "sources", "members",
    "uncertainty", "search", "storage", "estimators", "export", "inspection", "report", "datasets",
    "experiments", "cli",
)  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))
_HEIGHT, _LEFT, _WIDTH = 34, 24, 120


def name_of(path):
    """Return the dotted name of a module inside the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Yield the modules of the package that a file imports, wherever it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            whole = node.module == "polyadic"
            names = [f"polyadic.{a.name}" for a in node.names] if whole else [node.module]
        else:
            continue
        yield from (n.removeprefix("polyadic.") for n in names if n.startswith("polyadic."))


@cache
def edges():
    """Return every import between two layers, with the file that has it."""
    found = []
    for path in MODULES:
        mine = name_of(path).split(".")[0]
        for other in imports(path):
            theirs = other.split(".")[0]
            if mine and theirs in LAYERS and mine != theirs:
                found.append((mine, theirs, path.relative_to(SOURCE)))
    return found


def picture():
    """Return an SVG of the layers from top to bottom, an arc for each that imports another."""
    counts = Counter((mine, theirs) for mine, theirs, _ in edges())
    height = _HEIGHT * len(LAYERS) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" '
        'font-family="sans-serif" font-size="13" role="img" '
        'aria-label="Layers of the package from top to bottom; arcs lead from a layer to those '
        'above it that it imports, thicker where more modules do.">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, layer in enumerate(LAYERS):
        y = 10 + place * _HEIGHT
        lines.append(
            f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="24" rx="5" fill="#eef2f7" '
            f'stroke="#9ab"/><text x="{_LEFT + 10}" y="{y + 16.5}" fill="#123">{layer}</text>'
        )
    for (mine, theirs), count in sorted(counts.items()):
        low, high = (22 + LAYERS.index(each) * _HEIGHT for each in (mine, theirs))
        bulge = _LEFT + _WIDTH + 0.9 * (low - high)
        lines.append(
            f'<path d="M{_LEFT + _WIDTH},{low} C{bulge:g},{low} {bulge:g},{high} '
            f'{_LEFT + _WIDTH},{high}" fill="none" stroke="#1c6dc8" stroke-opacity="0.45" '
            f'stroke-width="{min(0.6 + 0.25 * count, 3.5):g}"><title>{mine} imports {theirs}, '
            f"{count} times</title></path>"
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
