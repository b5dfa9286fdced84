from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import polyadic
from polyadic import FeatureLearningClassifier, FeatureLearningRegressor, KernelMachineRegressor
from polyadic.features import FourierFeatures, PurePowerFeatures
from polyadic.search.errors import error_left


def wave(n, seed=0, noise=0.1, D=2):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, D))
    return X, np.sin(6 * X[:, 0]) + noise * rng.standard_normal(n)


def quick(**options):
    return FeatureLearningRegressor(
        **{"n_estimators": 2, "effort": 0.2, "random_state": 0, "verbose": 0, **options}
    )


@pytest.fixture(scope="module")
def fitted():
    X, y = wave(300)
    return quick().fit(X, y)


def test_predictions_do_not_move_and_shapes_are_as_told(fitted):
    X, _ = wave(50, seed=1)
    mean, std = fitted.predict(X, return_std=True)
    assert (mean == fitted.predict(X)).all()
    assert std.shape == (50,)
    assert fitted.predict_interval(X).shape == (50, 2)
    assert fitted.predict_interval(X, [0.5, 0.9, 0.99]).shape == (50, 2, 3)
    assert fitted.predict_quantiles(X, [0.1, 0.9]).shape == (50, 2)
    assert fitted.predict_quantiles(X, 0.5).shape == (50,)
    total, noise, ignorance = fitted.predict_uncertainty(X)
    np.testing.assert_allclose(total, std)
    np.testing.assert_allclose(total**2, noise**2 + ignorance**2)
    inside = fitted.predict_interval(X, [0.5, 0.9])
    assert (inside[:, 0, 1] <= inside[:, 0, 0]).all()
    assert (inside[:, 1, 0] <= inside[:, 1, 1]).all()


def test_quantiles_never_cross(fitted):
    X = np.vstack([wave(50, seed=1)[0], np.full((1, 2), 1e6), np.full((1, 2), -1e6)])
    quantiles = fitted.predict_quantiles(X, np.linspace(0.001, 0.999, 50))
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()


def test_deviations_are_about_the_noise_and_grow_away_from_the_rows(fitted):
    X, _ = wave(200, seed=1)
    _, std = fitted.predict(X, return_std=True)
    assert 0.08 < np.sqrt(np.mean(std**2)) < 0.14
    far = np.array([[1.2, 0.5], [2.0, 0.5], [20.0, 0.5]])
    _, beyond = fitted.predict(far, return_std=True)
    assert (np.diff(np.append(std.max(), beyond)) > 0).all()
    assert beyond[-1] > 5 * std.max()
    assert (fitted.predict_uncertainty(far).ignorance > 0.05).all()


@pytest.mark.slow
def test_noise_and_ignorance():
    few, many = wave(100, noise=0.02), wave(2_000, noise=0.02)
    X = np.random.RandomState(9).uniform(size=(100, 2))
    of_few = quick().fit(*few).predict_uncertainty(X)
    of_many = quick().fit(*many).predict_uncertainty(X)
    assert of_many.ignorance.mean() < of_few.ignorance.mean()
    assert of_many.noise.mean() == pytest.approx(0.02, rel=0.2)


def test_rows_that_were_held_out_are_learned_from_in_the_end():
    assert error_left(1.0, 0.5) == 1.0  # noise stays
    assert error_left(0.0, 0.64) == pytest.approx(0.8)
    X, y = wave(300, noise=0.02)
    model = quick().fit(X, y)
    (noise,), (unit,) = model.uncertainty_.noise, model.uncertainty_.units
    left = (unit / np.std(y)) ** 2
    assert 0 < noise < 1
    assert 0.7 < left < 1
    known = ((left - noise * left) / (1 - noise * left)) ** 2
    assert 0.5 < known < 1  # the part of the rows that a group trains on
    parts = model.predict_uncertainty(X)
    np.testing.assert_allclose(parts.total**2, parts.noise**2 + parts.ignorance**2)


def coverage_by_quarter(model, X, y, coverage=0.8):
    low, high = model.predict_interval(X, coverage).T
    inside = (low <= y) & (y <= high)
    order = np.argsort(high - low)
    return np.array([inside[part].mean() for part in np.array_split(order, 4)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heteroscedastic", "heavy", "noise"])
def test_coverage_holds_wherever_intervals_are_narrow_or_wide(kind):
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(8_000, 3))
    if kind == "heteroscedastic":
        y = np.sin(6 * X[:, 0]) + (0.05 + np.abs(X[:, 1] - 0.5)) * rng.standard_normal(8_000)
    elif kind == "heavy":
        y = np.sin(6 * X[:, 0]) + 0.2 * rng.standard_t(2.5, size=8_000)
    else:
        y = rng.standard_normal(8_000)
    model = quick().fit(X[:3_000], y[:3_000])
    found = coverage_by_quarter(model, X[3_000:], y[3_000:])
    # What some 1,200 rows that calibrate and 1,250 that judge leave open, 3.5 times.
    doubt = 3.5 * np.sqrt(0.8 * 0.2 * (1 / 1_200 + 1 / 1_250))
    np.testing.assert_allclose(found, 0.8, atol=doubt)


def test_log_score_is_the_mean_log_density(fitted):
    X, y = wave(200, seed=1)
    mean, std = fitted.predict(X, return_std=True)
    normal = norm.logpdf(y, mean, std).mean()
    assert fitted.log_score(X, y) == pytest.approx(normal, abs=0.1)
    # A target moved by three deviations is less likely, and units are those of the target.
    assert fitted.log_score(X, y + 3 * std) < fitted.log_score(X, y) - 2
    weight = np.zeros(200)
    weight[:10] = 2
    assert fitted.log_score(X, y, weight) == pytest.approx(fitted.log_score(X[:10], y[:10]))
    X0, y0 = wave(300)
    scaled = quick().fit(X0, 1000 * y0)
    assert scaled.log_score(X, 1000 * y) == pytest.approx(
        fitted.log_score(X, y) - np.log(1000), abs=0.05
    )


@pytest.mark.parametrize("feature_map", [PurePowerFeatures(), FourierFeatures(2.0)])
def test_one_core_is_bayesian_linear_regression(feature_map):
    """Against the textbook's formulas, written out densely."""
    X, y = wave(80, D=1)
    model = KernelMachineRegressor(
        feature_map, rank=1, n_basis=4, quantized=False, alpha=0.3, max_iter=50, tol=0.0
    ).fit(X, y)
    member, scaling = model.members_[0], model.target_scaling_
    u = (y - scaling.mean[0]) / scaling.scale[0]

    def design(X):
        A = member.layout.factors(member.inputs.apply(X), feature_map)[0]
        return np.hstack([A.real, -A.imag]) if np.iscomplexobj(A) else A

    A, Z = design(X), design(wave(20, seed=3, D=1)[0])
    precision = A.T @ A + 0.3 * np.eye(A.shape[1])
    w = np.linalg.solve(precision, A.T @ u)
    noise = (np.sum((u - A @ w) ** 2) + 0.3 * w @ w) / len(u)
    variance = noise * (1 + np.einsum("ij,jk,ik->i", Z, np.linalg.inv(precision), Z))
    mean, std = model.predict(wave(20, seed=3, D=1)[0], return_std=True)
    np.testing.assert_allclose(mean, Z @ w * scaling.scale[0] + scaling.mean[0], rtol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(variance) * scaling.scale[0], rtol=1e-8)
    X_new, y_new = wave(20, seed=3, D=1)
    expected = norm.logpdf(y_new, mean, np.sqrt(variance) * scaling.scale[0]).mean()
    assert model.log_score(X_new, y_new) == pytest.approx(expected, abs=1e-8)
    low, high = model.predict_interval(X_new, 0.95).T
    np.testing.assert_allclose((high - low) / 2, 1.959964 * std, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 40])
def test_few_rows_give_finite_positive_deviations(n):
    X, y = wave(n)
    model = quick().fit(X, y)
    _, std = model.predict(np.vstack([X, X + 100]), return_std=True)
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert np.isfinite(model.log_score(*wave(20, seed=1)))


def test_constant_targets_and_copies():
    X, _ = wave(40)
    model = quick().fit(X, np.full(40, 3.0))
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()
    assert np.isfinite(model.log_score(X, np.full(40, 3.0)))
    few = [quick().fit(X[:5], np.full(5, unit)) for unit in (1e-12, 1.0, -1e12)]
    units = [model.predict(X[:1], return_std=True)[1][0] for model in few]
    np.testing.assert_allclose(units, np.array([1e-12, 1, 1e12]) * units[1])
    copies = quick().fit(np.repeat(X[:5], 20, axis=0), np.repeat(X[:5, 0], 20))
    assert np.isfinite(copies.predict(X, return_std=True)[1]).all()


def test_several_targets_have_an_axis_after_the_rows():
    X, y = wave(200)
    Y = np.column_stack([y, 10 * X[:, 1]])
    model = quick().fit(X, Y)
    mean, std = model.predict(X[:7], return_std=True)
    assert mean.shape == std.shape == (7, 2)
    assert model.predict_interval(X[:7]).shape == (7, 2, 2)
    assert model.predict_interval(X[:7], [0.5, 0.9, 0.95]).shape == (7, 2, 2, 3)
    assert model.predict_quantiles(X[:7], [0.1, 0.5, 0.9, 0.95]).shape == (7, 2, 4)
    assert np.isfinite(model.log_score(X, Y))


def test_fresh_rows_calibrate():
    X, y = wave(300)
    model = quick().fit(X, y)
    X_new, y_new = wave(400, seed=5, noise=0.5)  # five times the noise of the fit
    before = model.predict(X_new)
    model.calibrate(X_new[:199], y_new[:199])
    assert (model.predict(X_new) == before).all()
    low, high = model.predict_interval(X_new[199:], 0.9).T
    assert 0.84 < np.mean((low <= y_new[199:]) & (y_new[199:] <= high)) < 0.96


def test_rows_to_calibrate_on_are_checked(fitted):
    X, y = wave(30, seed=1)
    for rows, bad in ((X, None), (X, np.c_[y, y]), (X[:1], y), (X, y[1:]), (X, y[:1])):
        with pytest.raises(ValueError, match="`y` must have the shape of the predictions"):
            fitted.calibrate(rows, bad)
    for measure in (fitted.calibrate, fitted.score, fitted.log_score):
        with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
            measure(X, y, -np.ones(30))


def test_weighted_and_repeated_rows_are_as_sure():
    X, y = wave(100)
    weight = np.random.RandomState(1).randint(1, 4, size=100)
    weighted = quick().fit(X, y, weight)
    repeated = quick().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    std = [model.predict(X, return_std=True)[1] for model in (weighted, repeated)]
    np.testing.assert_allclose(*std, rtol=1e-9)


def test_few_rows_of_a_quantile():
    X, y = np.random.RandomState(0).uniform(size=(45, 1)), np.random.RandomState(1).randn(45)
    model = quick(loss="quantile", quantile=0.9).fit(X, y)
    quantiles = model.predict_quantiles(X, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantiles[:, 2], model.predict(X))
    below = norm.cdf(quantiles).mean(axis=0)
    assert (np.abs(below - [0.1, 0.5, 0.9]) < 0.2).all()


def test_named_maps_with_another_loss_say_what_to_use():
    X, y = wave(60)
    model = KernelMachineRegressor(loss="huber", n_basis=4, rank=2, max_iter=2, verbose=0)
    with pytest.raises(AttributeError, match=r"`loss` must be 'squared_error'.*got 'huber'. Use"):
        model.fit(X, y).predict(X, return_std=True)


def test_targets_near_the_end_of_double_precision():
    X, y = wave(60)
    parts = quick().fit(X, 1e290 * y).predict_uncertainty(X)
    assert np.isfinite(np.array(parts)).all()


def test_a_loss_with_a_log_link_has_no_negative_ends():
    X, _ = wave(300)
    y = np.random.RandomState(0).poisson(np.exp(2 * X[:, 0])).astype(float)
    model = quick(loss="poisson").fit(X, y)
    interval = model.predict_interval(X, 0.9)
    assert (interval >= 0).all()
    assert 0.85 < np.mean((interval[:, 0] <= y) & (y <= interval[:, 1])) < 0.98


def test_files_keep_uncertainty_and_older_ones_say_that_they_have_none(fitted, tmp_path):
    X, y = wave(20, seed=1)
    path = tmp_path / "model.polyadic"
    polyadic.save(fitted, path)
    again = polyadic.load(path)
    assert (again.predict(X, return_std=True)[1] == fitted.predict(X, return_std=True)[1]).all()
    assert again.log_score(X, y) == fitted.log_score(X, y)
    del again.uncertainty_
    polyadic.save(again, path)
    with pytest.raises(AttributeError, match=r"has no uncertainty.*Fit it again"):
        polyadic.load(path).predict(X, return_std=True)


def test_wide_cores_say_the_same_from_a_file_and_are_finite_anywhere(tmp_path):
    X, y = wave(400)
    model = KernelMachineRegressor(
        FourierFeatures(20.0), quantized=False, n_basis=16, rank=8, scale_inputs=False, max_iter=2
    )
    model.fit(8 * X - 3, y)
    path = tmp_path / "model.polyadic"
    polyadic.save(model, path)
    rows = np.vstack([8 * X - 3, np.full((1, 2), 6.0), np.full((1, 2), 1e9)])
    _, std = model.predict(rows, return_std=True)
    np.testing.assert_array_equal(polyadic.load(path).predict(rows, return_std=True)[1], std)
    assert np.isfinite(std).all()
    # By a curve where there were rows, and without it as if there had been none.
    scale = model.uncertainty_.scale
    blind = replace(scale, span=(0.0, 0.0))
    model.uncertainty_ = replace(model.uncertainty_, scale=blind)
    plain = model.predict(rows, return_std=True)[1]
    assert (plain[:-2] != std[:-2]).any()
    np.testing.assert_allclose(std, plain, rtol=2e-3)


@pytest.mark.parametrize("bad", [0.0, 1.0, 1.5, [], "ninety", [[0.5]], [0.5, np.nan]])
def test_levels_out_of_range_are_named(fitted, bad):
    with pytest.raises(ValueError, match="`coverage` must be a number between 0 and 1"):
        fitted.predict_interval(np.zeros((1, 2)), coverage=bad)
    with pytest.raises(ValueError, match="`alpha` must be"):
        fitted.predict_quantiles(np.zeros((1, 2)), alpha=bad)


def test_tables_with_levels_and_gaps():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    colour = rng.choice(["red", "green", "blue"], 400)
    x = np.where(rng.uniform(size=400) < 0.1, np.nan, rng.uniform(size=400))
    y = np.nan_to_num(x) + np.where(colour == "red", 1.0, 0.1) * rng.standard_normal(400)
    table = pd.DataFrame({"x": x, "colour": colour})
    model = quick().fit(table, y)
    rows = pd.DataFrame({"x": [0.5, 0.5, np.nan], "colour": ["red", "blue", "green"]})
    _, std = model.predict(rows, return_std=True)
    assert std[0] > 4 * std[1]
    assert np.isfinite(std).all()


def test_files_and_dask_say_the_same(fitted, tmp_path):
    X, y = wave(60, seed=1)
    path = tmp_path / "rows.npz"
    np.savez(path, X=X, y=y)
    rows = polyadic.open_rows(path, target="target")
    np.testing.assert_array_equal(
        fitted.predict_interval(rows, [0.5, 0.9]), fitted.predict_interval(X, [0.5, 0.9])
    )
    assert fitted.log_score(rows) == pytest.approx(fitted.log_score(X, y), abs=1e-12)
    for measure in (fitted.log_score, fitted.score, fitted.calibrate):
        with pytest.raises(ValueError, match="`y` and `sample_weight` must be None"):
            measure(rows, y)
    da = pytest.importorskip("dask.array")
    lazy, targets = da.from_array(X, chunks=(20, 2)), da.from_array(y, chunks=20)
    interval = fitted.predict_interval(lazy, [0.5, 0.9])
    assert interval.shape == (60, 2, 2)
    np.testing.assert_allclose(interval.compute(), fitted.predict_interval(X, [0.5, 0.9]))
    unknown = lazy[lazy[:, 0] > 0.3]  # nobody knows how many rows
    some = X[X[:, 0] > 0.3]
    for ask, levels in ((fitted.predict_interval, [0.5, 0.9]), (fitted.predict_quantiles, 0.5)):
        np.testing.assert_allclose(ask(unknown, levels).compute(), ask(some, levels))
    std = fitted.predict(lazy, return_std=True)[1]
    np.testing.assert_allclose(std.compute(), fitted.predict(X, return_std=True)[1])
    assert fitted.log_score(lazy, targets) == pytest.approx(fitted.log_score(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_entropies_of_classes_add_up(n_classes):
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(300, 2))
    y = np.minimum((n_classes * X[:, 0] + 0.3 * rng.standard_normal(300)).clip(0), n_classes - 1)
    model = FeatureLearningClassifier(n_estimators=3, effort=0.2, random_state=0, verbose=0)
    model.fit(X, y.astype(int))
    total, noise, ignorance = model.predict_uncertainty(X)
    p = model.predict_proba(X)
    np.testing.assert_allclose(total, -(p * np.log(p)).sum(axis=1))
    np.testing.assert_allclose(total, noise + ignorance)
    assert (ignorance >= 0).all()
    assert ignorance.max() > 0
    assert (total <= np.log(n_classes) + 1e-12).all()
