"""Fixtures that every test may use."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Fits are slow beside what hypothesis expects of an example, and the machine may be busy.
settings.register_profile(
    "polyadic",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("polyadic")


# What a test needs is told by the fixtures that it asks for.
NEEDS = {"data_folder": "data", "browser": "browser"}


def pytest_collection_modifyitems(items):
    for item in items:
        for fixture in NEEDS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(NEEDS[fixture])
            if fixture == "browser":  # it takes long to start
                item.add_marker("slow")


def pytest_runtest_setup():
    """Have estimators without a `random_state`, which ask NumPy, draw the same in every run."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture(scope="session")
def data_folder():
    """Return the folder of the public data sets, which are not part of the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("POLYADIC_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder}; set POLYADIC_DATA to their folder")
    return folder


@pytest.fixture(scope="module")
def browser():
    """Return headless Chromium, driven by Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium drives the browser")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser: Debian's packages chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    found = webdriver.Chrome(options=options, service=service)
    yield found
    found.quit()
