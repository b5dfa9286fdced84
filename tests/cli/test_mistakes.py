"""A user's mistakes: one sentence, exit code 2, no traceback, nothing half-written."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import polyadic
from polyadic.cli import main
from polyadic.cli.options import read_parameters

GOOD = "a,b,target\n" + "\n".join(f"{i / 20},{(i * 7 % 20) / 20},{i / 10}" for i in range(20))
FIT = ["fit", "t.csv", "--rank", "1", "--n-basis", "2", "--max-iter", "1", "--holdout", "0"]

TABLES = {
    "empty file": ("", "is empty"),
    "header only": ("a,b,target\n", "no rows"),
    "only blank lines": ("\n\n\n", "t.csv"),
    "wrong target": (GOOD.replace("target", "goal"), "Which column .* is the target"),
    "text column": (GOOD.replace("\n", ",x\n").replace("target,x", "target,kind") + ",y", "'kind'"),
    "text in the target": (
        GOOD + "\n1,1,high\n1,1,9 or more",
        r"'target' is text \(row 21 is 'high'\).*must be numbers",
    ),
    "dollars in the target": (
        re.sub(r"\n(.*),", r"\n\1,$", GOOD),
        r"\(row 1 is '\$0.0'\).*must be numbers",
    ),
    "decimal commas": (
        GOOD.replace(",", ";").replace(".", ",").replace("a;b;target", "a,b,target"),
        "t.csv",
    ),
    "thousands": (
        re.sub(r"\n0\.", '\n"12,137",0.', GOOD).replace("a,b", "a,b,c") + '\n"1,128,137",1,2,3',
        r"'a' has thousands separators \(row 1 is '12,137'\)\. Remove these marks",
    ),
    "duplicate names": (GOOD.replace("a,b,target", "a,a,target"), "several columns named 'a'"),
    "no header": (GOOD.split("\n", 1)[1], "no header"),
    "missing value": (
        GOOD + "\n,1,2",
        r"Row 21 of t.csv has no number in column 'a'.*without feature maps",
    ),
    "no target": (re.sub(r",[^,]*(\n|$)", r",\1", GOOD).replace("b,", "b,target", 1), "no values"),
    "ragged": (
        GOOD.replace("\n", "\n\n", 3) + "\n1,2,3,4,5",
        "t.csv cannot be read: row 21: expected 3 columns, got 5",
    ),
    "dates": (GOOD.replace("0.05,", "2020-01-01,").replace("\n0.", "\n2020-01-0"), "'a'"),
    "infinite": (GOOD + "\ninf,1,2", r"Row 21 of t.csv has an infinite value.* --na 'inf'"),
    "huge": (GOOD + "\n1e308,1,2\n-1e308,1,2", "range beyond double precision"),
    "not text": ("\x00\x01\x02,\x03\n\x04,\x05\n", "not text"),
    "only the target": ("target\n1\n2\n3\n", "no input columns"),
    "JSON": ('{"a": 1}', "JSON"),
}


def refused(*words):
    """Run a command that must be refused, and return its sentence."""
    before = {name: os.stat(name).st_mtime_ns for name in os.listdir()}
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert {name: os.stat(name).st_mtime_ns for name in os.listdir()} == before
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith("Error: ")
    assert result.stdout == ""
    return lines[-1]


def accepted(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("kind", TABLES)
def test_malformed_tables(folder, kind):
    content, expected = TABLES[kind]
    (folder / "t.csv").write_bytes(content.encode())
    pattern = re.compile(expected)
    sentence = refused(*FIT)
    assert pattern.search(sentence), sentence


def test_marks_are_told_from_the_file(folder):
    """Delimiters and decimal commas that leave no doubt; others have to be named."""
    predictions = []
    for delimiter, decimal in ((",", "."), (";", "."), ("\t", ","), ("|", ","), (";", ",")):
        text = GOOD.replace(",", delimiter).replace(".", decimal)
        (folder / "t.csv").write_text(text)
        accepted(*FIT, "--force")
        predictions.append(accepted("predict", "model.polyadic", "t.csv"))
    assert predictions == [predictions[0]] * 5
    words = ["predict", "model.polyadic", "t.csv", "--delimiter"]
    assert "lacks 'a', 'b'" in refused(*words, "|")
    assert "must be one character" in refused(*words, ";;")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(folder, encoding):
    (folder / "t.csv").write_bytes(GOOD.replace("a,", "größe,", 1).encode(encoding))
    accepted(*FIT)
    assert polyadic.load("model.polyadic").feature_names_in_.tolist() == ["größe", "b"]
    assert "must be one that Python knows" in refused(*FIT, "--force", "--encoding", "klingon")


def test_unknown_target_lists_the_columns(folder):
    (folder / "t.csv").write_text(GOOD)
    assert "'a', 'b', 'target'" in refused(*FIT, "--target", "c")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--rank", "0"], "'rank' parameter"),
        (["--rank", "many"], "'rank' parameter"),
        (["--n-basis", "12", "--max-iter", "1"], "cannot be quantized"),
        (["--n-basis", "0"], "'n_basis' parameter"),
        (["--dtype", "float16"], "'dtype' parameter"),
        (["--n-basis", "2,2,2"], "one entry for each of the 2 inputs"),
        (["--mixing", "l3"], "'mixing' parameter"),
        (["--holdout", "1.5"], "--holdout"),
        (["--out", "no/such/folder/m"], "folder that does not exist"),
        (["--out", "."], "is a folder"),
        (["--ignore", "z"], "no column 'z'. Pass --ignore with one of 'a', 'b', 'target'."),
        (["--keep", "z"], "no column 'z'. Pass --keep with one of 'a', 'b', 'target'."),
        (["--category", "z"], "no column 'z'. Pass --category with one of 'a', 'b', 'target'."),
        (["--target", "b", "--ignore", "b"], "--ignore leaves 'b' out, which is the target."),
        (["--ignore", "target"], "Name another column with --ignore, or with --target."),
        (["--config", "none.toml"], "none.toml"),
        (["--device", "moon"], "device"),
        (["--early-stopping", "maybe"], "true"),
    ],
)
def test_wrong_options(folder, words, expected):
    (folder / "t.csv").write_text(GOOD)
    assert expected in refused(*FIT[:2], *words)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("rank = ", "not TOML"),
        ("speed = 3", "unknown name 'speed'"),
        ("as_json = true", "unknown name 'as_json'"),
        ('ignore = "a"', 'ignore = ["a"]'),
        ("feature_maps = ['fourier']", "a table with kind"),
        ("[[feature_maps]]\nkind = 'fourier'\ndecay = 3", "feature map 'fourier'"),
        ("[[feature_maps]]\nkind = 'wavelet'", "wavelet"),
        ("[[feature_maps]]\nkind = 'fourier'\nperiod = -1", "period"),
    ],
)
def test_wrong_configurations(folder, content, expected):
    (folder / "t.csv").write_text(GOOD)
    (folder / "c.toml").write_text(content)
    assert expected in refused(*FIT, "--config", "c.toml")


@pytest.fixture
def model(folder):
    (folder / "t.csv").write_text(GOOD)
    accepted(*FIT)
    return "model.polyadic"


NEW_TABLES = {
    "column missing": ("a\n1\n", "lacks 'b'"),
    "column extra": ("a,b,c\n1,2,3\n", "does not know: 'c'"),
    "columns reordered": ("b,a\n1,2\n", "another order"),
    "text in a number column": (
        "a,b\ny,2\nx,3\n",
        r"'a' .* numbers, .* text \(row 1 is 'y'\)\. Fix the file, or pass --na 'y' to read it",
    ),
    "braces in a number column": ("a,b\n{0},2\n", r"or pass --na '\{0\}' to read it as a gap"),
    "missing value": ("a,b\n1,2\n,3\n", "Row 2 of new.csv has no number in column 'a'"),
    "no rows": ("a,b\n", "no rows"),
    "empty": ("", "is empty"),
}


@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
@pytest.mark.parametrize("kind", NEW_TABLES)
def test_new_tables_unlike_the_first(folder, model, command, kind):
    content, expected = NEW_TABLES[kind]
    (folder / "new.csv").write_text(content)
    words = [command, model, "new.csv"]
    if command != "evaluate":
        words += ["--out", "out.csv"]
    sentence = refused(*words)
    if command == "predict":
        assert re.search(expected, sentence), sentence


def test_evaluate_needs_the_target(folder, model):
    (folder / "new.csv").write_text("a,b\n1,2\n")
    assert "no column 'target' to compare with" in refused("evaluate", model, "new.csv")


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_a_target_of_text_is_told_in_the_words_of_the_command(folder, model, command):
    """A fit can take texts for classes; what is fitted cannot."""
    (folder / "new.csv").write_text("a,b,target\n1,2,high\n3,4,low\n")
    sentence = refused(command, model, "new.csv")
    assert "must be numbers, as in the fit. Fix the file, or pass --target" in sentence
    assert "--task" not in sentence
    assert "--task classification" in refused(
        "fit", "new.csv", "--out", "m", "--task", "regression"
    )


@pytest.mark.parametrize("command", ["predict", "evaluate", "show", "report"])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x00" * 99])
def test_files_that_are_no_models(folder, command, content):
    (folder / "t.csv").write_text(GOOD)
    (folder / "m").write_bytes(content)
    words = [command, "m"] + ([] if command == "show" else ["t.csv"])
    assert "not a model file" in refused(*words)


def test_wrong_arrays(folder):
    np.save("t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "t.npy" in refused("fit", "t.npy")
    np.savez("t.npz", Z=np.zeros(3))
    assert "must hold a matrix `X`" in refused("fit", "t.npz")
    (folder / "t.parquet").write_bytes(b"PAR1 nothing")
    assert "t.parquet" in refused("fit", "t.parquet")
    pyarrow.parquet.write_table(pa.table({"a": [[1], [2]], "target": [1, 2]}), "t.parquet")
    assert "'a' is of type list<element: int64>" in refused("fit", "t.parquet")


@pytest.mark.parametrize("module", ["pyarrow", "matplotlib", "jinja2"])
def test_a_missing_extra_says_how_to_get_it(folder, model, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    if module == "pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
        sentence = refused(*FIT, "--force")
    else:
        sentence = refused("report", model)
    assert "pip install 'polyadic[app]'" in sentence


@pytest.mark.slow
@pytest.mark.process
def test_a_real_process_gives_exit_codes_fit_for_scripts(folder):
    def run(*words):
        command = [sys.executable, "-m", "polyadic.cli", *words]
        return subprocess.run(command, capture_output=True, text=True)

    (folder / "t.csv").write_text(GOOD.replace("target", "goal"))
    wrong = run(*FIT)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Traceback" not in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    assert run(*FIT, "--target", "goal").returncode == 0
    assert run("fly").returncode == 2
    assert run("--version").stdout.startswith("polyadic")


def test_everything_wrong_is_told_at_once(folder):
    rows = [f'"{i % 9 + 1},137",t{i % 2},"{i},{i % 7}",{"no" if i % 2 else i}' for i in range(30)]
    (folder / "t.csv").write_text("people,kind,x,target\n" + "\n".join(rows))
    sentence = refused(*FIT, "--na", "t9")
    for part in (
        "'people' has commas of thousands or of decimals (row 1 is '1,137')",
        "'x' has decimal commas (row 1 is '0,0')",
        "keep those that are decimals",
        "--decimal ','",
    ):
        assert part in sentence, sentence
    assert "kind" not in sentence


def test_many_names_are_cut(folder):
    names = [f"c{i}" for i in range(30)]
    rows = "\n".join(",".join(['"1,137"'] * 30 + [str(i)]) for i in range(20))
    (folder / "t.csv").write_text(",".join([*names, "target"]) + "\n" + rows)
    sentence = refused(*FIT)
    assert "'c9' has thousands separators (row 1 is '1,137'), and 20 more" in sentence
    assert "'c10'" not in sentence
    assert "'c9' and 21 more" in refused(*FIT, "--target", "nope")


def test_a_decimal_mark_is_not_advised_twice(folder):
    """Thousands in one column and decimal points in another."""
    rows = "\n".join(f'"{i + 1},137",{i / 7:.3f},{i}' for i in range(20))
    (folder / "t.csv").write_text("people,x,target\n" + rows)
    for words in ([], ["--decimal", ","]):
        sentence = refused(*FIT, *words)
        assert "Pass --decimal" not in sentence
    assert "'x' has decimal points" in sentence


@pytest.mark.parametrize("name", ["t.json", "t.xls", "t.gz", "t"])
def test_other_formats_are_refused(folder, name):
    (folder / name).write_bytes(b"PK\x03\x04")
    assert f"got {name}" in refused("fit", name)


@pytest.mark.parametrize("name", ["t.xlsx", "t.csv.xz", "t.zip", "t.csv"])
def test_files_that_are_not_whole_are_named(folder, name):
    (folder / name).write_bytes(b"PK\x03\x04")
    assert f"{name} cannot be read" in refused("fit", name)


def test_a_stray_late_is_told_with_its_row(folder, monkeypatch):
    """Types are told from the head of a file."""
    monkeypatch.setattr("polyadic.sources.files.sniff.HEAD", 2**20)
    rows = "1.5,2\n" * 300_000
    (folder / "t.csv").write_text(f"a,target\n{rows}oops,3\n")
    assert "row 300001 has an invalid value 'oops'. Fix the file, or pass --na 'oops'" in refused(
        *FIT
    )


def test_every_option_is_explained():
    for command in main.commands.values():
        for option in command.params:
            if option.param_type_name == "option":
                assert option.help, f"{command.name} {option.name}"


def test_an_option_with_a_choice_of_words_lists_them():
    text = " ".join(CliRunner().invoke(main, ["fit", "--help"]).output.split())
    assert "What computes a chunk of rows. One of auto, compiled, torch, reference." in text


@pytest.mark.parametrize(
    ("module", "estimator"),
    [
        ("feature_learning", polyadic.FeatureLearningRegressor),
        ("classifiers", polyadic.FeatureLearningClassifier),
    ],
)
def test_parameters_read_from_the_source_are_those_of_the_estimator(module, estimator):
    """The command reads the source, since importing the estimator takes long."""
    found = read_parameters(f"estimators/{module}.py", estimator.__name__)
    expected = inspect.signature(estimator).parameters
    others = {"feature_maps", "categorical_features", "warm_start", "verbose"}
    assert list(found) == [name for name in expected if name not in others]
    flags = {name for name in found if isinstance(expected[name].default, bool)}
    assert {name for name, parameter in found.items() if parameter.is_flag} == flags


def test_every_parameter_is_an_option():
    options = {option.name for option in main.commands["fit"].params}
    for estimator in (polyadic.FeatureLearningRegressor, polyadic.FeatureLearningClassifier):
        names = set(estimator().get_params()) - {"feature_maps", "categorical_features"}
        assert names - {"warm_start"} <= options
