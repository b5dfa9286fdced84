"""Small tables, fitted through the command, for tests of the report."""

from __future__ import annotations

import json

import numpy as np
from click.testing import CliRunner

from polyadic.cli import main
from polyadic.estimators.saving import load_with_notes, save

QUICK = ["--rank", "4", "--n-basis", "4"]


def write_table(path, columns):
    """Write a CSV file of named columns."""
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def run(*words):
    """Run the command; return what it printed to standard output."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    warnings = [line for line in result.stderr.splitlines() if "Warning" in line]
    # The tables of these tests are small on purpose, and their fits measure next to nothing.
    expected = ("too few to tell", "far outside the range of the fit")
    told = [line for line in warnings if not any(part in line for part in expected)]
    assert not told, result.stderr
    return result.stdout


def refused(*words):
    """Run the command, which must end in one sentence; return it."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 2, (result.output, result.exception)
    (sentence,) = result.stderr.strip().splitlines()
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


def categories(n_rows, seed=0):
    """Return a table whose target hangs on a category, a number, and hardly on rare levels."""
    rng = np.random.RandomState(seed)
    smoker = np.where(rng.rand(n_rows) < 0.3, "yes", "no")
    roof = np.full(n_rows, "shingle", dtype=object)
    roof[:2], roof[2] = "clay", "metal"
    age = rng.randint(18, 65, n_rows)
    target = 100.0 * age + 9000.0 * (smoker == "yes") + 200_000.0 * (roof != "shingle")
    return {"age": age, "smoker": smoker, "roof": roof, "target": target}
