"""Feature maps: what one scaled input looks like to the model.

A map turns one input column x into I features ψ(x).  The *plain* form is the
n × I matrix itself.  Where ψ is a Kronecker product of two-vectors,

    ψ(x) = γ⁽ᴷ⁾(x) ⊗ … ⊗ γ⁽¹⁾(x),   I = 2ᴷ,

the *quantized* form is the n × K × 2 stack of those two-vectors, γ⁽¹⁾ first, so
that bit q of the feature's index picks the entry of γ⁽q⁺¹⁾.
"""

from __future__ import annotations

from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from polyadic.features.kernels import KERNELS
from polyadic.features.tables import N_KNOTS, Table

__all__ = [
    "DampedFourierFeatures",
    "FeatureMap",
    "FourierFeatures",
    "GaussianFeatures",
    "GeometricFeatures",
    "MercerFeatures",
    "PurePowerFeatures",
]

_POSITIVE = [Interval(Real, 0, None, closed="neither")]


class FeatureMap(BaseEstimator):
    """Base of all feature maps; subclass it to bring your own.

    A subclass implements :meth:`plain`, and :meth:`quantized` too if its features
    factorise.  Constructor arguments become parameters in scikit-learn's manner, which
    gives ``get_params``, ``set_params``, ``repr``, cloning and equality for free.

    Attributes
    ----------
    is_complex : bool
        Whether the features are complex numbers.  A model all of whose maps are real
        has real cores.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import FeatureMap
    >>> class Cosines(FeatureMap):
    ...     is_complex = False
    ...     def plain(self, x, n_basis):
    ...         return np.cos(np.pi * np.outer(x, np.arange(n_basis)))
    >>> Cosines().plain(np.array([0.0, 1.0]), 3)
    array([[ 1.,  1.,  1.],
           [ 1., -1.,  1.]])
    """

    is_complex: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def plain(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the n × `n_basis` feature matrix of the column `x`."""
        raise NotImplementedError(f"{type(self).__name__} must implement plain().")

    def quantized(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the n × log2(`n_basis`) × 2 factors whose Kronecker product is `plain`."""
        raise NotImplementedError(f"{type(self).__name__} has no quantized form.")

    @property
    def factorises(self) -> bool:
        """Whether the map has a quantized form."""
        return type(self).quantized is not FeatureMap.quantized

    def wave(self) -> tuple[float, float, bool] | None:
        """Return frequency, decay and whether frequencies are two-sided; None if no wave.

        A wave is the map ψₖ(x) = (decay · exp(2πj·frequency·x))ᵏ, with k = −I/2, …, I/2 − 1
        where it is two-sided and k = 0, …, I − 1 else.  Engines have a fast path for waves;
        a map of your own gets it by returning its numbers here.
        """
        return None

    def validate(self) -> None:
        """Raise an error that names the parameter if one is out of its range."""
        self._validate_params()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(self.get_params() == other.get_params())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.get_params().items()))))


class GeometricFeatures(FeatureMap):
    """Base of the maps whose features are a geometric sequence, ψₖ(x) = s(x)·e(x)ᵏ.

    A subclass gives the ratio e and, where it is not 1, the leading term s.  Such a map
    always factorises: γ⁽q⁺¹⁾ = [1, e^(2^q)], with s on the first factor.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import GeometricFeatures
    >>> class Decay(GeometricFeatures):
    ...     is_complex = False
    ...     def ratio(self, x):
    ...         return np.exp(-x)
    >>> Decay().plain(np.array([0.0, np.log(2)]), 4)
    array([[1.   , 1.   , 1.   , 1.   ],
           [1.   , 0.5  , 0.25 , 0.125]])
    >>> Decay().quantized(np.array([np.log(2)]), 4)
    array([[[1.  , 0.5 ],
            [1.  , 0.25]]])
    """

    def ratio(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return e(x), the quotient of neighbouring features."""
        raise NotImplementedError(f"{type(self).__name__} must implement ratio().")

    def leading(self, x: NDArray[Any], n_basis: int) -> NDArray[Any] | None:
        """Return s(x), the first feature, or None where it is 1 everywhere."""
        return None

    def plain(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the n × `n_basis` feature matrix of the column `x`."""
        features = self.ratio(x)[:, None] ** np.arange(n_basis)
        leading = self.leading(x, n_basis)
        return features if leading is None else leading[:, None] * features

    def quantized(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the n × log2(`n_basis`) × 2 factors whose Kronecker product is `plain`."""
        n_bits = n_basis.bit_length() - 1
        power = self.ratio(x)
        factors = np.ones((len(x), n_bits, 2), dtype=power.dtype)
        for bit in range(n_bits):
            factors[:, bit, 1] = power
            power = power * power
        leading = self.leading(x, n_basis)
        if leading is not None and n_bits:
            factors[:, 0] *= leading[:, None]
        return factors

    def _computes_as(self, kind: type[GeometricFeatures]) -> bool:
        """Whether a subclass of `kind` left its features as they are."""
        verbs = ("plain", "quantized", "ratio", "leading")
        return all(getattr(type(self), verb) is getattr(kind, verb) for verb in verbs)


class FourierFeatures(GeometricFeatures):
    """Complex exponentials exp(2πj·k·x/period) with k = −I/2, …, I/2 − 1.

    Parameters
    ----------
    period : float
        Period of the function class, in units of the scaled input.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import FourierFeatures
    >>> FourierFeatures(period=2.0).plain(np.array([0.5]), 4).round(3) + 0
    array([[-1.+0.j,  0.-1.j,  1.+0.j,  0.+1.j]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"period": _POSITIVE}

    def __init__(self, period: float) -> None:
        self.period = period

    def ratio(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return exp(2πj·x/period)."""
        return np.exp((2j * np.pi / self.period) * x)

    def leading(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the feature of the lowest frequency, −I/2."""
        return np.exp((-2j * np.pi * (n_basis // 2) / self.period) * x)

    def wave(self) -> tuple[float, float, bool] | None:
        """Return frequency, no decay, and that frequencies are two-sided."""
        return (1 / self.period, 1.0, True) if self._computes_as(FourierFeatures) else None


class DampedFourierFeatures(GeometricFeatures):
    """One-sided Fourier features whose weight decays, (decay · exp(2πj·x/period))ᵏ.

    The real part of the model supplies the negative frequencies k = −1, −2, …; the
    factor decayᵏ is a smoothness prior (a Poisson kernel), so that more basis functions
    do not mean a rougher fit.

    Parameters
    ----------
    period : float
        Period of the function class, in units of the scaled input.
    decay : float
        Ratio of the weights of neighbouring frequencies, in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import DampedFourierFeatures
    >>> DampedFourierFeatures(period=2.0, decay=0.5).plain(np.array([0.0]), 4).real
    array([[1.   , 0.5  , 0.25 , 0.125]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "period": _POSITIVE,
        "decay": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(self, period: float, decay: float) -> None:
        self.period = period
        self.decay = decay

    def ratio(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return decay · exp(2πj·x/period)."""
        return self.decay * np.exp((2j * np.pi / self.period) * x)

    def wave(self) -> tuple[float, float, bool] | None:
        """Return frequency and decay, and that frequencies are one-sided."""
        is_own = self._computes_as(DampedFourierFeatures)
        return (1 / self.period, self.decay, False) if is_own else None


class PurePowerFeatures(GeometricFeatures):
    """The powers 1, x, x², …, x^(I−1).

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import PurePowerFeatures
    >>> PurePowerFeatures().plain(np.array([2.0]), 4)
    array([[1., 2., 4., 8.]])
    """

    is_complex: ClassVar[bool] = False

    def ratio(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return x."""
        return np.asarray(x)


class GaussianFeatures(FeatureMap):
    """Sine basis whose inner product approximates the squared-exponential kernel.

    The kernel exp(−(x − x′)²/(2·length_scale²)) is expanded in the eigenfunctions of the
    Laplacian on an interval with zero boundary values (a Hilbert-space reduced-rank
    Gaussian process).  The interval is centred on the unit interval that the estimators
    scale inputs to, and reaches `bound` to either side of its middle 0.5.  It has a plain
    form only.

    Parameters
    ----------
    length_scale : float
        Length scale of the kernel, in units of the scaled input.
    bound : float
        Half-width of the interval; take it above 0.5 by a length scale or more.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import GaussianFeatures
    >>> psi = GaussianFeatures(length_scale=0.3, bound=1.5).plain(np.array([0.2, 0.5]), 40)
    >>> (psi @ psi.T).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    is_complex: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "length_scale": _POSITIVE,
        "bound": _POSITIVE,
    }

    def __init__(self, length_scale: float, bound: float) -> None:
        self.length_scale = length_scale
        self.bound = bound

    def plain(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the n × `n_basis` feature matrix of the column `x`."""
        frequency = np.pi * np.arange(1, n_basis + 1) / (2 * self.bound)
        sines = np.sin(np.multiply.outer(x - 0.5 + self.bound, frequency)) / np.sqrt(self.bound)
        density = np.sqrt(2 * np.pi) * self.length_scale
        density = density * np.exp(-0.5 * (self.length_scale * frequency) ** 2)
        return np.asarray(sines * np.sqrt(density))


class MercerFeatures(FeatureMap):
    """Eigenfunctions of a kernel on the unit interval, whose inner product is the kernel.

    ψ₁, ψ₂, … are the eigenfunctions of the kernel for evenly spread values, each times the root
    of its eigenvalue, so that the first I of them are the best I features there are.  They are
    looked up in a table and, outside of the unit interval, bounded.  The map has a plain form
    only.  An automatic fit has such features too, but for the distribution that each input has.

    Parameters
    ----------
    kernel : {"matern12", "matern32", "rbf"}, default="matern32"
        The kernel, from rough to smooth.
    length_scale : float, default=0.5
        Length scale of the kernel, in units of the scaled input.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import MercerFeatures
    >>> psi = MercerFeatures("rbf", length_scale=0.3).plain(np.array([0.2, 0.5]), 16)
    >>> (psi @ psi.T).round(2)
    array([[1.  , 0.61],
           [0.61, 1.  ]])
    """

    is_complex: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(KERNELS))],
        "length_scale": _POSITIVE,
    }

    def __init__(self, kernel: str = "matern32", length_scale: float = 0.5) -> None:
        self.kernel = kernel
        self.length_scale = length_scale

    def plain(self, x: NDArray[Any], n_basis: int) -> NDArray[Any]:
        """Return the n × `n_basis` feature matrix of the column `x`."""
        if n_basis > N_KNOTS:
            raise ValueError(
                f"`n_basis` must be {N_KNOTS} or less for MercerFeatures, got {n_basis}. The "
                "functions beyond are hardly part of the kernel: use fewer."
            )
        return even_table(self.kernel, float(self.length_scale), n_basis).features(x)


@lru_cache(maxsize=64)
def even_table(kernel: str, length_scale: float, n_basis: int) -> Table:
    """Return the table of a kernel for evenly spread values."""
    return Table.mercer(kernel, length_scale, n_basis=n_basis)
