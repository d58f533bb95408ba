"""A page as a reader's browser shows it: opened from disk, with what it logs and asks for."""

import json
import shutil
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait


def chromium(*flags: str, logs: bool = False) -> webdriver.Chrome | None:
    """Chromium without a window, which may keep what pages log and ask for; None if it is not on the PATH."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    needless = ("disable-gpu", "disable-software-rasterizer", "disable-extensions")
    for flag in ("headless=new", "no-sandbox", *needless, *flags):
        options.add_argument(f"--{flag}")
    if logs:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


def open_page(browser: WebDriver, page: Path, fragment: str = "") -> WebDriver:
    """Opens a page on disk anew, with empty logs, and waits for all of it: `get` may come back before."""
    browser.get("about:blank")  # else another fragment alone loads nothing
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(page.as_uri() + fragment)
    WebDriverWait(browser, 30).until(
        lambda opened: opened.execute_script(  # the page may write another fragment
            "return location.href.split('#')[0] === arguments[0] && document.readyState === 'complete'", page.as_uri()
        )
    )
    return browser


def asked_for(browser: WebDriver) -> list[str]:
    """The addresses that the page asked for since it was opened."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
