"""The comparison of two commits: what runs in turn, and what its numbers say."""

from __future__ import annotations

import subprocess

import pytest
from benchmarks import commits

CASE = "prediction, 200,000 rows"
STUB = """
import time

class FeatureLearningRegressor:
    def __init__(self, **parameters):
        pass

    def fit(self, X, y):
        return self

    def predict(self, X):
        end = time.process_time() + {seconds}
        while time.process_time() < end:
            pass
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Two commits of a package, the second of which takes three times as long."""
    monkeypatch.setattr(commits, "_ROOT", tmp_path)
    module = tmp_path / "src" / "polyadic" / "__init__.py"
    module.parent.mkdir(parents=True)

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", ".")
    for seconds in (0.02, 0.06):
        module.write_text(STUB.format(seconds=seconds))
        git("add", "-A")
        git("commit", "-q", "-m", str(seconds))
    return tmp_path


@pytest.mark.slow
@pytest.mark.process
def test_a_commit_that_takes_three_times_as_long_is_told(repository, capsys):
    commits.main(["HEAD~1", "HEAD", "--rounds", "2", "--cases", CASE])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if CASE in line]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[-2] == "slower"
    assert 2 < float(cells[5]) < 4
    found = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, check=True, capture_output=True, text=True
    )
    assert len(found.stdout.splitlines()) == 1  # nothing is left behind


def test_a_name_that_is_no_commit_is_told(repository):
    with pytest.raises(SystemExit, match="`nothing` must name a commit"):
        commits.main(["nothing", "HEAD"])


def test_ratios_are_those_of_a_round_and_cases_that_one_cannot_do_are_left_out():
    name, other = list(commits.CASES)[:2]
    rounds = [[{name: (t, t), other: (1.0, 1.0)}, {name: (2 * t, 2 * t)}] for t in (1.0, 5.0, 9.0)]
    lines = commits.write("old", "new", rounds).splitlines()
    assert f"| {name} | 5 | 10 | 2.00 | 2.00 | 2.00 to 2.00 | slower |" in lines
    assert not any(other in line for line in lines)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(1.1, 1.3, "slower"), (0.7, 0.9, "faster"), (0.9, 1.2, ""), (1.01, 1.02, "")],
)
def test_what_is_within_the_spread_is_not_told(low, high, word):
    assert commits.verdict(low, high) == word
