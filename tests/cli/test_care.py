"""Nothing of the user's is lost, and what an experienced colleague would say is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, time, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import polyadic
from polyadic import FeatureLearningRegressor
from polyadic.estimators._html import describe
from tests.cli.command import run

SMALL = ["--effort", "0.05", "--n-estimators", "1"]
GOLDEN = Path(__file__).parents[1] / "golden"
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


@pytest.mark.parametrize(("share", "told"), [(1.0, "a linear trend"), (0.0, "a constant")])
def test_members_that_add_nothing_are_not_said_to_predict(folder, share, told):
    model = polyadic.load(GOLDEN / "automatic-trend.polyadic")
    of_the_mean, trend = model.members_
    model.members_ = [replace(of_the_mean, share=0.0), replace(trend, share=share)]
    polyadic.save(model, "still.polyadic")
    shown = run("show", "still.polyadic").stdout
    assert f"  {told}, to which 1 member of rank 4 added nothing" in shown
    run("report", "still.polyadic", "--out", "r.html")
    page = Path("r.html").read_text("utf-8")
    assert ("a linear trend" if share else "none, a constant") in page
    assert "rank 4" not in describe(model)
    assert ("a linear trend" in describe(model)) == bool(share)


def test_a_report_says_when_what_was_learned_added_nothing(folder):
    X = np.random.RandomState(0).uniform(size=(60, 2))
    model = FeatureLearningRegressor(effort=0.05, n_estimators=1, random_state=0).fit(X, X[:, 0])
    model.members_ = [replace(member, share=0.0) for member in model.members_]
    polyadic.save(model, "still.polyadic")
    rows = np.column_stack([X, X[:, 0]])
    np.savetxt("rows.csv", rows, delimiter=",", header="x0,x1,target", comments="")
    run("report", "still.polyadic", "rows.csv", "--out", "r.html")
    said = "it added nothing, so that one constant predicts alone"
    assert said in Path("r.html").read_text("utf-8")


def test_a_fit_that_finds_nothing_is_a_model_like_others(folder):
    rng = np.random.RandomState(0)
    rows = rng.standard_normal((80, 3))
    np.savetxt("noise.csv", rows, delimiter=",", header="x0,x1,target", comments="")
    run("fit", "noise.csv", "--effort", "0.05", "--loss", "absolute_error")
    model = polyadic.load("model.polyadic")
    assert not any(member.share for member in model.members_)
    assert "a constant" in run("show", "model.polyadic").stdout
    assert "RMSE" in run("evaluate", "model.polyadic", "noise.csv").stdout
    run("predict", "model.polyadic", "noise.csv", "--out", "p.csv")
    assert len(np.unique(np.loadtxt("p.csv", skiprows=1))) == 1


@pytest.mark.slow
@pytest.mark.process
def test_a_code_page_without_greek_letters():
    environment = dict(os.environ, PYTHONUTF8="0", PYTHONIOENCODING="cp1252")
    named = GOLDEN / "real-quantized.polyadic"
    command = [sys.executable, "-m", "polyadic.cli", "show", str(named)]
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
        line = {"column": index, "kind": "left out", "note": "an index that pandas wrote"}
        assert {"values": "", "gaps": "", **line} in facts["columns"]
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


def test_names_of_rows_are_left_out_and_that_is_said(folder):
    names = [f"n{i}" for i in range(40)]
    write("t.csv", {"name": names, **table(40)})
    result = fit("t.csv")
    assert "'name' (row 1 is 'n0'): no two values are alike" in result.stderr
    assert re.search(r"name +left out +no two values are alike", result.stdout)
    model = polyadic.load("model.polyadic")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert fit("t.csv", "--force", "--ignore", "name").stderr.count("name") == 0
    for later in ("t.csv", "without.csv"):  # a later table may have it or not
        write("without.csv", table(40))
        assert len(run("predict", "model.polyadic", later).stdout.split()) == 41


def test_an_empty_column_is_left_out_and_that_is_said(folder):
    write("t.csv", {"e": [""] * 40, **table(40)})
    assert re.search(r"e +left out +empty", fit("t.csv").stdout)


def test_a_column_of_one_value_takes_part_by_its_gaps_alone(folder):
    gaps = np.random.RandomState(1).rand(80) < 0.4
    columns = {"text": "one", "number": "3"}
    with_gaps = {f"{name}_gaps": np.where(gaps, "", one) for name, one in columns.items()}
    whole = {name: [one] * 80 for name, one in columns.items()}
    write("t.csv", {**table(80), **whole, **with_gaps, "target": 2.0 * gaps})
    result = run("fit", "t.csv", *SMALL, "--task", "regression", "--holdout", "0")
    for name, what in (("text", "level"), ("number", "value")):
        assert re.search(rf"  {name} .* one {what}: takes no part\n", result.stdout)
        assert re.search(rf"  {name}_gaps .* one {what}: only its gaps count\n", result.stdout)
    used = {each["name"]: each["kind"] != "unused" for each in _inputs("model.polyadic")}
    assert not used["text"]
    assert not used["number"]
    assert used["text_gaps"] or used["number_gaps"]


def _inputs(path):
    return json.loads(run("show", path, "--json").stdout)["inputs"]


def test_whole_numbers_that_doubles_do_not_tell_apart_are_noted(folder):
    ids, note = 2**60 + 300 * (np.arange(200) // 2), "beyond 2⁵³, where neighbours are one number"
    write("t.csv", {"id": ids, **table(200)})
    assert re.search(rf"  id +number .*  {note}", fit("t.csv").stdout)
    write("t.csv", {"id": ids - 2**60, "mass": table(200)["b"] * 1e25, **table(200)})
    assert "2⁵³" not in fit("t.csv", "--force").stdout
    pa.parquet.write_table(pa.table({"id": ids, **table(200)}), "t.parquet")
    assert "2⁵³" not in fit("t.parquet", "--force").stdout


def test_a_target_of_one_value_is_told(folder):
    write("t.csv", {**table(40), "target": [7] * 40})
    said = fit("t.csv").stderr
    assert "Note: the target 'target' is 7 in all rows, so there is nothing to learn." in said
    write("t.csv", table(40))
    assert "nothing to learn" not in fit("t.csv", "--force").stderr


def test_a_line_break_in_a_level_breaks_no_line(folder):
    levels = ['"up\nper"', "lower\u2028", "\x1b[31mred"] * 20
    write("t.csv", {"kind": levels, **table(60)})
    out = run("fit", "t.csv", *SMALL, "--holdout", "0").stdout
    (line,) = [line for line in out.splitlines() if line.startswith("  kind  ")]
    for shown in (r"up\nper", r"lower\u2028", r"\x1b[31mred"):
        assert shown in line


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
    said = fit("t.csv", code=2).stderr
    assert "'people' has commas of thousands or of decimals (row 1 is '1,137')" in said
    assert "'x' has decimal commas (row 1 is '0,15')" in said
    assert "Remove commas that separate thousands, and keep those that are decimals." in said


def test_three_decimals_after_a_zero_are_no_thousands(folder):
    rows = "\n".join(f"0,{i * 7 % 60 + 100};{i}" for i in range(60))
    (folder / "t.csv").write_text("x;target\n" + rows)
    facts = json.loads(fit("t.csv", "--holdout", "0", "--json").stdout)
    assert facts["columns"][0]["values"] == "0.1 to 0.159"


def test_points_of_thousands_are_no_decimal_points(folder):
    rows = "\n".join(f"{i + 100}.137;0,{i % 9 + 1};{i}" for i in range(60))
    (folder / "t.csv").write_text("people;x;target\n" + rows)
    said = fit("t.csv", "--delimiter", ";", "--decimal", ",", code=2).stderr
    assert "'people' has thousands separators (row 1 is '100.137')" in said
    assert "decimal points" not in said


@pytest.fixture
def grades(folder):
    """A model of a category whose levels look like numbers and flags."""
    grade = ["1", "2", "true", "A"] * 20
    write("t.csv", {"grade": grade, "x": table(80)["a"], "target": np.arange(80) % 4})
    return run("fit", "t.csv", *SMALL)


def test_a_later_table_is_read_with_the_types_of_the_fit(folder, grades):
    """A level that looks like a number, or like a flag, on its own is still a level."""
    write("all.csv", {"grade": ["1", "2", "true", "A"], "x": [0.5] * 4})
    expected = run("predict", "model.polyadic", "all.csv").stdout.split()[1:]
    for value, prediction in (("2", expected[1]), ("true", expected[2])):
        write("new.csv", {"grade": [value], "x": [0.5]})
        result = run("predict", "model.polyadic", "new.csv")
        assert (result.stdout.split()[1], result.stderr) == (prediction, "")


def test_unseen_levels_and_gaps_are_counted_and_predicted(folder, grades):
    write("new.csv", {"grade": ["B", "2", "", "C"], "x": [0.1, "", 0.2, 0.3]})
    result = run("predict", "model.polyadic", "new.csv")
    assert np.isfinite(np.array(result.stdout.split()[1:], float)).all()
    assert result.stderr.count("Warning") == 1
    assert "levels that the fit did not see (2 in 'grade')" in result.stderr
    assert "gaps where it had none (1 in 'grade', 1 in 'x')" in result.stderr


def test_text_in_a_number_of_a_later_table(folder, grades):
    write("new.csv", {"grade": ["1", "2"], "x": [0.1, "oops"]})
    result = run("predict", "model.polyadic", "new.csv")
    assert "Column 'x': row 2 is 'oops', read as a gap." in result.stderr
    write("new.csv", {"grade": ["1", "2"], "x": ["so", "oops"]})
    said = run("predict", "model.polyadic", "new.csv", code=2).stderr
    assert (
        "Column 'x' of new.csv must be numbers, as in the fit, but is text (row 1 is 'so')" in said
    )


def test_gaps_are_learned_from_and_rows_without_a_target_left_out(folder):
    columns = {"kind": ["x", "", "y"] * 20, **table(60)}
    columns["a"] = ["" if i % 10 == 0 else value for i, value in enumerate(columns["a"])]
    columns["target"] = ["" if i in (3, 40) else v for i, v in enumerate(columns["target"])]
    write("t.csv", columns)
    result = run("fit", "t.csv", *SMALL, "--holdout", "0")
    assert "fitted on 58 of 60 rows of t.csv, 2 without a target left out" in result.stdout
    assert re.search(r"kind +category +2 levels: [xy], [xy] +19 \(33 %\)", result.stdout)
    assert re.search(r"a +number +\S+ to \S+ +5 \(9 %\)", result.stdout)
    said = run("evaluate", "model.polyadic", "t.csv").stderr
    assert "2 rows without a target left out" in said
    assert "gaps" not in said


def test_signs_and_words_between_numbers_are_gaps_and_that_is_said(folder):
    columns = table(60)
    columns["a"] = ["?" if i == 7 else value for i, value in enumerate(columns["a"])]
    columns["b"] = ["unknown" if i == 9 else value for i, value in enumerate(columns["b"])]
    write("t.csv", columns)
    result = run("fit", "t.csv", *SMALL, "--holdout", "0")
    for name, text in (("a", "?"), ("b", "unknown")):
        assert f"Column {name!r}: {text!r} read as a gap." in result.stderr
    assert re.search(r"a +number .* 1 \(2 %\)  '\?' read as a gap", result.stdout)
    write("new.csv", {"a": ["?"], "b": ["unknown"]})
    later = run("predict", "model.polyadic", "new.csv")
    assert (len(later.stdout.split()), later.stderr) == (2, "")


def test_numbers_can_be_codes_of_categories(folder):
    code = np.arange(80) % 4
    x = table(80)["a"]
    write("t.csv", {"code": code, "x": x, "target": np.array([3, -1, 2, 0])[code] + x})
    result = run("fit", "t.csv", *SMALL, "--category", "code")
    assert re.search(r"code +category +4 levels: ", result.stdout)
    assert run("predict", "model.polyadic", "t.csv").stderr == ""
    assert "no column 'z'" in run("fit", "t.csv", "--category", "z", "--force", code=2).stderr


def test_a_later_table_has_the_decimal_mark_of_the_fit(folder):
    """Alone, "1,137" may be thousands; where decimals were commas it is none."""
    rows = "\n".join(f"{i // 10},{i % 10}37;0,{i % 9 + 1}5;{i}" for i in range(10, 60))
    (folder / "t.csv").write_text("x;z;target\n0,5;0,1;5\n" + rows)
    run("fit", "t.csv", *SMALL, "--holdout", "0")
    for text in ("x;z\n3,537;0,25\n", "x;z\n3,537;1,250\n", "x;z\n3.537;1.25\n"):
        (folder / "new.csv").write_text(text)
        said = run("predict", "model.polyadic", "new.csv").stdout
        assert float(said.split()[1]) == pytest.approx(35, abs=5)


def test_a_later_table_spells_dates_as_the_fit_does(folder):
    """1/2/2021 is a day in February where a 31/12/2020 was before."""
    days = [date(2020, 1, 1) + timedelta(days=i) for i in range(0, 300, 3)]
    write("t.csv", {"day": [d.strftime("%d/%m/%Y") for d in days], "target": range(100)})
    run("fit", "t.csv", *SMALL, "--holdout", "0")
    said = []
    for text in ("01/02/2020", "2020-02-01"):
        write("new.csv", {"day": [text]})
        said.append(run("predict", "model.polyadic", "new.csv").stdout)
    assert said[0] == said[1]
    write("new.csv", {"day": ["soon"]})
    said = run("predict", "model.polyadic", "new.csv", code=2).stderr
    assert "'day' of new.csv must be dates, as in the fit, but is text (row 1 is 'soon')" in said


@pytest.mark.slow
def test_files_of_several_kinds(folder):
    """Text, dates and times of the day, in Excel, in Parquet, and in CSV as people have it."""
    openpyxl = pytest.importorskip("openpyxl")
    rng = np.random.RandomState(0)
    day = np.datetime64("2020-01-01") + rng.randint(0, 300, 80)
    names = ["town", "day", "clock", "target"]
    town = rng.choice(["Köln", "Zürich"], 80)
    clock = [f"{hour:02d}:30:00" for hour in rng.randint(0, 24, 80)]
    y = (town == "Köln") + np.arange(80) / 80
    rows = list(zip(town.tolist(), day.tolist(), clock, y.tolist(), strict=True))
    book = openpyxl.Workbook()
    for row in (names, *rows):
        book.active.append(row)
    book.save("t.xlsx")
    lines = [";".join(map(str, row)).replace(".", ",") for row in (names, *rows)]
    (folder / "t.csv").write_bytes("\n".join(lines).encode("latin-1"))
    days = [";".join([a, b.strftime("%d.%m.%Y"), c, str(d)]) for a, b, c, d in rows]
    (folder / "u.csv").write_bytes("\n".join([";".join(names), *days]).encode("utf-16"))
    times = pa.array([time.fromisoformat(text) for text in clock])
    table = pa.table({"town": town, "day": day, "clock": times, "target": y})
    pa.parquet.write_table(table, "t.parquet")
    said = []
    for name in ("t.xlsx", "t.csv", "u.csv", "t.parquet"):
        run("fit", name, *SMALL, "--force")
        said.append(run("predict", "model.polyadic", "t.parquet").stdout)
    assert said == [said[0]] * 4
    shown = run("show", "model.polyadic").stdout
    assert re.search(r"town +category +2 levels: ", shown)
    assert re.search(r"day +date +2020-0\d-\d\d to 2020-10-\d\d +weekday", shown)
    assert re.search(r"clock +number +0.5 to 23.5", shown)
