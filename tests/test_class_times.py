"""The benchmark of the time that classes take: what it tells of fits that are pretended."""

from __future__ import annotations

import re

import numpy as np
from benchmarks import class_times


def test_the_command_tells_how_many_times_as_long_classes_take(monkeypatch, capsys):
    def pretend(model, X, y):
        assert X.shape[1] == 4
        return {2: 4.0, 3: 24.0}.get(len(np.unique(y)), 2.0)

    words = "class_times --rows 120 --inputs 4 --classes 2 3"
    monkeypatch.setattr("sys.argv", words.split())
    monkeypatch.setattr(class_times, "seconds", pretend)
    class_times.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "120 × 4: regression 2.0 s"
    assert [re.findall(r"[\d.]+", line) for line in lines[1:]] == [
        ["2", "4.0", "2.0", "3"],
        ["3", "24.0", "12.0", "9"],
    ]
    assert [line.split()[-1] for line in lines[1:]] == ["held", "missed"]


def test_a_fit_takes_time():
    class Slow:
        def fit(self, X, y):
            return sum(range(200_000))

    assert class_times.seconds(Slow(), *class_times.draw(5, 4)) > 0
