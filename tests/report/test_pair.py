"""Two cells that a reader ticks in the table: what the page tells of them, in chromium."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from accelbench.report import build
from accelbench.report.read import read_all
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Library, Mode
from browsing import open_page
from report.conftest import RANDOM

pytestmark = pytest.mark.browser
RESNET = ModelSpec(
    name="resnet18",
    library=Library.torchvision,
    input_shape=(3, 224, 224),
    num_classes=1000,
    optimizer="sgd",
    learning_rate=0.01,
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, maker) -> Path:
    """Two interleaved precisions, a third one of another day, another batch, and another job."""
    folder = tmp_path_factory.mktemp("pair")
    infer = {"mode": Mode.infer, "data": RANDOM, "model": RESNET}
    images = [replace(maker.cell(precision=word), **infer, batch_size=8) for word in ("fp32", "bf16")]
    maker.suite(
        folder / "results",
        [
            *maker.interleaved({"fp32": 100, "bf16": 180}, growth=0.01),
            maker.at(maker.ok(maker.cell(precision="fp16"), 105), 50),
            maker.ok(maker.cell(batch_size=32), 50),
            *(maker.ok(cell, rate, data=None) for cell, rate in zip(images, (30, 60), strict=True)),
        ],
    )
    return build.build(read_all(folder / "results"), folder / "results", folder / "report")


@pytest.fixture
def show(browser: WebDriver, page: Path) -> Callable[[str], WebDriver]:
    return lambda fragment="": open_page(browser, page, fragment)


def pick(browser: WebDriver, label: str) -> None:
    browser.find_element(By.CSS_SELECTOR, f"#every [aria-label='compare {label}']").send_keys(Keys.SPACE)


def bar(browser: WebDriver) -> str:
    return browser.find_element(By.ID, "pair").text


def test_two_ticked_cells_have_both_speeds_the_ratio_and_how_sure_it_is(show) -> None:
    browser = show()
    assert bar(browser) == ""
    pick(browser, "mlp-cpu-fp32-b128-train")
    assert "Tick another cell to compare it with." in bar(browser)
    pick(browser, "mlp-cpu-bf16-b128-train")
    lines = bar(browser).splitlines()
    assert lines[0].startswith("PyTorch bf16 b128, mlp train: 18")  # the faster one first
    assert lines[1].startswith("PyTorch fp32 b128, mlp train: 10")
    told = r"1\.80x \([\d.]+ to [\d.]+ by both intervals\); only the command decides how sure that is"
    assert re.fullmatch(told, lines[2])
    address = browser.current_url
    pick(browser, "mlp-cpu-fp16-b128-train")  # instead of the one that was ticked first
    ticked = browser.find_elements(By.CSS_SELECTOR, "#every .pick:checked")
    assert sorted(box.get_attribute("aria-label") for box in ticked) == [
        "compare mlp-cpu-bf16-b128-train",
        "compare mlp-cpu-fp16-b128-train",
    ]
    again = show(f"#{address.partition('#')[2]}")
    assert bar(again).splitlines() == lines
    again.find_element(By.XPATH, "//*[@id='pair']//button[.='clear']").send_keys(Keys.ENTER)
    assert (bar(again), "compare" in again.current_url) == ("", False)
    assert again.switch_to.active_element.get_attribute("aria-label") == "compare mlp-cpu-bf16-b128-train"
    assert again.get_log("browser") == []


def test_the_command_that_measures_both_in_turns_is_copied(show) -> None:
    browser = show()
    for word in ("bf16", "fp32"):
        pick(browser, f"resnet18-cpu-{word}-b8-infer-host")
    assert "accelbench compare --run 'model=resnet18 precision=fp32' 'model=resnet18 precision=bf16'" in bar(browser)
    browser.switch_to.active_element.send_keys(Keys.ENTER)  # from the box to the bar
    button = browser.switch_to.active_element
    button.send_keys(Keys.ENTER)
    WebDriverWait(browser, 5).until(lambda _: button.text == "copied")
