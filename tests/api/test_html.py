import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from accelbench.api import html
from browsing import open_page


@pytest.mark.browser
def test_a_long_doubt_makes_no_tall_row_in_a_narrow_notebook(browser: WebDriver, tmp_path) -> None:
    doubt = "; ".join(["step times had not settled after 0.8 s of warm-up"] * 3)
    numbers = ["37.2", "27.2 to 62.8", "27.5", "2.57 times, likely"]
    row = ["scaling_cnn_small-cpu-fp32-b2-infer-device-1thread", *numbers, doubt]
    page = tmp_path / "page.html"
    page.write_text("<!doctype html>" + html.page([], [""] * len(row), [row, row], [1.0, 0.5]))
    browser.set_window_size(700, 600)
    open_page(browser, page)
    heights = "return [...document.querySelectorAll('tbody tr')].map(row => row.offsetHeight)"
    assert max(browser.execute_script(heights)) < 150
