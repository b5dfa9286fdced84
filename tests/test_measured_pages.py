"""Pages that are measured part by part: what commands write, keep and leave alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import report

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page_of(folder, machine="one card"):
    return report.Page(folder / "gpu.md", "On a GPU", "`gpu.py`", machine, ", polyadic 1.0.")


def test_tables_stand_between_the_markers_and_the_rest_stays(tmp_path):
    page = tmp_path / "gpu.md"
    page.write_text((DOCS / "gpu.md").read_text())
    before, after = page.read_text().split(report.BEGIN)[0], page.read_text().split(report.END)[1]
    page_of(tmp_path).keep("airline", "Old.", ["", "measured"], [["float64", "9 s"]])
    page_of(tmp_path).keep("small", "Small fits.", ["", "measured"], [["100", "7 s"]])
    page_of(tmp_path).keep("airline", "A large fit.", ["", "measured"], [["float64", "4.0 s"]])
    text = page.read_text()
    assert text.startswith(before + report.BEGIN)
    assert text.endswith(report.END + after)
    inside = text[len(before) : -len(after)]
    assert "Old" not in inside
    assert re.search(r"Measured by `gpu.py`, 20\d\d-\d\d-\d\d: one card, polyadic 1.0.", inside)
    assert inside.index("**A large fit.**") < inside.index("**Small fits.**")
    assert "| float64 | 4.0 s |" in inside
    assert "| 100 | 7 s |" in inside


def test_a_page_is_about_one_machine(tmp_path):
    page_of(tmp_path).keep("airline", "A large fit.", ["", "measured"], [["float64", "4.0 s"]])
    page_of(tmp_path, "another card").keep("small", "Small.", ["", "measured"], [["100", "7 s"]])
    assert list(json.loads((tmp_path / "gpu.json").read_text())["parts"]) == ["small"]
    assert "A large fit" not in (tmp_path / "gpu.md").read_text()


@pytest.mark.parametrize("name", ["gpu", "scaling"])
def test_pages_say_what_was_kept(name):
    kept = json.loads((DOCS / f"{name}.json").read_text())
    text = (DOCS / f"{name}.md").read_text()
    assert kept["machine"] in text
    for part in kept["parts"].values():
        assert report.table(part["head"], part["rows"]) in text
