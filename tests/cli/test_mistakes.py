"""A user's mistakes: one sentence, exit code 2, no traceback, nothing half-written."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from polyadic.cli import main

GOOD = "a,b,target\n" + "\n".join(f"{i / 20},{(i * 7 % 20) / 20},{i / 10}" for i in range(20))
FIT = ["fit", "t.csv", "--rank", "1", "--n-basis", "2", "--max-iter", "1", "--holdout", "0"]

TABLES = {
    "empty file": ("", "is empty"),
    "header only": ("a,b,target\n", "no rows"),
    "only blank lines": ("\n\n\n", "t.csv"),
    "wrong target": (GOOD.replace("target", "goal"), "Which column .* is the target"),
    "text among numbers": (GOOD.replace("\n0.05,", "\nabc,"), r"text in 'a' \(row 2 is 'abc'\)"),
    "text column": (GOOD.replace("\n", ",x\n").replace("target,x", "target,kind") + ",y", "'kind'"),
    "text in the target": (GOOD + "\n1,1,high", r"the target 'target' \(row 21 is 'high'\)"),
    "dollars in the target": (GOOD + "\n1,1,$12.30", r"\(row 21 is '\$12.30'\).*must be numbers"),
    "per cent": (GOOD + "\n12 %,1,2", r"text in 'a' \(row 21 is '12 %'\)"),
    "gaps with a sign": (GOOD + "\n?,1,2", r"'a' \(row 21 is '\?'\).*pass --na '\?'"),
    "semicolons": (GOOD.replace(",", ";"), "Pass --delimiter ';'"),
    "tabs": (GOOD.replace(",", "\t"), "delimited by a tab"),
    "decimal commas": (
        GOOD.replace(",", ";").replace(".", ",").replace("a;b;target", "a,b,target"),
        "t.csv",
    ),
    "thousands": (
        re.sub(r"\n0\.", '\n"12,137",0.', GOOD).replace("a,b", "a,b,c") + '\n"1,128,137",1,2,3',
        r"thousands separators in 'a' \(row 1 is '12,137'\)\. Remove the separators",
    ),
    "duplicate names": (GOOD.replace("a,b,target", "a,a,target"), "several columns named 'a'"),
    "no header": (GOOD.split("\n", 1)[1], "no header"),
    "missing value": (
        GOOD + "\n,1,2",
        r"missing values in 'a' \(1 row, first row 21\).*--missing mean",
    ),
    "missing target": (GOOD + "\n1,1,", "missing values in the target 'target'"),
    "ragged": (GOOD + "\n1,2,3,4,5", "t.csv cannot be read"),
    "dates": (GOOD.replace("0.05,", "2020-01-01,").replace("\n0.", "\n2020-01-0"), "'a'"),
    "empty column": (GOOD.replace("\n", ",\n").replace("target,", "target,e") + ",", "empty.*'e'"),
    "infinite": (GOOD + "\ninf,1,2", r"infinite values in 'a' \(row 21\)"),
    "huge": (GOOD + "\n1e308,1,2\n-1e308,1,2", "range beyond double precision"),
    "not text": ("\x00\x01\x02,\x03\n\x04,\x05\n", "not text"),
    "only the target": ("target\n1\n2\n3\n", "no input columns"),
    "JSON": ('{"a": 1}', "JSON"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


@pytest.mark.parametrize("kind", TABLES)
def test_malformed_tables(folder, kind):
    content, expected = TABLES[kind]
    (folder / "t.csv").write_bytes(content.encode())
    pattern = re.compile(expected)
    sentence = refused(*FIT)
    assert pattern.search(sentence), sentence


def test_decimal_commas(folder):
    (folder / "t.csv").write_text(GOOD.replace(",", ";").replace(".", ","))
    words = [*FIT, "--delimiter", ";"]
    assert "Pass --decimal ','" in refused(*words)
    accepted(*words, "--decimal", ",")
    words = ["evaluate", "model.polyadic", "t.csv", "--delimiter", ";", "--decimal", ","]
    accepted(*words)
    assert "must be one character" in refused(*words, "--delimiter", ";;")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings(folder, encoding):
    (folder / "t.csv").write_bytes(GOOD.replace("a,", "größe,", 1).encode(encoding))
    assert "UTF-8" in refused(*FIT)


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
        (["--ignore", "z"], "no column 'z' to ignore or keep"),
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
    "text in a number column": ("a,b\n1,2\nx,3\n", r"'a' .* is a category and was a number"),
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


def test_an_unknown_category(folder):
    rows = "\n".join(f"{'xy'[i % 2]},{i}" for i in range(20))
    (folder / "t.csv").write_text("kind,target\n" + rows)
    accepted(*FIT, "--encode")
    (folder / "new.csv").write_text("kind\nz\n")
    assert "category 'z'" in refused("predict", "model.polyadic", "new.csv")


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
    assert "of type list<element: int64>: 'a'" in refused("fit", "t.parquet")


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
    rows = [f"{i},{i % 3},t{i % 2},2020-01-0{i % 9 + 1},{i}" for i in range(30)]
    rows[4] = "4,,t0,2020-01-01,inf"
    rows[7] = "x,1,t0,2020-01-01,3"
    (folder / "t.csv").write_text("a,b,c,d,target\n" + "\n".join(rows))
    sentence = refused(*FIT)
    for part in (
        "text in 'a' (row 8 is 'x'), 'c' (row 1 is 't0')",
        "missing values in 'b' (1 row, first row 5)",
        "dates in 'd'",
        "infinite values in the target 'target' (row 5)",
        "--na 'x'",
        "--encode",
        "--missing mean",
    ):
        assert part in sentence, sentence
    accepted(*FIT, "--na", "x", "--encode", "--missing", "drop")


def test_many_names_are_cut(folder):
    names = [f"c{i}" for i in range(30)]
    rows = "\n".join(",".join(["x"] * 30 + [str(i)]) for i in range(20))
    (folder / "t.csv").write_text(",".join([*names, "target"]) + "\n" + rows)
    sentence = refused(*FIT)
    assert "'c9' (row 1 is 'x') and 20 more" in sentence
    assert "'c10'" not in sentence
    assert "'c9' and 21 more" in refused(*FIT, "--target", "nope")


def test_more_categories_than_can_be_encoded(folder):
    rows = "\n".join(f"n{i % 60},{i}" for i in range(120))
    (folder / "t.csv").write_text("name,target\n" + rows)
    assert "different texts in 'name' (60 of them, for example 'n0')" in refused(*FIT, "--encode")


def test_a_decimal_mark_is_not_advised_twice(folder):
    """Thousands in one column and decimal points in another."""
    rows = "\n".join(f'"{i + 1},137",{i / 7:.3f},{i}' for i in range(20))
    (folder / "t.csv").write_text("people,x,target\n" + rows)
    for words in ([], ["--decimal", ","]):
        sentence = refused(*FIT, *words)
        assert "Pass --decimal" not in sentence
    assert "decimal points in 'x'" in sentence


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "t.xls", "t.csv.xz", "t"])
def test_other_formats_are_refused(folder, name):
    (folder / name).write_bytes(b"PK\x03\x04")
    assert f"got {name}" in refused("fit", name)


def test_a_table_without_text_gives_no_traceback_on_a_stray_late(folder):
    """Types are told from the head of a file; what comes late is told with its row."""
    rows = "1.5,2\n" * 300_000
    (folder / "t.csv").write_text(f"a,target\n{rows}oops,3\n")
    assert "row 300001 has an invalid value 'oops'" in refused(*FIT)


def test_every_option_is_explained():
    for command in main.commands.values():
        for option in command.params:
            if option.param_type_name == "option":
                assert option.help, f"{command.name} {option.name}"


def test_an_option_with_a_choice_of_words_lists_them():
    text = " ".join(CliRunner().invoke(main, ["fit", "--help"]).output.split())
    assert "What computes a chunk of rows. One of auto, compiled, torch, reference." in text
