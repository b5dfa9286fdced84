"""What a release says of itself in several places is one thing: versions, dependencies, Pythons."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import polyadic

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    """Return a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def lower_bounds(*extras):
    """Return the oldest version that is allowed of each requirement."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    requirements = [Requirement(line) for line in lines]
    return {
        each.name.lower(): Version(next(iter(each.specifier)).version)
        for each in requirements
        if each.name != "polyadic"
    }


def test_the_oldest_versions_are_those_that_are_allowed():
    lines = re.findall(r"^([\w-]+)==(\S+)$", read("constraints-oldest.txt"), flags=re.MULTILINE)
    pinned = {name.lower(): Version(version) for name, version in lines}
    allowed = lower_bounds("app", "dask", "data", "onnx", "test")
    # Dask is asked for with its parts, and one version serves them all.
    assert pinned.keys() == allowed.keys()
    for name, version in pinned.items():
        # A bound of 2.2 is met by 2.2.2, the first of them that goes with NumPy 2.
        assert version >= allowed[name], name
        assert version.release[: len(allowed[name].release)] == allowed[name].release, name


def test_the_conda_recipe_asks_for_what_the_package_does():
    _, _, rest = read("recipe/meta.yaml").partition("\n  run:\n")
    block, _, _ = rest.partition("\n  run_constrained:")
    found = re.findall(r"- ([\w-]+) >=(\S+)", block)
    wanted = {"python": Version(PROJECT["requires-python"].removeprefix(">=")), **lower_bounds()}
    assert {name: Version(version) for name, version in found} == wanted


def test_the_citation_and_the_changelog_are_of_this_version():
    assert f"\nversion: {polyadic.__version__}\n" in read("CITATION.cff")
    first = re.search(r"^## (\S+)", read("CHANGELOG.md"), flags=re.MULTILINE)
    assert first is not None
    assert first[1] == polyadic.__version__


def test_the_workflow_runs_ci_on_every_python_that_is_named():
    workflow = read(".github/workflows/ci.yml")
    assert "run: .ci/run" in workflow
    named = re.findall(r":: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"[\d.]+", matrix) == named


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\((?!http)([^)#]+)", read(name)):
        assert (ROOT / target).exists(), target
