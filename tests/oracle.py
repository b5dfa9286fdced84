"""The model written out densely: exponentially large, and free of the code under test.

Feature maps are spelled out from their formulas, φ(x) and w are full vectors of
I₁I₂…I_D entries, and each alternating step is an ordinary least-squares problem in the
linear map J with w = J v.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from polyadic import features
from polyadic.features import FeatureMap


class Cosines(FeatureMap):
    """A map of the user's own, with a parameter and no quantized form."""

    is_complex = False

    def __init__(self, shift=0.3):
        self.shift = shift

    def plain(self, x, n_basis):
        return np.cos(np.outer(x + self.shift, np.arange(n_basis)))


class Bits(FeatureMap):
    """A map of the user's own whose factors are not a geometric sequence."""

    def plain(self, x, n_basis):
        return column_features(self, x, n_basis)

    def quantized(self, x, n_basis):
        n_bits = n_basis.bit_length() - 1
        return np.stack([_bit(x, bit) for bit in range(n_bits)], axis=1)


def _bit(x, bit):
    return np.stack([np.cos(x + bit) + 0j, 1j * x - bit], axis=1)


def column_features(feature_map, x, n_basis):
    """Return the n × I features of one input, term by term."""
    k = np.arange(n_basis)
    phase = 2j * np.pi * x[:, None]
    match feature_map:
        case features.FourierFeatures(period=period):
            return np.exp(phase * (k - n_basis // 2) / period)
        case features.DampedFourierFeatures(period=period, decay=decay):
            return decay**k * np.exp(phase * k / period)
        case features.PurePowerFeatures():
            return np.stack([np.prod([x] * power, axis=0) * np.ones_like(x) for power in k], axis=1)
        case features.GaussianFeatures(length_scale=scale, bound=bound):
            root = np.pi * (k + 1) / (2 * bound)
            spectrum = scale * np.sqrt(2 * np.pi) * np.exp(-((scale * root) ** 2) / 2)
            return np.sqrt(spectrum / bound) * np.sin(root * (x[:, None] - 0.5 + bound))
        case Cosines(shift=shift):
            return np.stack([np.cos(j * (x + shift)) for j in k], axis=1)
        case Bits():
            bits = [_bit(x, bit) for bit in range(n_basis.bit_length() - 1)]
            return row_kron(bits)
    raise NotImplementedError(feature_map)


def middle_of(table):
    """Return where a gap lies in the training range."""
    return -0.1 + 1.2 * table.gap / (len(table.values) - 1)


def table_features(table, x):
    """Return the values between the knots, by NumPy's own interpolation, or those of levels."""
    if table.n_levels:
        codes = np.where(np.isnan(x), table.gap, np.minimum(x, table.n_levels))
        return table.values[codes.astype(int)]
    if table.gap is not None:
        x = np.where(np.isnan(x), table.low + (table.high - table.low) * middle_of(table), x)
    if table.has_filled:
        is_filled = x > table.low + 4 * (table.high - table.low)
        x = np.where(is_filled, x - 8 * (table.high - table.low), x)
        known, filled = (
            table_features(replace(table, values=each, has_filled=False), x)
            for each in np.split(table.values, 2)
        )
        return np.where(is_filled[:, None], filled, known)
    n_knots = len(table.values)
    u = (x - table.low) / (table.high - table.low)
    u = np.where(u > 1, 1 + 0.1 * np.tanh((u - 1) / 0.1), u)
    u = np.where(u < 0, -0.1 * np.tanh(-u / 0.1), u)
    knots = -0.1 + 1.2 * np.arange(n_knots) / (n_knots - 1)
    return np.stack([np.interp(u, knots, values) for values in table.values.T], axis=1)


def input_features(each, x, feature_map):
    """Return the n × I features of one input of a layout, of any kind."""
    match each:
        case features.Tabled(table=table):
            return table_features(table, x)
        case features.Unused():
            return np.ones((len(x), 1))
    return column_features(feature_map, x, each.n_basis)


def row_kron(matrices):
    """Return the last ⊗ … ⊗ first, row by row: the first index runs fastest."""
    rows = zip(*matrices, strict=True)
    return np.stack([reduce(lambda dense, row: np.kron(row, dense), row, [1.0]) for row in rows])


def dense_features(X, feature_map, n_basis):
    """Return Φ itself, n × I₁I₂…I_D."""
    columns = zip(X.T, n_basis, strict=True)
    return row_kron([column_features(feature_map, x, size) for x, size in columns])


def layout_features(X, feature_map, layout):
    """Return Φ of a layout."""
    columns = zip(layout.inputs, X.T, strict=True)
    return row_kron([input_features(each, x, feature_map) for each, x in columns])


def dense_weight(cores):
    """Return w itself."""
    terms = zip(*(core.T for core in cores), strict=True)
    return sum(reduce(lambda dense, column: np.kron(column, dense), term) for term in terms)


def core_jacobian(cores, index):
    """Return J with w = J v, where v is the core of this index, row after row."""
    columns = []
    for entry in range(cores[index].size):
        unit = np.zeros(cores[index].size)
        unit[entry] = 1.0
        replaced = [*cores[:index], unit.reshape(cores[index].shape), *cores[index + 1 :]]
        columns.append(dense_weight(replaced))
    return np.stack(columns, axis=1)


def objective(X, y, weight, layout, cores, weights, alpha):
    """Return ½‖y − Re Σₚ λₚΦₚw‖² + ½α‖w‖² without the penalty on λ."""
    w = dense_weight(cores)
    phi = (layout_features(X, feature_map, layout) for feature_map in layout.maps)
    response = sum(lam * (p @ w).real for lam, p in zip(weights, phi, strict=True))
    return 0.5 * np.sum(weight * (y - response) ** 2) + 0.5 * alpha * np.vdot(w, w).real
