"""The report as a reader sees it: in a real Chromium, wide and narrow, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import chromium
from browser.tab import Tab
from fakes.made_run import Making, made
from nearfar.plots import palette, report
from nearfar.runs import Load

# The first run fetches the browser.
pytestmark = pytest.mark.timeout(300)
# A label is whatever somebody called a run: markup, quotes, mathematics, another script.
WILD = '<script>window.pwned=1</script><img src=x onerror="window.pwned=2"> & "$\\frac{1}{2}$" 日本'
DESK, PHONE = 1100, 390
LEAST_TEXT_PX = 8.5
WAYS = {"light": (DESK, False), "dark": (DESK, True), "phone": (PHONE, False)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of three runs, one of them with a wild label and one whose engine told nothing."""

    def load(rate: float) -> Load:
        return Load(process="poisson", rate_per_s=rate, requests=200)

    runs = [
        made(Making(seed=1, failing=0.03), label="before", load=load(2)),
        made(Making(seed=2, more={"look_up": 25.0}), label=WILD, load=load(4)),
        made(Making(seed=3, told=False), label="silent", load=load(8)),
    ]
    path = tmp_path_factory.mktemp("report") / "page.html"
    path.write_text(report.render(runs, f"About {WILD}"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    with Tab(chromium.installed()) as tab:
        yield tab


@pytest.fixture(params=WAYS)
def tab(request: pytest.FixtureRequest, browser: Tab, page: Path) -> Tab:
    """The page, looked at in one way."""
    width, dark = WAYS[request.param]
    browser.look(width, dark=dark)
    browser.open(page)
    return browser


def test_nothing_is_loaded_and_nothing_complains(tab: Tab, page: Path) -> None:
    asked = [each["request"]["url"] for each in tab.told("Network.requestWillBeSent")]
    assert [page.as_uri()] == asked
    assert [] == tab.told("Runtime.exceptionThrown")
    assert [] == [each["entry"]["text"] for each in tab.told("Log.entryAdded")]


def test_wild_labels_are_text_and_run_nothing(tab: Tab) -> None:
    assert not tab.value("'pwned' in window")
    assert 0 == tab.value("document.querySelectorAll('script, img, iframe, object').length")
    assert f"About {WILD}" == tab.value("document.querySelector('h1').textContent")
    assert f"About {WILD}" == tab.value("document.title")
    assert tab.value(f"[...document.querySelectorAll('td')].some(c => c.textContent === {WILD!r})")


def test_nothing_sticks_out_of_the_page(tab: Tab) -> None:
    assert tab.value("document.documentElement.scrollWidth <= window.innerWidth")
    shown = "[...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width > 0)"
    assert 5 == tab.value(f"{shown}.length")
    inside = "s.getBoundingClientRect().right <= window.innerWidth + 1"
    assert tab.value(f"{shown}.every(s => {inside})")


def test_text_in_pictures_can_be_read(tab: Tab) -> None:
    shown = (
        "[...document.querySelectorAll('svg text')].filter(t => t.getBoundingClientRect().width)"
    )
    scale = "Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)"  # text may stand upright
    size = f"parseFloat(getComputedStyle(t).fontSize) * {scale}"
    assert tab.value(f"Math.min(...{shown}.map(t => {size}))") >= LEAST_TEXT_PX
    assert tab.value(f"{shown}.length") > 60


def test_pictures_are_drawn_in_the_colours_of_the_ground(
    request: pytest.FixtureRequest, tab: Tab
) -> None:
    colours = palette.DARK if "dark" in request.node.name else palette.LIGHT
    image = tab.screenshot()
    seen = {colour for _, colour in image.getcolors(1 << 24) or ()}
    for name in ("ground", "ink", "blue", "vermillion", "green", "orange", "grid"):
        assert tuple(bytes.fromhex(colours[name][1:])) in seen, name
    left_out = {palette.STAND_INS[name][1:] for name in palette.STAND_INS}
    assert not {tuple(bytes.fromhex(each)) for each in left_out} & seen


def test_everything_can_be_reached_and_is_named(tab: Tab) -> None:
    pictures = "[...document.querySelectorAll('[role=img]')]"
    assert tab.value(f"{pictures}.every(p => p.getAttribute('aria-label').length > 20)")
    assert "en" == tab.value("document.documentElement.lang")
    assert tab.value("[...document.querySelectorAll('table')].every(t => t.tHead)")
    ids = "[...document.querySelectorAll('[id]')].map(e => e.id)"
    assert tab.value(f"new Set({ids}).size === {ids}.length")
