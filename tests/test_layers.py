"""The walls of the house: who may import whom, and that every module is on the map.

All imports count: late ones inside functions, and those for type checkers, as well.
"""

from __future__ import annotations

import re

import pytest

from tests.layers import LAYERS, MODULES, PICTURE, ROOT, SOURCE, edges, imports, name_of, picture


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
        if path.name not in ("__init__.py", "__main__.py")
        and not re.search(rf"(?<![\w/]){path.name}", page)
    ]  # fmt: skip
    assert not missing


def test_the_picture_of_the_imports_is_true():
    assert PICTURE.read_text() == picture(), "draw it anew: python -m tests.layers"
