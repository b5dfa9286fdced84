"""The benchmark of graphs: what it measures and writes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
from benchmarks import graphs, report

from tests.small import smooth_rows


@pytest.mark.slow
def test_numbers_and_classes_agree_and_are_written_between_the_markers(tmp_path):
    X, y = smooth_rows(80, noise=0.1)
    page = tmp_path / "onnx.md"
    rows = [["numbers", *graphs.measure(X, y)]]
    rows.append(["classes", *graphs.measure(X, np.where(y > 1, "high", "low"))])
    for found in ("before", graphs.write(rows, "a CPU")):
        report.put(found, page, "ONNX")
    assert "before" not in page.read_text()
    assert "2 sets, greatest difference" in page.read_text()
    assert all(float(row[1]) < 1e-10 for row in rows)
    assert float(rows[0][2]) < 1e-7
    assert rows[1][2] == ""
