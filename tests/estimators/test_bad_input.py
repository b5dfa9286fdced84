"""Whatever is passed, there is a clear error or a finite, sensible fit."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import scipy.sparse

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import (
    FourierFeatures,
    GaussianFeatures,
    PurePowerFeatures,
)
from tests.small import MAPS, regressor

RNG = np.random.RandomState(0)
X = RNG.uniform(size=(30, 2))
Y = np.sin(4 * X[:, 0]) + X[:, 1]

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch knows the names of its devices"
)


def put(array, value):
    array = array.copy()
    array[3] = value
    return array


BAD_DATA = {
    "nan in X": (put(X, np.nan), Y, None, "Input X contains NaN"),
    "inf in X": (put(X, np.inf), Y, None, "Input X contains infinity"),
    "-inf in X": (put(X, -np.inf), Y, None, "Input X contains infinity"),
    "nan in y": (X, put(Y, np.nan), None, "Input y contains NaN"),
    "None in y": (X, [None, *Y[1:]], None, "missing in 1 of 30 rows, rows 0"),
    "inf in y": (X, put(Y, -np.inf), None, "Input y contains infinity"),
    "words in X": (np.full((30, 2), "a", dtype=object), Y, None, "could not convert string"),
    "words in y": (X, np.full(30, "a", dtype=object), None, "could not convert string"),
    "sparse X": (scipy.sparse.csr_array(X), Y, None, "Sparse data was passed for X.*toarray"),
    "complex X": (X + 1j, Y, None, "Complex data not supported"),
    "flat X": (X[:, 0], Y, None, "Expected 2D array, got 1D array instead"),
    "deep X": (X[None], Y, None, "dim 3"),
    "deep y": (X, np.ones((30, 1, 1)), None, "dim 3"),
    "no rows": (X[:0], Y[:0], None, "0 sample"),
    "no columns": (X[:, :0], Y, None, "0 feature"),
    "no targets": (X, np.ones((30, 0)), None, "0 feature"),
    "short y": (X, Y[:5], None, "inconsistent numbers of samples"),
    "short weights": (X, Y, np.ones(5), r"sample_weight.shape == \(5,\), expected \(30,\)"),
    "square weights": (X, Y, np.ones((30, 1)), "Sample weights must be 1D"),
    "negative weights": (X, Y, put(np.ones(30), -1), "Negative values.*`sample_weight`"),
    "nan weights": (X, Y, put(np.ones(30), np.nan), "sample_weight contains NaN"),
    "zero weights": (X, Y, np.zeros(30), "weight.* at least one"),
    "range beyond double": (
        np.where(X > 0.5, 1.7e308, -1.7e308),
        Y,
        None,
        r"'x0' spans -1.7e\+308 to 1.7e\+308.*Divide the column",
    ),
    "target beyond double": (X, np.where(Y > 1, 1e308, -1e308), None, "Target 0 .*Divide it"),
}


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # scikit-learn's check
@pytest.mark.parametrize(("X", "y", "weight", "says"), BAD_DATA.values(), ids=BAD_DATA.keys())
@pytest.mark.parametrize("kind", [FeatureLearningRegressor, KernelMachineRegressorCV])
def test_bad_data_is_named(kind, X, y, weight, says):
    with pytest.raises((ValueError, TypeError), match=f"(?s){says}"):
        kind(MAPS, n_basis=4, rank=2, max_iter=2).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"rank": 0}, "'rank' .* must be .* Got 0"),
        ({"rank": 2.5}, "'rank' .* Got 2.5"),
        ({"n_basis": 12}, "`n_basis=12` cannot be quantized.*Use 8 or 16, or pass quantized=False"),
        ({"n_basis": 0}, "'n_basis' .* Got 0"),
        ({"n_basis": [4, 4, 4]}, "`n_basis` .* 2 inputs, got 3 entries. Pass one integer"),
        ({"n_basis": [4, -4]}, r"`n_basis` must be a positive integer.*\[4, -4\].*Use"),
        ({"n_basis": [4.0, 2.0]}, "`n_basis` must be a positive integer"),
        ({"n_basis": [4, 6]}, "`n_basis=6` cannot be quantized"),
        ({"mixing": "lasso"}, "'mixing' .*'simplex'.* Got 'lasso'"),
        ({"objective": "imaginary"}, "'objective' .* Got 'imaginary'"),
        ({"feature_maps": []}, '`feature_maps` .*at least one.*got none.*feature_maps="auto"'),
        ({"feature_maps": "fourier"}, "'feature_maps' .* Got 'fourier'"),
        ({"feature_maps": FourierFeatures(1.0)}, "'feature_maps' .* Got FourierFeatures"),
        ({"feature_maps": [2.0]}, "`feature_maps` must hold FeatureMap objects, got 2.0. Use"),
        ({"feature_maps": [FourierFeatures]}, "`feature_maps` must hold FeatureMap objects"),
        ({"feature_maps": [FourierFeatures(-1.0)]}, "'period' .* Got -1.0"),
        ({"feature_maps": [GaussianFeatures(0.3, 1.0)]}, r"GaussianFeatures.*quantized=False"),
        ({"alpha": -1.0}, "'alpha' .* Got -1.0"),
        ({"alpha": np.nan}, "'alpha' .* Got nan"),
        ({"alpha": np.inf}, "'alpha' .* Got inf"),
        ({"beta": -1.0}, "'beta' .* Got -1.0"),
        ({"max_iter": 0}, "'max_iter' .* Got 0"),
        ({"tol": -1e-3}, "'tol' .* Got -0.001"),
        ({"validation_fraction": 1.0}, "'validation_fraction' .* Got 1.0"),
        ({"dtype": "float16"}, "'dtype' .* Got 'float16'"),
        ({"chunk_size": 0}, "'chunk_size' .* Got 0"),
        pytest.param({"device": "abacus"}, "device.* must be .*'abacus'", marks=needs_torch),
        ({"n_jobs": 0}, "'n_jobs' .* Got 0"),
        ({"n_jobs": "all"}, "'n_jobs' .* Got 'all'"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_parameters_are_named(parameters, says):
    with pytest.raises((ValueError, TypeError), match=says):
        regressor(**parameters).fit(X, Y)


def test_bad_parameters_of_the_other_estimators():
    with pytest.raises(ValueError, match=r"'feature_map' .* Got 'fourier'"):
        KernelMachineRegressor("fourier").fit(X, Y)
    with pytest.raises(ValueError, match=r"n_splits=6.*n_samples=2"):
        KernelMachineRegressorCV(MAPS).fit(X[:2], Y[:2])


@pytest.mark.parametrize("change", [{"rank": 4}, {"n_basis": 2}, {"feature_maps": MAPS[:1]}])
def test_a_warm_start_of_another_shape_is_an_error(change):
    model = regressor(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"`warm_start=True`.*Pass warm_start=False"):
        model.set_params(**change).fit(X, Y)


HARD_DATA = {
    "huge inputs": (X * 1e300, Y, None),
    "tiny inputs": (X * 1e-300, Y, None),
    "subnormal inputs": (X * 1e-310, Y, None),
    "inputs of mixed size": (X * [1e300, 1e-300], Y, None),
    "inputs far from zero": (X + 1e9, Y, None),
    "huge target": (X, Y * 1e300, None),
    "tiny target": (X, Y * 1e-300, None),
    "subnormal target": (X, Y * 1e-310, None),
    "target far from zero": (X, Y + 1e9, None),
    "huge weights": (X, Y, np.full(30, 1e300)),
    "weights of mixed size": (X, Y, np.where(X[:, 0] > 0, 1e200, 1e-200)),
    "integers": ((X * 100).astype(int), (Y * 100).astype(int), None),
    "numbers as text": (X.astype(str), Y, None),
}


@pytest.mark.parametrize(("X", "y", "weight"), HARD_DATA.values(), ids=HARD_DATA.keys())
@pytest.mark.parametrize("early_stopping", [False, True])
def test_hard_data_is_fitted(X, y, weight, early_stopping):
    model = regressor(early_stopping=early_stopping).fit(X, y, sample_weight=weight)
    prediction = model.predict(X)
    assert np.isfinite(prediction).all()
    size = np.abs(y).max()
    error = np.mean((prediction / size - y / size) ** 2)
    assert error < 0.2 * np.var(y / size)


@pytest.mark.parametrize("others", [[], MAPS], ids=["in a core step", "in a step of the weights"])
def test_features_that_overflow_are_an_error_at_fit(others):
    model = regressor(feature_maps=[PurePowerFeatures(), *others], scale_inputs=False)
    with pytest.raises(FloatingPointError, match=r"overflowed.*scale_inputs=True"):
        model.fit(X * 1e200, Y)


def test_an_engine_that_does_not_exist_is_an_error_at_predict():
    model = regressor().fit(X, Y).set_params(engine="tensorflow")
    with pytest.raises(ValueError, match=r"`engine` must be one of .* got 'tensorflow'"):
        model.predict(X)


def test_features_that_overflow_are_an_error_at_predict():
    model = regressor(feature_maps=[PurePowerFeatures()]).fit(X, Y)
    far = np.vstack([X, [[1e200, 0.0]]])
    with pytest.raises(ValueError, match=r"`X` .* row 30 and 0 others overflow.*Clip"):
        model.predict(far)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_penalties_are_finite():
    for parameters in ({"alpha": 1e300}, {"beta": 1e300, "mixing": "l2"}):
        prediction = regressor(**parameters).fit(X, Y).predict(X)
        np.testing.assert_allclose(prediction, Y.mean(), rtol=1e-6)
