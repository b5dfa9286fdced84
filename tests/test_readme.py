"""The README is true: its example runs, and what it tells to type is what is tested."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.process
def test_the_example_runs_and_learns_something():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0.8 < float(done.stdout.split()[0]) < 1


def test_the_documents_it_names_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_continuous_integration_runs_the_test_command():
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    (command,) = re.findall(r"^    (python3 .*pytest.*)$", README, flags=re.MULTILINE)
    for part in command.split(" && "):
        install = part.replace("pip install -e", "pip install --quiet -e")
        assert install in steps, part
