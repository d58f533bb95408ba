"""A report on 2,000 cells. How fast it is is measured by `make bench BENCH=report`."""

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from accelbench.report import build
from report import many
from report.test_in_a_browser import read

pytestmark = [pytest.mark.slow, pytest.mark.browser]
MAX_BYTES = 8_000_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, maker) -> Path:
    folder = tmp_path_factory.mktemp("many")
    assert many.write(folder / "results", maker) == 2000
    return build.build(folder / "results", folder / "report")


def test_it_is_one_file_of_a_size_that_can_be_sent(page: Path) -> None:
    assert page.stat().st_size <= MAX_BYTES


def test_all_cells_are_charted_and_the_table_grows_as_it_is_asked(page: Path, browser: WebDriver) -> None:
    read(browser, page.as_uri())
    assert browser.find_element(By.ID, "shown").text == "2,000 of 2,000 cells"
    charted = browser.execute_script(
        "return new Set([...document.querySelectorAll('.mark')].map(m => m.cell.name)).size"
    )
    assert charted == 1500  # the others are skipped
    for button, num in (("next", 200), ("rest", 2000)):
        browser.execute_script("document.getElementById(arguments[0]).click()", button)
        assert browser.execute_script("return document.getElementById('every').tBodies[0].rows.length") == num
