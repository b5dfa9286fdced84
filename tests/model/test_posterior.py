import numpy as np
import pytest

from polyadic.features import DampedFourierFeatures, TensorLayout
from polyadic.model.normal import NormalEquations
from polyadic.model.posterior import (
    CorePosterior,
    affordable_directions,
    core_posterior,
    leverage,
)


def test_the_covariance_of_a_core(rng):
    """Against the inverse of its system, written out densely."""
    cores = [rng.standard_normal((3, 4)), rng.standard_normal((5, 4))]
    B, y, alpha = rng.standard_normal((40, 20)), rng.standard_normal(40), 0.3
    posterior, squares = core_posterior(NormalEquations.of(B, y, None), cores, 1, alpha)
    penalty = alpha * np.kron(np.eye(5), cores[0].T @ cores[0])
    covariance = np.linalg.inv(B.T @ B + penalty)
    np.testing.assert_allclose(posterior.root @ posterior.root.T, covariance, rtol=1e-9)
    np.testing.assert_array_equal(posterior.root, np.tril(posterior.root))
    v = cores[1].ravel()
    assert squares == pytest.approx(np.sum((y - B @ v) ** 2) + v @ penalty @ v)


@pytest.mark.parametrize("is_complex", [False, True])
def test_directions_that_no_row_takes_may_be_certain(rng, is_complex):
    """Rows within the others are as open as with all directions; nothing is open more."""

    def draw(*shape):
        real = rng.standard_normal(shape)
        return real + 1j * rng.standard_normal(shape) if is_complex else real

    size, rank, alpha = 3, 5, 0.3
    cores = [draw(7, rank), draw(size, rank)]
    taken = draw(2, rank)  # by the rows' products, two of five directions
    A = np.einsum("ni,nr->nir", draw(60, size), draw(60, 2) @ taken).reshape(60, -1)
    B = np.hstack([A.real, A.imag]) if is_complex else A
    equations = NormalEquations.of(B, rng.standard_normal(60), None)
    whole, squares = core_posterior(equations, cores, 1, alpha)
    found, same = core_posterior(equations, cores, 1, alpha, most_directions=2)
    np.testing.assert_allclose(found.variance(A), whole.variance(A), rtol=1e-8)
    assert same == squares
    assert found.root.shape[1] == whole.root.shape[1] * 2 // 5
    beyond = draw(200, size * rank)
    assert (found.variance(beyond) < whole.variance(beyond)).all()
    for most in (None, rank, rank + 1):
        alike, _ = core_posterior(equations, cores, 1, alpha, most)
        np.testing.assert_array_equal(alike.root, whole.root)


@pytest.mark.parametrize(
    ("n_maps", "size", "rank", "n_inputs", "expected"),
    [(1, 16, 20, 3, 20), (1, 2, 60, 8, 60), (2, 16, 60, 3, 29), (5, 8, 60, 3, 13)],
)
def test_how_many_directions_are_open_follows_from_their_cost(
    n_maps, size, rank, n_inputs, expected
):
    layout = TensorLayout.of((DampedFourierFeatures(2.0, 0.7),), (size,) * n_inputs, False)
    cores = [np.zeros((size, rank), dtype=complex)] * n_inputs
    assert affordable_directions(layout, cores, n_maps) == expected


@pytest.mark.parametrize("shape", [(300, 300), (300, 40), (300, 0)])
@pytest.mark.parametrize("triangular", [True, False])
def test_panels_of_a_root_give_its_variances(rng, shape, triangular):
    root, A = rng.standard_normal(shape), rng.standard_normal((7, 300))
    posterior = CorePosterior(0, np.tril(root) if triangular else root)
    found = leverage(posterior.panels, A.T)
    np.testing.assert_allclose(found, posterior.variance(A), rtol=1e-12)
    read = sum(panel.size for _, panel in posterior.panels)
    assert read < 0.75 * root.size if triangular and shape == (300, 300) else read <= root.size


def test_single_precision_where_it_is_enough(rng):
    root, A = np.tril(rng.standard_normal((300, 300))), rng.standard_normal((7, 300))
    posterior = CorePosterior(0, root)
    assert posterior.is_wide
    assert not CorePosterior(0, root[:40, :40]).is_wide
    found, is_sure = posterior.single_leverage(A.T.astype(np.float32))
    assert is_sure.all()
    expected = posterior.variance(A)
    np.testing.assert_allclose(np.sqrt(1 + found), np.sqrt(1 + expected), rtol=1e-5)
    # A row that a nearly unknown direction cancels in: terms are large, and their sum is not.
    unknown = np.linalg.qr(rng.standard_normal((300, 300)))[0][:, :1]
    A -= (A @ unknown) @ unknown.T
    posterior = CorePosterior(0, np.hstack([0.01 * root, 1e6 * unknown]))
    A[0] = rng.standard_normal(300)  # one that does not cancel
    _, is_sure = posterior.single_leverage(A.T.astype(np.float32))
    np.testing.assert_array_equal(is_sure, np.arange(7) == 0)
    with np.errstate(all="ignore"):  # as predictions are made
        _, is_sure = posterior.single_leverage(np.full((300, 1), np.inf, np.float32))
    assert not is_sure.any()
