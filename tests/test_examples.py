"""The examples of the gallery run as they are, and draw something."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))

# Those whose fits are the longest run in the build of the site, not once more here.
LONG = {"plot_number_of_rows", "plot_categories_and_gaps", "plot_partial_dependence"}

# What the extra `docs` brings and `test` does not.
NEEDS = {"plot_conformal": "mapie"}

RUN = """
import runpy, sys
import matplotlib.pyplot as plt
drawn = []
plt.show = lambda: drawn.extend(plt.figure(each).axes for each in plt.get_fignums())
runpy.run_path(sys.argv[1], run_name="__main__")
print("axes:", sum(axes.has_data() for figure in drawn for axes in figure))
"""


def test_there_are_enough_of_them():
    assert len(EXAMPLES) >= 10
    assert {path.stem for path in EXAMPLES} >= LONG


@pytest.mark.gallery
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path.stem not in LONG], ids=lambda path: path.stem
)
def test_example(path, tmp_path):
    pytest.importorskip(NEEDS.get(path.stem, "matplotlib"))
    shutil.copy(ROOT / "examples" / "weather.csv", tmp_path)
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("axes:")[1]) >= 1
    assert "Warning" not in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["weather.csv"]
