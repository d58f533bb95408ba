"""The page as its readers have it: in chromium, from disk, with mouse and keyboard."""

import csv
import re
from pathlib import Path

import axe_core_python
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from accelbench.presentation import significant
from accelbench.schema.cell import Engine, KerasSettings, Status
from browsing import asked_for
from marks import slow
from report.test_contents import NO_GPU, jobs

pytestmark = pytest.mark.browser
ALSO = "also=failed&also=oom&also=timeout&also=killed&also=invalid&also=skipped&also=not+run+yet"
TITLE = "accelbench: Example CPU @ 2.0 GHz, 2 cores, 2026-11-20"
WICKED = "<img src=x onerror=document.title=1></script>&amp;"
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")


def column(browser, heading):
    return browser.execute_script(
        """const table = document.getElementById("every");
        const column = [...table.tHead.rows[0].cells].findIndex(head => head.textContent === arguments[0]);
        return [...table.tBodies[0].querySelectorAll("[data-cell]")].map(row => row.cells[column].textContent);""",
        heading,
    )


def marks(browser, charts="[data-folder]"):
    """The names of the cells that the charts show: those of the suites, or of a question."""
    found = "return [...document.querySelectorAll(`${arguments[0]} .mark`)].map(mark => mark.cell.label)"
    return browser.execute_script(found, charts)


def choose(browser, name, value):
    """Ticks a filter's value, as a user does: opens the list and clicks the label."""
    box = browser.find_element(By.CSS_SELECTOR, f"#choices input[name='{name}'][value='{value}']")
    details = box.find_element(By.XPATH, "ancestor::details")
    if not details.get_attribute("open"):
        details.find_element(By.TAG_NAME, "summary").click()
    box.click()
    box.send_keys(Keys.ESCAPE)


def text(browser, place):
    return browser.find_element(By.ID, place).text


def select(browser, words):
    return browser.find_elements(By.CSS_SELECTOR, words)


def button(browser, place, word):
    return browser.find_element(By.XPATH, f"//*[@id='{place}']//button[.='{word}']")


def press(browser, key):
    browser.switch_to.active_element.send_keys(key)


def test_the_table_says_what_cells_csv_says_and_nothing_is_logged_or_asked_of_a_network(show, report):
    browser = show(f"#columns=all&{ALSO}")
    assert browser.get_log("browser") == []
    asked = asked_for(browser)
    assert asked.count((report / "index.html").as_uri()) == 1
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []
    for fold in range(2):
        browser.find_elements(By.CSS_SELECTOR, ".fold button")[fold].send_keys(Keys.ENTER)
    with (report / "cells.csv").open(newline="") as file:
        # Those that the address asks for besides ok come first, those that share a line after the others of these.
        rows = sorted(csv.DictReader(file), key=lambda row: (row["status"] == "ok", row["status"] in ("skipped", "")))
    for heading, name in (("samples/s", "samples_per_s"), ("p50 (ms)", "latency_p50_ms"), ("test loss", "test_loss")):
        assert column(browser, heading) == [significant(float(row[name]) if row[name] else None) for row in rows]
    for name in ("model", "device", "precision"):
        assert column(browser, name) == [row[name] for row in rows]
    known = [(row["time_provenance"] == "estimated", float(row["time_s"])) for row in rows if row["time_s"]]
    times = [each for each in column(browser, "time (s)") if each != "–"]
    assert times == ["~" * is_estimated + significant(seconds) for is_estimated, seconds in known]
    assert "peak device (MB)" not in browser.find_element(By.ID, "every").text  # nobody fills it


def test_filters_apply_to_charts_and_table_at_once_and_stand_in_the_address(show):
    browser = show("#as=bars&columns=all")
    choose(browser, "device", "xla_cpu")
    choose(browser, "precision", "fp32")
    assert (set(column(browser, "device")), set(column(browser, "precision"))) == ({"xla_cpu"}, {"fp32"})
    assert sorted(marks(browser)) == sorted(column(browser, "cell"))
    assert text(browser, "shown") == "8 of 44 cells"
    kinds = browser.find_elements(By.CSS_SELECTOR, "#picture .job .one")
    assert {kind.get_attribute("class") for kind in kinds} == {"one of-xla"}
    assert browser.current_url.endswith("#device=xla_cpu&precision=fp32&as=bars&columns=all")
    choose(browser, "precision", "bf16_mixed")
    assert text(browser, "shown") == "16 of 44 cells"
    browser.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    assert len(column(browser, "device")) == 33  # the ok ones
    assert "device" not in browser.current_url
    browser.find_element(By.ID, "words").send_keys("CNN xla_cpu bf16")
    assert column(browser, "model") == ["cnn"] * 4
    assert len(marks(browser)) == 4
    browser = show("#device=abacus&nonsense=1&cell=none&sort=nothing&show=nothing&words=%3Cb%3E")  # of another report
    assert (text(browser, "shown"), browser.get_log("browser")) == ("0 of 44 cells", [])


def test_a_cell_tells_its_figures_and_has_a_card(show):
    browser = show("#model=mlp&mode=train&device=cpu&protocol=window&as=bars")
    (focusable,) = select(browser, "[data-folder] .mark[tabindex='0']")
    first, second = marks(browser)[:2]
    focusable.send_keys(Keys.ARROW_RIGHT)
    press(browser, Keys.ENTER)
    assert text(browser, "card").startswith(second)
    assert "&cell=" in browser.current_url
    press(browser, Keys.ARROW_LEFT)
    lines = text(browser, "card").splitlines()
    assert lines[:2] == [first, "ok"]
    assert re.fullmatch(r"throughput \(samples/s\): [\d,]+, 95 % interval [\d,]+ to [\d,]+", lines[2])
    press(browser, Keys.ARROW_RIGHT)
    button(browser, "card", "close").send_keys(Keys.ENTER)
    assert not browser.find_element(By.ID, "card").is_displayed()
    for key, is_shown in ((Keys.ENTER, True), (Keys.ESCAPE, False), (Keys.ENTER, True)):
        press(browser, key)
        assert browser.find_element(By.ID, "card").is_displayed() == is_shown
    for word, copied in (("accelbench ui", "accelbench ui"), ("copy search", 'tags.record = "')):
        assert button(browser, "card", word).get_attribute("title").startswith(copied)
    button(browser, "card", "compare").send_keys(Keys.ENTER)
    assert "Tick another cell" in text(browser, "pair")


@pytest.fixture(scope="module")
def two_suites(tmp_path_factory, maker):
    """A report on two suites with tables of the same titles, two engines, and a network with a wicked name."""
    folder = tmp_path_factory.mktemp("two")
    keras = {"engine": Engine.keras, "keras": KerasSettings()}
    for suite in ("one", "other"):
        records = []
        for engine, rate in (({}, 1000), (keras, 500)):
            records.append(maker.ok(maker.cell(suite=suite, **engine), rate))
            records.append(maker.ok(maker.cell(WICKED, suite=suite, batch_size=32, **engine), rate))
        gpu = maker.record(maker.cell(device="gpu", suite=suite), Status.failed, reason=WICKED, error=WICKED)
        page = maker.report(folder, *records, gpu)
    return page


@pytest.mark.parametrize(("scheme", "width"), [slow("light", 1100), ("dark", 420)])
def test_nothing_hinders_readers_with_other_eyes_or_hands(show, two_suites, scheme, width):
    """Axe's rules: contrast, names, roles, order; and no page is wider than its window, or light where it is dark."""
    browser = show("#model=mlp&as=bars", width, scheme, two_suites)
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 25, 29)"}[scheme]
    for open_all in ("", "document.querySelectorAll('details').forEach(each => { each.open = true; });"):
        sizes = browser.execute_script(f"{open_all} return [innerWidth, document.documentElement.scrollWidth]")
        assert sizes[0] == width >= sizes[1]
    wider = "return [...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth)"
    assert width < 1000 or browser.execute_script(wider) == []
    browser.execute_script(
        """document.querySelector("#choices details").open = true;
        document.querySelector("#also button").click();
        document.querySelectorAll(".pick").forEach((box, index) => index < 2 && box.click());
        document.querySelector(".choose").click();
        document.getElementById("columns").click();
        document.querySelector(".mark").focus();"""
    )
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 20
    assert [(each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found["violations"]] == []


def test_names_of_networks_are_only_text_and_no_script_but_the_pages_own_runs(show, two_suites):
    browser = show("#as=bars&columns=all&cell=", folder=two_suites)
    choose(browser, "model", WICKED)
    assert set(column(browser, "model")) == {WICKED}
    assert marks(browser) == [f"{WICKED}-cpu-fp32-b32-train", f"{WICKED}-cpu-fp32-b32-train-keras"] * 2
    assert marks(browser, "[data-title='Which engine?']") == [f"{WICKED}-cpu-fp32-b32-train-keras"]
    browser.execute_script("document.querySelector('.choose').click()")
    assert text(browser, "card").startswith(WICKED)
    again = browser.current_url.partition("#")[2]
    assert text(show(f"#{again}", folder=two_suites), "card").startswith(WICKED)
    assert browser.title == TITLE
    assert browser.find_elements(By.CSS_SELECTOR, "img[src=x]") == []
    assert browser.get_log("browser") == []
    add = "document.body.append(document.createRange().createContextualFragment(arguments[0]))"
    for added in ("<script>document.title = 'run'</script>", '<img src="data:," onerror="document.title = 1">'):
        browser.execute_script(add, added)
        WebDriverWait(browser, 10).until(lambda opened: "Content Security Policy" in str(opened.get_log("browser")))
    assert browser.title == TITLE


def pick(browser, label):
    browser.find_element(By.CSS_SELECTOR, f"#every [aria-label='compare {label}']").send_keys(Keys.SPACE)


def test_two_ticked_cells_have_both_speeds_the_ratio_and_the_command_that_measures_both(show, tmp_path, maker):
    """Of two interleaved precisions, a third one of another day, and another batch."""
    others = maker.at(maker.ok(maker.cell(precision="fp16"), 105), 50), maker.ok(maker.cell(batch_size=32), 50)
    pair = maker.report(tmp_path, *maker.interleaved({"fp32": 100, "bf16": 180}, growth=0.01), *others)
    browser = show(folder=pair)
    assert text(browser, "pair") == ""
    pick(browser, "mlp-cpu-fp32-b128-train")
    assert "Tick another cell to compare it with." in text(browser, "pair")
    pick(browser, "mlp-cpu-bf16-b128-train")
    lines = text(browser, "pair").splitlines()
    assert lines[0].startswith("PyTorch bf16 b128, mlp train: 18")  # the faster one first
    assert lines[1].startswith("PyTorch fp32 b128, mlp train: 10")
    told = r"1\.80x \([\d.]+ to [\d.]+ by both intervals\); only the command decides how sure that is"
    assert re.fullmatch(told, lines[2])
    assert "accelbench compare --run 'model=mlp precision=fp32' 'model=mlp precision=bf16'" in lines[3]
    browser = show(f"#{browser.current_url.partition('#')[2]}", folder=pair)
    assert text(browser, "pair").splitlines() == lines
    pick(browser, "mlp-cpu-fp16-b128-train")  # instead of the one that was ticked first
    ticked = sorted(box.get_attribute("aria-label") for box in select(browser, "#every .pick:checked"))
    assert ticked == ["compare mlp-cpu-bf16-b128-train", "compare mlp-cpu-fp16-b128-train"]
    press(browser, Keys.ENTER)  # from the box to the bar
    copy = browser.switch_to.active_element
    copy.send_keys(Keys.ENTER)
    WebDriverWait(browser, 5).until(lambda _: copy.text == "copied")
    pick(browser, "mlp-cpu-fp32-b32-train")
    assert "Different batches, 128 and 32" in text(browser, "pair")
    button(browser, "pair", "clear").send_keys(Keys.ENTER)
    assert (text(browser, "pair"), "compare" in browser.current_url) == ("", False)
    assert browser.get_log("browser") == []


def test_keys_and_clicks_select_a_job_or_one_of_its_settings_and_the_address_keeps_it(show, tmp_path, maker):
    page = maker.report(tmp_path, *jobs(maker, 3))
    browser = show(folder=page)
    assert [row.text.split()[0] for row in select(browser, "#picture .job")] == ["net2", "net1", "net0"]
    (stop,) = select(browser, "#picture [tabindex='0']")
    stop.send_keys(Keys.ARROW_DOWN)
    assert text(browser, "panel").startswith("net1 infer")
    assert "1.60x" in text(browser, "panel")
    press(browser, Keys.ARROW_RIGHT)
    assert "PyTorch fp32, freeze" in text(browser, "panel")
    assert "the loader waited" in text(browser, "panel")
    press(browser, Keys.END)
    assert text(browser, "panel").startswith("net0 infer")
    click = "document.querySelectorAll('#picture .job')[1].dispatchEvent(new Event('click', {bubbles: true}))"
    browser.execute_script(click)
    assert "#job=net1" in browser.current_url
    browser = show(f"#{browser.current_url.partition('#')[2]}", folder=page)
    assert text(browser, "panel").startswith("net1 infer")
    browser.find_element(By.CSS_SELECTOR, "#panel .record").click()
    assert text(browser, "card").startswith("net1-cpu-bf16")
    assert browser.get_log("browser") == []


def test_counts_lead_to_lists_and_many_jobs_are_behind_a_button_or_in_a_table(show, tmp_path, maker):
    skipped = maker.record(maker.cell(device="gpu"), Status.skipped, reason=NO_GPU)
    browser = show("#which-precision", folder=maker.report(tmp_path, *jobs(maker, 16), skipped))
    assert browser.switch_to.active_element.get_attribute("id") == "which-precision"
    for chip, place in (("in doubt", "doubts"), ("1 skipped", "missing")):
        browser.find_element(By.PARTIAL_LINK_TEXT, chip).click()
        assert browser.find_element(By.ID, place).get_attribute("open")
    for copy in select(browser, "#link, #panel button"):
        copy.click()
        WebDriverWait(browser, 5).until(lambda _, copy=copy: copy.text == "copied")
    assert len(select(browser, "#picture .job")) == 10
    select(browser, "#picture .all button")[0].send_keys(Keys.ENTER)
    assert len(select(browser, "#picture .job")) == 16
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        (table,) = select(browser, "noscript table")
        assert not any(dead.is_displayed() for dead in select(browser, "#filters, #cells, .chips button"))
        assert table.text.count("net15 infer PyTorch bf16 128 3.00 PyTorch fp32 2.") == 1
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
