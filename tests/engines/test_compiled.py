"""What the compiled engine does by itself, beside the contract of all."""

import numpy as np

from polyadic.engines.compiled.engine import CompiledEngine
from polyadic.engines.reference import ReferenceEngine
from polyadic.features import PurePowerFeatures, TensorLayout
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
