"""Progress of a fit: scikit-learn's callbacks where it has them, and lines at verbose=1."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from polyadic.estimators._status import StatusLine
from polyadic.features import TensorLayout
from polyadic.members import Member
from polyadic.model.als import Fit
from polyadic.rows.scaling import InputScaling
from polyadic.search.trials import Trial
from polyadic.sources.data import Data


@dataclass(frozen=True)
class Passed:
    """What was passed to ``fit``, for callbacks, and the line that says how it goes."""

    X: Any
    y: Any
    sample_weight: Any
    status: StatusLine


MembersSoFar = Callable[[], list[Member]]


class Progress:
    """Tells whoever listens how a fit goes on.

    The task tree of the callbacks is fit ─► member ─► epoch, or fit ─► member ─► stage of an
    automatic fit.  A callback may ask for a fitted copy of the estimator as it would be if
    the fit ended there, and may stop a member's epochs by returning true.
    """

    def __init__(
        self, estimator: Any, passed: Passed, data: Data, n_members: int, max_iter: int
    ) -> None:
        self._estimator, self._rows, self._status = estimator, data, passed.status
        self._n_members, self._max_iter = n_members, max_iter
        self._error = "MSE" if data.view.loss is None else "loss"
        self._data = {"X": passed.X, "y": passed.y}
        if passed.sample_weight is not None:
            self._data["metadata"] = {"sample_weight": passed.sample_weight}
        self._began = time.perf_counter()
        self._lock = threading.Lock()  # members may be fitted side by side
        self._root: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._root = estimator._init_callback_context(
                max_subtasks=n_members, sequential_subtasks=False
            )
            self._root.call_on_fit_task_begin(estimator=estimator, **self._data)

    @contextmanager
    def member(
        self, index: int, inputs: InputScaling, layout: TensorLayout
    ) -> Iterator[Callable[[Fit], bool | None]]:
        """Give the function that hears of a member's epochs."""
        with self._task(index, self._max_iter) as on_subtask:

            def on_epoch(fit: Fit) -> bool:
                epoch = fit.last
                held = epoch.validation_error
                self._print(
                    index,
                    f"epoch {epoch.number:>3}/{self._max_iter}",
                    f"loss {epoch.loss:.6f}",
                    f"train {self._error} {epoch.error:.6f}",
                    *([] if held is None else [f"held-out {self._error} {held:.6f}"]),
                )
                self.tell(index, f"epoch {epoch.number}", epoch.number / self._max_iter)
                return on_subtask("epoch", lambda: [Member(inputs, layout, epoch.model)])

            yield on_epoch

    @contextmanager
    def search(self, index: int) -> Iterator[Callable[[str, Trial, float, MembersSoFar], None]]:
        """Give the function that hears of the trials of a search."""
        with self._task(index, None) as on_subtask:

            def on_trial(stage: str, trial: Trial, fraction: float, members: MembersSoFar) -> None:
                self._print(
                    None,
                    f"{stage:<7}",
                    f"held-out {self._error} {trial.error:.6f}",
                    f"rank {trial.rank}",
                    f"penalty × {trial.factor:g}",
                )
                self.tell(index, f"{stage}, rank {trial.rank}", fraction)
                on_subtask(stage, members)

            yield on_trial

    def tell(self, index: int, what: str, fraction: float) -> None:
        """Say what a member is doing, and which fraction of its work is done."""
        of = f"member {index + 1} of {self._n_members}, " if self._n_members > 1 else ""
        self._status.tell(f"{of}{what}", index, fraction, self._n_members)

    def end(self, members: list[Member]) -> None:
        """Close the root task."""
        if self._root is not None:
            self._root.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=self._estimator._attributes_of(self._rows, members),
                **self._data,
            )

    @contextmanager
    def _task(
        self, index: int, max_subtasks: int | None
    ) -> Iterator[Callable[[str, MembersSoFar], bool]]:
        """Open the task of one member; give the function that closes a subtask of it."""
        estimator, context = self._estimator, None
        last: list[MembersSoFar] = []
        if self._root is not None:
            with self._lock:
                context = self._root.subcontext("member", task_id=index, max_subtasks=max_subtasks)
                context.call_on_fit_task_begin(estimator=estimator, **self._data)

        def on_subtask(name: str, members: MembersSoFar) -> bool:
            last[:] = [members]
            if context is None:
                return False
            with self._lock:
                task = context.subcontext(name)
                task.call_on_fit_task_begin(estimator=estimator, **self._data)
                return self._close(task, members)

        yield on_subtask
        if context is not None and last:
            with self._lock:
                self._close(context, last[0])

    def _close(self, task: Any, members: MembersSoFar) -> bool:
        stop = task.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._estimator._attributes_of(self._rows, members()),
            **self._data,
        )
        return bool(stop)

    def _print(self, index: int | None, *parts: str) -> None:
        seconds = f"{time.perf_counter() - self._began:.1f} s"
        member = [] if index is None else [f"member {index + 1}/{self._n_members}"]
        self._write("  ".join([*member, *parts, seconds]))

    def _write(self, line: str) -> None:
        write_line(self._estimator, line)


def write_line(estimator: Any, line: str) -> None:
    """Write a line to the standard error where an estimator was asked for lines."""
    if estimator.verbose and estimator.verbose != "auto":
        sys.stderr.write(line + "\n")
