"""Which inputs act together, beyond the sum of what each does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._checks import check_arguments, complete_groups
from polyadic.inspection._importance import (
    MAX_BY_HAND,
    effects_of_response,
    some_rows,
    sum_terms,
)
from polyadic.inspection._inputs import places_of
from polyadic.inspection._means import at_own_values, mean_responses
from polyadic.inspection._terms import Group, blocks, has_directions


def interaction_strengths(
    estimator: Any, X: Any, inputs: Sequence[Any], *, target: Any = None
) -> dict[tuple[int, int], float]:
    """Return how much each pair of inputs acts together beyond the sum of the two.

    That is the standard deviation over the rows of the partial dependence of the pair less
    those of its two inputs, in the target's units; zero where the two just add up.  Under a link
    it is measured before the link, where effects add up: in log odds of two classes, scores of
    several (the root of the sum of their squares), and logarithms.

    Parameters
    ----------
    estimator : regressor or classifier of this package
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        The rows.
    inputs : sequence
        Columns, by place or by name, or lists of columns that are set together.  The parts of a
        date go together, unless one is named.
    target : int or label, optional
        Which target of a regressor, by its place, the first by default; which class of a
        classifier, by its label, all by default.

    Returns
    -------
    strengths : dict
        For each pair of places in `inputs`, its strength.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import interaction_strengths
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(300, n_features=5, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=6, n_basis=4, random_state=0).fit(X, y)
    >>> strengths = interaction_strengths(model, X, range(5))
    >>> max(strengths, key=strengths.get)  # Friedman's x0·x1
    (0, 1)
    """
    X, chosen, output = check_arguments(estimator, X, inputs, target, "decision_function")
    return find_strengths(estimator, X, [places_of(group) for group in chosen], output.responses)


def find_strengths(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], responses: Sequence[int]
) -> dict[tuple[int, int], float]:
    """Return the strengths of pairs by the places of inputs, over rows as the model sees them."""
    pairs = list(combinations(range(len(chosen)), 2))
    squares = np.zeros(len(pairs))
    for target in responses:
        if has_directions(estimator):
            single, joint = _effects_by_hand(estimator, X, chosen, pairs, target)
        else:
            single, _ = effects_of_response(estimator, X, chosen, target)
            joint = _joint_effects(estimator, X, chosen, pairs, target)
        beyond = [joint[i] - single[a] - single[b] for i, (a, b) in enumerate(pairs)]
        squares += np.var(beyond, axis=1)
    return {pair: float(np.sqrt(square)) for pair, square in zip(pairs, squares, strict=True)}


def _joint_effects(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    pairs: Sequence[tuple[int, int]],
    target: int,
) -> NDArray[np.float64]:
    """Return the mean response at each row's own values of both inputs of each pair."""
    joint = np.zeros((len(pairs), len(X)))
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), [], target):
        rest = block.rows.get(len(chosen), np.ones_like(next(iter(block.rows.values()))))
        terms = [block.rows.get(group, np.ones_like(rest)) for group in range(len(chosen))]
        for index, (first, second) in enumerate(pairs):
            others = rest
            for group in set(range(len(chosen))) - {first, second}:
                others = others * terms[group]
            mean_others = block.weight * others.mean(axis=0)
            joint[index] += sum_terms(terms[first] * terms[second], mean_others)
    return joint


def _effects_by_hand(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    pairs: Sequence[tuple[int, int]],
    target: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean responses of some rows at each row's values of each group and of each pair.

    Over the same rows, so that what just adds up does so exactly.
    """
    some = some_rows(X, MAX_BY_HAND)

    def effect(group: Group) -> NDArray[np.float64]:
        def means(at: NDArray[np.float64]) -> NDArray[np.float64]:
            return mean_responses(estimator, some, [group], [at], [target])[:, 0]

        return np.asarray(at_own_values(X, group, means))

    single = [effect(group) for group in chosen]
    joint = [effect((*chosen[first], *chosen[second])) for first, second in pairs]
    return np.stack(single), np.reshape(joint, (len(pairs), len(X)))
