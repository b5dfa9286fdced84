"""Progress of a fit: scikit-learn's callbacks where it has them, a line an epoch otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from polyadic.als import Epoch
from polyadic.ensemble import Member
from polyadic.features import TensorLayout


class Progress:
    """Tells whoever listens how a fit goes on.

    The task tree of the callbacks is fit ─► member ─► epoch.  A callback may ask for a
    fitted copy of the estimator as it would be if the fit ended with that epoch, and may
    stop the member by returning true.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        if sample_weight is not None:
            self._data["metadata"] = {"sample_weight": sample_weight}
        self._began = time.perf_counter()
        self._root: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._root = estimator._init_callback_context(max_subtasks=estimator.n_estimators)
            self._root.call_on_fit_task_begin(estimator=estimator, **self._data)

    @contextmanager
    def member(self, index: int, layout: TensorLayout) -> Iterator[Callable[[Epoch], bool | None]]:
        """Return the function that hears of this member's epochs."""
        estimator, context = self._estimator, None
        if self._root is not None:
            context = self._root.subcontext("member", max_subtasks=estimator.max_iter)
            context.call_on_fit_task_begin(estimator=estimator, **self._data)
        last: list[Epoch] = []

        def on_epoch(epoch: Epoch) -> bool:
            last[:] = [epoch]
            if estimator.verbose:
                self._print(index, epoch)
            if context is None:
                return False
            task = context.subcontext("epoch")
            task.call_on_fit_task_begin(estimator=estimator, **self._data)
            return bool(
                task.call_on_fit_task_end(
                    estimator=estimator,
                    reconstruction_attributes=lambda: self._fitted(layout, epoch),
                    **self._data,
                )
            )

        yield on_epoch
        if context is not None:
            context.call_on_fit_task_end(
                estimator=estimator,
                reconstruction_attributes=lambda: self._fitted(layout, last[0]),
                **self._data,
            )

    def end(self, members: list[Member]) -> None:
        """Close the root task."""
        if self._root is not None:
            self._root.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes={"members_": members},
                **self._data,
            )

    @staticmethod
    def _fitted(layout: TensorLayout, epoch: Epoch) -> dict[str, Any]:
        return {"members_": [Member(layout, epoch.model)]}

    def _print(self, index: int, epoch: Epoch) -> None:
        estimator = self._estimator
        held = epoch.validation_error
        parts = [
            f"member {index + 1}/{estimator.n_estimators}",
            f"epoch {epoch.number:>3}/{estimator.max_iter}",
            f"loss {epoch.loss:.6f}",
            f"train MSE {epoch.error:.6f}",
            *([] if held is None else [f"held-out MSE {held:.6f}"]),
            f"{time.perf_counter() - self._began:.1f} s",
        ]
        sys.stderr.write("  ".join(parts) + "\n")
