"""A fitted estimator in a notebook: what it has learned, below scikit-learn's diagram.

The page around it may be light or dark: text has the colour of the page, and lines and bars are
see-through.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from sklearn.base import BaseEstimator

from polyadic.members import mean_predicts, names_beside

_MOST_SHOWN = 12  # inputs, before the others are folded up
_KERNELS = {
    "matern12": "Matérn 1/2",
    "matern32": "Matérn 3/2",
    "rbf": "squared exponential",
    "levels": "levels",
}
_STYLE = """
.polyadic{font-family:system-ui,sans-serif;font-size:.85rem;color:inherit;margin:.6rem 0;
max-width:44rem;overflow-x:auto}
.polyadic p{margin:.2rem 0 .5rem}
.polyadic table{border-collapse:collapse;width:100%;font-size:inherit;color:inherit;background:none}
.polyadic th,.polyadic td{padding:.15rem .6rem;text-align:left;background:none;color:inherit;
border:0;border-bottom:1px solid rgba(128,128,128,.3);white-space:nowrap}
.polyadic td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:7rem}
.polyadic th{font-weight:600}
.polyadic .n{text-align:right;font-variant-numeric:tabular-nums}
.polyadic .b{width:30%;min-width:5rem}
.polyadic .b div{height:.7rem;border-radius:2px;background:rgba(58,130,214,.75)}
.polyadic summary{cursor:pointer;padding:.3rem .6rem}
"""


class ShownInNotebooks(BaseEstimator):
    """scikit-learn's diagram, followed by what a fitted estimator has learned."""

    def _repr_html_inner(self) -> str:
        diagram = str(super()._repr_html_inner())
        return diagram + describe(self) if self.__sklearn_is_fitted__() else diagram

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def describe(estimator: Any) -> str:
    """Return what a fitted estimator has learned, as a piece of a page that needs no other."""
    facts = ", ".join(_facts(estimator))
    learned = vars(estimator).get("inputs_")
    table = _map_table(estimator) if learned is None else _input_table(learned)
    return f'<style>{_STYLE}</style><div class="polyadic"><p>{escape(facts)}</p>{table}</div>'


def _facts(estimator: Any) -> list[str]:
    """Return rows, members and errors in words."""
    members = estimator.members_
    n_rows, own = estimator.n_samples_fit_, vars(estimator)
    facts = [f"Learned from {n_rows:,} row{'s' * (n_rows != 1)}"]
    if own.get("_classes") is not None:
        facts.append(f"{len(own['_classes'])} classes")
    elif len(estimator.target_scaling_.mean) > 1:
        facts.append(f"{len(estimator.target_scaling_.mean)} targets")
    if not any(member.share for member in members):
        return [*facts, "nothing but their mean: the inputs say nothing about the target"]
    ranks = estimator.rank_.tolist()
    # A linear trend is a member too, but has no rank that was chosen; nor have sums over rows.
    told = names_beside(members, len(ranks))
    if mean_predicts(members, len(ranks)):
        several = f"{len(ranks)} members of rank" if len(ranks) > 1 else "rank"
        told = [f"{several} {' and '.join(map(str, sorted(set(ranks))))}", *told]
    facts.append(" and ".join(told))
    error = held_out_error(estimator)
    return facts if error is None else [*facts, f"{error[0]} {error[1]:.3g} on rows held out"]


def held_out_error(estimator: Any) -> tuple[str, float] | None:
    """Return what the error on held-out rows is called, and the least one; None without any.

    Squares are in units of the targets' variance, so that those of the mean are 1.
    """
    own = vars(estimator)
    if "selection_" in own:
        selection = own["selection_"]
        names = {"held_out_mse": "relative squared error", "held_out_loss": "loss"}
        most = max(selection["n_rows"])  # rows that a search begins with may be fewer
        for name in names.keys() & selection.keys():
            pairs = zip(selection[name], selection["n_rows"], strict=True)
            return names[name], min(error for error, n_rows in pairs if n_rows == most)
    if own.get("validation_curve_"):
        name = "relative squared error" if estimator._link == "identity" else "loss"
        return name, min(own["validation_curve_"])
    return None


def _input_table(inputs: Sequence[Any]) -> str:
    """Return a row for each input, the most relevant one first."""
    ordered = sorted(inputs, key=lambda each: -each.relevance)
    most = max([each.relevance for each in ordered] or [0.0]) or 1.0
    rows = [
        (each.name, each.kind, *_kernel(each), each.relevance, each.relevance / most)
        for each in ordered
    ]
    head = ("input", "kind", "kernel", "length scale", "relevance")
    return _table(head, rows)


def _kernel(each: Any) -> tuple[str, str]:
    """Return the kernel along an input and its length scale, in words."""
    if each.kernel is None or each.length_scale is None:  # a trend may use it all the same
        return ("–" if each.kind == "unused" else "linear", "–")
    return _KERNELS.get(each.kernel, each.kernel), f"{each.length_scale:.2g}"


def _map_table(estimator: Any) -> str:
    """Return a row for each feature map, with its weight."""
    weights = estimator.feature_weights_.tolist()
    most = max([abs(weight) for weight in weights] or [0.0]) or 1.0
    pairs = zip(estimator.feature_maps_, weights, strict=True)
    rows = [(repr(each), weight, abs(weight) / most) for each, weight in pairs]
    return _table(("feature map", "weight"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table whose last column is a number with a bar; those beyond some are folded up."""
    *names, last = head
    top = "".join(f"<th>{name}</th>" for name in names)
    top += f'<th class="n">{last}</th><th class="b"></th>'
    shown, others = rows[:_MOST_SHOWN], rows[_MOST_SHOWN:]
    parts = [f"<table><thead><tr>{top}</tr></thead>{_body(shown)}</table>"]
    if others:
        parts.append(f"<details><summary>{len(others)} more</summary>")
        parts.append(f"<table>{_body(others)}</table></details>")
    return "".join(parts)


def _number(value: float) -> str:
    return f"{value:.2g}" if value == 0 or abs(value) >= 0.001 else "≈ 0"


def _body(rows: Sequence[Sequence[Any]]) -> str:
    lines = []
    for *texts, value, part in rows:
        cells = "".join(f"<td>{escape(str(text))}</td>" for text in texts)
        bar = f'<td class="b"><div style="width:{100 * part:.1f}%"></div></td>'
        lines.append(f'<tr>{cells}<td class="n">{_number(value)}</td>{bar}</tr>')
    return f"<tbody>{''.join(lines)}</tbody>"
