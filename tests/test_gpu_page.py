"""The page of the GPU: what its command writes, and where."""

from __future__ import annotations

from pathlib import Path

from benchmarks import report

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gpu.md"
RESULTS = {
    "machine": "one card.",
    "parts": {
        "airline": {
            "date": "2026-11-15",
            "what": "A large fit.",
            "rows": [["float64", "4.0 s", "5 s"], ["float32", "2.5 s", ""]],
        },
        "small": {"date": "2026-11-16", "what": "Small fits.", "rows": [["100", "7 s", "3×"]]},
    },
}


def test_tables_stand_between_the_markers_and_the_rest_stays(tmp_path):
    page = tmp_path / "gpu.md"
    page.write_text(PAGE.read_text())
    before, after = page.read_text().split(report.BEGIN)[0], page.read_text().split(report.END)[1]
    report.put("old", page, "GPU")
    report.put(report.gpu(RESULTS), page, "GPU")
    text = page.read_text()
    assert text.startswith(before + report.BEGIN)
    assert text.endswith(report.END + after)
    inside = text[len(before) : -len(after)]
    assert "old" not in inside
    assert "2026-11-15 to 2026-11-16: one card." in inside
    assert "**A large fit.**" in inside
    assert "| float64 | 4.0 s | 5 s |" in inside
    assert "| 100 | 7 s | 3× |" in inside
