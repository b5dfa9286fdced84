"""The guide is true: what its pages tell to type works, and what they point to exists."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import polyadic

ROOT = Path(__file__).resolve().parents[2]
START = (ROOT / "docs" / "guide" / "start.md").read_text(encoding="utf-8")


def blocks(page, language):
    """Return the blocks of code of a page that are written in a language."""
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with nothing but the table of the first page."""
    shutil.copy(ROOT / "examples" / "weather.csv", tmp_path)
    return tmp_path


def run(command, folder):
    """Run a command in a folder, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.process
def test_the_first_page_in_python(folder):
    pytest.importorskip("onnx", reason="the page exports a model")
    (code,) = blocks(START, "python")
    assert len([line for line in code.splitlines() if line and "import" not in line]) <= 10
    printed = run([sys.executable, "-c", code], folder)
    assert 0.9 < float(printed.split("rows: ")[1].split()[0]) < 1
    # The most relevant input stands first.
    assert "time" in printed.splitlines()[2]
    assert {path.name for path in folder.iterdir()} == {
        *("weather.csv", "weather.onnx", "weather.polyadic"),
    }


@pytest.mark.slow
@pytest.mark.process
def test_the_first_page_on_the_command_line(folder):
    pytest.importorskip("onnx", reason="the page exports a model")
    (code,) = blocks(START, "console")
    commands = [line.removeprefix("$ ").split() for line in code.splitlines()]
    assert len(commands) <= 5
    for name, *arguments in commands:
        assert name == "polyadic"
        run([sys.executable, "-m", "polyadic.cli", *arguments], folder)
    assert "<html" in (folder / "weather.html").read_text(encoding="utf-8")
    rows = (folder / "weather.csv").read_text().splitlines()
    assert len((folder / "predictions.csv").read_text().splitlines()) == len(rows)
    assert (folder / "weather.onnx").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.process
def test_the_example_of_the_features_page(tmp_path):
    page = (ROOT / "docs" / "guide" / "features.md").read_text(encoding="utf-8")
    (code,) = blocks(page, "python")
    printed = run([sys.executable, "-c", code], tmp_path)
    assert "'bmi'" in printed
    assert "'s5'" in printed


MODULES = ["polyadic", *(f"polyadic.{name}" for name in set(dir(polyadic)) - {*polyadic.__all__})]
MODULES = sorted(MODULES)
NAMES = [(module, name) for module in MODULES for name in import_module(module).__all__]
NAMES = [(module, name) for module, name in NAMES if callable(getattr(import_module(module), name))]


def members(thing):
    """Return the methods and properties of a class of ours that users may call."""
    for name, value in inspect.getmembers(thing):
        function = value.fget if isinstance(value, property) else value
        ours = getattr(function, "__module__", None) or ""
        if not name.startswith("_") and ours.startswith("polyadic") and inspect.isroutine(function):
            yield name, value


@pytest.mark.parametrize(("module", "name"), NAMES, ids=".".join)
def test_every_public_name_has_an_example(module, name):
    thing = getattr(import_module(module), name)
    assert ">>> " in inspect.getdoc(thing)
    if inspect.isclass(thing):
        missing = [each for each, value in members(thing) if not inspect.getdoc(value)]
        assert not missing, "without a docstring"


ESTIMATORS = [name for module, name in NAMES if module == "polyadic" and name[0].isupper()]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_method_of_an_estimator_has_an_example(name):
    found = members(getattr(polyadic, name))
    missing = [each for each, value in found if ">>> " not in inspect.getdoc(value)]
    # What a fit leaves behind is described with the class.
    assert [each for each in missing if not each.endswith("_")] == []


@pytest.mark.parametrize(("module", "name"), NAMES, ids=".".join)
def test_every_public_name_is_in_the_reference(module, name):
    reference = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    if vars(polyadic).get(name) is getattr(import_module(module), name):
        module = "polyadic"  # what stands at the top is listed there
    _, _, section = reference.partition(f".. currentmodule:: {module}\n")
    section, _, _ = section.partition(".. currentmodule::")
    assert re.search(rf"^   {name}$", section, flags=re.MULTILINE)
