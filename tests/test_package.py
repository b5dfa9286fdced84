"""What `import polyadic` brings along, and what it shows."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

HEAVY = {
    *("click", "dask", "jinja2", "llvmlite", "matplotlib", "numba", "pandas", "polars"),
    *("pyarrow", "torch"),
}


def modules_after(statement):
    """Return the modules that a statement loads in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, json; {statement}; print(json.dumps([*sys.modules]))"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src")},
    )
    return set(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.process
def test_an_import_brings_nothing_heavy_along():
    # scikit-learn itself takes pandas along where it is installed.
    expected = HEAVY & modules_after("import sklearn.base")
    assert HEAVY & modules_after("from polyadic import FeatureLearningRegressor") == expected
    assert not expected & {"numba", "matplotlib", "torch", "dask"}


@pytest.mark.process
@pytest.mark.parametrize("statement", ["import polyadic", "import polyadic.cli"])
def test_what_shows_help_does_not_import_what_fits(statement):
    found = modules_after(statement) & (HEAVY | {"sklearn", "scipy"})
    assert found <= {"click"}


def test_type_checkers_see_what_is_public():
    import polyadic

    (path,) = [Path(each) / "__init__.pyi" for each in polyadic.__path__]
    tree = ast.parse(path.read_text())
    imported = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(imported) == set(dir(polyadic))
    for name, module in imported.items():
        assert getattr(import_module(module), name) is getattr(polyadic, name)


def test_the_namespace_shows_what_is_public_and_nothing_else():
    import polyadic

    subpackages = {"datasets", "experiments", "export", "features", "inspection", "report"}
    assert set(dir(polyadic)) == set(polyadic.__all__) | subpackages
    assert all(getattr(polyadic, name) is not None for name in dir(polyadic))
    with pytest.raises(AttributeError, match="'polyadic' has no attribute 'nothing'"):
        polyadic.nothing  # noqa: B018
