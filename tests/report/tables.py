"""Small tables, and models fitted to them, for tests of the report."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from polyadic.estimators._tables import schema_of
from polyadic.estimators.saving import load_with_notes, save
from polyadic.report import Subject
from tests.cli.command import run as invoke

QUICK = ["--rank", "4", "--n-basis", "4"]


def write_table(path, columns):
    """Write a CSV file of named columns."""
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def run(*words):
    """Run the command; return what it printed to standard output."""
    result = invoke(*words)
    warnings = [line for line in result.stderr.splitlines() if "Warning" in line]
    # The tables of these tests are small on purpose, and their fits measure next to nothing.
    expected = ("too few to tell", "far outside the range of the fit")
    told = [line for line in warnings if not any(part in line for part in expected)]
    assert not told, result.stderr
    return result.stdout


def refused(*words):
    """Run the command, which must end in one sentence; return it."""
    (sentence,) = invoke(*words, code=2).stderr.strip().splitlines()
    return sentence


def report(*words):
    """Return all numbers of a report, as strict JSON has them."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(run("report", *words, "--json", "--force"), parse_constant=refuse)


def change_notes(path, out, **changes):
    """Write a model file again with other notes; None removes one."""
    model, notes = load_with_notes(path)
    notes = {**notes, **changes}
    save(model, out, notes={name: note for name, note in notes.items() if note is not None})
    return str(out)


def subject_of(model, X, **changes):
    """Return what a report is about; `X` is a table as the model was fitted to, or None."""
    schema = schema_of(model)
    rows = None if X is None else schema.encode(X).X
    known = {"model": model, "X": rows, "target": "y", "names": schema.inputs.names}
    return Subject(**{**known, **changes})


def houses(n_rows, seed=0):
    """Return a table whose target hangs on a category, a number, and hardly on rare levels."""
    rng = np.random.RandomState(seed)
    smoker = np.where(rng.rand(n_rows) < 0.3, "yes", "no")
    roof = np.full(n_rows, "shingle", dtype=object)
    roof[:2], roof[2] = "clay", "metal"
    age = rng.randint(18, 65, n_rows)
    target = 100.0 * age + 9000.0 * (smoker == "yes") + 200_000.0 * (roof != "shingle")
    return pd.DataFrame({"age": age, "smoker": smoker, "roof": roof}), target


def visits(n_rows=300, seed=0):
    """Return a table with gaps, dates and an order, whose names are not easy to print."""
    rng = np.random.RandomState(seed)
    when = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.randint(0, 900, n_rows), unit="D")
    size = 10 * rng.rand(n_rows)
    cost = np.array(["rate_$a_{$", "cost $ per $m", "<b>bold</b>", None], dtype=object)
    cost = cost[rng.randint(0, 4, n_rows)]
    order = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    grade = pd.Categorical.from_codes(rng.randint(0, 3, n_rows), dtype=order)
    y = size + 3 * (when.day_of_week >= 5) + 2 * grade.codes + 3 * (cost == "rate_$a_{$")
    size[rng.rand(n_rows) < 0.2] = np.nan
    frame = pd.DataFrame({"size": size, "cost $ of $x": cost, "when": when, "grade": grade})
    frame.loc[::11, "when"] = pd.NaT
    return frame, np.asarray(y + when.day_of_year / 100, dtype=float)
