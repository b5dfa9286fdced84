"""The feature learning model for regression: many candidate maps, one fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context

from polyadic.estimators._automatic import FeatureLearning
from polyadic.estimators._base import CPDRegressor
from polyadic.features import FeatureMap
from polyadic.sources.survey import FROM_DTYPE


class FeatureLearningRegressor(FeatureLearning, CPDRegressor):
    """Regression with tensor-product features whose hyperparameters are learned in the fit.

    The model is f(x) = [Σₚ λₚ φₚ(x)]ᵀw: a weighted sum of P candidate feature maps against
    a weight tensor w of rank R, learned by alternating least squares.

    With ``feature_maps="auto"`` features are learned from the rows: the kernel of each input,
    how far it reaches, and which inputs matter.  The model is the mean of a few members that
    see the inputs in different ways; their rank and penalty are chosen by the error of the mean
    on rows that they hold out, and they are then fitted to all rows.  With named maps, w and λ
    are learned together as in the paper, so that one fit replaces a cross-validated search over
    the maps.

    Parameters
    ----------
    feature_maps : "auto" or list of FeatureMap, default="auto"
        The candidate maps.  "auto" together with another `mixing` than "simplex",
        ``objective="complex"``, ``nonnegative=True``, ``quantized=False`` or a number for
        `max_iter` means seven damped Fourier maps, learned together.
    categorical_features : "from_dtype", None, or list of names, places or bool, \
            default="from_dtype"
        Columns of numbers that are categories, besides those that are text or of a category's
        data type.  With None there are no categories, and text is an error.
    n_basis : "auto", int or list of int, default="auto"
        Basis functions of every input, or of each; a power of two if named maps are
        quantized, and at most 193 in an automatic fit.  An input with one takes no part.
    rank : "auto" or int, default="auto"
        Rank R of the weight tensor.
    quantized : bool, default=True
        Whether an input of named maps has log2(n_basis) cores of two rows, or one core of
        n_basis rows.
    loss : str, default="squared_error"
        What a prediction costs: "squared_error", "absolute_error", "huber", "quantile",
        "poisson" or "gamma".  The last two predict a mean that is positive, exp(f(x)), and a rate
        where the target is divided by its exposure and the exposure is the `sample_weight`.
    quantile : float, optional
        With ``loss="quantile"``: which one to predict, between 0 and 1.
    alpha : "auto" or float, default="auto"
        Strength of the penalty ½α‖w‖².
    beta : float, default=0.1
        Strength of the penalty on λ for `mixing` "l1" and "l2".
    mixing : {"simplex", "l1", "l2", "fixed_norm"}, default="simplex"
        How λ is regularised: non-negative with unit sum; β‖λ‖₁; ½β‖λ‖₂²; ‖λ‖₂ ≤ 1.
    nonnegative : bool, default=False
        Whether λ must not be negative; on the simplex it never is.
    objective : {"real", "complex"}, default="real"
        Least squares on the real part of the response, or on the complex response as in
        the paper.
    max_iter : "auto" or int, default="auto"
        Epochs of a fit with named maps: sweeps over all cores, each followed by a λ step.
    tol : float, default=1e-4
        A fit with named maps stops when `n_iter_no_change` epochs lower the loss, or the
        held-out error, by less than this share of it.
    n_estimators : "auto" or int, default="auto"
        Members whose mean predicts.  With named maps "auto" is one.
    effort : float, default=1.0
        Time that an automatic fit may take, in units of the default: it scales the number
        of members and the most work of their search.
    max_time : float, optional
        Seconds after which a fit comes to an end with the best that it has; the step under way
        is finished first, and one epoch is always done.  The first fit after an installation
        compiles its kernels too, which this does not shorten.
    early_stopping : bool, default=False
        Whether a fit with named maps holds rows out and keeps its best epoch on them.  An
        automatic fit always does.
    validation_fraction : float, default=0.2
        Share of the rows held out.
    n_iter_no_change : int, default=3
        Epochs without progress before a fit with named maps stops.
    scale_inputs : bool, default=True
        Whether inputs are scaled to the unit interval.  If not, they should lie in it.
    engine : {"auto", "compiled", "torch", "reference"}, default="auto"
        What computes a chunk of rows.
    device : str, optional
        Where to compute, such as "cuda"; None is the CPU.
    dtype : {"auto", "float64", "float32"}, default="auto"
        Precision of state and assembly; sums and solves are always double.  "auto" is
        "float32" for automatic fits of more than 20,000 rows, and else "float64".
    chunk_size : "auto" or int, default="auto"
        Rows of a chunk.
    subsample : float, optional
        Share of the rows that the first epoch of a fit with named maps sees; each epoch after
        it sees twice as many, up to all.  The last half of `max_iter` always sees all.
    memory_limit : float or str, optional
        Bytes that the state of a fit may take, such as 2e9 or "2GB"; with rows on disk, all
        that the process may take.
    checkpoint : path, optional
        File that keeps the fit while it is under way.  The same call goes on from it after
        an interruption, to the same result, and removes it in the end.
    n_jobs : int, optional
        Threads; unlike elsewhere in scikit-learn None is all cores.
    warm_start : bool, default=False
        Whether ``fit`` with named maps goes on from the earlier fit.
    random_state : int, RandomState instance or None, default=None
        Seed of starts and held-out rows.
    verbose : "auto" or int, default="auto"
        With "auto" a fit of more than two seconds shows a line of progress on a terminal or in
        a notebook; 0 shows nothing, 1 writes a line for each step to the standard error.

    Attributes
    ----------
    cores_ : list of ndarray
        Cores of the first member's weight tensor, size × R each; with several targets
        n_targets × size × R.
    feature_weights_ : ndarray of shape (n_maps,)
        λ, its mean over members; after an automatic fit the part of the prediction's
        variance that each map carries, which sum to one.
    feature_maps_ : list of FeatureMap
        The maps that `feature_weights_` belongs to.
    members_ : list of Member
        Everything that predicts, with the share of each.
    alpha_, rank_ : ndarray
        Penalty and rank of each member.
    selection_ : dict of lists
        Automatic fits only: every rank and penalty tried, with the held-out error; pass it
        to ``pandas.DataFrame``.
    inputs_ : list of InputSummary
        Automatic fits only: what was learned about each input, its name, kernel, length scale
        and relevance; pass it to ``pandas.DataFrame``.
    loss_curve_ : list of float
        Loss of the first member after each epoch.
    validation_curve_ : list of float
        With `early_stopping`: mean squared error of the first member on the held-out rows after
        each epoch.
    n_iter_ : int
        Number of epochs.
    target_scaling_ : TargetScaling
        Mean and standard deviation of the targets, by which predictions come back to their
        units.
    single_target_ : bool
        Whether predictions are a vector.
    n_samples_fit_, n_samples_dropped_ : int
        Rows of positive weight, and rows of files left out because a value was missing.
    schema_ : Schema
        What each column of the table is taken for: a number, a category and its levels, a date
        and its parts; ``schema_.inputs`` are the inputs that they become.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn, of the columns.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from polyadic import FeatureLearningRegressor
    >>> from polyadic.features import DampedFourierFeatures
    >>> X, y = make_friedman1(400, noise=0.5, random_state=0)
    >>> maps = [DampedFourierFeatures(period, 0.7) for period in (1.5, 3.0, 8.0)]
    >>> model = FeatureLearningRegressor(maps, rank=6, n_basis=4, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
    True
    >>> float(model.feature_weights_.sum().round(6))
    1.0

    Without maps features are learned, and five of the ten inputs turn out to matter:

    >>> model = FeatureLearningRegressor(n_estimators=1, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95
    True
    >>> [each.name for each in model.inputs_ if each.relevance > 0.05]
    ['x0', 'x1', 'x2', 'x3', 'x4']

    Text, gaps and dates go straight in:

    >>> import pandas as pd
    >>> colour = [("red", "green", "blue", None)[place % 4] for place in range(60)]
    >>> table = pd.DataFrame({"size": X[:60, 0], "colour": colour})
    >>> target = table["size"] + (table["colour"] == "red")
    >>> model = FeatureLearningRegressor(n_estimators=1, effort=0.1, random_state=0)
    >>> model.fit(table, target).score(table, target) > 0.9
    True
    >>> [(column.name, column.kind) for column in model.schema_.columns]
    [('size', 'number'), ('colour', 'category')]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **FeatureLearning._parameter_constraints,
        **CPDRegressor._loss_constraints,
    }

    def __init__(
        self,
        feature_maps: str | Sequence[FeatureMap] = "auto",
        *,
        categorical_features: Any = FROM_DTYPE,
        n_basis: Any = "auto",
        rank: int | str = "auto",
        quantized: bool = True,
        loss: str = "squared_error",
        quantile: float | None = None,
        alpha: float | str = "auto",
        beta: float = 0.1,
        mixing: str = "simplex",
        nonnegative: bool = False,
        objective: str = "real",
        max_iter: int | str = "auto",
        tol: float = 1e-4,
        n_estimators: int | str = "auto",
        effort: float = 1.0,
        max_time: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 3,
        scale_inputs: bool = True,
        engine: str = "auto",
        device: str | None = None,
        dtype: str = "auto",
        chunk_size: int | str = "auto",
        subsample: float | None = None,
        memory_limit: float | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int | str = "auto",
    ) -> None:
        self.feature_maps = feature_maps
        self.categorical_features = categorical_features
        self.n_basis = n_basis
        self.rank = rank
        self.quantized = quantized
        self.loss = loss
        self.quantile = quantile
        self.alpha = alpha
        self.beta = beta
        self.mixing = mixing
        self.nonnegative = nonnegative
        self.objective = objective
        self.max_iter = max_iter
        self.tol = tol
        self.n_estimators = n_estimators
        self.effort = effort
        self.max_time = max_time
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scale_inputs = scale_inputs
        self.engine = engine
        self.device = device
        self.dtype = dtype
        self.chunk_size = chunk_size
        self.subsample = subsample
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn the weight tensor and the feature weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs; a source of :func:`polyadic.open_rows` brings targets and weights along.  An
            automatic fit takes any table: text and categories, flags, dates, and gaps anywhere.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row; an integer weight equals repeated rows.
        groups : array-like of shape (n_samples,), optional
            Label of each row's group; rows of one group are held out together.

        Returns
        -------
        self : FeatureLearningRegressor
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import FeatureLearningRegressor
        >>> X, y = make_friedman1(100, random_state=0)
        >>> model = FeatureLearningRegressor(n_estimators=1, effort=0.1, random_state=0)
        >>> len(model.fit(X, y, sample_weight=1 + X[:, 0]).inputs_)
        10
        """
        fit_to, merge = self._way_to_fit()
        return self._fit(fit_to, X, y, sample_weight, groups, merge=merge)
