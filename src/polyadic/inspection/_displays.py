"""Display objects: data first, a picture on request.

Each is made by ``from_estimator`` (or ``from_predictions``), draws with ``plot(ax=…)``, and
keeps what it drew in ``ax_`` and ``figure_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._tables import schema_of
from polyadic.inspection._numbers import write_tick

LITERAL: Any = {"parse_math": False}  # a name with dollar signs is a name


class Display:
    """What all displays share: an axis to draw on."""

    def _begin(self, ax: Any) -> Any:
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class FeatureWeightsDisplay(Display):
    """The weight λ that a fit learned for each feature map.

    Parameters
    ----------
    names : sequence of str
        Names of the maps.
    weights : ndarray of shape (n_maps,)
        Their weights.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import FeatureWeightsDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> maps = [polyadic.features.FourierFeatures(period) for period in (2.0, 4.0)]
    >>> model = polyadic.FeatureLearningRegressor(maps, rank=2, n_basis=4, random_state=0)
    >>> model = model.fit(X, y)
    >>> display = FeatureWeightsDisplay.from_estimator(model)
    >>> len(display.bars_)
    2
    """

    def __init__(self, names: Sequence[str], weights: NDArray[np.float64]) -> None:
        self.names = list(names)
        self.weights = np.asarray(weights)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the weights of a fitted estimator."""
        check_is_fitted(estimator)
        names = [short_name(feature_map) for feature_map in estimator.feature_maps_]
        return cls(names, estimator.feature_weights_).plot(ax=ax)

    def plot(self, *, ax: Any = None, **bar_options: Any) -> Self:
        """Draw one bar for each map; options go to ``Axes.barh``."""
        ax = self._begin(ax)
        places = np.arange(len(self.names))
        self.bars_ = ax.barh(places, self.weights, **bar_options)
        ax.set_yticks(places, self.names)
        ax.invert_yaxis()
        ax.axvline(0, color="0.5", linewidth=0.8)
        ax.set_xlabel("weight λ")
        return self


class ConvergenceDisplay(Display):
    """Training loss of each epoch, and the held-out error where the fit had one.

    Of several members it is the first.  An automatic fit changes rank and penalty on the way,
    and the number of rows where they are many, so that its loss may jump or rise.

    Parameters
    ----------
    loss : sequence of float
        Loss after each epoch.
    validation : sequence of float, optional
        Mean squared error on held-out rows after each epoch, or their loss.
    validation_name : str
        What the latter is called.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import ConvergenceDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, max_iter=3, tol=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> len(display.loss)
    3
    """

    def __init__(
        self,
        loss: Sequence[float],
        validation: Sequence[float] | None = None,
        validation_name: str = "held-out MSE",
    ) -> None:
        self.loss = np.asarray(loss, dtype=np.float64)
        self.validation = None if validation is None else np.asarray(validation, dtype=np.float64)
        self.validation_name = validation_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw how a fitted estimator converged."""
        check_is_fitted(estimator)
        validation = getattr(estimator, "validation_curve_", None)
        name = "held-out loss" if _has_loss(estimator) else "held-out MSE"
        return cls(estimator.loss_curve_, validation, name).plot(ax=ax)

    def plot(self, *, ax: Any = None, **line_options: Any) -> Self:
        """Draw the curves; options go to ``Axes.plot``."""
        ax = self._begin(ax)
        options = {"marker": "o", "markersize": 3, **line_options}
        curves = {"training loss": self.loss, self.validation_name: self.validation}
        self.lines_ = [
            ax.plot(np.arange(1, len(curve) + 1), curve, label=label, **options)[0]
            for label, curve in curves.items()
            if curve is not None
        ]
        if min(line.get_ydata().min() for line in self.lines_) > 0:
            _use_log_axis(ax)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("epoch")
        ax.set_ylabel("loss")
        ax.legend(frameon=False)
        return self


class InputRelevanceDisplay(Display):
    """Which inputs matter: how much predictions change without each, as a part of their variance.

    Parameters
    ----------
    names : sequence of str
        Names of the inputs.
    relevance : ndarray of shape (n_inputs,)
        Their relevance.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import InputRelevanceDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, n_features=5, random_state=0)
    >>> model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0).fit(X, y)
    >>> display = InputRelevanceDisplay.from_estimator(model)
    >>> len(display.bars_)
    5
    """

    def __init__(self, names: Sequence[str], relevance: NDArray[np.float64]) -> None:
        self.names = list(names)
        self.relevance = np.asarray(relevance, dtype=np.float64)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the relevance of the inputs of a fitted estimator."""
        check_is_fitted(estimator)
        found = getattr(estimator, "inputs_", None)
        if found is None:
            raise ValueError(
                "`estimator` must have learned its features, and this one has no `inputs_`. Fit "
                'FeatureLearningRegressor(feature_maps="auto"), or use `input_effects`.'
            )
        relevance = np.array([summary.relevance for summary in found])
        return cls(schema_of(estimator).inputs.names, relevance).plot(ax=ax)

    def plot(self, *, ax: Any = None, **bar_options: Any) -> Self:
        """Draw one bar for each input, the largest first; options go to ``Axes.barh``."""
        ax = self._begin(ax)
        places, order = np.arange(len(self.names)), np.argsort(-self.relevance, kind="stable")
        self.bars_ = ax.barh(places, self.relevance[order], **bar_options)
        ax.set_yticks(places, [self.names[index] for index in order], **LITERAL)
        ax.invert_yaxis()
        ax.set_xlabel("relevance")
        return self


def held_out_name(selection: dict[str, Any]) -> str:
    """Return what held-out rows were judged by: the squared error, or another loss."""
    return "held_out_loss" if "held_out_loss" in selection else "held_out_mse"


def _has_loss(estimator: Any) -> bool:
    """Whether a fit was by another loss than the squared error."""
    return bool(is_classifier(estimator) or estimator.loss != "squared_error")


class SelectionDisplay(Display):
    """Held-out error of each trial of an automatic fit, with its rank, and the least so far.

    Parameters
    ----------
    ranks : sequence of int
        Rank of each trial.
    errors : sequence of float
        Mean squared error of each on the held-out rows, in units of the target's variance, or
        their mean loss.
    label : str
        What these are called.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import SelectionDisplay
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, n_features=5, random_state=0)
    >>> model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0).fit(X, y)
    >>> display = SelectionDisplay.from_estimator(model)
    >>> len(display.errors) == len(model.selection_["rank"])
    True
    """

    def __init__(
        self,
        ranks: Sequence[int],
        errors: Sequence[float],
        label: str = "held-out error / variance",
    ) -> None:
        self.ranks = np.asarray(ranks, dtype=np.int64)
        self.errors = np.asarray(errors, dtype=np.float64)
        self.label = label

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the trials of a fitted estimator."""
        check_is_fitted(estimator)
        found = getattr(estimator, "selection_", {})
        # Fits of the first version had trials for each member apart, which are no one course.
        if "penalty" not in found:
            raise ValueError(
                "`estimator` must have chosen one rank and penalty for all members, and this one "
                'has no such trials. Fit FeatureLearningRegressor(feature_maps="auto").'
            )
        name = held_out_name(found)
        label = "held-out loss" if name == "held_out_loss" else "held-out error / variance"
        return cls(found["rank"], found[name], label).plot(ax=ax)

    def plot(self, *, ax: Any = None, **line_options: Any) -> Self:
        """Draw points, each rank with its own mark; options go to ``Axes.plot``."""
        ax = self._begin(ax)
        trials = np.arange(1, len(self.errors) + 1)
        marks = "os^Dv<>ph*"
        options = {"linestyle": "none", "markersize": 6, **line_options}
        self.lines_ = []
        for place, rank in enumerate(np.unique(self.ranks)):
            own, mark = self.ranks == rank, marks[place % len(marks)]
            self.lines_ += ax.plot(
                trials[own], self.errors[own], marker=mark, label=f"rank {rank}", **options
            )
        least = np.minimum.accumulate(self.errors)
        thin = {"color": "0.5", "linestyle": "-", "linewidth": 0.8, "zorder": 0}
        (self.least_line_,) = ax.plot(trials, least, drawstyle="steps-post", **thin)
        if self.errors.min() > 0 and self.errors.max() > 5 * self.errors.min():
            _use_log_axis(ax)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("trial")
        ax.set_ylabel(self.label)
        # Points may be anywhere on the axes, so the ranks stand above.
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderpad=0)
        return self


class PredictionDisplay(Display):
    """Predicted against actual values, or their differences.

    Parameters
    ----------
    actual, predicted : ndarray of shape (n_samples,)
        The pairs.

    Examples
    --------
    >>> from polyadic.inspection import PredictionDisplay
    >>> display = PredictionDisplay.from_predictions([1.0, 2.0], [1.5, 2.0], kind="residuals")
    >>> display.ax_.get_ylabel()
    'actual − predicted'
    """

    def __init__(self, actual: Any, predicted: Any) -> None:
        self.actual = np.asarray(actual, dtype=np.float64)
        self.predicted = np.asarray(predicted, dtype=np.float64)
        if self.actual.ndim != 1 or self.actual.shape != self.predicted.shape:
            raise ValueError(
                "`actual` and `predicted` must be columns of one length, got shapes "
                f"{self.actual.shape} and {self.predicted.shape}. Pass one target."
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, kind: str = "predictions", ax: Any = None
    ) -> Self:
        """Predict the rows of `X` and draw them against `y`."""
        if is_classifier(estimator):
            raise ValueError(
                "`estimator` must be a regressor, got a classifier. Use ConfusionMatrixDisplay, "
                "RocCurveDisplay or CalibrationDisplay of scikit-learn."
            )
        return cls(y, estimator.predict(X)).plot(kind=kind, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, kind: str = "predictions", ax: Any = None
    ) -> Self:
        """Draw predictions that were made before."""
        return cls(y_true, y_pred).plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "predictions", ax: Any = None, **scatter_options: Any) -> Self:
        """Draw points; `kind` is "predictions" or "residuals", options go to ``Axes.scatter``."""
        if kind not in ("predictions", "residuals"):
            raise ValueError(f"`kind` must be 'predictions' or 'residuals', got {kind!r}.")
        ax = self._begin(ax)
        options = {"s": 10, "alpha": 0.6, "linewidths": 0, **scatter_options}
        if kind == "residuals":
            self.points_ = ax.scatter(self.predicted, self.actual - self.predicted, **options)
            ax.axhline(0, color="0.5", linewidth=0.8)
            ax.set_xlabel("predicted")
            ax.set_ylabel("actual − predicted")
            return self
        self.points_ = ax.scatter(self.actual, self.predicted, **options)
        both = np.concatenate([self.actual, self.predicted])
        margin = 0.03 * (np.ptp(both) or 1.0)
        ends = (both.min() - margin, both.max() + margin)
        ax.plot(ends, ends, color="0.5", linewidth=0.8)
        # One scale for both, so that the diagonal is one and errors look as large as they are.
        ax.set(xlim=ends, ylim=ends, aspect="equal")
        ax.set_xlabel("actual")
        ax.set_ylabel("predicted")
        return self


def _use_log_axis(ax: Any) -> None:
    """Set a logarithmic y axis whose numbers are written out, also within one decade."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(write_tick)
    ax.yaxis.set_minor_formatter(NullFormatter())


_SMOOTHNESS = {"matern12": "rough", "matern32": "smooth", "rbf": "very smooth"}


def describe_kernel(kernel: str | None) -> str:
    """Return how smooth functions of a kernel are, in words.

    Examples
    --------
    >>> from polyadic.inspection import describe_kernel
    >>> [describe_kernel(kernel) for kernel in ("matern12", "matern32", "rbf")]
    ['rough', 'smooth', 'very smooth']
    """
    return "–" if kernel is None else _SMOOTHNESS.get(kernel, kernel)


def short_name(feature_map: Any) -> str:
    """Return a map's name as a picture has room for: "Fourier(period=8)".

    Examples
    --------
    >>> from polyadic.features import FourierFeatures
    >>> from polyadic.inspection import short_name
    >>> short_name(FourierFeatures(8.0))
    'Fourier(period=8)'
    """
    kind = type(feature_map).__name__.removesuffix("Features")
    parameters = feature_map.get_params(deep=False).items()
    return f"{kind}({', '.join(f'{name}={_short(value)}' for name, value in parameters)})"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
