"""Normal equations: the one small value a chunk of rows sends out, and their guarded solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

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
    target : float
        yᵀy, weighted.
    weight : float
        Sum of the sample weights.
    """

    gram: NDArray[np.float64]
    moment: NDArray[np.float64]
    target: float
    weight: float

    @classmethod
    def of(
        cls, block: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None
    ) -> NormalEquations:
        """Sum up one chunk of rows, in double precision."""
        block = np.asarray(block, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        total = float(len(y))
        if weight is not None:
            root = np.sqrt(weight)
            block, y, total = block * root[:, None], y * root, float(weight.sum())
        return cls(block.T @ block, block.T @ y, float(y @ y), total)

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return NormalEquations(
            self.gram + other.gram,
            self.moment + other.moment,
            self.target + other.target,
            self.weight + other.weight,
        )

    def squared_error(self, v: NDArray[Any]) -> float:
        """Return ‖y − B v‖², at least zero in spite of rounding."""
        return max(0.0, float(self.target - 2 * (self.moment @ v) + v @ self.gram @ v))


@dataclass(frozen=True)
class CoreSolution:
    """A new core and the jitter that its system needed, zero for a sound system."""

    value: NDArray[Any]
    jitter: float


def solve_core(
    equations: NormalEquations,
    others: NDArray[Any],
    current: NDArray[Any],
    alpha: float,
    objective: str,
) -> CoreSolution:
    """Minimise ½‖y − A v‖² + ½α vᴴ(I ⊗ H)v over one core.

    Parameters
    ----------
    equations : NormalEquations
        The sums of B = [Re A, Im A], or of B = A where everything is real.
    others : ndarray
        H, the product of the other cores' Grams.
    current : ndarray
        The core as it is; the answer is never worse than it.
    alpha : float
        Strength of the penalty on the weight tensor.
    objective : {"real", "complex"}
        Fit the real part of the response, or the complex response as the paper does.
    """
    size, half = len(current), current.size
    old, moment = current.ravel(), equations.moment
    matrix = np.array(equations.gram)
    if not np.iscomplexobj(current):
        _add_penalty(matrix, alpha * others, size)
    elif objective == "real":
        # Re(A v) = [Re A, −Im A] [Re v; Im v]
        matrix[:half, half:] *= -1
        matrix[half:, :half] *= -1
        moment = np.concatenate([moment[:half], -moment[half:]])
        re, im = alpha * others.real, alpha * others.imag
        _add_penalty(matrix[:half, :half], re, size)
        _add_penalty(matrix[half:, half:], re, size)
        _add_penalty(matrix[half:, :half], im, size)
        _add_penalty(matrix[:half, half:], -im, size)
        old = np.concatenate([old.real, old.imag])
    else:
        cross = matrix[:half, half:]
        moment = moment[:half] - 1j * moment[half:]
        matrix = (matrix[:half, :half] + matrix[half:, half:]) + 1j * (cross - cross.T)
        _add_penalty(matrix, alpha * others, size)
    solution, jitter = guarded_solve(matrix, moment, old, scale=equations.target)
    if solution.size != half:
        solution = solution[:half] + 1j * solution[half:]
    return CoreSolution(solution.reshape(current.shape), jitter)


def _add_penalty(matrix: NDArray[Any], penalty: NDArray[Any], size: int) -> None:
    """Add I ⊗ penalty, in place."""
    rank = len(penalty)
    for first in range(0, size * rank, rank):
        matrix[first : first + rank, first : first + rank] += penalty


def require_finite(matrix: NDArray[Any], moment: NDArray[Any]) -> None:
    """Raise an error that says what to do if the sums overflowed."""
    # No entry of a positive semi-definite matrix is larger than those of its diagonal.
    if not (np.isfinite(matrix.diagonal()).all() and np.isfinite(moment).all()):
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
        return float((v.conj() @ (matrix @ v - 2 * moment)).real)

    # A zero diagonal entry is a column of zeros: it gets the answer zero.
    with np.errstate(divide="ignore"):
        inverse = np.where(diagonal > 0, 1 / np.sqrt(diagonal), 0.0)
    scaled = matrix * np.multiply.outer(inverse, inverse)
    bound = quadratic(current) + 1e-12 * scale
    rounding = 4 * len(inverse) * np.finfo(float).eps
    for jitter in _JITTERS:
        np.fill_diagonal(scaled, 1 + jitter)
        factor = _cholesky(scaled)
        # A pivot that is rounding means that Cholesky went through by luck.
        if factor is None or np.square(factor.diagonal().real).min() < rounding:
            continue
        answer = inverse * _solve(factor, moment * inverse)
        if np.isfinite(answer).all() and quadratic(answer) <= bound:
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
