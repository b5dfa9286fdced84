"""Rows that are torch tensors: seen, hashed, checked and predicted as NumPy rows are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="tensors need torch")

from polyadic import (  # noqa: E402
    FeatureLearningRegressor,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.compute import ComputeSpec  # noqa: E402
from polyadic.engines.reference import ReferenceEngine  # noqa: E402
from polyadic.engines.torch.engine import TorchEngine  # noqa: E402
from polyadic.features import DampedFourierFeatures, TensorLayout  # noqa: E402
from polyadic.model import cpd  # noqa: E402
from polyadic.rows.holdout import Part  # noqa: E402
from polyadic.rows.inputs import Inputs  # noqa: E402
from polyadic.rows.rows import Rows  # noqa: E402
from polyadic.rows.scaling import InputScaling  # noqa: E402
from polyadic.rows.view import View  # noqa: E402
from polyadic.samples.memory import MemorySamples  # noqa: E402
from polyadic.search.trend import additive_member, linear_features  # noqa: E402
from polyadic.sources.arrays import ArrayStore  # noqa: E402
from tests.contract.test_engines import assert_same  # noqa: E402
from tests.small import data_of, respond_reference  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TORCH = {"engine": "torch", "device": DEVICE}
INPUTS = Inputs.of_numbers("abc")


@pytest.fixture
def table(rng):
    X = np.column_stack(
        [rng.randint(0, 5, 400), rng.exponential(size=400) * 1e3, np.full(400, 7.0)]
    ).astype(float)
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1] - 3.0])
    return X, y, rng.uniform(0.5, 2.0, 400)


def tensors(*arrays):
    return [torch.tensor(array, device=DEVICE) for array in arrays]


def host(tensor):
    return tensor.cpu().numpy()


@pytest.mark.parametrize("blend", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 1]], ids=["a constant one", "all vary"])
def test_scaled_tensors_are_scaled_arrays(table, blend, columns):
    X = table[0][:, columns]
    inputs = Inputs.of_numbers("abc"[: len(columns)])
    scaling = InputScaling.fit(X[:300], inputs, blend=blend, max_knots=16)
    beyond = np.concatenate([X, X * 2 + 1, -X])
    (there,) = tensors(beyond)
    np.testing.assert_allclose(host(scaling.apply(there)), scaling.apply(beyond), atol=1e-14)


def test_a_view_of_tensors_is_that_of_arrays(table, rng):
    X, y, weight = table
    data = data_of(X, y, weight)
    line = additive_member(data.view.inputs, linear_features(data), rng.standard_normal((4, 2)))
    trend = replace(line, share=0.5)
    view = View(InputScaling.fit(X, INPUTS, blend=0.5), data.view.targets, (trend,))
    there = Rows(*tensors(X, y, weight))
    with ComputeSpec(**TORCH).open() as compute:
        for target in (0, 1):
            expected = view.see(Rows(X, y, weight), target, respond_reference)
            found = view.see(there, target, compute.predict)
            np.testing.assert_allclose(host(found.X), expected.X, atol=1e-14)
            np.testing.assert_allclose(host(found.y), expected.y, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_known_of_tensors_is_what_is_known_of_arrays(table, weighted, monkeypatch):
    X, y, weight = table if weighted else (*table[:2], None)
    y[3] = -0.0  # hashed like 0.0
    arrays = data_of(X, y, weight)
    monkeypatch.setattr("polyadic.sources.arrays._PIECE", 500)
    data = data_of(*tensors(X, y), None if weight is None else tensors(weight)[0])
    assert (data.n_rows, data.n_targets) == (arrays.n_rows, arrays.n_targets)
    assert data.total_weight == pytest.approx(arrays.total_weight)
    assert data.fingerprint() == arrays.fingerprint()
    np.testing.assert_array_equal(data.hashes(3), arrays.hashes(3))
    for name in ("mean", "scale"):
        known, expected = (getattr(each.view.targets, name) for each in (data, arrays))
        np.testing.assert_allclose(known, expected, rtol=1e-13)
    np.testing.assert_array_equal(
        np.concatenate(data.view.inputs.knots), np.concatenate(arrays.view.inputs.knots)
    )


def test_a_part_of_tensors_is_that_of_arrays(table):
    X, y, _ = table
    data = data_of(*tensors(X, y))
    limit = int(np.sort(data.hashes(5))[70])
    for part in (Part(5, upto=limit), Part(5, above=limit), Part(5).subset(0.6)):
        expected = X[part.mask(X, y)]
        assert 0 < len(expected) < len(X)
        np.testing.assert_array_equal(host(data.gather(part).store.rows.X), expected)


def smooth(rng, n_rows=500):
    X = rng.uniform(-3, 5, size=(n_rows, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


OPTIONS = {"n_basis": 8, "rank": 4, "max_iter": 3, "random_state": 0}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_fit_of_tensors_is_that_of_arrays(rng, dtype, early_stopping):
    X, y = (torch.tensor(array, dtype=dtype).double().numpy() for array in smooth(rng))
    options = {**OPTIONS, "early_stopping": early_stopping}
    expected = KernelMachineRegressor(**options).fit(X, y)
    there = [torch.tensor(array, dtype=dtype, device=DEVICE) for array in (X, y)]
    model = KernelMachineRegressor(**options, **TORCH).fit(*there)
    np.testing.assert_allclose(model.loss_curve_, expected.loss_curve_, rtol=1e-9)
    found = model.predict(there[0])
    assert (found.device, found.dtype) == (there[0].device, torch.float64)
    np.testing.assert_allclose(host(found), expected.predict(X), atol=1e-8)
    assert model.score(*there) == pytest.approx(expected.score(X, y))
    single = [array.astype(str(dtype).removeprefix("torch.")) for array in (X, y)]
    arrays = KernelMachineRegressor(**options, **TORCH).fit(*single)
    np.testing.assert_allclose(arrays.loss_curve_, expected.loss_curve_, rtol=1e-9)


def test_weights_targets_and_rows_of_weight_zero(rng):
    X, y = smooth(rng)
    Y = np.column_stack([y, y**2])
    weight = rng.randint(0, 3, len(X)).astype(float)
    maps = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.8)]
    expected = FeatureLearningRegressor(maps, **OPTIONS).fit(X, Y, weight)
    model = FeatureLearningRegressor(maps, **OPTIONS, **TORCH).fit(*tensors(X, Y, weight))
    np.testing.assert_allclose(model.loss_curve_, expected.loss_curve_, rtol=1e-9)
    (there,) = tensors(X)
    np.testing.assert_allclose(host(model.predict(there)), expected.predict(X), atol=1e-8)


@pytest.mark.slow
def test_an_automatic_fit_of_tensors(rng):
    X, y = smooth(rng, 300)
    options = {"n_estimators": 1, "effort": 0.02, "random_state": 0, **TORCH}
    model = FeatureLearningRegressor(**options).fit(*tensors(X, y))
    assert model.score(*tensors(X, y)) > 0.95
    assert FeatureLearningRegressor(**options).fit(X, y).score(X, y) > 0.95


def test_rows_on_the_device_are_not_copied_where_products_do_not_fit(rng):
    X, y = smooth(rng, 3000)
    (there, target) = tensors(X, y[:, None])
    data = data_of(there, target)
    layout = TensorLayout.of((DampedFourierFeatures(2.0, 0.7),), (8,) * 3, quantized=True)
    cores = cpd.initial_cores(layout.core_sizes, 4, True, np.random.RandomState(0))
    with ComputeSpec(**TORCH, chunk_size=500, memory_limit=450_000).open() as compute:
        (samples,) = data.samples(compute, layout)
        samples.start(cores)
        assert samples.place == "rows"
        assert samples._chunks[0].X.data_ptr() == there.data_ptr()
        seen = data_of(X, y[:, None]).view.see(Rows(X, y[:, None]), 0, respond_reference)
        oracle = MemorySamples(ReferenceEngine(), seen, layout, len(X))
        oracle.start(cores)
        for core in (0, 5):
            expected = oracle.normal_equations(core, np.ones(1))
            assert_same(samples.normal_equations(core, np.ones(1)), expected, 1e-9)


def test_a_search_over_folds_takes_tensors(rng):
    X, y = smooth(rng, 120)
    search = KernelMachineRegressorCV(cv=2, n_basis=4, rank=2, max_iter=1, random_state=0)
    expected = search.fit(X, y).best_score_
    assert search.fit(*tensors(X, y)).best_score_ == pytest.approx(expected)


def fitted_losses(X, y, weight=None, **options):
    model = KernelMachineRegressor(**OPTIONS, **TORCH, **options)
    return model.fit(X, y, weight).loss_curve_


TARGETS = {
    "list": lambda y: y.tolist(),
    "series with labels of its own": lambda y: pd.Series(y, index=range(1000, 1000 + len(y))),
    "frame": lambda y: pd.DataFrame({"y": y}),
    "objects": lambda y: y.astype(object),
    "big-endian": lambda y: y.astype(">f8"),
    "gradients": lambda y: torch.tensor(y, requires_grad=True),
    "another device": lambda y: torch.tensor(y, device="cpu"),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_and_weights_beside_a_tensor_may_be_anything(rng, kind):
    X, y = smooth(rng)
    y = 1e8 + 0.1 * y  # nothing of it would be left in single precision
    weight = rng.uniform(0.5, 1.5, len(X))
    (there,) = tensors(X)
    expected = fitted_losses(X, y, weight)
    found = fitted_losses(there, TARGETS[kind](y), weight.tolist())
    np.testing.assert_allclose(found, expected, rtol=1e-7)


KINDS = ["float16", "bfloat16", "int64", "uint8", "bool"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_numbers_are_what_their_values_say(rng, kind):
    X, y = rng.randint(0, 8, size=(200, 3)), rng.randint(0, 100, size=200)
    weight = rng.randint(1, 200, size=200)
    X, y, weight = (torch.tensor(array).to(getattr(torch, kind)) for array in (X, y, weight))
    double = [array.double().numpy() for array in (X, y, weight)]
    options = {"n_basis": 2, "rank": 2, "max_iter": 1}
    expected = KernelMachineRegressor(**{**OPTIONS, **options}).fit(*double)
    model = KernelMachineRegressor(**{**OPTIONS, **options}, **TORCH)
    model.fit(*(array.to(DEVICE) for array in (X, y, weight)))
    np.testing.assert_allclose(model.loss_curve_, expected.loss_curve_, rtol=1e-9)
    assert model.score(X.to(DEVICE), y) == pytest.approx(expected.score(*double[:2]))
    on_cpu = KernelMachineRegressor(**{**OPTIONS, **options}).fit(X, y, weight)
    np.testing.assert_allclose(on_cpu.loss_curve_, expected.loss_curve_, rtol=1e-9)


def test_weights_are_summed_in_double_precision():
    data = data_of(torch.ones(300, 1), torch.ones(300, 1), torch.full((300,), 1e36))
    assert data.total_weight == pytest.approx(3e38)


def test_predictions_carry_no_gradients(rng):
    X, y = smooth(rng)
    model = KernelMachineRegressor(**OPTIONS, **TORCH).fit(X, y)
    there = torch.tensor(X, device=DEVICE, requires_grad=True)
    assert not model.predict(there).requires_grad


def test_tensors_are_predicted_in_chunks(rng, monkeypatch):
    X, y = smooth(rng)
    model = KernelMachineRegressor(**OPTIONS, **TORCH, chunk_size=120).fit(X, y)
    sizes = []
    predict = TorchEngine.predict

    def noted(self, X, *rest):
        sizes.append(len(X))
        return predict(self, X, *rest)

    monkeypatch.setattr(TorchEngine, "predict", noted)
    (there,) = tensors(X)
    np.testing.assert_allclose(host(model.predict(there)), model.predict(X), atol=1e-12)
    assert sizes[:5] == [120, 120, 120, 120, 20]


def test_knots_may_be_a_subnormal_gap_apart():
    X = np.array([[0.0], [1e-310], [2e-310], [1.0], [0.5], [-1.0], [2.0]])
    scaling = InputScaling.fit(X[:4], Inputs.of_numbers("a"), blend=0.5)
    found = host(scaling.apply(*tensors(X)))
    np.testing.assert_allclose(found, scaling.apply(X), atol=1e-14)


@pytest.mark.slow
def test_a_search_leaves_rows_on_their_device(rng, monkeypatch):
    X, y = smooth(rng, 400)
    weight = rng.randint(1, 3, len(X)).astype(float)
    monkeypatch.setattr("polyadic.search.learned._SCALING_ROWS", 100)
    stores = []
    start = ArrayStore.__init__

    def spy(self, rows, *rest):
        stores.append(rows)
        start(self, rows, *rest)

    monkeypatch.setattr(ArrayStore, "__init__", spy)
    options = {"n_estimators": 1, "effort": 0.02, "random_state": 0, **TORCH}
    model = FeatureLearningRegressor(**options).fit(*tensors(X, y, weight))
    assert len(stores) > 2
    assert all(isinstance(rows.X, torch.Tensor) for rows in stores)
    assert model.n_samples_fit_ == 400
    assert model.score(*tensors(X, y)) > 0.95


nan = float("nan")
WRONG = {
    "one dimension": (lambda X, y: (X[:, 0], y), r"`X` must have two dimensions"),
    "no rows": (lambda X, y: (X[:0], y[:0]), r"at least one row .* \(0, 3\)"),
    "a hole in X": (lambda X, y: (X.index_fill(0, torch.tensor([7], device=X.device), nan), y),
                    r"`X` must be finite, but row 7 holds NaN"),
    "a hole in y": (lambda X, y: (X, y.index_fill(0, torch.tensor([9], device=X.device), nan)),
                    r"`y` must be finite, but row 9"),
    "no y": (lambda X, y: (X, None), r"`y` must be given"),
    "short y": (lambda X, y: (X, y[1:]), r"`y` must have one row for each of the 500"),
    "complex": (lambda X, y: (X + 1j, y), r"`X` must hold real numbers, got torch.complex128"),
    "negative weight": (lambda X, y: (X, y, -y**2), r"`sample_weight` must be non-negative"),
    "no weight": (lambda X, y: (X, y, 0 * y), r"`sample_weight` must be .* one positive"),
    "no targets": (lambda X, y: (X, y[:, None][:, :0]), r"`y` must have one row .* \(500, 0\)"),
    "words": (lambda X, y: (X, ["a"] * 500), r"could not convert string to float"),
    "sparse": (lambda X, y: (X.to_sparse(), y), r"`X` must be a dense tensor, .* X.to_dense\(\)"),
    "short weight": (lambda X, y: (X, y, y[1:]), r"`sample_weight` must have one entry for each"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_tensors_get_an_error_that_says_what_to_do(rng, wrong):
    change, message = WRONG[wrong]
    with pytest.raises(ValueError, match=message):
        KernelMachineRegressor(**OPTIONS, **TORCH).fit(*change(*tensors(*smooth(rng))))


def test_tensors_to_predict_have_the_inputs_of_the_fit(rng):
    there = tensors(*smooth(rng))
    model = KernelMachineRegressor(**OPTIONS, **TORCH).fit(*there)
    with pytest.raises(ValueError, match="`X` must have the 3 inputs of the fit, got 2"):
        model.predict(there[0][:, :2])
