"""What of a model is looked at: what it predicts, or what its link is applied to.

A regressor under a log link predicts exp(f), a classifier the probability of each class, and f is
the sum of products that inspection has a closed form for: logarithms, log odds, or scores.  An
average of predictions is not the prediction at an average f, so that both can be asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from polyadic.model.losses import invert_link

METHODS = ("auto", "predict_proba", "decision_function")


@dataclass(frozen=True)
class Output:
    """Some columns of what follows from the responses of a model.

    Parameters
    ----------
    link : {"identity", "log", "logit", "softmax"}
        How they follow.
    responses : tuple of int
        The responses that they follow from.
    columns : tuple of int
        Which of the columns that follow are looked at.
    names : tuple of str
        Their names where there are several classes; none where there is one column.
    label : str
        What a mean over rows is called.
    sign : float
        −1 for the log odds of the first of two classes.
    """

    link: str
    responses: tuple[int, ...]
    columns: tuple[int, ...]
    names: tuple[str, ...] = ()
    label: str = "mean prediction"
    sign: float = 1.0

    @property
    def is_linear(self) -> bool:
        """Whether a mean over rows is that of the responses."""
        return self.link == "identity"

    def finish(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the columns that follow from responses, both along the last axis."""
        found = np.asarray(invert_link(self.link, f.reshape(-1, len(self.responses))))
        kept = self.sign * found[:, list(self.columns)]
        return np.asarray(kept.reshape(*f.shape[:-1], len(self.columns)))

    def shape(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values as users expect them: without a last axis where it has one column."""
        return values if self.names else values[..., 0]


def check_output(estimator: Any, target: Any, response_method: str = "auto") -> Output:
    """Return what is looked at, by the name that users have for it."""
    if response_method not in METHODS:
        raise ValueError(
            f"`response_method` must be one of {', '.join(map(repr, METHODS))}, got "
            f"{response_method!r}. Leave it out for what the model predicts."
        )
    if is_classifier(estimator):
        return _output_of_classes(estimator, target, response_method == "decision_function")
    if response_method == "predict_proba":
        raise ValueError(
            "`response_method` must be 'auto' or 'decision_function' for a regressor, got "
            "'predict_proba'. Leave it out for what the model predicts."
        )
    place = _check_place(estimator, 0 if target is None else target)
    if response_method == "decision_function":
        logarithm = estimator._link == "log"
        label = "mean log of the prediction" if logarithm else "mean prediction"
        return Output("identity", (place,), (0,), label=label)
    return Output(estimator._link, (place,), (0,))


def _output_of_classes(estimator: Any, target: Any, before_link: bool) -> Output:
    classes = estimator.classes_
    texts = tuple(map(str, classes.tolist()))
    if target is None and len(classes) > 2:
        chosen = range(len(classes))
    elif target is None:
        chosen = range(1, 2)
    else:
        place = _find_class(classes, target)
        chosen = range(place, place + 1)
    several = len(chosen) > 1
    names = texts if several else ()
    of = "" if several else f" of {texts[chosen[0]]}"
    if len(classes) == 2:
        if before_link:
            sign = 1.0 if chosen[0] else -1.0
            return Output("identity", (0,), (0,), (), f"mean log odds{of}", sign)
        return Output("logit", (0,), tuple(chosen), (), f"mean probability{of}")
    if before_link:
        own = tuple(range(len(chosen)))
        return Output("identity", tuple(chosen), own, names, f"mean score{of}")
    everything = tuple(range(len(classes)))
    return Output("softmax", everything, tuple(chosen), names, f"mean probability{of}")


def _find_class(classes: NDArray[Any], target: Any) -> int:
    found = [place for place, label in enumerate(classes.tolist()) if label == target]
    if found:
        return found[0]
    shown = ", ".join(map(repr, classes[:10].tolist())) + ", …" * (len(classes) > 10)
    raise ValueError(
        f"`target` must be one of the classes, {shown}, got {target!r}. Leave it out for "
        f"{'the second class' if len(classes) == 2 else 'all classes'}."
    )


def _check_place(estimator: Any, target: Any) -> int:
    """Return the place of a target of a regressor."""
    count = len(estimator.target_scaling_.mean)
    if isinstance(target, int | np.integer) and 0 <= target < count:
        return int(target)
    only = "the model has one target" if count == 1 else f"the model has {count} targets"
    raise ValueError(
        f"`target` must be the place of a target, 0 to {count - 1}, got {target!r}: {only}. "
        "Pass target=0 for the first."
    )
