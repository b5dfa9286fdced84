"""Normal equations: the one small value a chunk of rows sends out, and their guarded solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

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
    penalty = alpha * np.kron(np.eye(current.shape[0]), others)
    old = current.ravel()
    if not np.iscomplexobj(current):
        matrix, moment = equations.gram + penalty, equations.moment
    elif objective == "real":
        # Re(A v) = [Re A, −Im A] [Re v; Im v]
        half = old.size
        sign = np.r_[np.ones(half), -np.ones(half)]
        re, im = penalty.real, penalty.imag
        matrix = equations.gram * np.outer(sign, sign) + np.block([[re, -im], [im, re]])
        moment = equations.moment * sign
        old = np.r_[old.real, old.imag]
    else:
        half = old.size
        rr, ri = equations.gram[:half, :half], equations.gram[:half, half:]
        ii = equations.gram[half:, half:]
        matrix = (rr + ii) + 1j * (ri - ri.T) + penalty
        moment = equations.moment[:half] - 1j * equations.moment[half:]
    solution, jitter = guarded_solve(matrix, moment, old, scale=equations.target)
    if solution.size != current.size:
        solution = solution[: current.size] + 1j * solution[current.size :]
    return CoreSolution(solution.reshape(current.shape), jitter)


def guarded_solve(
    matrix: NDArray[Any], moment: NDArray[Any], current: NDArray[Any], scale: float
) -> tuple[NDArray[Any], float]:
    """Solve a positive semi-definite system so that the answer is finite and no worse.

    The system is scaled to a unit diagonal and factorised by Cholesky; while that fails
    or meets a pivot of nothing but rounding, or its answer is worse than `current` by more
    than rounding in units of `scale`, a growing jitter is added to the diagonal.  Returns
    the answer and the jitter.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(moment).all()):
        raise FloatingPointError(
            "The normal equations overflowed: the features of some input are too large. Have "
            "the inputs scaled with scale_inputs=True, or change the feature maps' parameters."
        )

    def quadratic(v: NDArray[Any]) -> float:
        return float((v.conj() @ (matrix @ v - 2 * moment)).real)

    root = np.sqrt(np.diagonal(matrix).real)
    # A zero diagonal entry is a column of zeros: it gets the answer zero.
    root = np.where(root > 0, root, np.inf)
    scaled = matrix / np.outer(root, root)
    bound = quadratic(current) + 1e-12 * scale
    identity = np.arange(len(root))
    for jitter in _JITTERS:
        scaled[identity, identity] = 1 + jitter
        try:
            factor = cho_factor(scaled, check_finite=False)
        except LinAlgError:
            continue
        if np.square(factor[0].diagonal().real).min() < 4 * len(root) * np.finfo(float).eps:
            continue  # a pivot that is rounding: Cholesky went through by luck
        answer = cho_solve(factor, moment / root, check_finite=False) / root
        if np.isfinite(answer).all() and quadratic(answer) <= bound:
            return answer, jitter
    return current, _JITTERS[-1]
