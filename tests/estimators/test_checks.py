"""scikit-learn's own checks, all of them, on every estimator.

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

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import DampedFourierFeatures

NEEDS_ARRAY_API = "check_array_api_input"
SMALL = {"n_basis": 4, "rank": 4, "max_iter": 4, "alpha": 0.1}


def estimators():
    # Damped features: on the checks' 15 rows of 30 inputs undamped ones interpolate down to
    # rounding, where a weighted and a repeated row are no longer the same to seven digits.
    maps = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.5)]
    return [
        FeatureLearningRegressor(maps, **SMALL),
        FeatureLearningRegressor(
            maps, **SMALL, mixing="l1", beta=0.01, objective="complex", early_stopping=True
        ),
        FeatureLearningRegressor(n_estimators=1, rank=2, n_basis=2, alpha=1.0),  # automatic
        KernelMachineRegressor(**SMALL),
        KernelMachineRegressorCV(maps, cv=3, **SMALL),
    ]


def name_of(check):
    return getattr(check, "func", check).__name__


def checks():
    for index, estimator in enumerate(estimators()):
        for instance, check in estimator_checks_generator(estimator):
            if name_of(check) != NEEDS_ARRAY_API:
                label = f"{index}-{type(estimator).__name__}-{name_of(check)}"
                yield pytest.param(instance, check, id=label)


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
    for estimator in estimators():
        for instance, check in estimator_checks_generator(estimator):
            if name_of(check) == NEEDS_ARRAY_API:
                check(instance)
                count += 1
    print(count)


def test_arrays_of_another_namespace():
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import *; run_array_api_checks()"],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == len(estimators())


def test_the_defaults_pass_too():
    # One quick check of each kind; the others meet the same code with smaller settings.
    wanted = {"check_fit2d_1sample", "check_n_features_in", "check_regressors_int"}
    for estimator in (KernelMachineRegressor(), FeatureLearningRegressor()):
        ran = set()
        for instance, check in estimator_checks_generator(estimator):
            if name_of(check) in wanted:
                check(instance)
                ran.add(name_of(check))
        assert ran == wanted
