"""What the compiled engine does by itself, beside the contract of all."""

import numpy as np
import pytest

from polyadic.engines.compiled.engine import CompiledEngine
from polyadic.engines.reference import ReferenceEngine
from polyadic.features import DampedFourierFeatures, PurePowerFeatures, TensorLayout
from polyadic.model.covariance_curve import covariance_curve
from polyadic.model.posterior import CorePosterior
from polyadic.rows.rows import Rows


def test_single_precision_of_wide_cores_is_not_seen(rng):
    layout = TensorLayout.of((PurePowerFeatures(),), (16, 16, 16), False)
    cores = [rng.standard_normal((16, 18)) for _ in range(3)]
    X, root = rng.uniform(size=(50, 3)), np.tril(rng.standard_normal((288, 288)))
    X[0] = 0.001  # whose last power is no single number
    arguments = (X, cores, np.ones(1), layout)
    expected = ReferenceEngine().leverage(*arguments, CorePosterior(2, root))
    found = CompiledEngine().leverage(*arguments, CorePosterior(2, root))
    np.testing.assert_allclose(np.sqrt(1 + found), np.sqrt(1 + expected), rtol=1e-5)
    assert (found != expected).any()
    # A direction that is nearly unknown, and no row has a part in it: terms are large, and cancel.
    A = ReferenceEngine().start(Rows(X, np.zeros(50)), cores, layout).design(2, np.ones(1))
    unknown = np.linalg.svd(A)[2][-1:].T
    unsafe = CorePosterior(2, np.hstack([0.01 * root, 1e6 * unknown]))
    found, expected = (
        engine.leverage(*arguments, unsafe) for engine in (CompiledEngine(), ReferenceEngine())
    )
    np.testing.assert_allclose(np.sqrt(1 + found), np.sqrt(1 + expected), rtol=1e-9)


@pytest.mark.parametrize("core", [0, 2])
def test_a_curve_is_not_seen_and_is_left_where_it_ends(rng, core):
    maps = DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.7)
    layout = TensorLayout.of(maps, (16, 16, 16), False)
    cores = [rng.standard_normal((16, 12)) + 1j * rng.standard_normal((16, 12)) for _ in range(3)]
    weights = np.array([0.7, 0.0])
    X, root = rng.uniform(size=(300, 3)), np.tril(rng.standard_normal((384, 384)))
    X[:4, core] = -0.5, 1.5, 1 + 1e-9, 0.0
    curve = covariance_curve(root, core, cores, weights, layout, (0.0, 1.0))
    arguments = (X, cores, weights, layout)
    found = CompiledEngine().leverage(*arguments, CorePosterior(core, root, curve))
    plain = CompiledEngine().leverage(*arguments, CorePosterior(core, root))
    expected = ReferenceEngine().leverage(*arguments, CorePosterior(core, root, curve))
    np.testing.assert_allclose(found[:3], plain[:3], rtol=1e-5)  # beyond the curve
    assert (found[3:] != plain[3:]).any()
    np.testing.assert_allclose(np.sqrt(1 + found), np.sqrt(1 + expected), rtol=1e-4)


@pytest.mark.parametrize("far", [1e18, 2.0**63, 1e20, 1e200])
def test_waves_far_from_the_rows_are_those_at_whole_turns(rng, far):
    """Doubles so large are whole numbers of turns, more than an integer can count."""
    layout = TensorLayout.of((DampedFourierFeatures(2.0, 0.7),), (8, 8), True)
    cores = [rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)) for _ in range(6)]
    X = np.array([[far, -far], [0.0, 0.0]])
    away, at_zero = CompiledEngine().predict(X, cores, np.ones(1), layout)
    assert away == pytest.approx(at_zero, rel=1e-12)
    assert np.isfinite(ReferenceEngine().predict(X, cores, np.ones(1), layout)).all()
