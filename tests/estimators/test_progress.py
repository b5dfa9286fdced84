"""Progress: scikit-learn's callbacks, the verbose line, and warnings that say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import FourierFeatures
from tests import small

RNG = np.random.RandomState(0)
X = RNG.uniform(size=(40, 2))
Y = 100 + 10 * np.sin(4 * X[:, 0]) + X[:, 1]


def regressor(**parameters):
    return small.regressor(**{"tol": 0.0, **parameters})


class Recorder:
    """A callback that notes every task and stops where it is told to."""

    requires_fit_tasks = True

    def __init__(self, stop_after=None):
        self.stop_after, self.names, self.scores, self.weights = stop_after, [], [], []

    def setup(self, estimator, context):
        self.names.append("setup")

    def on_fit_task_begin(self, estimator, context, **data):
        pass

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.names.append(context.task_name)
        self.weights.append(metadata)
        if context.task_name != "epoch":
            return False
        self.scores.append(fitted_estimator.score(X, y))
        return self.stop_after is not None and len(self.scores) >= self.stop_after

    def teardown(self, estimator, context):
        self.names.append("teardown")


callbacks = pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")


def test_a_callback_hears_of_every_epoch():
    recorder = Recorder()
    model = regressor(n_estimators=2).set_callbacks(recorder).fit(X, Y)
    assert recorder.names.count("epoch") == 8
    assert recorder.names.count("member") == 2
    assert (recorder.names[0], recorder.names[-1]) == ("setup", "teardown")
    # The copy handed out predicts in the target's units, as the model does in the end.
    assert recorder.scores[3] > 0.9
    assert model.n_iter_ == 4


def test_a_callback_hears_of_every_trial_of_an_automatic_fit():
    recorder = Recorder()
    model = FeatureLearningRegressor(n_estimators=2, effort=0.1, random_state=0)
    model.set_callbacks(recorder).fit(X, Y)
    stages = model.selection_["stage"]
    assert recorder.names == ["setup", *stages, "finish", "member", "fit", "teardown"]


def test_the_copy_of_the_last_epoch_is_the_fitted_model():
    recorder = Recorder()
    model = regressor().set_callbacks(recorder).fit(X, Y)
    assert recorder.scores[-1] == pytest.approx(model.score(X, Y), rel=1e-12)


def test_a_callback_stops_the_fit():
    model = regressor().set_callbacks(Recorder(stop_after=2)).fit(X, Y)
    assert model.n_iter_ == len(model.loss_curve_) == 2


def test_a_callback_gets_the_sample_weights():
    recorder, weight = Recorder(), np.ones(len(X))
    regressor().set_callbacks(recorder).fit(X, Y, sample_weight=weight)
    assert recorder.weights[0]["sample_weight"] is weight


def test_scikit_learns_monitor_scores_every_epoch():
    monitor = callbacks.ScoringMonitor(scoring="r2")
    model = regressor().set_callbacks(monitor).fit(X, Y)
    scores = [task["r2"] for task in monitor.get_logs().data if task["task_name"] == "epoch"]
    assert len(scores) == 4
    assert scores[-1] == pytest.approx(model.score(X, Y))


def test_scikit_learns_progress_bar_draws(capsys):
    pytest.importorskip("rich")
    regressor().set_callbacks(callbacks.ProgressBar()).fit(X, Y)
    shown = capsys.readouterr()
    assert "FeatureLearningRegressor" in shown.out + shown.err


def test_callbacks_survive_cloning_and_listen_to_the_kernel_machine_too():
    recorder = Recorder()
    machine = KernelMachineRegressor(n_basis=4, rank=2, max_iter=3, tol=0.0)
    clone(machine.set_callbacks(recorder)).fit(X, Y)
    assert recorder.names.count("epoch") == 3


def test_verbose_prints_one_line_an_epoch_to_stderr(capsys):
    model = regressor(verbose=1, early_stopping=True, max_iter=2).fit(X, Y)
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert shown.out == ""
    assert len(lines) == 2
    assert "member 1/1" in lines[0]
    assert "epoch   1/2" in lines[0]
    assert f"loss {model.loss_curve_[0]:.6f}" in lines[0]
    assert f"held-out MSE {model.validation_curve_[1]:.6f}" in lines[1]


def test_verbose_prints_one_line_a_fold(capsys):
    maps = [FourierFeatures(2.0), FourierFeatures(8.0)]
    search = KernelMachineRegressorCV(
        maps, cv=2, n_basis=4, rank=2, max_iter=1, n_jobs=1, verbose=1, random_state=0
    ).fit(X, Y)
    *folds, last = capsys.readouterr().err.splitlines()
    errors = np.column_stack([search.cv_results_[f"split{k}_test_mse"] for k in range(2)]).ravel()
    assert len(folds) == 4
    for place, (line, error) in enumerate(zip(folds, errors, strict=True)):
        assert line.split()[:3] == [f"{place + 1}/4", "fold", f"{place % 2 + 1}/2"]
        assert f"{maps[place // 2]}  test MSE {error:.6g}" in line
    assert "epoch   1/1" in last


def test_a_fit_is_silent_by_default(capsys):
    regressor().fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_singular_systems_are_reported_once_with_a_remedy():
    model = FeatureLearningRegressor(
        [FourierFeatures(2.0)], n_basis=4, rank=40, alpha=0.0, max_iter=2, random_state=0
    )
    says = r"core \d+ .*singular in epoch 1, and \d+ later.*Increase alpha, or lower rank"
    with pytest.warns(ConvergenceWarning, match=says) as caught:
        model.fit(X, Y)
    assert len(caught) == 1
    assert np.isfinite(model.predict(X)).all()
    assert all(np.isfinite(core).all() for core in model.cores_)
    assert model.score(X, Y) > 0.9


def test_weights_that_all_vanish_are_reported():
    with pytest.warns(ConvergenceWarning, match=r"All feature weights became zero.*Lower beta"):
        model = regressor(mixing="l1", beta=1e6).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y.mean())
