"""What all tests share: a lock, a browser; and a guard, since TensorFlow and PyTorch never share a process.

Each brings a copy of what the other one needs.
"""

import os
import shutil
import sys
from pathlib import Path

# Before anything imports torch. Two processes run the tests: a thread that waits for others of its process should not
# keep a core busy that a test in the other one could use.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest  # noqa: E402

BOTH = {"torch", "tensorflow"}
REASON = "torch and tensorflow are in one process: tests/engines/keras needs a pytest of its own, as in `make test`"
KERAS = Path(__file__).parent / "engines" / "keras"
# Files whose tests take long begin first, so that the processes of `make test` end together.
LONG = ["pipelines/", "lies/", "engines/exported/", "test_docs.py", "engines/lightning/", "api/", "test_cli.py"]
LONG += ["sinks/", "sweep/", "report/test_in_a_browser.py", "search/", "settings/", "stages/"]


def pytest_ignore_collect(collection_path, config):
    """Leaves Keras' tests out of what is run beside others, such as `pytest tests/engines`: see REASON."""
    named = [(config.invocation_params.dir / each.partition("::")[0]).resolve() for each in config.args]
    if collection_path == KERAS and not all(each.is_relative_to(KERAS) for each in named):
        return True
    return None


def pytest_collection_modifyitems(items):
    def rank(item):
        place = item.path.relative_to(KERAS.parents[1]).as_posix()
        return next((at for at, start in enumerate(LONG) if place.startswith(start)), len(LONG))

    items.sort(key=rank)


def pytest_collection_finish(session):
    if sys.modules.keys() >= BOTH:
        raise pytest.UsageError(REASON)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, the current one, that is no project; with a cache folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(autouse=True)
def _one_framework():
    yield
    assert not sys.modules.keys() >= BOTH, REASON


@pytest.fixture(scope="session", autouse=True)
def _beside_others():
    """Tests wait for no measurement on this machine, none of another test run, and for no quiet machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ACCELBENCH_LOCK", f"accelbench-tests-{os.getpid()}")
        patched.setenv("ACCELBENCH_BUSY", "allowed")
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium without a window, which keeps what the page logs and where downloads go, in `downloads`."""
    from selenium import webdriver  # imported here: `make gpu-check` runs tests where it is not installed

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    opened.downloads = tmp_path_factory.mktemp("downloads")
    opened.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(opened.downloads)})
    yield opened
    opened.quit()
