"""`polyadic demo`: the model beside two searches, on data that needs no download."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import as_user_errors
from polyadic.cli.options import force_option
from polyadic.cli.outputs import check_output

# One setting for both searches over maps, so that these lines differ in the search alone.
_SHARED: dict[str, Any] = {
    "n_basis": 4,
    "rank": 4,
    "alpha": 10.0,
    "max_iter": 10,
    "random_state": 0,
}


@dataclass(frozen=True)
class Entry:
    """One line of the demo's table, and the fitted model with the rows it was measured on.

    `fit_rows` are those it was fitted to.
    """

    dataset: str
    kind: str
    error: float
    seconds: float
    fits: int
    learned: str
    model: Any
    rows: tuple[NDArray[Any], NDArray[Any]]
    fit_rows: tuple[NDArray[Any], NDArray[Any]]


@click.command()
@click.option("--out", default="polyadic-demo.html", show_default=True, help="Report to write.")
@force_option
@as_user_errors
def demo(out: str, force: bool) -> None:
    """Fit the model on built-in data beside two cross-validated searches."""
    check_output(out, force=force)
    regressions = list(product(_datasets().items(), _regressors().items()))
    tasks = [*regressions, *product(_class_datasets().items(), _classifiers().items())]
    entries = []
    for number, ((name, data), (kind, model)) in enumerate(tasks, 1):
        click.echo(f"[{number}/{len(tasks)}] {kind} on {name}", err=True)
        entries.append(_fit_entry(name, data, kind, model))
    click.echo("\n".join(_table(entries)))
    learned = [entry for entry in entries[: len(regressions)] if entry.kind == "defaults"]
    click.echo(_report(learned[-1], out))


def _report(entry: Entry, out: str) -> str:
    """Write the report on a model, where the packages for it are; say what was done."""
    try:
        import matplotlib  # noqa: F401

        from polyadic.report import Subject, write_report
    except ImportError:
        return "For a report with pictures: pip install 'polyadic[app]'."
    subject = Subject.of(
        entry.model,
        *entry.rows,
        target=entry.dataset,
        fit_rows=entry.fit_rows,
        measured_on="held-out rows",
        rows_are="the held-out rows",
        facts=[("data", entry.dataset), ("training time", f"{entry.seconds:.2f} s")],
    )
    write_report(subject, out)
    return f"Wrote a report on the model of {entry.dataset}: {Path(out).resolve()}"


def _datasets() -> dict[str, Any]:
    from sklearn.datasets import load_diabetes, make_friedman1

    return {
        "diabetes": load_diabetes(return_X_y=True),
        "Friedman #1": make_friedman1(n_samples=1000, noise=1.0, random_state=0),
    }


def _class_datasets() -> dict[str, Any]:
    from sklearn.datasets import load_breast_cancer

    return {"breast cancer": load_breast_cancer(return_X_y=True)}


def _regressors() -> dict[str, Any]:
    from polyadic import FeatureLearningRegressor, KernelMachineRegressorCV

    return {
        "defaults": FeatureLearningRegressor(random_state=0),
        "feature learning": FeatureLearningRegressor(**_SHARED),
        "cross-validated": KernelMachineRegressorCV(cv=3, **_SHARED),
        "KernelRidge grid": _kernel_ridge(),
    }


def _kernel_ridge() -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    ridge = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    grid = {
        "regressor__kernelridge__alpha": [0.01, 0.1, 1.0],
        "regressor__kernelridge__gamma": [0.01, 0.03, 0.1, 0.3],
    }
    return GridSearchCV(TransformedTargetRegressor(ridge, transformer=StandardScaler()), grid, cv=3)


def _classifiers() -> dict[str, Any]:
    from polyadic.estimators import FeatureLearningClassifier

    return {
        "defaults": FeatureLearningClassifier(random_state=0),
        "logistic grid": _logistic_regression(),
    }


def _logistic_regression() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}
    return GridSearchCV(logistic, grid, cv=3, scoring="neg_log_loss")


def _fit_entry(name: str, data: tuple[NDArray[Any], NDArray[Any]], kind: str, model: Any) -> Entry:
    """Fit a copy of one model, and measure it on a fifth of the rows."""
    from sklearn.base import clone
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(*data, test_size=0.2, random_state=0)
    model = clone(model)
    if hasattr(model, "max_iter"):
        # The first fit after an installation compiles; what is timed should not.
        shorter = {} if model.max_iter == "auto" else {"max_iter": 1}
        clone(model).set_params(**shorter).fit(X[:40], y[:40])
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    error = _error(model, X_test, y_test, y)
    return Entry(name, kind, error, seconds, *_search(model), model, (X_test, y_test), (X, y))


def _error(model: Any, X: NDArray[Any], y: NDArray[Any], known: NDArray[Any]) -> float:
    """Return the error on held-out rows over that of a constant; `known` targets are the fit's."""
    from sklearn.base import is_classifier
    from sklearn.metrics import log_loss

    if not is_classifier(model):
        return float(np.mean((model.predict(X) - y) ** 2) / np.var(known))
    shares = np.bincount(known) / len(known)
    constant = -float(np.log(shares[y]).mean())
    return float(log_loss(y, model.predict_proba(X))) / constant


def _search(model: Any) -> tuple[int, str]:
    """Return the number of fits a search needed, and what it found."""
    if hasattr(model, "best_params_"):
        found = ", ".join(f"{k.split('__')[-1]} {v:g}" for k, v in model.best_params_.items())
        return len(model.cv_results_["params"]) * model.n_splits_ + 1, found
    if hasattr(model, "cv_results_"):
        return len(model.cv_results_["feature_map"]) * model.n_splits_ + 1, str(model.feature_map_)
    return len(model.rank_), _relevance(model) if hasattr(model, "inputs_") else _weights(model)


def _relevance(model: Any) -> str:
    """Return the inputs that matter most as "x3 35.1 %, x0 25.4 %", and how smoothly."""
    from polyadic.inspection import describe_kernel, write_part

    named = [(f"x{place}", summary) for place, summary in enumerate(model.inputs_)]
    ranked = sorted(named, key=lambda pair: -pair[1].relevance)[:3]
    return ", ".join(
        f"{name} {write_part(s.relevance)} ({describe_kernel(s.kernel)})" for name, s in ranked
    )


def _weights(model: Any) -> str:
    """Return λ as "0.76 (2, 0.8) + 0.11 (8, 0.8)", largest first, the small ones left out."""
    pairs = zip(model.feature_weights_, model.feature_maps_, strict=True)
    ranked = sorted(pairs, key=lambda pair: -abs(pair[0]))
    shown = [(weight, str(feature_map)) for weight, feature_map in ranked if abs(weight) >= 0.01]
    return " + ".join(f"{weight:.2f} {name}" for weight, name in shown[:3])


def _table(entries: list[Entry]) -> Iterator[str]:
    """Lay the entries out in columns."""
    yield ""
    yield f"{'':18}{'test error':>11}{'seconds':>9}{'fits':>6}  learned or chosen"
    for index, entry in enumerate(entries):
        if index == 0 or entry.dataset != entries[index - 1].dataset:
            yield entry.dataset
        yield (
            f"  {entry.kind:16}{entry.error:>11.3f}{entry.seconds:>9.2f}{entry.fits:>6}"
            f"  {entry.learned}"
        )
    yield ""
    yield "Test error: on held-out rows, over that of a constant prediction: of numbers the mean"
    yield "squared error, of classes (breast cancer) the log-loss."
    yield "defaults: FeatureLearningRegressor() or …Classifier(), a mean of members that learn"
    yield "their features; the inputs of most relevance (how predictions change without one, as a"
    yield "part of their variance), and how smooth predictions are along them. feature learning"
    yield "(with weights λ) and cross-validated share one setting and choose among the same maps."
