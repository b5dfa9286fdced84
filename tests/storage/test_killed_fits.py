"""Processes that are killed, interrupted, or run out of disk in the middle of a fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(code, *arguments, **options):
    """Start code in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=True,
        **options,
    )


KILLED = """
import itertools, json, os, signal, sys
from polyadic.storage import checkpoint
from tests.storage.test_checkpoint import KINDS, problem

checkpoint._FRACTION_OF_TIME = float("inf")  # write at every opportunity
kind, path = sys.argv[1:]
X, y = problem(1500 if kind == "joint" else 500)
fsync, replace = os.fsync, os.replace


def make(**settings):
    model = KINDS[kind](random_state=0, **settings)
    return model.set_params(max_iter=60, tol=0.0) if kind == "joint" else model


def die_in_write(number, moment):
    "Let this process be killed while it writes its checkpoint for the number-th time."
    writes, places = itertools.count(1), itertools.count(1)

    def synced(handle):
        if next(writes) == number and moment != "in place":
            if moment == "half written":
                os.ftruncate(handle, os.fstat(handle).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    def replaced(*arguments):
        replace(*arguments)
        if next(places) == number and moment == "in place":
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync, os.replace = synced, replaced


expected = make().fit(X, y).predict(X)
outcomes = []
for moment, number in itertools.product(["half written", "whole", "in place"], [1, 2, 5]):
    child = os.fork()
    if child == 0:
        die_in_write(number, moment)
        make(checkpoint=path).fit(X, y)
        os._exit(0)
    was_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = os.path.exists(path)
    model = make(checkpoint=path).fit(X, y)
    same = bool((model.predict(X) == expected).all())
    outcomes.append([moment, number, was_killed, left, same, os.listdir(os.path.dirname(path))])
print(json.dumps(outcomes))
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("kind", ["joint", "automatic"])
def test_killed_in_any_moment_of_a_write_a_fit_goes_on_to_the_same_result(kind, tmp_path):
    outcomes = json.loads(run(KILLED, kind, tmp_path / "fit.checkpoint").stdout)
    assert len(outcomes) == 9
    for moment, number, was_killed, left, same, files in outcomes:
        assert was_killed
        assert left == (moment == "in place" or number > 1)  # the one before, or none
        assert same
        assert files == []


CTRL_C = """
import json, os, signal, sys, threading, time
from tests.storage.test_checkpoint import KINDS, problem

X, y = problem()
path = sys.argv[1]
model = KINDS["joint"](random_state=0, checkpoint=path).set_params(max_iter=100_000, tol=0.0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it


def press():
    while not os.path.exists(path) or os.path.getsize(path) < 2000:  # seeds alone are shorter
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=press, daemon=True).start()
try:
    model.fit(X, y)
except KeyboardInterrupt:
    kept = os.path.exists(path)
    shorter = KINDS["joint"](random_state=0).set_params(max_iter=model.n_iter_, tol=0.0).fit(X, y)
    scores = [each.score(X, y) for each in (model, shorter)]
    print(json.dumps([model.n_iter_, *scores, kept]))
"""


@pytest.mark.slow
@pytest.mark.process
def test_ctrl_c_leaves_a_fitted_estimator_and_a_checkpoint(tmp_path):
    n_iter, score, of_as_many, kept = json.loads(run(CTRL_C, tmp_path / "fit.checkpoint").stdout)
    assert n_iter >= 1
    assert score == pytest.approx(of_as_many)
    assert kept


FULL_DISK = """
import json, resource, signal, sys
from pathlib import Path
from polyadic.storage import checkpoint
from tests.storage.test_checkpoint import KINDS, problem

checkpoint._FRACTION_OF_TIME = float("inf")
X, y = problem()
path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

class Limit:
    def __init__(self): self.kept = None
    def __call__(self, fit):
        if fit.last.number == 3:
            self.kept = path.read_bytes()
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(self.kept) // 2, hard))

limit = Limit()
on_epoch = checkpoint.MemberCheckpoint.on_epoch
def spied(self, fit):
    stop = on_epoch(self, fit)
    limit(fit)
    return stop
checkpoint.MemberCheckpoint.on_epoch = spied
try:
    KINDS["joint"](random_state=0, checkpoint=path).fit(X, y)
except OSError as error:
    message = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
intact = path.read_bytes() == limit.kept
limit.kept = None
checkpoint.MemberCheckpoint.on_epoch = on_epoch
again = KINDS["joint"](random_state=0, checkpoint=path).fit(X, y).predict(X)
whole = KINDS["joint"](random_state=0).fit(X, y).predict(X)
print(json.dumps([message, intact, bool((again == whole).all())]))
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_where_the_disk_is_full_the_last_checkpoint_stays(tmp_path):
    message, intact, same = json.loads(run(FULL_DISK, tmp_path / "fit.checkpoint").stdout)
    assert "could not be written" in message
    assert str(tmp_path / "fit.checkpoint") in message
    assert intact
    assert same
    assert list(tmp_path.iterdir()) == []
