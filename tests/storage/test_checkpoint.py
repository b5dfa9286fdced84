"""Fits that are interrupted, in every way there is, and go on to the same last digit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import polyadic
from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import GeometricFeatures
from polyadic.model import als
from polyadic.storage import checkpoint
from polyadic.storage.checkpoint import CheckpointError
from tests.small import MAPS, slow_but


class Slanted(GeometricFeatures):
    """A user's own feature map."""

    is_complex = False

    def ratio(self, x):
        return 0.2 + 0.7 * x


def problem(n_rows=300, n_targets=1):
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n_rows, 3))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.05 * rng.standard_normal(n_rows)
    return X, y if n_targets == 1 else np.column_stack([y, X[:, 0] - y])


KINDS = {
    "joint": lambda **kw: FeatureLearningRegressor(MAPS, n_basis=4, rank=3, max_iter=6, **kw),
    "members": lambda **kw: FeatureLearningRegressor(
        MAPS, n_basis=4, rank=3, max_iter=5, n_estimators=2, early_stopping=True, **kw
    ),
    "shares": lambda **kw: FeatureLearningRegressor(
        MAPS, n_basis=4, rank=3, max_iter=6, subsample=0.3, **kw
    ),
    "own map": lambda **kw: KernelMachineRegressor(Slanted(), n_basis=4, rank=3, max_iter=4, **kw),
    "folds": lambda **kw: KernelMachineRegressorCV(
        MAPS, n_basis=4, rank=3, max_iter=3, **{"cv": 2, "n_jobs": 1, **kw}
    ),
    "automatic": lambda **kw: FeatureLearningRegressor(effort=0.2, n_estimators=2, **kw),
}


class Interruption:
    """Presses Ctrl-C in the k-th core step, and counts the steps."""

    def __init__(self, monkeypatch):
        self.steps, self.at = 0, None
        solve = als.solve_core

        def counted(*arguments):
            self.steps += 1
            if self.steps == self.at:
                raise KeyboardInterrupt
            return solve(*arguments)

        monkeypatch.setattr(als, "solve_core", counted)

    def run(self, fit, at=None):
        """Fit and return the number of steps; whether it was interrupted is up to `at`."""
        self.steps, self.at = 0, at
        if at is None:
            fit()
        else:
            with pytest.raises(KeyboardInterrupt):
                fit()
        return self.steps


@pytest.fixture
def interruption(monkeypatch):
    return Interruption(monkeypatch)


@pytest.fixture
def always_written(monkeypatch):
    """Write at every opportunity, however short the fit."""
    monkeypatch.setattr(checkpoint, "_FRACTION_OF_TIME", np.inf)
    monkeypatch.setattr(checkpoint, "_SECONDS_INSIDE_AN_EPOCH", 0.0)


def test_what_a_checkpoint_has_the_estimator_has_too(tmp_path, monkeypatch, always_written):
    usual = checkpoint.Checkpoint.put

    def put(self, name, value):
        usual(self, name, value)
        if name.startswith("member"):
            raise KeyboardInterrupt  # before anybody hears of the epoch that was kept

    X, y = problem()
    monkeypatch.setattr(checkpoint.Checkpoint, "put", put)
    model = KINDS["joint"](checkpoint=tmp_path / "fit", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 1
    assert model.predict(X).shape == (300,)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("kind", slow_but(set(KINDS) - {"automatic"}, KINDS))
def test_an_interrupted_fit_goes_on_to_the_same_last_digit(
    kind, n_targets, interruption, always_written, tmp_path, monkeypatch
):
    X, y = problem(n_targets=n_targets)
    path = tmp_path / "fit.checkpoint"
    make = partial(KINDS[kind], random_state=0, n_jobs=1)  # one step after the other
    model = make()
    n_steps = interruption.run(lambda: model.fit(X, y))
    put, kept = checkpoint.Checkpoint.put, []

    def noted(self, *arguments):
        put(self, *arguments)
        if self.is_kept:
            kept.append(interruption.steps)

    monkeypatch.setattr(checkpoint.Checkpoint, "put", noted)
    for at in (n_steps // 4, n_steps // 2, n_steps - 1):
        interruption.run(lambda: make(checkpoint=path).fit(X, y), at)
        done = kept[-1]
        again = make(checkpoint=path)
        # What was done and kept is not done again, and all the rest is.
        assert interruption.run(lambda: again.fit(X, y)) == n_steps - done  # noqa: B023
        assert not path.exists()
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.loss_curve_ == model.loss_curve_
        assert again.n_iter_ == model.n_iter_
    assert done > n_steps // 2  # else nothing was put to the test


def test_a_fit_interrupted_many_times_loses_no_more_than_its_epochs(
    interruption, always_written, tmp_path
):
    X, y = problem()
    make, path = KINDS["joint"], tmp_path / "fit.checkpoint"
    model = make(random_state=0)
    n_steps = interruption.run(lambda: model.fit(X, y))
    # Six cores, an epoch; two starts take four epochs before the first is written.
    interruption.run(lambda: make(random_state=0, checkpoint=path).fit(X, y), 4 * 6 + 1)
    for _ in range(3):
        interruption.run(lambda: make(random_state=0, checkpoint=path).fit(X, y), 6 + 1)
    again = make(random_state=0, checkpoint=path)
    assert interruption.run(lambda: again.fit(X, y)) == n_steps - 4 * 6 - 3 * 6
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("options", [{"engine": "reference"}, {"memory_limit": 7e4}])
def test_inside_an_epoch_a_fit_without_state_loses_no_step(
    options, interruption, always_written, tmp_path, monkeypatch
):
    # Beyond this many rows a fit has one start, and its first epoch is written too.
    monkeypatch.setattr("polyadic.estimators._members._TWO_STARTS_ROWS", 10)
    X, y = problem(n_targets=2)
    make, path = KINDS["joint"], tmp_path / "fit.checkpoint"
    options = {"random_state": 0, "chunk_size": 64, "n_jobs": 1, **options}
    model = make(**options)
    n_steps = interruption.run(lambda: model.fit(X, y))
    for at in (3, 8, 15, 29, n_steps):
        interruption.run(lambda: make(checkpoint=path, **options).fit(X, y), at)
        again = make(checkpoint=path, **options)
        steps = interruption.run(lambda: again.fit(X, y))  # noqa: B023
        assert steps == n_steps - at + 1
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_without_a_seed_a_fit_goes_on_with_the_one_it_drew(interruption, always_written, tmp_path):
    X, y = problem()
    path = tmp_path / "fit.checkpoint"
    make = KINDS["joint"]
    interruption.run(lambda: make(checkpoint=path).fit(X, y), 40)
    kept = path.read_bytes()
    models = []
    for _ in range(2):
        path.write_bytes(kept)
        models.append(make(checkpoint=path).fit(X, y).predict(X))
    np.testing.assert_array_equal(*models)


def test_folds_drawn_at_random_are_the_same_ones_later(interruption, always_written, tmp_path):
    X, y = problem()
    make, path = KINDS["folds"], tmp_path / "fit.checkpoint"
    make = partial(make, cv=KFold(2, shuffle=True), checkpoint=path)
    n_steps = interruption.run(lambda: make().fit(X, y))
    interruption.run(lambda: make().fit(X, y), n_steps // 2)
    kept = path.read_bytes()
    models = []
    for _ in range(2):
        path.write_bytes(kept)
        models.append(make().fit(X, y))
    np.testing.assert_array_equal(*(model.cv_results_["mean_test_mse"] for model in models))


def test_an_interrupted_estimator_is_fitted_so_far(interruption, tmp_path):
    X, y = problem()
    for kind in ("joint", "members", "automatic"):
        model = KINDS[kind](random_state=0, checkpoint=tmp_path / kind)
        n_steps = interruption.run(lambda: KINDS[kind](random_state=0).fit(X, y))  # noqa: B023
        interruption.run(lambda: model.fit(X, y), n_steps * 4 // 5)  # noqa: B023
        assert model.score(X, y) > 0.9
        assert 1 <= model.n_iter_ <= len(model.loss_curve_) + 5
        polyadic.save(model, tmp_path / "model")  # as whole as any other
        np.testing.assert_array_equal(
            polyadic.load(tmp_path / "model").predict(X), model.predict(X)
        )


def test_an_interruption_before_the_first_epoch_leaves_nothing(interruption):
    X, y = problem()
    model = KINDS["joint"](random_state=0)
    interruption.run(lambda: model.fit(X, y), 1)
    with pytest.raises(NotFittedError):
        model.predict(X)


CHANGES = {
    "another value": lambda X, y: (np.where(X[7, 1] == X, 0.5, X), y),
    "another target": lambda X, y: (X, np.where(y == y[7], y + 1e-9, y)),
    "another order": lambda X, y: (X[::-1], y[::-1]),
    "fewer rows": lambda X, y: (X[1:], y[1:]),
}


@pytest.fixture
def left(interruption, always_written, tmp_path):
    """Return the path of a checkpoint that an interrupted fit left."""
    path = tmp_path / "fit.checkpoint"
    X, y = problem()
    interruption.run(lambda: KINDS["joint"](random_state=0, checkpoint=path).fit(X, y), 40)
    interruption.at = None
    return path


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_other_data_is_refused(change, left):
    before = left.read_bytes()
    with pytest.raises(CheckpointError, match="is of another fit: its data differs"):
        KINDS["joint"](random_state=0, checkpoint=left).fit(*CHANGES[change](*problem()))
    assert left.read_bytes() == before


def test_weights_belong_to_the_data(left):
    X, y = problem()
    with pytest.raises(CheckpointError, match="its data differs"):
        KINDS["joint"](random_state=0, checkpoint=left).fit(X, y, np.full(len(X), 2.0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 4}, "its rank differs .it has 3, this fit has 4"),
        ({"alpha": 0.2}, "its alpha differs"),
        ({"feature_maps": MAPS[:1]}, "its feature_maps differs"),
        ({"random_state": 1}, "its random_state differs"),
        ({"dtype": "float32"}, "its dtype differs"),
    ],
)
def test_a_checkpoint_of_other_parameters_is_refused(parameters, message, left):
    model = KINDS["joint"](random_state=0, checkpoint=left).set_params(**parameters)
    with pytest.raises(CheckpointError, match=message):
        model.fit(*problem())
    assert left.exists()


def test_parameters_without_consequence_may_change(left):
    X, y = problem()
    expected = KINDS["joint"](random_state=0).fit(X, y).predict(X)
    model = KINDS["joint"](random_state=0, checkpoint=left, n_jobs=1, verbose=0)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)


def test_damaged_files_and_files_of_other_kinds_are_refused(left, tmp_path):
    X, y = problem()
    whole = left.read_bytes()
    wrecks = [b"", b"hello", whole[:-1], whole[:100], whole[:-8] + bytes(8), whole + b"x"]
    other = tmp_path / "model"
    polyadic.save(KINDS["joint"](random_state=0).fit(X, y), other)
    for content in [*wrecks, other.read_bytes()]:
        left.write_bytes(content)
        with pytest.raises(CheckpointError, match="checkpoint"):
            KINDS["joint"](random_state=0, checkpoint=left).fit(X, y)
        assert left.read_bytes() == content  # whatever it is, it may be precious


def test_a_folder_that_is_not_there_is_an_error_that_names_the_checkpoint(tmp_path):
    path = tmp_path / "nowhere" / "fit.checkpoint"
    with pytest.raises(OSError, match=r"The checkpoint .*nowhere.* could not be written"):
        KINDS["joint"](random_state=0, checkpoint=path).fit(*problem())
