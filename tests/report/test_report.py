"""The report: what it says, and how it behaves in a real browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import polyadic
from polyadic.report import Subject, write_report
from tests.report.tables import subject_of

FIGURES = {
    "predicted",
    "calibration",
    "residuals",
    "histogram",
    "residuals0",
    "residuals1",
    "residuals2",
    "residuals3",
    "coverage",
    "widths0",
    "widths1",
    "widths2",
    "widths3",
    "importance",
    "lengths",
    "dependence0",
    "dependence1",
    "dependence2",
    "dependence3",
    "dependence-pair",
    "search",
}
SECTIONS = 6


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the report on a model with a long and hostile name among its inputs."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    rng = np.random.RandomState(0)
    X = rng.rand(300, 3)
    kind = np.where(rng.rand(300) < 0.5, "<b>bold</b>", "plain")
    y = 4_000_000 * (np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2] + (kind == "plain"))
    X[rng.rand(300) < 0.1, 1] = np.nan
    long = "a_very_long_name_of_an_input_that_has_no_place_to_break_at_all_whatsoever"
    names = [long, "<script>alert(1)</script>", "b & c", "kind"]
    frame = pd.DataFrame(dict(zip(names, [*X.T, kind], strict=True)))
    model = polyadic.FeatureLearningRegressor(effort=0.3, random_state=0).fit(frame, y)
    subject = subject_of(
        model,
        frame,
        y=y,
        actual=y,
        predicted=model.predict(frame),
        cautions=["These are the rows of the fit."],
        facts=[("table", "data.csv")],
        model_file="model.polyadic",
    )
    write_report(subject, out)
    return out


@pytest.fixture(scope="module")
def page_of_classes(tmp_path_factory):
    """Return the report on a classifier whose labels are as long and hostile."""
    out = tmp_path_factory.mktemp("report") / "classes.html"
    X = np.random.RandomState(0).rand(160, 2)
    labels = np.array(["<script>alert(1)</script>", "a_label_of_" + "many_" * 12 + "words", "$x$"])
    y = labels[(2.999 * X[:, 0]).astype(int)]
    model = polyadic.KernelMachineClassifier(rank=2, n_basis=4, max_iter=4, random_state=0)
    write_report(Subject.of(model.fit(X, y), X, y), out)
    return out


class Outline(HTMLParser):
    """Collects what the accessibility of a page hangs on."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.headings, self.images, self.links = [], [], [], []
        self.captions = self.tables = 0
        self.resources = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.ids.append(found["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if found.get("role") == "img":
            self.images.append(found.get("aria-label", ""))
        if tag == "a":
            self.links.append(found["href"])
        self.tables += tag == "table"
        self.captions += tag == "caption"
        if tag in ("img", "script", "iframe", "link", "object", "embed"):
            self.resources.append(found.get("src") or found.get("href"))


def test_the_page_stands_alone(page):
    text = page.read_text()
    outline = Outline(text)
    assert outline.resources == ["data:,"]
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert all("w3.org" in address for address in addresses)  # names of XML, not places
    assert not re.search(r"@import|url\((?!#)", text)


def test_the_page_has_structure_for_screen_readers(page):
    text = page.read_text()
    outline = Outline(text)
    assert outline.headings == [1, 2, 3, 3, *[2] * (SECTIONS - 1)]
    assert len(outline.ids) == len(set(outline.ids))
    assert len(outline.images) == len(FIGURES)
    assert all(len(label) > 40 for label in outline.images)
    assert outline.tables == outline.captions == 7
    assert outline.links[0] == "#main"
    inside = [link for link in outline.links if not link.startswith("data:text/csv")]
    assert all(link[1:] in outline.ids for link in inside)
    assert len(outline.links) - len(inside) == 8
    assert '<html lang="en">' in text


def test_how_well_it_predicts_comes_first_and_what_it_is_made_of_last(page):
    """Under the cards, and what to beware of."""
    text = page.read_text()
    order = ["errors", "importance", "dependence", "data", "model", "use"]
    assert text.index('<dl class="cards">') < text.index('class="caution"') < text.index("<nav")
    places = [text.index(f'<h2 id="{name}">') for name in order]
    assert places == sorted(places)
    folded = text[text.index("<summary>Trials, feature maps and members") :]
    assert 'id="figure-search"' in folded


def test_numbers_are_written_out(page):
    """A target of millions has no card, table or axis with an exponent."""
    text = re.sub(r"<style>.*?</style>|<path[^>]*>", "", page.read_text(), flags=re.DOTALL)
    assert not re.search(r">[^<]*\de[+-]\d\d[^<]*<", text)
    assert re.search(r"<dd>\d+(,\d{3})+<small>", text)


def test_names_are_escaped(page):
    text = page.read_text()
    assert "<script>alert" not in text
    assert "<b>bold" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_colours_have_contrast():
    """Text on page and cards, in both schemes, has the ratio 4.5 that WCAG AA asks for."""
    from importlib.resources import files

    style = files("polyadic.report").joinpath("style.css").read_text()
    for scheme in re.findall(r":root \{([^}]*)\}", style):
        colours = dict(re.findall(r"--(\w+): (#\w{6});", scheme))
        for ground in ("page", "card"):
            for ink in ("ink", "muted", "accent", "second", "third", "fourth", "fifth"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


def contrast(first, second):
    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return np.dot(linear, [0.2126, 0.7152, 0.0722])

    lights = sorted([luminance(first), luminance(second)])
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def show(browser, page, width, scheme="light"):
    """Open the page with all that is folded away unfolded."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(page.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["page", "page_of_classes"])
def test_it_loads_and_nothing_overflows(browser, request, kind, width, scheme):
    show(browser, request.getfixturevalue(kind), width, scheme)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    outside = browser.execute_script(
        """return [...document.querySelectorAll("body *")].filter(e =>
            !e.closest(".scroll, pre, svg, .skip") &&
            e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []


@pytest.mark.parametrize("width", [360, 1280])
def test_numbers_on_cards_are_in_one_piece(browser, page, width):
    show(browser, page, width)
    lines = browser.execute_script(
        """return [...document.querySelectorAll(".cards dd")].map(e => {
            const range = document.createRange();
            range.selectNodeContents(e.firstChild);
            return [range.getClientRects().length, e.scrollWidth - e.clientWidth];
        })"""
    )
    assert lines == [[1, 0]] * 5


def test_names_in_tables_are_readable_on_a_phone(browser, page):
    show(browser, page, 390)
    widths = browser.execute_script(
        """return [...document.querySelectorAll("tbody th:not(.count)")].map(
            e => e.getBoundingClientRect().width)"""
    )
    assert min(widths) >= 120


def test_every_figure_is_drawn(browser, page):
    show(browser, page, 1280)
    sizes = browser.execute_script(
        """return Object.fromEntries([...document.querySelectorAll("figure")].map(f => {
            const box = f.querySelector("svg").getBoundingClientRect();
            return [f.id, [box.width, box.height, f.querySelectorAll("svg path").length]];
        }))"""
    )
    assert set(sizes) == {f"figure-{name}" for name in FIGURES}
    for width, height, paths in sizes.values():
        assert width > 200
        assert height > 100
        assert paths > 5


def test_pictures_follow_the_colour_scheme(browser, page):
    colours = {}
    for scheme in ("light", "dark"):
        show(browser, page, 1280, scheme)
        colours[scheme] = browser.execute_script(
            """const style = getComputedStyle(document.querySelector("figure svg text"));
            return [style.fill, getComputedStyle(document.body).backgroundColor]"""
        )
    assert colours["light"][0] == "rgb(29, 36, 51)"
    assert colours["dark"][0] == "rgb(232, 234, 240)"
    assert colours["light"][1] != colours["dark"][1]


def test_the_keyboard_reaches_everything(browser, page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    show(browser, page, 1280)
    seen = []
    for _ in range(48):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        element = browser.switch_to.active_element
        seen.append(element.get_attribute("href") or element.tag_name)
        outline = browser.execute_script(
            "return getComputedStyle(document.activeElement).outlineStyle"
        )
        assert outline != "none" or element.tag_name == "body"
    assert seen[0].endswith("#main")
    links = {name.split("#")[1] for name in seen if "#" in name}
    curves = {name for name in links if name.startswith("figure-dependence")}
    assert len(curves) == 4
    assert len(links - curves) == SECTIONS + 1
    assert len({name for name in seen if name.startswith("data:text/csv")}) == 8
    assert {"pre", "summary"} <= set(seen)


def test_everything_has_a_name_for_screen_readers(browser, page):
    """Every link, image and region has a name in Chromium's accessibility tree."""
    show(browser, page, 1280)
    browser.execute_cdp_cmd("Accessibility.enable", {})
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {"link", "image", "region", "table", "heading", "navigation"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node.get("ignored") and node.get("role", {}).get("value") in roles
    ]
    assert roles <= {role for role, _ in named}
    assert all(name for _, name in named), named
