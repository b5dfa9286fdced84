"""The chain of commands on real and made tables, as a user would run it."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import polyadic
from polyadic.cli import main
from polyadic.estimators.saving import save
from polyadic.features import DampedFourierFeatures, PurePowerFeatures
from polyadic.sources.files.row_source import SPLIT_SEED
from tests.cli.command import say
from tests.small import data_of, turned_rows

QUICK = ["--rank", "3", "--n-basis", "4", "--max-iter", "4"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = rng.rand(60, 3)
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.01 * rng.randn(60)
    return pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "out": y})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yacht", "wine"])
def test_the_chain_on_real_files(data_folder, tmp_path, name):
    """Fit, show, evaluate, predict and report; wine with less than the default effort."""
    file = data_folder / f"{name}.csv"
    less = [] if name == "yacht" else QUICK  # the defaults take long on the larger sets
    assert "Wrote model.polyadic" in say("fit", file, *less)
    assert f"rows of {name}.csv" in say("show", "model.polyadic")
    facts = json.loads(say("show", "model.polyadic", "--json"))
    assert facts["held_out"]["r2"] > 0.2
    metrics = json.loads(say("evaluate", "model.polyadic", file, "--json"))
    say("predict", "model.polyadic", file, "--out", "p.csv")
    predictions = np.loadtxt(tmp_path / "p.csv", skiprows=1)
    y = np.loadtxt(file, delimiter=",", skiprows=1)[:, -1]
    assert metrics["rows"] == len(y)
    assert metrics["mse"] == pytest.approx(np.mean((predictions - y) ** 2), rel=1e-12)
    assert "Wrote report.html" in say("report", "model.polyadic")
    assert "Wrote report.html" in say("report", "model.polyadic", file, "--force")


def test_held_out_rows_are_not_fitted_on(table):
    """The recorded error is that of a model fitted without the held-out rows."""
    pyarrow.csv.write_csv(table, "t.csv")
    facts = json.loads(say("fit", "t.csv", "--target", "out", *QUICK, "--json"))
    assert (facts["data"]["rows"], facts["data"]["rows_fitted"]) == (60, 48)
    assert facts["held_out"]["rows"] == 12
    X = np.column_stack([table[name] for name in "abc"])
    y = table["out"].to_numpy()
    _, held = data_of(X, y[:, None]).split(0.2, seed=SPLIT_SEED)
    out = held.mask(X, y[:, None])
    model = polyadic.FeatureLearningRegressor(rank=3, n_basis=4, max_iter=4, random_state=0)
    model.fit(X[~out], y[~out])
    expected = np.mean((model.predict(X[out]) - y[out]) ** 2)
    assert facts["held_out"]["mse"] == pytest.approx(expected, rel=1e-6)
    words = ["--target", "out", "--holdout", 0, *QUICK, "--json", "--force"]
    facts = json.loads(say("fit", "t.csv", *words))
    assert facts["data"]["rows_fitted"] == 60
    assert facts["held_out"] is None
    assert "nothing is known of its errors" in _page()


def _page():
    say("report", "model.polyadic", "--force")
    with open("report.html") as file:
        return file.read()


def test_formats_give_the_same_model(table):
    pyarrow.csv.write_csv(table, "t.csv")
    pyarrow.parquet.write_table(table, "t.parquet")
    matrix = np.column_stack([table[name] for name in table.column_names])
    np.save("t.npy", matrix)
    names = np.array(["a", "b", "c"])
    np.savez("t.npz", X=matrix[:, :-1], y=matrix[:, -1], columns=names, target="out")
    text = "\n".join("\t".join(line) for line in [table.column_names, *matrix.astype(str)])
    with open("t.tsv", "w") as file:
        file.write(text)
    predictions = []
    for name in ("t.csv", "t.parquet", "t.npz", "t.npy", "t.tsv"):
        target = ["--target", "out"] if name.endswith(("csv", "parquet", "tsv")) else []
        say("fit", name, *target, *QUICK, "--force")
        predictions.append(say("predict", "model.polyadic", name))
    assert predictions == [predictions[0]] * 5
    assert predictions[0].startswith("prediction\n")


def test_predictions_keep_the_order_of_the_rows(table, tmp_path):
    pyarrow.csv.write_csv(table, "t.csv")
    say("fit", "t.csv", "--target", "out", *QUICK)
    rows = table.select(["a", "b", "c"]).take(pa.array(np.arange(60)[::-1]))
    pyarrow.parquet.write_table(rows, "new.parquet")
    say("predict", "model.polyadic", "new.parquet", "--out", "p.parquet")
    say("predict", "model.polyadic", "new.parquet", "--out", "p.csv")
    from_parquet = pyarrow.parquet.read_table("p.parquet")["prediction"].to_numpy()
    from_csv = np.loadtxt("p.csv", skiprows=1)
    X = np.column_stack([rows[name] for name in "abc"])
    model = polyadic.load(tmp_path / "model.polyadic")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    del model.feature_names_in_  # an array has no names to compare with
    np.testing.assert_array_equal(from_parquet, model.predict(X))
    np.testing.assert_array_equal(from_csv, from_parquet)


def test_columns_can_be_picked_by_name(table):
    pyarrow.csv.write_csv(table, "t.csv")
    say("fit", "t.csv", "--target", "out", *QUICK)
    mixed = table.select(["c", "out", "a", "b"]).append_column("more", table["a"])
    pyarrow.csv.write_csv(mixed, "mixed.csv")
    by_name = say("predict", "model.polyadic", "mixed.csv", "--by-name")
    assert by_name == say("predict", "model.polyadic", "t.csv")
    plain, mixed = (
        say("evaluate", "model.polyadic", *words)
        for words in (["t.csv"], ["mixed.csv", "--by-name"])
    )
    assert plain == mixed


def test_a_configuration_file(table, tmp_path):
    pyarrow.csv.write_csv(table, "t.csv")
    (tmp_path / "c.toml").write_text(
        'target = "out"\nrank = 2\nn-basis = [2, 4, 4]\nquantized = false\nmax_iter = 3\n'
        "[[feature_maps]]\nkind = 'dampedfourier'\nperiod = 2.0\ndecay = 0.5\n"
        "[[feature_maps]]\nkind = 'PurePowerFeatures'\n"
    )
    say("fit", "t.csv", "--config", "c.toml", "--max-iter", 2)
    model = polyadic.load("model.polyadic")
    assert (model.rank, model.n_basis, model.max_iter) == (2, [2, 4, 4], 2)
    assert model.quantized is False
    assert model.feature_maps == [DampedFourierFeatures(2.0, 0.5), PurePowerFeatures()]


def test_text_dates_and_flags_are_learned_from(tmp_path):
    rng = np.random.RandomState(0)
    colour = rng.choice(["red", "green", "blue"], 200, p=[0.5, 0.3, 0.2])
    day = np.datetime64("2020-01-01") + rng.randint(0, 300, 200)
    flag = rng.rand(200) < 0.5
    y = (colour == "red") * 2.0 + flag + (day - day.min()).astype(float) / 100
    table = pa.table({"colour": colour, "day": day, "flag": flag, "target": y})
    pyarrow.parquet.write_table(table, "t.parquet")
    out = say("fit", "t.parquet", "--effort", "0.1")
    for told in (
        r"colour  category  3 levels: red, green, blue",
        r"day     date      2020-01-\d\d to 2020-10-\d\d    weekday",
        r"flag    number    0 to 1",
    ):
        assert re.search(told, out), out
    model = polyadic.load("model.polyadic")
    assert model.feature_names_in_.tolist() == ["colour", "day", "flag"]
    assert json.loads(say("evaluate", "model.polyadic", "t.parquet", "--json"))["r2"] > 0.9
    new = pa.table({"colour": ["blue"], "day": [date(2020, 2, 1)], "flag": [True]})
    pyarrow.parquet.write_table(new, "new.parquet")
    predicted = float(say("predict", "model.polyadic", "new.parquet").split()[1])
    assert predicted == pytest.approx(model.predict(new.to_pandas())[0], rel=1e-12)
    assert predicted == pytest.approx(1.31, abs=0.3)


def _lines(table):
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    return [",".join(table.column_names), *(",".join(map(repr, row)) for row in rows)]


def test_columns_can_be_ignored(table, tmp_path):
    named = table.append_column("id", pa.array([f"n{row}" for row in range(60)]))
    pyarrow.csv.write_csv(named, "t.csv")
    say("fit", "t.csv", "--target", "out", "--ignore", "id", *QUICK)
    pyarrow.csv.write_csv(table, "without.csv")
    scores = [
        json.loads(say("evaluate", "model.polyadic", name, "--json"))
        for name in ("t.csv", "without.csv")
    ]
    assert scores[0]["r2"] == scores[1]["r2"]
    assert scores[0]["rows"] == 60


def test_integers_that_turn_into_decimals_late_are_numbers(tmp_path):
    rows = [f"{row},{row % 7}" for row in range(30000)]
    rows[-1] = "1.5,2.5"
    (tmp_path / "t.csv").write_text("\n".join(["a,target", *rows]))
    facts = json.loads(say("fit", "t.csv", "--rank", 1, "--n-basis", 2, "--max-iter", 1, "--json"))
    assert facts["data"]["rows"] == 30000


def test_a_model_saved_in_python_can_be_used(table, tmp_path):
    X = np.column_stack([table[name] for name in "abc"])
    y = table["out"].to_numpy()
    model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    polyadic.save(model, "m.polyadic")
    np.save("x.npy", X)
    predictions = np.array(say("predict", "m.polyadic", "x.npy").split()[1:], dtype=float)
    np.testing.assert_array_equal(predictions, model.predict(X))
    assert "KernelMachineRegressor" in say("show", "m.polyadic")


def test_a_model_of_a_table_saved_in_python_can_be_used():
    """Its columns are read as those of the frame it was fitted to."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    frame = pandas.DataFrame({"size": rng.rand(80), "grade": rng.choice(["1", "2", "A"], 80)})
    frame.loc[::9, "size"] = np.nan
    y = frame["size"].fillna(0.3) + (frame["grade"] == "A")
    model = polyadic.FeatureLearningRegressor(effort=0.05, n_estimators=1).fit(frame, y)
    polyadic.save(model, "m.polyadic")
    shown = say("show", "m.polyadic")
    assert re.search(r"size +number +9\n", shown)
    assert re.search(r"grade +category +3 levels: ", shown)
    new = frame[frame["grade"] != "A"]
    new.to_csv("new.csv", index=False)
    predictions = np.array(say("predict", "m.polyadic", "new.csv").split()[1:], dtype=float)
    np.testing.assert_array_equal(predictions, model.predict(new))


@pytest.mark.parametrize(
    "column", [{"kind": "number"}, {"kind": "category", "categories": ["x"]}, {"fill": 0.5}]
)
def test_files_that_the_command_wrote_before(table, column):
    """Those of numbers are read; those that encoded columns must be fitted again."""
    X, y = np.column_stack([table[name] for name in "abc"]), table["out"].to_numpy()
    model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    plain = {"kind": "number", "categories": [], "fill": None}
    columns = [{"name": name, **plain} for name in ("x0", "x1", "x2")]
    columns[1] |= column
    note = {"columns": columns, "target": "out", "ignored": ["id"], "messages": ["'x1': odd"]}
    save(model, "m.polyadic", notes={"preparation": note})
    result = CliRunner().invoke(main, ["show", "m.polyadic"])
    if column == {"kind": "number"}:
        assert "KernelMachineRegressor: out from 3 columns" in result.stdout
    else:
        assert result.exit_code == 2
        assert "fitted by an earlier version" in result.stderr
        assert "Fit the model again." in result.stderr


def test_show_has_what_was_learned_about_the_inputs(table):
    """The most relevant first: sin(3a) has more variance than b, and c is left out."""
    pyarrow.csv.write_csv(table, "t.csv")
    words = ["--n-basis", "5,4,1", "--effort", 0.3, "--dtype", "auto"]
    fitted = say("fit", "t.csv", "--target", "out", *words)
    shown = say("show", "model.polyadic")
    assert shown in fitted
    model = polyadic.load("model.polyadic")
    lines = shown[shown.index("Inputs by relevance") :].splitlines()[2:]
    learned = [re.split(r"\s{2,}", line.strip()) for line in lines[:2]]
    assert lines[2].strip() == "Length scales are in units of an input's range."
    assert lines[3].strip() == "Unused: c"
    words = {"matern12": "rough", "matern32": "smooth", "rbf": "very smooth"}
    order = sorted(range(2), key=lambda place: -model.inputs_[place].relevance)
    assert [name for name, *_ in learned] == ["ab"[place] for place in order]
    for place, (_, relevance, kernel, length, size) in zip(order, learned, strict=True):
        found = model.inputs_[place]
        assert relevance == f"{100 * found.relevance:.1f} %"
        assert (kernel, int(size)) == (words[found.kernel], [5, 4][place])
        assert float(length) == pytest.approx(found.length_scale, rel=0.06, abs=0.5)
    facts = json.loads(say("show", "model.polyadic", "--json"))
    assert [entry["name"] for entry in facts["inputs"]] == ["a", "b", "c"]
    assert [entry["relevance"] for entry in facts["inputs"]] == [s.relevance for s in model.inputs_]
    assert all(len(entry["deciles"]) == 11 for entry in facts["inputs"])
    assert facts["trials"] == len(model.selection_["stage"])
    assert f"{len(model.members_)} members of rank {facts['rank'][0]}" in shown


def test_show_tells_the_direction_that_predictions_change_along(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = turned_rows()
    columns = dict(zip(["leaves", "arrives", "speed", "out"], [*X.T, y], strict=True))
    pyarrow.csv.write_csv(pa.table(columns), "t.csv")
    shown = say("fit", "t.csv", "--target", "out", "--effort", 0.1)
    found = re.search(r"Predictions change most along (.*), inputs in units", shown)[1]
    assert re.fullmatch(
        r"leaves − (0\.9\d? )?arrives( [+−] 0\.1\d? speed)?"
        r"|arrives − (0\.9\d? )?leaves( [+−] 0\.1\d? speed)?",
        found,
    )


def test_files_of_the_first_version_are_shown():
    golden = Path(__file__).parents[1] / "golden"
    shown = say("show", golden / "automatic-trend.polyadic")
    assert "1 member of rank 4 and a linear trend, chosen in 22 trials" in shown
    assert shown.splitlines()[-4:] == ["Inputs", "  x0", "  x1", "  x2"]


@pytest.mark.slow
@pytest.mark.process
def test_the_demo_prints_its_table_and_writes_its_report(tmp_path):
    """As a real process, in an empty folder."""
    command = [sys.executable, "-m", "polyadic.cli", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    errors = [float(line[2]) for line in lines if line[:2] == ["feature", "learning"]]
    assert len(errors) == 2
    assert max(errors) < 0.8
    friedman = lines[lines.index(["Friedman", "#1"]) + 1]
    assert friedman[0] == "defaults"
    assert {word for word in friedman if re.fullmatch(r"x\d", word)} == {"x0", "x1", "x3"}
    cancer = lines[lines.index(["breast", "cancer"]) + 1]
    assert (cancer[0], float(cancer[1]) < 0.3) == ("defaults", True)
    assert str(tmp_path / "polyadic-demo.html") in done.stdout
    assert (tmp_path / "polyadic-demo.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_the_demo_goes_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    module = importlib.import_module("polyadic.cli.demo")
    monkeypatch.setattr(module, "_datasets", _small_data)
    monkeypatch.setattr(module, "_class_datasets", dict)
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "r.html")])
    assert result.exit_code == 0, result.output
    assert "pip install 'polyadic[app]'" in result.output
    assert list(tmp_path.iterdir()) == []


def _small_data():
    rng = np.random.RandomState(0)
    X = rng.rand(60, 2)
    return {"small": (X, X[:, 0])}


def test_the_documented_options_exist():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    known = {
        flag
        for command in main.commands.values()
        for option in command.params
        for flag in (*option.opts, *option.secondary_opts)
    }
    mentioned = set(re.findall(r"--[a-z][a-z-]*", text))
    assert len(mentioned) > 10
    assert mentioned - {"--help"} <= known
    rows = re.findall(r"^\| `(\w+)", text, re.MULTILINE)
    assert set(main.commands) <= set(rows)
