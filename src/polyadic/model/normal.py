"""Normal equations: the one small value a chunk of rows sends out, and their guarded solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from polyadic.model.scratch import scratch

_LEAST_EIGENVALUE = 1e-12  # beside the greatest
_EPSILON = float(np.finfo(np.float64).eps)
# What is added to the unit diagonal of a system that Cholesky refuses, in this order.
_JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)


@dataclass(frozen=True)
class NormalEquations:
    """The sums a weighted least-squares problem min ‖y − B v‖² needs; they can be added.

    For a core step with complex features B = [Re A, Im A], from which both objectives
    follow; for the step of the feature weights B = F, the responses of each map.

    Parameters
    ----------
    gram : ndarray
        BᵀB, weighted.
    moment : ndarray
        Bᵀy, weighted.
    target_norm2 : float
        yᵀy, weighted.
    total_weight : float
        Sum of the sample weights.
    """

    gram: NDArray[np.float64]
    moment: NDArray[np.float64]
    target_norm2: float
    total_weight: float

    @classmethod
    def of(
        cls, block: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None
    ) -> NormalEquations:
        """Sum up one chunk of rows, in double precision."""
        block = np.asarray(block, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        total = float(len(y))
        if weight is not None:
            sqrt_weight = np.sqrt(weight)
            block, y = block * sqrt_weight[:, None], y * sqrt_weight
            total = float(weight.sum())
        return cls(block.T @ block, block.T @ y, float(y @ y), total)

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return NormalEquations(
            self.gram + other.gram,
            self.moment + other.moment,
            self.target_norm2 + other.target_norm2,
            self.total_weight + other.total_weight,
        )

    def __iadd__(self, other: NormalEquations) -> NormalEquations:
        """Add in the memory of these sums, which are used up."""
        np.add(self.gram, other.gram, out=self.gram)
        np.add(self.moment, other.moment, out=self.moment)
        return NormalEquations(
            self.gram,
            self.moment,
            self.target_norm2 + other.target_norm2,
            self.total_weight + other.total_weight,
        )

    def on_host(self) -> NormalEquations:
        """Return these sums, which are on the host already."""
        return self

    def squared_error(self, v: NDArray[Any]) -> float:
        """Return ‖y − B v‖², at least zero in spite of rounding."""
        return max(0.0, float(self.target_norm2 - 2 * (self.moment @ v) + v @ self.gram @ v))


@dataclass(frozen=True)
class CoreSolution:
    """A new core and the jitter that its system needed, zero for a sound system."""

    value: NDArray[Any]
    jitter: float


def solve_core(
    equations: NormalEquations,
    gram_of_others: NDArray[Any],
    current: NDArray[Any],
    alpha: float,
    objective: str,
) -> CoreSolution:
    """Minimise ½‖y − A v‖² + ½α vᴴ(I ⊗ H)v over one core.

    Parameters
    ----------
    equations : NormalEquations
        The sums of B = [Re A, Im A], or of B = A where everything is real.
    gram_of_others : ndarray
        H, the product of the other cores' Grams.
    current : ndarray
        The core as it is; the answer is never worse than it.
    alpha : float
        Strength of the penalty on the weight tensor.
    objective : {"real", "complex"}
        Fit the real part of the response, or the complex response as the paper does.
    """
    from polyadic.model import compiled_solve  # numba is loaded when it is needed

    solve: Callable[..., Any] = compiled_solve.solve_real
    if np.iscomplexobj(current):
        solve = (
            compiled_solve.solve_real_part if objective == "real" else compiled_solve.solve_complex
        )
    sums = (equations.gram, equations.moment, gram_of_others, current)
    arrays = (np.ascontiguousarray(array) for array in sums)
    is_complex = solve is compiled_solve.solve_complex
    size = current.size if is_complex else len(equations.moment)
    work = scratch((2, size, size), np.complex128 if is_complex else np.float64)
    value, sound = solve(*arrays, alpha, equations.target_norm2, work)
    if sound:
        return CoreSolution(value, 0.0)
    return solve_core_guarded(equations, gram_of_others, current, alpha, objective)


def solve_core_guarded(
    equations: NormalEquations,
    gram_of_others: NDArray[Any],
    current: NDArray[Any],
    alpha: float,
    objective: str,
) -> CoreSolution:
    """Do what `solve_core` does for any system, singular ones too, in plain NumPy."""
    matrix: NDArray[Any]
    half, moment = current.size, equations.moment
    if objective == "real" or not np.iscomplexobj(current):
        matrix, moment, old = core_system(equations, gram_of_others, current, alpha)
    else:
        old = current.ravel()
        matrix = complex_gram(equations.gram)
        _add_penalty(matrix, alpha * gram_of_others)
        moment = moment[:half] - 1j * moment[half:]
    solution, jitter = guarded_solve(matrix, moment, old, scale=equations.target_norm2)
    if solution.size != half:
        solution = solution[:half] + 1j * solution[half:]
    return CoreSolution(solution.reshape(current.shape), jitter)


def core_system(
    equations: NormalEquations, gram_of_others: NDArray[Any], current: NDArray[Any], alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return matrix and right-hand side of a core step on the real part, and the core as it is.

    Real and imaginary parts of a complex core are unknowns of their own.
    """
    matrix, moment, penalty = equations.gram.copy(), equations.moment, alpha * gram_of_others
    if not np.iscomplexobj(current):
        _add_penalty(matrix, penalty)
        return matrix, moment, current.ravel()
    # Re(A v) = [Re A, −Im A] [Re v; Im v]
    half = current.size
    matrix[:half, half:] *= -1
    matrix[half:, :half] *= -1
    moment = np.concatenate([moment[:half], -moment[half:]])
    _add_penalty(matrix[:half, :half], penalty.real)
    _add_penalty(matrix[half:, half:], penalty.real)
    _add_penalty(matrix[half:, :half], penalty.imag)
    _add_penalty(matrix[:half, half:], -penalty.imag)
    return matrix, moment, np.concatenate([current.ravel().real, current.ravel().imag])


def complex_gram(gram: NDArray[np.float64]) -> NDArray[np.complexfloating]:
    """Return AᴴA from the sums of [Re A, Im A]."""
    half = len(gram) // 2
    cross = gram[:half, half:]
    found = np.empty((half, half), dtype=np.complex128)
    np.add(gram[:half, :half], gram[half:, half:], out=found.real)
    np.subtract(cross, cross.T, out=found.imag)
    return found


def as_real(matrix: NDArray[Any]) -> NDArray[np.float64]:
    """Return what does to real above imaginary parts what a matrix does to complex numbers."""
    if not np.iscomplexobj(matrix):
        return matrix
    return np.block([[matrix.real, -matrix.imag], [matrix.imag, matrix.real]])


def principal_axes(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return eigenvectors and the roots of their eigenvalues, without those that are rounding."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _LEAST_EIGENVALUE * max(values[-1], np.finfo(float).tiny)
    return vectors[:, kept], np.sqrt(values[kept])


def _add_penalty(matrix: NDArray[Any], penalty: NDArray[Any]) -> None:
    """Add I ⊗ penalty, in place."""
    rank = len(penalty)
    for first in range(0, len(matrix), rank):
        matrix[first : first + rank, first : first + rank] += penalty


def require_finite(matrix: NDArray[Any], moment: NDArray[Any]) -> None:
    """Raise an error that says what to do if the sums overflowed."""
    # No entry of a positive semi-definite matrix is larger than the largest of its diagonal.
    if not np.isfinite(matrix.diagonal().sum() + moment.sum()):
        raise FloatingPointError(
            "The normal equations overflowed: the features of some input are too large. Have "
            "the inputs scaled with scale_inputs=True, or change the feature maps' parameters."
        )


def guarded_solve(
    matrix: NDArray[Any], moment: NDArray[Any], current: NDArray[Any], scale: float
) -> tuple[NDArray[Any], float]:
    """Solve a positive semi-definite system so that the answer is finite and no worse.

    The system is scaled to a unit diagonal and factorised by Cholesky; while that fails
    or meets a pivot of nothing but rounding, or its answer is worse than `current` by more
    than rounding in units of `scale`, a growing jitter is added to the diagonal.  Returns
    the answer and the jitter.
    """
    require_finite(matrix, moment)
    diagonal = matrix.diagonal().real

    def quadratic(v: NDArray[Any]) -> float:
        return float(np.vdot(v, matrix @ v - 2 * moment).real)

    # A zero diagonal entry is a column of zeros: it gets the answer zero.
    inverse = 1 / np.sqrt(np.where(diagonal > 0, diagonal, np.inf))
    scaled = matrix * np.multiply.outer(inverse, inverse)
    bound = quadratic(current) + 1e-12 * scale
    rounding = 4 * len(inverse) * _EPSILON
    for jitter in _JITTERS:
        scaled.ravel()[:: len(inverse) + 1] = 1 + jitter  # the diagonal
        factor = _cholesky(scaled)
        # A pivot that is rounding means that Cholesky went through by luck.
        if factor is None or float(factor.diagonal().real.min()) ** 2 < rounding:
            continue
        answer = inverse * _solve(factor, moment * inverse)
        if quadratic(answer) <= bound:  # false for what is not finite
            return answer, jitter
    return current, _JITTERS[-1]


# SciPy's own wrappers check and dispatch for longer than a small system takes to solve.
def _cholesky(matrix: NDArray[Any]) -> NDArray[Any] | None:
    """Return L with L Lᴴ = `matrix`, below the diagonal, or None where there is none."""
    potrf = lapack.zpotrf if np.iscomplexobj(matrix) else lapack.dpotrf
    factor, info = potrf(matrix, lower=True, clean=False)
    return factor if info == 0 else None


def _solve(factor: NDArray[Any], moment: NDArray[Any]) -> NDArray[Any]:
    """Solve L Lᴴ v = `moment`."""
    potrs = lapack.zpotrs if np.iscomplexobj(factor) else lapack.dpotrs
    return np.asarray(potrs(factor, moment, lower=True)[0])
