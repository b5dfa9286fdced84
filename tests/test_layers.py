"""The walls of the house: who may import whom, and that every module is on the map.

All imports count: late ones inside functions, and those for type checkers, as well.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "polyadic"
# Each layer may import those before it, and itself.
LAYERS = (
    "features", "model", "rows", "engines", "samples", "compute", "sources", "members", "search",
    "storage", "estimators", "inspection", "report", "datasets", "experiments", "cli",
)  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path):
    """Return the dotted name of a module inside the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Yield the modules of the package that a file imports, wherever it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            whole = node.module == "polyadic"
            names = [f"polyadic.{a.name}" for a in node.names] if whole else [node.module]
        else:
            continue
        yield from (n.removeprefix("polyadic.") for n in names if n.startswith("polyadic."))


def edges():
    """Return every import between two layers, with the file that has it."""
    found = []
    for path in MODULES:
        mine = name_of(path).split(".")[0]
        for other in imports(path):
            theirs = other.split(".")[0]
            if mine and theirs in LAYERS and mine != theirs:
                found.append((mine, theirs, path.relative_to(SOURCE)))
    return found


def test_every_module_belongs_to_a_layer():
    assert {name_of(path).split(".")[0] for path in MODULES} - {""} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_before_it(layer):
    below = LAYERS[LAYERS.index(layer) :]
    upward = [f"{path} imports {theirs}" for mine, theirs, path in edges() if mine == layer
              and theirs in below]  # fmt: skip
    assert not upward


def test_what_everybody_imports_is_light():
    """What a command imports of the package itself is its public names alone."""
    public = {"__version__", "FeatureLearningRegressor", "KernelMachineRegressor",
              "KernelMachineRegressorCV", "open_rows", "save", "load"}  # fmt: skip
    for path in MODULES:
        for other in imports(path):
            head = other.split(".")[0]
            assert head in LAYERS or head in public, f"{path} imports {other}"


def test_no_import_is_for_type_checkers_alone():
    hiding = [path for path in MODULES if "TYPE_CHECKING" in path.read_text()]
    assert not hiding


def test_the_design_page_names_every_module():
    page = (ROOT / "docs" / "design.md").read_text()
    missing = [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if path.name not in ("__init__.py", "__main__.py") and f"`{path.name}`" not in page
        and f"{path.stem}.py" not in page
    ]  # fmt: skip
    assert not missing


def test_the_picture_of_the_layers_is_drawn_from_the_imports():
    page = (ROOT / "docs" / "design.md").read_text()
    drawn = {
        (row.split("|")[1].strip(" `"), each)
        for row in page.splitlines()
        if row.startswith("| `")
        for each in row.split("|")[2].replace(",", " ").split()
    }
    found = {(mine, theirs) for mine, theirs, _ in edges()}
    assert found <= {(a, b.strip("`")) for a, b in drawn}
