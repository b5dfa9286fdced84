"""scikit-learn's own checks, all of them, on every estimator: by default, and set otherwise.

One check is skipped by scikit-learn unless SCIPY_ARRAY_API is set before SciPy is imported,
so it runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from polyadic import (
    FeatureLearningClassifier,
    FeatureLearningRegressor,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.features import DampedFourierFeatures

NEEDS_ARRAY_API = "check_array_api_input"
SMALL = {"n_basis": 4, "rank": 4, "max_iter": 4, "alpha": 0.1}


# Damped features: on the checks' 15 rows of 30 inputs undamped ones interpolate down to
# rounding, where a weighted and a repeated row are no longer the same to seven digits.
MAPS = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.5)]
ESTIMATORS = {
    "features": FeatureLearningRegressor(MAPS, **SMALL),
    "l1": FeatureLearningRegressor(
        MAPS, **SMALL, mixing="l1", beta=0.01, objective="complex", early_stopping=True
    ),
    "machine": KernelMachineRegressor(**SMALL),
    "folds": KernelMachineRegressorCV(MAPS, cv=3, **SMALL),
    "huber": FeatureLearningRegressor(MAPS, **SMALL, loss="huber"),
    "classes": FeatureLearningClassifier(MAPS, **SMALL),
    "default classes": FeatureLearningClassifier(),
    "default machine of classes": KernelMachineClassifier(),
    "default features": FeatureLearningRegressor(),
    "default machine": KernelMachineRegressor(),
    # Six folds and all epochs take minutes more.
    "default folds": KernelMachineRegressorCV(cv=2, max_iter=4),
}
QUICK = {"features", "folds", "default machine", "classes"}


def name_of(check):
    return getattr(check, "func", check).__name__


def checks():
    for name, estimator in ESTIMATORS.items():
        marks = [] if name in QUICK else [pytest.mark.slow]
        for instance, check in estimator_checks_generator(estimator):
            if name_of(check) != NEEDS_ARRAY_API:
                yield pytest.param(instance, check, id=f"{name}-{name_of(check)}", marks=marks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_check(estimator, check):
    try:
        check(estimator)
    except SkipTest as skipped:
        pytest.fail(f"skipped: {skipped}")


def run_array_api_checks():
    """Run the checks that need SCIPY_ARRAY_API, and print how many there were."""
    count = 0
    for estimator in ESTIMATORS.values():
        for instance, check in estimator_checks_generator(estimator):
            if name_of(check) == NEEDS_ARRAY_API:
                check(instance)
                count += 1
    print(count)


@pytest.mark.slow
@pytest.mark.process
def test_arrays_of_another_namespace():
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import *; run_array_api_checks()"],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == len(ESTIMATORS)
