import html
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

REASON = '<script>alert("x")</script> | a *bad* reason'  # of a failed cell in the sample
VOID = {"meta", "link", "img", "input"}


class Parsed(HTMLParser):
    """What a browser would see: the tags with their attributes, and each table cell's text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


@pytest.fixture(scope="module")
def parsed(report: Path) -> Parsed:
    return Parsed((report / "index.html").read_text())


def test_the_page_is_well_formed_and_text_from_users_is_text(parsed: Parsed) -> None:
    assert parsed.open == []
    assert parsed.cells.count(REASON) == 3  # grouped, cell by cell, and in the table of every cell
    assert "ValueError: <b>shape</b> | mismatch" in parsed.cells
    assert [tag for tag, _ in parsed.tags].count("script") == 1


def test_the_page_needs_no_other_file(parsed: Parsed) -> None:
    links = [attrs[name] for _, attrs in parsed.tags for name in ("src", "href") if name in attrs]
    assert len(links) == 4  # three pictures and an empty icon; the viewer shows the same ones
    assert all(link.startswith("data:") for link in links)


def test_every_picture_has_a_text(parsed: Parsed) -> None:
    texts = [attrs["alt"] for tag, attrs in parsed.tags if tag == "img" and "src" in attrs]
    assert len(texts) == 3
    assert all(len(text) > 20 for text in texts)


def test_markdown_says_the_same(report: Path, parsed: Parsed) -> None:
    text = (report / "report.md").read_text()
    assert text.splitlines()[2].startswith("> **NOT MNIST: a stand-in")
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    plain = [html.unescape(re.sub(r"\\(.)", r"\1", cell)) for cell in cells]
    headings = sum(tag == "th" for tag, _ in parsed.tags)
    assert len(plain) == len(parsed.cells) + headings
    assert Counter(parsed.cells) <= Counter(plain)


def test_markdown_links_its_pictures(report: Path) -> None:
    links = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (report / "report.md").read_text())
    assert len(links) == 3
    assert all((report / link).is_file() for link in links)


@pytest.fixture(scope="module")
def browser(report: Path) -> Iterator[WebDriver]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    opened.get((report / "index.html").as_uri())
    yield opened
    opened.quit()


def shown(browser: WebDriver, column: str) -> list[str]:
    """The visible values of a column of the table of every cell."""
    return browser.execute_script(
        """const table = document.getElementById("every");
        const column = [...table.tHead.rows[0].cells].findIndex(head => head.textContent === arguments[0]);
        return [...table.tBodies[0].rows].filter(row => row.offsetParent).map(row => row.cells[column].textContent);""",
        column,
    )


@pytest.mark.browser
class TestInABrowser:
    def test_sorting_goes_by_value_with_the_unknown_last(self, browser: WebDriver) -> None:
        head = browser.find_element(By.XPATH, "//table[@id='every']//button[.='samples/s']")
        for descending in (False, True):
            browser.execute_script("arguments[0].click()", head)
            texts = shown(browser, "samples/s")
            known = [float(text.replace(",", "")) for text in texts if text != "–"]
            assert known == sorted(known, reverse=descending)
            assert set(texts[len(known) :]) == {"–"}
            assert len(known) == 33
        assert head.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"

    def test_filtering_keeps_the_rows_that_hold_all_words(self, browser: WebDriver) -> None:
        box = browser.find_element(By.CSS_SELECTOR, ".filter input")
        box.send_keys("CNN xla_cpu bf16")
        assert shown(browser, "model") == ["cnn"] * 4
        assert set(shown(browser, "device")) == {"xla_cpu"}
        assert browser.find_element(By.ID, "shown").text == "4 of 44 cells"
        box.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE)
        assert len(shown(browser, "model")) == 44

    def test_the_viewer_pages_through_the_pictures_with_the_keyboard(self, browser: WebDriver) -> None:
        pictures = browser.find_elements(By.CSS_SELECTOR, ".picture img")
        texts = [picture.get_attribute("alt") for picture in pictures]

        def seen() -> str | None:
            viewer = browser.find_element(By.ID, "viewer")
            return viewer.find_element(By.TAG_NAME, "img").get_attribute("alt") if viewer.is_displayed() else None

        assert seen() is None
        browser.execute_script("arguments[0].focus()", pictures[0])
        pictures[0].send_keys(Keys.ENTER)
        for key, expected in (
            *((Keys.ARROW_RIGHT, texts[1]), ("n", texts[2]), ("n", texts[0])),
            *((Keys.ARROW_LEFT, texts[2]), ("p", texts[1]), ("q", None)),
        ):
            browser.switch_to.active_element.send_keys(key)
            assert seen() == expected
        pictures[2].send_keys(Keys.ENTER)
        assert seen() == texts[2]
        browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        assert seen() is None

    @pytest.mark.parametrize("width", [420, 1400])
    def test_the_page_does_not_scroll_sideways(self, browser: WebDriver, width: int) -> None:
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert browser.execute_script("return innerWidth") == width
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width

    def test_nothing_is_on_the_console(self, browser: WebDriver) -> None:
        assert browser.get_log("browser") == []
