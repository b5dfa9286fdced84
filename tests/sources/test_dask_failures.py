"""Workers that die, move and come, in real processes; and what chunks make of it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from operator import methodcaller

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("distributed", reason="needs polyadic[dask]")

import dask
from dask.distributed import Client, LocalCluster

from polyadic.compute import ComputeSpec
from polyadic.features import TensorLayout
from polyadic.model import cpd
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.view import View
from polyadic.sources.dask import DaskSource, worker
from polyadic.sources.dask.cluster import ClusterError, spread
from polyadic.sources.dask.worker import Chunk, Rows, Setup, Stale, Step
from tests.contract.clusters import client as in_process_client
from tests.small import MAPS
from tests.sources.partitions import assert_nothing_is_left, collections, model, problem

pytestmark = pytest.mark.cluster
LONG = {"max_iter": 6, "tol": 0.0, "random_state": 1}


@contextmanager
def fresh_cluster(n_workers=2, **options):
    """Open workers with a client that is current in this thread alone."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", **options}
    with (
        LocalCluster(n_workers=n_workers, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield client


@contextmanager
def process(command, *options):
    """Run a command of Dask in a process that nobody starts again."""
    started = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{command}", "--no-dashboard", *options],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def worker_process(address):
    return process("dask_worker", address, "--no-nanny", "--nthreads", "1")


class Killer:
    """Counts what a client asks of its workers; kills one of them soon after the n-th time."""

    def __init__(self, client, monkeypatch):
        self.count, self.moment, self.action = 0, None, None
        monkeypatch.setattr(client, "compute", self._counting(client.compute))

    def at(self, moment, action):
        self.count, self.moment, self.action = 0, moment, action

    def _counting(self, method):
        def counting(*arguments, **options):
            if self.count == self.moment:
                self.action()
            self.count += 1
            return method(*arguments, **options)

        return counting


@pytest.mark.slow
@pytest.mark.process
def test_a_worker_killed_at_any_moment_does_not_change_the_result(monkeypatch):
    X, Y, weight = problem()
    arrays = collections(X, Y[:, 0], weight)
    expected = model(**LONG).fit(X, Y[:, 0], weight)
    rng = np.random.RandomState(0)
    with fresh_cluster(0) as client, ExitStack() as stack:
        address = client.scheduler_info()["address"]
        workers = [stack.enter_context(worker_process(address)) for _ in range(2)]
        client.wait_for_workers(2, timeout=60)
        killer = Killer(client, monkeypatch)
        model(**LONG).fit(*arrays)

        def strike(process):
            process.kill()
            workers.append(stack.enter_context(worker_process(address)))  # as a supervisor does

        for moment in rng.randint(killer.count, size=5):
            client.wait_for_workers(2, timeout=60)
            killed = workers.pop(rng.randint(2))
            timer = threading.Timer(rng.uniform(0, 0.05), strike, (killed,))
            killer.at(moment, timer.start)
            fitted = model(**LONG).fit(*arrays)
            assert_allclose(fitted.predict(X), expected.predict(X), rtol=0, atol=1e-8)
            assert_allclose(fitted.loss_curve_, expected.loss_curve_, rtol=1e-8)
            timer.join()
            assert killed.wait(timeout=10) == -signal.SIGKILL


def when_a_model_is_kept(path, action, over=None):
    """Do something in a thread, as soon as a checkpoint has a model in it, or never if `over`."""
    over = over or threading.Event()

    def wait():
        while not over.wait(0.01):
            if path.exists() and path.stat().st_size >= 2000:
                action()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def press_ctrl_c(estimator, arrays, path):
    """Interrupt a fit, as often as it takes.

    Python raises the exception wherever the main thread is; if that is in a finaliser, it is
    written to the standard error and forgotten, as with any program.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    over = threading.Event()
    try:
        for _ in range(5):
            thread = when_a_model_is_kept(path, lambda: os.kill(os.getpid(), signal.SIGINT), over)
            try:
                estimator.fit(*arrays)
                over.set()
                thread.join()
                over.clear()
            except KeyboardInterrupt:
                return
        pytest.fail("no Ctrl-C ended the fit")
    finally:
        over.set()
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_ctrl_c_leaves_a_model_a_checkpoint_and_an_empty_cluster(tmp_path):
    X, Y, weight = problem()
    path, arrays = tmp_path / "fit", collections(X, Y[:, 0], weight)
    options = {**LONG, "max_iter": 30}
    client = in_process_client()
    with client.as_current():
        interrupted = model(checkpoint=path, **options)
        press_ctrl_c(interrupted, arrays, path)
        assert_nothing_is_left(client)
        assert interrupted.score(X, Y[:, 0]) > 0.5
        resumed = model(checkpoint=path, **options).fit(*arrays)
        expected = model(**options).fit(*arrays)
        assert_nothing_is_left(client)
    assert resumed.loss_curve_ == expected.loss_curve_
    assert_array_equal(resumed.predict(X), expected.predict(X))


@pytest.mark.slow
@pytest.mark.process
def test_a_fit_without_workers_ends_soon_and_its_checkpoint_goes_on_elsewhere(tmp_path):
    X, Y, weight = problem()
    path, arrays = tmp_path / "fit", collections(X, Y[:, 0], weight)
    options = {**LONG, "max_iter": 15}
    with fresh_cluster(0) as client:
        address = client.scheduler_info()["address"]
        with worker_process(address) as one, worker_process(address) as other:
            client.wait_for_workers(2, timeout=60)

            killer = when_a_model_is_kept(path, lambda: (one.kill(), other.kill()))
            interrupted = model(checkpoint=path, **options)
            with (
                dask.config.set({"polyadic.no-workers-timeout": "1s"}),
                pytest.raises(ClusterError, match=r"for 1 s: all 2 were lost.*checkpoint="),
            ):
                interrupted.fit(*arrays)
            killer.join()
    assert 1 <= interrupted.n_iter_ < 15
    assert interrupted.predict(X).shape == (len(X),)
    assert path.exists()
    with fresh_cluster() as client:
        resumed = model(checkpoint=path, **options).fit(*arrays)
        expected = model(**options).fit(*arrays)
    assert not path.exists()
    assert resumed.loss_curve_ == expected.loss_curve_
    for mine, theirs in zip(resumed.cores_, expected.cores_, strict=True):
        assert_array_equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.process
def test_a_cluster_that_never_had_workers_is_an_error_soon():
    with (
        fresh_cluster(0, processes=False),
        dask.config.set({"polyadic.no-workers-timeout": "200ms"}),
        pytest.raises(ClusterError, match=r"no workers for 0.2 s: none ever came"),
    ):
        model().fit(*collections(*problem()))


@pytest.mark.slow
@pytest.mark.process
def test_a_lost_scheduler_is_an_error_soon():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    X, Y, weight = problem()
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "15s"}),
        process("dask_scheduler", "--host", address) as scheduler,
        worker_process(address),
        Client(address, set_as_default=False) as client,
        client.as_current(),
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
    ):
        arrays = collections(X, Y, weight)
        model().fit(*arrays)
        timer = threading.Timer(0.5, scheduler.kill)
        timer.start()
        with pytest.raises(ClusterError, match=r"[Ff]it again"):
            model(max_iter=1000, tol=0.0).fit(*arrays)


def _ends_its_worker(block):
    os._exit(1)


@pytest.mark.slow
@pytest.mark.process
def test_a_task_that_ends_its_workers_is_an_error_in_words():
    X, y = collections(*problem()[:2])
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        fresh_cluster(1),
        pytest.raises(ClusterError, match=r"ended several workers.*memory"),
    ):
        model().fit(X.map_blocks(_ends_its_worker, meta=np.empty((0, 0))), y)


@pytest.mark.slow
@pytest.mark.process
def test_chunks_move_to_workers_that_come_and_go():
    X, Y, weight = problem()
    layout, cores = _layout()
    steps = []
    with ComputeSpec(n_jobs=1).open() as compute, fresh_cluster(1, processes=False) as client:
        data = DaskSource(*collections(X, Y[:, 0], weight), Inputs.of_numbers("abc")).data()
        (samples,) = data.samples(compute, layout)
        for n_workers in (1, 2, 1):
            client.cluster.scale(n_workers)
            while len(client.nthreads()) != n_workers:
                time.sleep(0.01)
            samples.start(cores)
            samples.mixing_equations()
            steps.append(samples.normal_equations(2, np.ones(2)))
            held = [
                sum(key.startswith(("polyadic-load", "polyadic-move")) for key in keys)
                for keys in client.has_what().values()
            ]
            assert sorted(held) == ([1, 2] if n_workers == 2 else [3])
        data.close()
    for step in steps[1:]:
        assert_array_equal(step.gram, steps[0].gram)


@pytest.mark.parametrize(
    ("holders", "threads", "homes"),
    [
        (["a", "b", "a", "b"], {"a": 1, "b": 1}, "abab"),
        (["a", "a", "a", "a"], {"a": 1, "b": 1}, "aabb"),
        (["a", "a", "a", "a"], {"a": 1, "b": 3}, "abbb"),
        (["ab", "a", "b", "ab"], {"a": 1, "b": 1, "c": 1}, "aabb"),
        (["b", "b", "b"], {"a": 1, "b": 1}, "bba"),
        (["a"], {"a": 4, "b": 4}, "a"),
    ],
)
def test_homes_are_where_chunks_are_unless_they_are_too_many(holders, threads, homes):
    assert "".join(spread(holders, threads)) == homes


def _layout():
    layout = TensorLayout.of(tuple(MAPS), (4, 4, 4), True)
    return layout, cpd.initial_cores(layout.core_sizes, 3, True, np.random.RandomState(0))


@pytest.fixture
def chunk():
    X, Y, weight = problem()
    used = weight > 0
    return Chunk(0, Rows(X[used], Y[used], weight[used]), len(X))


def _setup():
    view = View(InputScaling.identity(3), TargetScaling(np.zeros(2), np.ones(2)))
    return Setup(view, None, _layout()[0], ComputeSpec(chunk_size=64, n_jobs=1))


def _step(version, core, *, changes=(), group=0, live=(0,), whole=None):
    cores = {} if whole is None else {"setup": _setup(), "cores": whole}
    before = version - len(changes) if changes else version
    ask = methodcaller("normal_equations", core, np.ones(2))
    return Step(group, 0, frozenset(live), before, version, tuple(changes), ask, **cores)


def test_a_chunk_without_its_state_says_so_and_makes_it_anew(chunk):
    _, cores = _layout()
    later = [core + 0.1 for core in cores]
    chunk.sums(_step(1, 0, whole=cores))
    moved = pickle.loads(pickle.dumps(chunk))
    changed = _step(2, 1, changes=[(0, later[0])])
    expected = chunk.sums(changed)
    assert isinstance(moved.sums(changed), Stale)
    whole = [later[0], *cores[1:]]
    rebuilt = moved.sums(_step(2, 1, changes=[(0, later[0])], whole=whole))
    assert_allclose(rebuilt.gram, expected.gram, rtol=0, atol=1e-10 * expected.gram.max())
    # The task ran twice, and its successor was lost.
    again = chunk.sums(changed)
    assert_allclose(again.gram, expected.gram, rtol=0, atol=1e-10 * expected.gram.max())
    assert isinstance(chunk.sums(_step(4, 2, changes=[(1, later[1])])), Stale)


def test_state_that_is_not_in_use_any_more_is_let_go(chunk):
    _, cores = _layout()
    empty = len(pickle.dumps(chunk))
    for group in range(3):
        chunk.sums(_step(1, 0, group=group, live=(0, 1, 2), whole=cores))
    assert len(pickle.dumps(chunk)) == empty  # state does not travel
    assert not isinstance(chunk.sums(_step(1, 1, group=2, live=(2,))), Stale)
    for group in (0, 1):
        assert isinstance(chunk.sums(_step(1, 1, group=group, live=(group, 2))), Stale)


def test_an_exception_in_the_middle_of_a_step_leaves_no_wrong_state(chunk, monkeypatch):
    _, cores = _layout()
    chunk.sums(_step(1, 0, whole=cores))
    step = _step(2, 1, changes=[(0, cores[0])])
    monkeypatch.setattr("polyadic.engines.compiled.chunk.Chunk.commit", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        chunk.sums(step)
    monkeypatch.undo()
    assert isinstance(chunk.sums(step), Stale)


def test_answers_add_up_but_stale_ones_spoil_the_sum():
    assert worker.add_in_order([None, None]) is None
    assert isinstance(worker.add_in_order([None, Stale(), 3]), Stale)
    assert worker.add_in_order([None, 2, 3]) == 5
