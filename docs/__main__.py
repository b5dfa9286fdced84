"""Build the site into docs/_build/html, without the network and without a warning.

python -m docs              # everything; runs the gallery, a few minutes
python -m docs --no-gallery # the examples are shown and not run
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def build(arguments: list[str] | None = None) -> int:
    """Build the site as asked for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs", description=__doc__.split("\n")[0])
    parser.add_argument("--no-gallery", action="store_true", help="show examples, do not run them")
    parser.add_argument("--out", type=Path, default=FOLDER / "_build", help="where to write")
    options = parser.parse_args(arguments)
    try:
        from sphinx.cmd.build import build_main
    except ImportError:
        sys.exit("The site is built by Sphinx: pip install 'polyadic[docs]'")
    # All warnings are shown before the build fails: one run tells everything that is wrong.
    settings = ["-W", "--keep-going", "-q", "-j", "1"]
    if options.no_gallery:
        settings += ["-D", "plot_gallery=0"]
    html = options.out / "html"
    code = build_main([*settings, "-d", str(options.out / "cache"), str(FOLDER), str(html)])
    if code == 0:
        print(f"The site is at {html / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(build())
