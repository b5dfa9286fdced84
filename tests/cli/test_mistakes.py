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
    "text among numbers": (
        GOOD.replace("\n0.05,", "\nabc,"),
        r"text in 'a' \(row 2 of 'a' is 'abc'\)",
    ),
    "text column": (GOOD.replace("\n", ",x\n").replace("target,x", "target,kind") + ",y", "'kind'"),
    "text in the target": (GOOD + "\n1,1,high", "target 'target' .* must be numbers"),
    "semicolons": (GOOD.replace(",", ";"), "Pass --delimiter ';'"),
    "tabs": (GOOD.replace(",", "\t"), "delimited by a tab"),
    "decimal commas": (
        GOOD.replace(",", ";").replace(".", ",").replace("a;b;target", "a,b,target"),
        "t.csv",
    ),
    "duplicate names": (GOOD.replace("a,b,target", "a,a,target"), "several columns named 'a'"),
    "no header": (GOOD.split("\n", 1)[1], "no header"),
    "missing value": (GOOD + "\n,1,2", "missing values in 'a'.*--missing mean"),
    "missing target": (GOOD + "\n1,1,", "missing values in 'the target'"),
    "ragged": (GOOD + "\n1,2,3,4,5", "cannot be read as a table"),
    "dates": (GOOD.replace("0.05,", "2020-01-01,").replace("\n0.", "\n2020-01-0"), "'a'"),
    "empty column": (GOOD.replace("\n", ",\n").replace("target,", "target,e") + ",", "'e'.*empty"),
    "infinite": (GOOD + "\ninf,1,2", "infinite in row 21"),
    "huge": (GOOD + "\n1e308,1,2\n-1e308,1,2", "range beyond double precision"),
    "not text": ("\x00\x01\x02,\x03\n\x04,\x05\n", "t.csv"),
    "only the target": ("target\n1\n2\n3\n", "no input columns"),
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
        (["--n-basis", "12"], "cannot be quantized"),
        (["--n-basis", "2,2,2"], "one entry for each of the 2 inputs"),
        (["--mixing", "l3"], "'mixing' parameter"),
        (["--holdout", "1.5"], "--holdout"),
        (["--out", "no/such/folder/m"], "folder that does not exist"),
        (["--out", "."], "is a folder"),
        (["--ignore", "z"], "no column 'z' to ignore"),
        (["--config", "none.toml"], "none.toml"),
        (["--device", "moon"], "device"),
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
    "missing value": ("a,b\n1,2\n,3\n", "missing values in 'a'"),
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
        words += ["--out", "out.html"]
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
    assert "Column 'a'" in refused("fit", "t.parquet")


@pytest.mark.parametrize("module", ["pyarrow", "matplotlib", "jinja2"])
def test_a_missing_extra_says_how_to_get_it(folder, model, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    if module == "pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
        sentence = refused(*FIT)
    else:
        sentence = refused("report", model)
    assert "pip install 'polyadic[app]'" in sentence


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
