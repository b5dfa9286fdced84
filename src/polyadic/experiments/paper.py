"""The paper as plain data: what its experiments set, and what they measured.

*Tensor Network Based Feature Learning Model*, A. Saiapin and K. Batselier, AISTATS 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.model_selection import RepeatedKFold

from polyadic.estimators import FeatureLearningRegressor, KernelMachineRegressorCV
from polyadic.features import FourierFeatures

PERIODS = (10, 2, 128, 25, 64, 600, 2000, 1024)
"""Candidate periods θ, in the order in which Figure 2 adds them."""

AIRLINE_PERIODS = (10, 2, 128, 25, 64, 1024)

COMMON: dict[str, Any] = {
    "alpha": 0.01,
    "objective": "complex",
    "quantized": True,
    "max_iter": 10,
    "tol": 0.0,
    "early_stopping": False,
}
"""What every fit of the paper shares; β = 0.1 besides where there are weights λ."""


@dataclass(frozen=True)
class Setting:
    """What the paper sets for one data set, and what it measured there (Table 2).

    `fl` and `cv` are (mean test MSE, its standard deviation, seconds of training).
    """

    n_basis: int
    rank: int
    fl: tuple[float, float, float]
    cv: tuple[float, float, float]
    periods: tuple[int, ...] = PERIODS
    restarts: int = 10
    test_size: float = 0.2


SETTINGS = {
    "airfoil": Setting(4, 51, (0.184, 0.02, 3.0), (0.223, 0.02, 23.0)),
    "energy": Setting(4, 15, (0.003, 0.0, 0.91), (0.003, 0.0, 5.5)),
    "yacht": Setting(2, 6, (0.112, 0.02, 0.149), (0.358, 0.06, 0.615)),
    "concrete": Setting(8, 10, (0.139, 0.03, 1.2), (0.118, 0.02, 8.8)),
    "wine": Setting(16, 25, (0.692, 0.07, 33.0), (0.652, 0.04, 152.0)),
    "airline": Setting(
        64, 20, (0.804, 0.0, 15159.0), (0.779, 0.0, 56590.0), AIRLINE_PERIODS, 5, 1 / 3
    ),
}

REGULARISATIONS = {
    "FN": ("fixed_norm", False),
    "FN(P)": ("fixed_norm", True),
    "L1": ("l1", False),
    "L1(P)": ("l1", True),
    "L2": ("l2", False),
    "L2(P)": ("l2", True),
}
"""The rows of Table 1: name, then `mixing` and `nonnegative`."""

_TABLE_1 = {
    # mean test MSE and seconds of training, for each of the regularisations
    "airfoil": ((0.19, 0.187, 0.184, 0.182, 0.189, 0.188), (4.9, 4.1, 2.7, 3.4, 3.1, 3.4)),
    "concrete": ((0.154, 0.14, 0.139, 0.176, 0.15, 0.146), (1.3, 1.3, 1.4, 1.3, 1.5, 1.4)),
    "energy": ((0.003, 0.009, 0.003, 0.003, 0.003, 0.007), (0.7, 0.7, 1.0, 1.5, 0.7, 0.7)),
    "wine": ((0.68, 0.932, 0.692, 0.705, 0.776, 0.672), (26.9, 23.9, 24.9, 23.7, 27.8, 26.8)),
    "yacht": ((0.11, 0.366, 0.112, 0.115, 0.1, 0.327), (0.1, 0.1, 0.1, 0.1, 0.1, 0.1)),
}
TABLE_1 = {
    dataset: dict(zip(REGULARISATIONS, zip(*columns, strict=True), strict=True))
    for dataset, columns in _TABLE_1.items()
}


def paper_regressor(
    dataset: str,
    mixing: str = "l1",
    nonnegative: bool = False,
    *,
    n_maps: int | None = None,
    random_state: Any = None,
) -> FeatureLearningRegressor:
    """Return the unfitted feature learning model with the paper's settings.

    Parameters
    ----------
    dataset : {"airfoil", "energy", "yacht", "concrete", "wine", "airline"}
        Whose settings to take.
    mixing : {"l1", "l2", "fixed_norm", "simplex"}
        Regularisation of the feature weights λ; the paper compares the first three.
    nonnegative : bool
        Whether λ must be non-negative.
    n_maps : int, optional
        Take only the first maps, as Figure 2 does.
    random_state : int, RandomState or None
        Seed of the initial cores.

    Returns
    -------
    estimator : FeatureLearningRegressor
        Pass it inputs in natural units: it scales them itself.

    Examples
    --------
    >>> from polyadic.experiments import paper_regressor
    >>> model = paper_regressor("yacht")
    >>> model.rank, model.n_basis, len(model.feature_maps)
    (6, 2, 8)
    """
    setting = _setting(dataset)
    return FeatureLearningRegressor(
        _maps(setting, n_maps),
        n_basis=setting.n_basis,
        rank=setting.rank,
        mixing=mixing,
        nonnegative=nonnegative,
        beta=0.1,
        n_estimators=1,
        random_state=random_state,
        **COMMON,
    )


def paper_baseline(
    dataset: str, *, n_maps: int | None = None, random_state: Any = None
) -> KernelMachineRegressorCV:
    """Return the paper's cross-validated kernel machine: 3 folds repeated twice.

    Parameters
    ----------
    dataset : {"airfoil", "energy", "yacht", "concrete", "wine", "airline"}
        Whose settings to take.
    n_maps : int, optional
        Take only the first maps, as Figure 2 does.
    random_state : int or None
        Seed of the initial cores and of the folds.

    Returns
    -------
    estimator : KernelMachineRegressorCV
        The unfitted estimator.

    Examples
    --------
    >>> from polyadic.experiments import paper_baseline
    >>> len(paper_baseline("yacht", n_maps=4).feature_maps)
    4
    """
    setting = _setting(dataset)
    return KernelMachineRegressorCV(
        _maps(setting, n_maps),
        cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=random_state),
        n_basis=setting.n_basis,
        rank=setting.rank,
        random_state=random_state,
        **COMMON,
    )


def _setting(dataset: str) -> Setting:
    if dataset not in SETTINGS:
        raise ValueError(
            f"`dataset` must be one of {', '.join(SETTINGS)}, got {dataset!r}. "
            "The paper has settings for these only."
        )
    return SETTINGS[dataset]


def _maps(setting: Setting, n_maps: int | None) -> list[FourierFeatures]:
    return [FourierFeatures(float(period)) for period in setting.periods[:n_maps]]
