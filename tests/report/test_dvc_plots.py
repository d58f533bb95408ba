"""DVC's page of plots: from a file with only what is plotted, in chromium, without evaluating any text."""

import csv
from pathlib import Path

import dvc_render
import pytest
from dvc_render.vega import VegaRenderer
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from accelbench.report import build, dvc_plots
from accelbench.report.read import read_all
from accelbench.schema.vocab import Mode, Status
from browsing import asked_for, open_page

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / ".dvc" / "plots"
WICKED = "</script><script>document.title = 1</script>&amp;"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, maker) -> Path:
    """The folder of a report on three cells, one of a network with a wicked name."""
    root = tmp_path_factory.mktemp("written")
    cells = [maker.cell(), maker.cell(batch_size=256), maker.cell(threads=1), maker.cell(WICKED)]
    cells += [maker.cell("alone", mode=Mode.infer), maker.cell("skipped", mode=Mode.infer)]
    records = [maker.ok(cell, 1000) for cell in cells[:-1]]
    maker.suite(root / "results", [*records, maker.record(cells[-1], Status.skipped)])
    folder = build.build(read_all(root / "results"), root / "results", root / "report").parent
    dvc_plots.write(folder)
    return folder


def test_the_plotted_file_has_what_the_template_names_and_nothing_that_ends_a_script(written: Path) -> None:
    text = (written / "throughput.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["model"] for row in rows[:3]] == ["mlp", "mlp", "mlp"]
    assert [row["options"] for row in rows] == ["", "", "asked_threads=1", ""]  # else two would look the same
    assert len(rows) == 4  # without the one that would be alone in its panel
    assert float(rows[0]["samples_per_s"]) == pytest.approx(1000)
    template = (TEMPLATES / "throughput.json").read_text()
    assert {name for name in rows[0] if name not in template} == set()
    assert not set("<>&") & set(text)
    assert list((written / "plots").iterdir()) != []  # DVC warns of an empty folder


def test_a_report_without_a_speed_has_a_plotted_file_without_rows(tmp_path: Path, maker) -> None:
    failed = [maker.record(maker.cell(batch_size=size), Status.failed) for size in (32, 128)]
    maker.suite(tmp_path / "results", failed)
    folder = build.build(read_all(tmp_path / "results"), tmp_path / "results", tmp_path / "report").parent
    dvc_plots.write(folder)
    assert (folder / "throughput.csv").read_text() == ",".join([*dvc_plots.COLUMNS, "options"]) + "\n"


@pytest.mark.browser
def test_dvc_draws_it_and_no_text_is_evaluated_or_sent(written: Path, browser: WebDriver) -> None:
    rows = [{**row, "rev": "HEAD"} for row in csv.DictReader((written / "throughput.csv").read_text().splitlines())]
    axes = {"x": "batch_size", "y": "samples_per_s"}
    plot = VegaRenderer(rows, "throughput", template="throughput", template_dir=str(TEMPLATES), **axes)
    page = written / "dvc" / "index.html"
    dvc_render.render_html([plot], page, html_template=written / ".dvc_plots.html")
    open_page(browser, page)
    drawn = (By.CSS_SELECTOR, ".vega-embed canvas, .vega-embed svg")
    WebDriverWait(browser, 30).until(lambda opened: opened.find_elements(*drawn))
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert browser.title == "accelbench: DVC's plots"
    assert {url.partition(":")[0] for url in asked_for(browser)} <= {"file", "data", "blob"}
    # Later, since the browser lets what a test evaluates evaluate text.
    browser.execute_script(
        """setTimeout(() => {
          try { window.tried = Function("return 'evaluated'")(); } catch (error) { window.tried = error.name; }
        });"""
    )
    WebDriverWait(browser, 10).until(lambda opened: opened.execute_script("return window.tried"))
    assert browser.execute_script("return window.tried") == "EvalError"
