"""Nothing of the user's is lost, and what an experienced colleague would say is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import polyadic
from polyadic import FeatureLearningRegressor
from polyadic.cli import main

QUICK = ["--rank", "2", "--n-basis", "2", "--max-iter", "2"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("t.csv", table(200))
    return tmp_path


def table(count, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.rand(count, 2)
    return {"a": X[:, 0], "b": X[:, 1], "target": X[:, 0] + 0.1 * rng.randn(count)}


def write(name, columns):
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    with open(name, "w") as file:
        file.write("\n".join(lines))


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def fit(*words, **options):
    return run("fit", *words, *QUICK, **options)


def content(name):
    with open(name, "rb") as file:
        return file.read()


def test_an_input_is_never_replaced(folder):
    fit("t.csv")
    (folder / "link.csv").symlink_to("t.csv")
    (folder / "parts").mkdir()
    (folder / "t.toml").write_text("rank = 2")
    write("parts/t.csv", table(50))
    for words in (
        ["fit", "t.csv", "--out", "t.csv"],
        ["fit", "t.csv", "--out", "link.csv"],
        ["fit", "parts", "--out", "parts/model.polyadic"],
        ["fit", "t.csv", "--config", "t.toml", "--out", "t.toml"],
        ["fit", "t.csv", "--checkpoint", "state", "--out", "state"],
        ["predict", "model.polyadic", "t.csv", "--out", "./t.csv"],
        ["report", "model.polyadic", "--out", "model.polyadic"],
        ["report", "model.polyadic", "t.csv", "--out", "t.csv"],
    ):
        before = content("t.csv"), content("model.polyadic")
        assert "is what the command reads" in run(*words, "--force", code=2).stderr
        assert (content("t.csv"), content("model.polyadic")) == before


def test_a_file_is_replaced_only_with_force(folder):
    fit("t.csv")
    for name in ("p.csv", "r.html"):
        (folder / name).write_text("precious")
    for words in (
        ["fit", "t.csv", *QUICK],
        ["predict", "model.polyadic", "t.csv", "--out", "p.csv"],
        ["report", "model.polyadic", "--out", "r.html"],
        ["demo", "--out", "r.html"],
    ):
        before = [content(name) for name in ("model.polyadic", "p.csv", "r.html")]
        assert "exists. Name another file, or pass --force" in run(*words, code=2).stderr
        assert [content(name) for name in ("model.polyadic", "p.csv", "r.html")] == before
    run("predict", "model.polyadic", "t.csv", "--out", "p.csv", "--force")
    assert (folder / "p.csv").read_text().startswith("prediction\n")


@pytest.mark.parametrize("name", ["p.xlsx", "p.json", "p"])
def test_predictions_in_other_formats_are_refused(folder, name):
    fit("t.csv")
    sentence = run("predict", "model.polyadic", "t.csv", "--out", name, code=2).stderr
    assert "must end in .csv or .parquet" in sentence
    assert not (folder / name).exists()


def test_a_place_that_cannot_be_written_is_found_before_the_work(monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system", "/somewhere/.tmp")

    def work(*_):
        pytest.fail("the fit began")

    monkeypatch.setattr("polyadic.cli.outputs.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr(FeatureLearningRegressor, "fit", work)
    sentence = fit("t.csv", code=2).stderr
    assert "--out model.polyadic cannot be written (Read-only file system)" in sentence
    assert ".tmp" not in sentence


@pytest.fixture
def interrupt(monkeypatch):
    """Have the user press Ctrl-C in epoch 3, as often as a fit gets there."""
    from polyadic.estimators._progress import Progress

    member = Progress.member

    def stopping(self, *arguments):
        from contextlib import contextmanager

        @contextmanager
        def watched():
            with member(self, *arguments) as on_epoch:

                def tell(so_far):
                    answer = on_epoch(so_far)
                    if so_far.last.number == 3:
                        raise KeyboardInterrupt
                    return answer

                yield tell

        return watched()

    monkeypatch.setattr(Progress, "member", stopping)


def test_an_interrupted_fit_is_written(folder, interrupt):
    words = ["t.csv", "--rank", "2", "--n-basis", "2", "--tol", "0", "--max-iter", "50"]
    result = run("fit", *words, code=130)
    said = "Interrupted: model.polyadic is the model so far. Pass --checkpoint FILE"
    assert said in result.stderr.replace("\n", " ")
    model = polyadic.load("model.polyadic")
    assert model.n_iter_ <= 3
    assert len(run("predict", "model.polyadic", "t.csv").stdout.split()) == 201


def test_an_interrupted_fit_with_a_checkpoint_says_how_to_go_on(folder, interrupt):
    words = ["t.csv", "--checkpoint", "c", "--rank", "2", "--n-basis", "2", "--tol", "0"]
    result = run("fit", *words, "--max-iter", "50", code=130)
    assert "The same command with --force goes on from c." in result.stderr
    assert (folder / "c").exists()


def test_an_interruption_before_the_first_epoch_writes_nothing(folder, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(FeatureLearningRegressor, "fit", stop)
    assert run("fit", "t.csv", code=1).exception is not None
    assert not (folder / "model.polyadic").exists()


@pytest.mark.slow
@pytest.mark.process
def test_a_code_page_without_greek_letters(folder):
    environment = dict(os.environ, PYTHONUTF8="0", PYTHONIOENCODING="cp1252")
    command = [sys.executable, "-m", "polyadic.cli", "fit", "t.csv", *QUICK]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"Feature weights ?" in done.stdout


def test_the_index_of_pandas_is_left_out_and_that_is_said(folder):
    """Noise that was sorted by the target: the index knows the answer."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.RandomState(0).randn(160, 2), columns=["x", "target"])
    frame = frame.sort_values("target", ignore_index=True).sample(frac=1.0, random_state=0)
    frame.to_parquet("t.parquet")
    frame.to_csv("u.csv")
    for name, index in (("t.parquet", "__index_level_0__"), ("u.csv", "")):
        result = fit(name, "--json", "--force")
        facts = json.loads(result.stdout)
        assert [entry["name"] for entry in facts["inputs"]] == ["x"]
        assert facts["held_out"]["r2"] < 0.3
        assert f"{index!r}: an index that pandas wrote, left out" in result.stderr
        assert f"{index!r}: an index that pandas wrote, left out" in facts["preparation"]
        run("evaluate", "model.polyadic", name)
        kept = fit(name, "--keep", index, "--json", "--force")
        assert "pandas" not in kept.stderr
        assert len(json.loads(kept.stdout)["inputs"]) == 2


IDS = {
    "row numbers": np.arange(200),
    "shuffled numbers": np.random.RandomState(1).permutation(200) + 5000,
    "rising times": np.cumsum(np.random.RandomState(1).rand(200)),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_are_told(folder, kind):
    write("t.csv", {"id": IDS[kind], **table(200)})
    assert "'id' may be a row number or an id" in fit("t.csv").stderr
    assert "'id'" not in fit("t.csv", "--force", "--keep", "id").stderr
    assert "'id'" not in fit("t.csv", "--force", "--ignore", "id").stderr


def test_names_of_rows_are_told(folder):
    names = [f"n{i}" for i in range(40)]
    write("t.csv", {"name": names, **table(40)})
    assert "'name' may be a row number or an id" in fit("t.csv", "--encode").stderr


def test_measurements_are_no_ids(folder):
    counts = np.random.RandomState(0).randint(0, 50, 200)
    write("t.csv", {"n": counts, **table(200)})
    assert fit("t.csv").stderr == ""


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (1, "too few rows to tell"),
        (2, "too few rows to tell"),
        (12, "measured on 3 held-out rows, which is too few"),
    ],
)
def test_few_rows_measure_nothing(folder, count, message):
    write("t.csv", table(count))
    assert message in fit("t.csv").stderr


def test_evaluating_on_rows_of_the_fit_is_told(folder):
    write("other.csv", table(200, seed=1))
    for words in (["--holdout", "0"], []):
        fit("t.csv", "--force", *words)
        assert "rows of t.csv that the model was fitted to" in run(
            "evaluate", "model.polyadic", "t.csv"
        ).stderr.replace("\n", " ")
        assert run("evaluate", "model.polyadic", "other.csv").stderr == ""


def test_rows_outside_the_range_are_counted(folder):
    fit("t.csv")
    new = table(100, seed=2)
    new["a"] = new["a"] / 2 + 0.2
    new["b"] = new["b"] / 2 + 0.2
    write("inside.csv", new)
    assert run("predict", "model.polyadic", "inside.csv").stderr == ""
    new["b"][[3, 7]] = [4.0, -20.0]
    write("outside.csv", new)
    for command in ("predict", "evaluate"):
        said = run(command, "model.polyadic", "outside.csv").stderr
        assert "2 rows are far outside the range of the fit" in said
        assert "farthest is 'b' with -20, where the model saw 0." in said


def test_thousands_that_are_read_as_decimals_are_told(folder):
    rows = "\n".join(f"{i % 7 + 1},137;0,{i % 9 + 1};{i}" for i in range(60))
    (folder / "t.csv").write_text("people;x;target\n" + rows)
    said = fit("t.csv", "--delimiter", ";", "--decimal", ",").stderr
    assert "every comma in 'people' has three digits after it, such as in '1,137'" in said


def test_thousands_beside_small_numbers_are_told(folder):
    rows = "\n".join(f"{137 if i % 2 else '4,137'};0,{i % 9 + 1};{i}" for i in range(60))
    (folder / "t.csv").write_text("people;x;target\n" + rows)
    said = fit("t.csv", "--delimiter", ";", "--decimal", ",").stderr
    assert "every comma in 'people' has three digits after it, such as in '4,137'" in said


def test_commas_that_may_be_either_are_not_called_thousands(folder):
    """Another column has decimal commas beyond doubt, so these may be decimals as well."""
    rows = "\n".join(f"{i % 7 + 1},137;0,{i % 9 + 1}5;{i}" for i in range(60))
    (folder / "t.csv").write_text("people;x;target\n" + rows)
    said = fit("t.csv", "--delimiter", ";", code=2).stderr
    assert "commas of thousands or of decimals in 'people' (row 1 is '1,137')" in said
    assert "decimal commas in 'x' (row 1 is '0,15')" in said


def test_three_decimals_after_a_zero_are_no_thousands(folder):
    rows = "\n".join(f"0,{i + 100};{i}" for i in range(60))
    (folder / "t.csv").write_text("x;target\n" + rows)
    said = fit("t.csv", "--delimiter", ";", code=2).stderr
    assert "decimal commas in 'x'" in said
    assert "thousands" not in said


def test_points_of_thousands_are_no_decimal_points(folder):
    rows = "\n".join(f"{i + 100}.137;0,{i % 9 + 1};{i}" for i in range(60))
    (folder / "t.csv").write_text("people;x;target\n" + rows)
    said = fit("t.csv", "--delimiter", ";", "--decimal", ",", code=2).stderr
    assert "thousands separators in 'people' (row 1 is '100.137')" in said
    assert "decimal points" not in said


def test_a_later_table_is_read_with_the_types_of_the_fit(folder):
    """A category that looks like a number, or like a flag, on its own is still a category."""
    values = ["1", "2", "true", "A"] * 20
    write("t.csv", {"grade": values, "target": np.arange(80) % 7})
    fit("t.csv", "--encode")
    for value in ("2", "true"):
        (folder / "new.csv").write_text(f"grade\n{value}\n")
        assert len(run("predict", "model.polyadic", "new.csv").stdout.split()) == 2


def test_gaps_of_text_and_of_numbers_in_one_command(folder):
    columns = {"kind": ["x", "", "y"] * 20, **table(60)}
    columns["a"] = ["" if i % 10 == 0 else value for i, value in enumerate(columns["a"])]
    write("t.csv", columns)
    said = fit("t.csv", "--encode", code=2).stderr
    assert "'kind' (20 rows, first row 2), 'a' (6 rows, first row 1)" in said
    said = fit("t.csv", "--encode", "--missing", "mean", code=2).stderr
    assert "missing values in 'kind' (20 rows" in said
    assert "Text has no mean" in said
    assert "'a' (" not in said
    facts = json.loads(fit("t.csv", "--encode", "--missing", "drop", "--json").stdout)
    assert facts["data"]["rows_dropped"] == 24


def test_parquet_with_text_and_numbers(folder):
    columns = {"kind": pa.array(["x", "y"] * 50).dictionary_encode(), "target": np.arange(100.0)}
    pa.parquet.write_table(pa.table(columns), "t.parquet")
    assert "kind=x" in fit("t.parquet", "--encode").stdout
