"""The site, once it is built: every page in a real browser, on a screen and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"

# What a page shows: how wide it wants to be, and the pictures that did not come.
LOOK = """
const wide = document.documentElement.scrollWidth;
const broken = [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src);
return [wide, broken, document.title];
"""


@pytest.fixture(scope="module")
def pages():
    """Return the pages of the site that ``python -m docs`` built."""
    found = sorted(set(SITE.rglob("*.html")) - set(SITE.glob("_static/**/*")))
    if not found:
        pytest.skip("the site is not built; python -m docs builds it")
    # Pages of the reference are made alike, so that every eighth stands for the others.
    alike = [page for page in found if "generated" in page.parts]
    return sorted({*found} - {*alike} | {*alike[::8]})


def test_the_site_has_what_people_look_for(pages):
    names = {page.relative_to(SITE).as_posix() for page in pages}
    assert {"index.html", "guide/start.html", "gallery/index.html", "api/index.html"} <= names
    assert len([name for name in names if name.startswith("gallery/plot_")]) >= 10


@pytest.mark.gallery
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits_and_is_without_fault(pages, browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    faults = {}
    for page in pages:
        browser.get(page.as_uri())
        # Pictures further down are loaded late, so that they must be asked for.
        browser.execute_script("for (const i of document.images) i.loading = 'eager'")
        wide, broken, title = browser.execute_script(LOOK)
        log = browser.get_log("browser")
        said = [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]
        if wide > width or broken or said or not title:
            faults[page.relative_to(SITE).as_posix()] = (wide, broken, said, title)
    assert not faults
