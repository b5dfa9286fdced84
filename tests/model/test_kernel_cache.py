"""Compiled kernels: kept for these very sources, and done without where nothing can be kept."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest

from polyadic.model import kernel_cache

ROOT = Path(__file__).resolve().parents[2]

FIT = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import polyadic
    from polyadic.features import DampedFourierFeatures
    from polyadic.model import jit
    X = np.random.RandomState(0).uniform(size=(60, 2))
    y = np.sin(5 * X[:, 0]) * X[:, 1]
    settings = {"n_basis": 4, "rank": 2, "max_iter": 2, "n_jobs": 1, "random_state": 0}
    compiled, reference = (
        polyadic.KernelMachineRegressor(DampedFourierFeatures(2.0, 0.7), engine=engine, **settings)
        .fit(X, y).predict(X) for engine in ("compiled", "reference")
    )
from polyadic.engines.compiled import assembly, kernels
from polyadic.model import compiled_solve
stats = [k.stats for k in (kernels.products, assembly.core_sums, compiled_solve.solve_real_part)]
print(json.dumps({
    "file": polyadic.__file__,
    "difference": float(np.abs(compiled - reference).max()),
    "predictions": compiled.tolist(),
    "found": [sum(s.cache_hits.values()) for s in stats],
    "made": [sum(s.cache_misses.values()) for s in stats],
    "paths": [s.cache_path for s in stats],
    "warnings": [str(w.message) for w in caught if "ernels" in str(w.message)],
}))
"""


def fit(python=(sys.executable,), **environment):
    """Fit with either engine in a new process; return what is to be known of it."""
    ours = ("NUMBA_CACHE_DIR", "PYTHONPATH", "XDG_CACHE_HOME")
    inherited = {k: v for k, v in os.environ.items() if k not in ours}
    environment = {**inherited, **environment}
    done = subprocess.run(
        [*python, "-c", FIT], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def environment(tmp_path):
    """Return the interpreter of an empty environment that sees this one's packages."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    [packages] = folder.glob("lib/*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def wheel(folder, version, change=("", "")):
    """Build the wheel of a copy of the package with a version of its own and one change."""
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    version_file, gram = (
        folder / "src" / "polyadic" / name for name in ("_version.py", "engines/compiled/gram.py")
    )
    version_file.write_text(f'__version__ = "{version}"\n')
    gram.write_text(gram.read_text().replace(*change))
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "-q", "-w", folder, folder], check=True)
    [built] = folder.glob("*.whl")
    return built


def install(python, built):
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "-q", "--upgrade", built], check=True)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="environments are laid out as on POSIX")
@pytest.mark.skipif(not importlib.util.find_spec("hatchling"), reason="needs hatchling for wheels")
def test_an_upgrade_computes_with_its_own_kernels(tmp_path, environment):
    product = "return s[0] + x * y0"
    assert product in (ROOT / "src/polyadic/engines/compiled/gram.py").read_text()
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    home = {"HOME": str(tmp_path / "home")}

    install(environment, wheel(tmp_path / "first", "0.1.0"))
    first = fit([environment], **home)
    assert "site-packages" in first["file"]
    assert first["difference"] < 1e-9
    assert (first["found"], first["made"], first["warnings"]) == ([0] * 3, [1] * 3, [])

    wrong = (product, product.replace("x *", "1.5 * x *"))
    install(environment, wheel(tmp_path / "second", "0.1.1", wrong))
    second = fit([environment], **home)
    assert second["difference"] > 1e-3
    assert second["found"] == [0] * 3

    # The same by an editor, with warm caches, and back to the first version's kernels.
    gram = Path(second["file"]).parent / "engines" / "compiled" / "gram.py"
    gram.write_text(gram.read_text().replace(*wrong[::-1]))
    gram.parents[2].joinpath("_version.py").write_text('__version__ = "0.1.0"\n')
    edited = fit([environment], **home)
    assert edited["predictions"] == first["predictions"]  # to the last digit
    assert (edited["found"], edited["made"]) == ([1] * 3, [0] * 3)

    # Users may name another place; what they say of other packages' kernels changes nothing.
    place = tmp_path / "named"
    shutil.copytree(tmp_path / "home" / ".cache" / "polyadic", place)
    named = {"NUMBA_CACHE_DIR": str(place), "NUMBA_CACHE_LOCATOR_CLASSES": "InTreeCacheLocator"}
    moved = fit([environment], **home, **named)
    assert (moved["found"], moved["made"]) == ([1] * 3, [0] * 3)
    assert all(path.startswith(str(place)) for path in moved["paths"])


def without_privileges():
    """Return a prefix that takes from root the right to write where nobody may write."""
    if os.geteuid():
        return ()
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    if not shutil.which("setpriv") or subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("root writes everywhere, and setpriv cannot take that away")
    return prefix


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs the modes of POSIX")
def test_a_read_only_installation_without_a_home_says_so_once_and_works(tmp_path):
    package = tmp_path / "polyadic"
    shutil.copytree(
        ROOT / "src" / "polyadic", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in (path for path in (*package.rglob("*"), package) if path.is_dir()):
        folder.chmod(0o555)
    try:
        result = fit(
            (*without_privileges(), sys.executable),
            PYTHONPATH=str(tmp_path),
            HOME="/proc/nonexistent",
            PYTHONDONTWRITEBYTECODE="1",
        )
    finally:
        for folder in (path for path in (package, *package.rglob("*")) if path.is_dir()):
            folder.chmod(0o755)
    assert result["file"].startswith(str(package))
    assert result["difference"] < 1e-9
    assert result["paths"] == [None] * 3
    [warning] = result["warnings"]
    assert "/proc/nonexistent/.cache/polyadic" in warning
    assert "Set NUMBA_CACHE_DIR" in warning


def test_a_full_disk_is_as_good_as_none(tmp_path):
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        assert not kernel_cache._is_writable(tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert kernel_cache._is_writable(tmp_path / "empty")


def test_every_file_with_kernels_is_part_of_the_digest():
    package = ROOT / "src" / "polyadic"
    compiles = r"polyadic\.model\.jit|numba\.n?jit|from numba import|numba\.extending"
    folders = {
        path.parent.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(compiles, path.read_text())
    }
    assert "engines/compiled" in folders
    assert folders <= set(kernel_cache.SOURCES)


def test_only_kernels_that_were_not_used_for_months_are_removed(tmp_path):
    root = tmp_path / "polyadic-kernels"
    names = ["0.0.9-0123456789abcdef", "0.0.8-0123456789abcdef", "my notes", "0.0.9"]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "kernel.nbi").touch()
    long_ago = time.time() - 100 * 86_400
    for name in names[1:]:
        os.utime(root / name, (long_ago, long_ago))
    made = kernel_cache.kernel_folder(str(tmp_path))
    assert sorted(path.name for path in root.iterdir()) == sorted(
        [made.name, names[0], "my notes", "0.0.9"]
    )
    os.utime(made, (long_ago, long_ago))
    assert kernel_cache.kernel_folder(str(tmp_path)) == made
    assert made.stat().st_mtime > long_ago + 86_400  # a folder that is used says so


def test_the_place_of_other_kernels_is_not_touched():
    import numba

    import polyadic.engines.compiled.engine  # noqa: F401  decorates all kernels

    assert os.environ.get("NUMBA_CACHE_DIR", "") == numba.config.CACHE_DIR
