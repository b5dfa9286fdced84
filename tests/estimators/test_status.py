"""The line on a terminal: there when somebody waits, and only then."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from polyadic import FeatureLearningRegressor, KernelMachineRegressorCV
from polyadic.estimators import _progress, _status
from tests.small import MAPS

RNG = np.random.RandomState(0)
X = RNG.uniform(size=(400, 3))
Y = np.sin(4 * X[:, 0]) + X[:, 1]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Let the standard error be a terminal, and let nobody wait for its line."""
    monkeypatch.setattr(_status, "_PAUSE", 0.001)
    return watch(monkeypatch, Terminal())


def watch(monkeypatch, stream):
    """Let a stream be the standard error; pytest takes care of the real one itself."""
    for module in (_status, _progress):
        monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=stream, modules={}))
    monkeypatch.setattr(_status, "_DELAY", 0.0)
    return stream


def named(**parameters):
    return FeatureLearningRegressor(MAPS, n_basis=8, rank=8, random_state=0, **parameters)


def test_a_fit_says_what_it_does_and_wipes_its_line(terminal):
    named(n_estimators=2, max_iter=30, tol=0.0).fit(X, Y)
    lines = terminal.getvalue().split("\r")
    assert any("polyadic: member 1 of 2, epoch" in line for line in lines)
    assert any(", about " in line and " left" in line for line in lines)
    assert lines[-1] == ""
    assert lines[-2].strip() == ""


def test_an_automatic_fit_names_its_stages(terminal, monkeypatch):
    stages, tell = [], _status.StatusLine.tell

    def listen(line, what, *arguments):
        # A stage may be shorter than any pause of the line.
        stages.append(what)
        tell(line, what, *arguments)

    monkeypatch.setattr(_status.StatusLine, "tell", listen)
    FeatureLearningRegressor(n_estimators=1, effort=0.1, random_state=0).fit(X[:80], Y[:80])
    assert "polyadic: learning features" in terminal.getvalue()
    assert stages[0] == "learning features"
    assert any(stage.startswith("start, rank") for stage in stages)
    assert stages[-1].startswith("finish, rank")


def test_folds_are_counted(terminal):
    search = KernelMachineRegressorCV(MAPS, cv=3, n_basis=4, rank=4, random_state=0)
    search.fit(X, Y)
    assert "of 6" in terminal.getvalue()


@pytest.mark.parametrize("verbose", [0, 1])
def test_who_asks_for_silence_or_lines_gets_no_status(terminal, verbose):
    named(max_iter=2, verbose=verbose).fit(X, Y)
    assert "\r" not in terminal.getvalue()
    assert bool(terminal.getvalue()) == bool(verbose)


def test_what_is_no_terminal_stays_quiet(monkeypatch):
    stream = watch(monkeypatch, io.StringIO())
    named(max_iter=2).fit(X, Y)
    assert stream.getvalue() == ""


def test_a_failure_leaves_no_line_and_no_thread(terminal):
    with pytest.raises(ValueError, match="n_basis"):
        named().set_params(n_basis=12).fit(X, Y)
    assert not [t for t in threading.enumerate() if t.name == "polyadic-status"]
    named(max_iter=30, tol=0.0).fit(X, Y)  # the terminal was given back
    assert "epoch" in terminal.getvalue()


SLOW_START = """
import os
import numpy as np
from polyadic import KernelMachineRegressor
X = np.random.RandomState(0).uniform(size=(200, 2))
KernelMachineRegressor(n_basis=4, rank=3, max_iter=2).fit(X, X[:, 0])
"""


@pytest.mark.slow
@pytest.mark.process
def test_the_first_compilation_is_told_on_a_real_terminal(tmp_path):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "COLUMNS": "120"}
    done = subprocess.Popen([sys.executable, "-c", SLOW_START], stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 1000)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    assert done.wait() == 0
    assert b"compiling (once after an installation)" in said


def test_a_notebook_has_one_output_that_changes_and_is_empty_at_the_end(monkeypatch):
    stream = watch(monkeypatch, io.StringIO())
    modules = {"ipykernel": None, "IPython": None}
    monkeypatch.setattr(_status, "sys", SimpleNamespace(stderr=stream, modules=modules))
    monkeypatch.setattr(_status, "_PAUSE", 0.001)
    shown = []

    def display(content, *, raw, display_id, update):
        assert raw
        shown.append((content["text/plain"], display_id, update))

    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    named(max_iter=30, tol=0.0).fit(X, Y)
    texts, names, updates = zip(*shown, strict=True)
    assert any("polyadic: epoch" in text for text in texts)
    assert texts[-1] == ""
    assert len(set(names)) == 1
    assert updates == (False, *[True] * (len(shown) - 1))
    assert stream.getvalue() == ""
