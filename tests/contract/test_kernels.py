"""The inner loops of the compiled engine by themselves, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from polyadic.engines.compiled.gram import sums


@pytest.mark.parametrize("rows", [2, 4, 5, 6, 7, 8, 9, 25, 40])
@pytest.mark.parametrize("columns", [1, 63, 64, 257, 2050])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-14), ("float32", 1e-6)])
def test_sums_of_any_shape(rng, rows, columns, dtype, tolerance):
    M = rng.standard_normal((rows, columns)).astype(dtype)
    gram, moment, target = sums(M)
    expected = M.astype(float) @ M.T.astype(float)
    atol = tolerance * columns
    np.testing.assert_allclose(gram, expected[:-1, :-1], rtol=0, atol=atol)
    np.testing.assert_allclose(moment, expected[:-1, -1], rtol=0, atol=atol)
    assert target == pytest.approx(expected[-1, -1], rel=tolerance * 10)
    assert gram.dtype == np.float64
    np.testing.assert_array_equal(gram, gram.T)


def test_single_precision_is_summed_in_double():
    M = np.full((2, 10**6), 0.1, dtype=np.float32)
    gram, _, _ = sums(M)
    assert gram[0, 0] == pytest.approx(10**6 * float(M[0, 0]) ** 2, rel=1e-6)
