"""The two passes over pairs of rows that an evidence and its gradient need, compiled.

Inputs come one row for each input, divided by its length scale, so that the innermost loops
run along rows side by side in memory; slices that begin at the diagonal let them count from
zero, without which they would not become vector instructions.  Matrices hold the pairs i < j
alone, above the diagonal.  There is one exponential for each pair, or for each sixteen inputs
of a Matérn 3/2 kernel, and never an array of pairs × inputs.

Inputs that are levels of categories come as their codes: two different levels are as far from
each other as any two, whatever the kernel, and multiply it by exp(−1/ℓ).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyadic.model.jit import jit

MATERN12, MATERN32, RBF = range(3)
_SQRT3 = float(np.sqrt(3.0))
# So many factors 1 + √3 s are multiplied before their exponential brings them down again.
_TOGETHER = 16


@jit
def kernel_matrix(Z: Any, kind: int, codes: Any, rates: Any, K: Any) -> None:
    """Write the product kernel of all pairs of rows above the diagonal of K, and ones on it.

    `rates` are 1/ℓ of the inputs in `codes`.
    """
    inputs, n = Z.shape
    factor, power = np.empty(n), np.empty(n)
    for i in range(n):
        K[i, i] = 1.0
        row = K[i, i + 1 :]
        row[:] = 0.0
        for d in range(len(codes)):
            here, code, rate = codes[d, i], codes[d, i + 1 :], rates[d]
            for j in range(len(row)):
                row[j] -= rate * (code[j] != here)
        if kind == MATERN32:
            for j in range(len(row)):
                row[j] = np.exp(row[j])
            for first in range(0, inputs, _TOGETHER):
                factor[:] = 1.0
                power[:] = 0.0
                for d in range(first, min(first + _TOGETHER, inputs)):
                    here, z = Z[d, i], Z[d, i + 1 :]
                    for j in range(len(row)):
                        s = _SQRT3 * abs(z[j] - here)
                        factor[j] *= 1.0 + s
                        power[j] -= s
                for j in range(len(row)):
                    row[j] *= factor[j] * np.exp(power[j])
        else:
            for d in range(inputs):
                here, z = Z[d, i], Z[d, i + 1 :]
                if kind == MATERN12:
                    for j in range(len(row)):
                        row[j] -= abs(z[j] - here)
                else:
                    for j in range(len(row)):
                        row[j] -= 0.5 * (z[j] - here) * (z[j] - here)
            for j in range(len(row)):
                row[j] = np.exp(row[j])


@jit
def length_scale_slopes(
    Z: Any, kind: int, codes: Any, rates: Any, K: Any, inverse: Any, answers: Any
) -> Any:
    """Return ½ Σᵢⱼ Mᵢⱼ ∂Kᵢⱼ/∂log ℓ for each input of Z, then of codes, M = Σₜ aₜaₜᵀ − C⁻¹.

    `answers` has one row for each aₜ; K and `inverse`, which is C⁻¹, are read above the diagonal.
    """
    inputs, n = Z.shape
    slopes = np.zeros(inputs + len(codes))
    for i in range(n):
        weight = -inverse[i, i + 1 :]
        for t in range(len(answers)):
            here, a = answers[t, i], answers[t, i + 1 :]
            for j in range(len(weight)):
                weight[j] += here * a[j]
        weight *= K[i, i + 1 :]
        for d in range(inputs):
            here, z = Z[d, i], Z[d, i + 1 :]
            total = 0.0
            if kind == MATERN12:
                for j in range(len(weight)):
                    total += weight[j] * abs(z[j] - here)
            elif kind == MATERN32:
                for j in range(len(weight)):
                    s = _SQRT3 * abs(z[j] - here)
                    total += weight[j] * s * s / (1.0 + s)
            else:
                for j in range(len(weight)):
                    total += weight[j] * (z[j] - here) * (z[j] - here)
            slopes[d] += total
        for d in range(len(codes)):
            here, code = codes[d, i], codes[d, i + 1 :]
            total = 0.0
            for j in range(len(weight)):
                total += weight[j] * (code[j] != here)
            slopes[inputs + d] += rates[d] * total
    return slopes
