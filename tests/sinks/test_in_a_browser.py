"""MLflow's pages as people see them: served by `accelbench ui`, in chromium."""

import shutil
import subprocess
from itertools import product

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from accelbench.schema.vocab import Mode, Precision, Protocol, Status
from accelbench.sinks import mlflow_fields as view
from tests.sinks.samples import STAND_IN, cell, processes, record
from tests.sinks.stores import SERVE, closed_port, deliver, started

pytestmark = [pytest.mark.browser, pytest.mark.slow]  # the server and the browser take half a minute
MODELS = ("mlp", "lstm")


def sample():
    """Runs of two networks, whole epochs too, and one that failed."""
    axes = product(MODELS, (Precision.fp32, Precision.bf16), Mode)
    of = [cell(model, precision=precision, mode=mode) for model, precision, mode in axes]
    of += [cell(model, protocol=Protocol.fit) for model in MODELS]
    return [*(record(each, number=number) for number, each in enumerate(of)), record(status=Status.failed, number=99)]


@pytest.fixture(scope="module")
def served(empty_store, tmp_path_factory):
    """The address of the saved view, of a server on a store with such runs; and the runs' own addresses."""
    root = shutil.copytree(empty_store, tmp_path_factory.mktemp("served") / "project")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("DVC_ROOT", raising=False)
        stand_in = record(data=STAND_IN, number=50)
        delivery = deliver(root, *sample(), stand_in)
        delivery.relate(processes(*sample()))
        link = delivery.links(stand_in)["MLflow"]
        assert delivery.problem is None
        port = closed_port()
        server = started(SERVE, root, port, stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().removeprefix("MLflow: ").strip()
    yield address, link.partition("  ")[0].replace("127.0.0.1:5000", f"127.0.0.1:{port}")
    server.terminate()
    server.communicate(timeout=60)


@pytest.fixture
def show(browser):
    """Opens an address in a window of a desktop's size."""

    def show(address):
        size = {"width": 1600, "height": 1600, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get("about:blank")  # else another fragment alone loads nothing
        browser.get(address)
        return browser

    return show


def wait_for(browser, found, seconds=60):
    return WebDriverWait(browser, seconds, ignored_exceptions=[StaleElementReferenceException]).until(found)


def text_of(browser):
    return browser.find_element(By.TAG_NAME, "body").text


PLOTTED = """return [...document.querySelectorAll(".js-plotly-plot")].map(plot => ({
    kind: plot.data[0]?.type, points: plot.data.reduce((sum, trace) =>
        sum + (trace.x?.length ?? trace.dimensions?.[0].values.length ?? 0), 0),
    titles: [plot.layout.xaxis?.title?.text, plot.layout.yaxis?.title?.text]}))"""


def charts(browser, num):
    """What is plotted, once so many charts hold points."""

    def drawn(browser):
        found = [chart for chart in browser.execute_script(PLOTTED) if chart["points"]]
        return found if len(found) >= num else False

    return wait_for(browser, drawn)


def test_the_saved_view_opens_with_its_charts_filled(show, served):
    browser = show(served[0])
    found = charts(browser, 4)  # those that the window shows; the others are drawn when they are scrolled to
    assert {"scatter", "bar"} <= {chart["kind"] for chart in found}
    points = {tuple(chart["titles"]): chart["points"] for chart in found}
    # Of all runs with single steps: with the stand-in's, without the failed one and those of whole epochs.
    assert points[view.SPEED, "latency/p50_ms"] == len(sample()) - len(MODELS), found
    # Those that another run did the same as.
    assert points["setting/batch_size", view.SHARE] == len(sample()) - len(MODELS) - 1, found
    wait_for(browser, lambda browser: browser.find_elements(By.CSS_SELECTOR, "[class*=parcoords] canvas"))
    names = text_of(browser)
    assert "lstm-cpu-bf16-b128-infer" in names
    assert view.SPEED in names
