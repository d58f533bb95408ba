"""What all tests share: a lock, a browser; and a guard, since TensorFlow and PyTorch never share a process."""

import gc
import importlib
import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

# Before anything imports torch. Several processes run the tests: a thread that waits for others of its own should not
# keep a core busy that a test in another process could use.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# XLA compiles networks that run for a moment: what it would optimise takes longer than they do.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

gc.disable()  # until all modules are imported: what they make stays, and is looked through again and again

import msgspec  # noqa: E402
import pytest  # noqa: E402

from accelbench.engines.lightning import light_import  # noqa: E402, F401  # as the processes of cells import it
from accelbench.engines.registry import host_spec  # noqa: E402
from accelbench.isolation.hosts import Hosts  # noqa: E402
from accelbench.judging.verdict import judge  # noqa: E402
from accelbench.schema import json_schema, record  # noqa: E402
from accelbench.schema.cell import Engine, Status  # noqa: E402

BOTH = {"torch", "tensorflow"}
REASON = "torch and tensorflow are in one process: tests/engines/keras runs beside no test of torch, see Makefile"
KERAS = Path(__file__).parent / "engines" / "keras"


def pytest_ignore_collect(collection_path, config):
    """Leaves Keras' tests out where they are not named, as by `pytest tests/engines`: see REASON."""
    named = [(config.invocation_params.dir / each.partition("::")[0]).resolve() for each in config.args]
    return True if collection_path == KERAS and not any(each.is_relative_to(KERAS) for each in named) else None


def pytest_collection_finish(session):
    gc.freeze()  # what was imported stays
    gc.set_threshold(50_000)  # few tests make garbage, and all of them many objects that stay
    gc.enable()
    if sys.modules.keys() >= BOTH:
        raise pytest.UsageError(REASON)
    if "torch" in sys.modules:
        importlib.import_module("seedless")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, the current one, that is no project; with a cache folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project, which is the current folder, on a machine whose CPU was probed."""
    from fakes import give_ceilings, make_project

    give_ceilings(make_project(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _one_framework():
    yield
    assert not sys.modules.keys() >= BOTH, REASON


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory):
    """The current folder is an empty one, and no variable names a repository, as in a hook of git, or a display.

    Tests wait for no measurement on this machine, none of another test run, and for no quiet machine.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("elsewhere"))
        for name in [*os.environ]:
            if name.startswith("GIT_") or name in ("DVC_ROOT", "MLFLOW_TRACKING_URI", "DISPLAY", "WAYLAND_DISPLAY"):
                patched.delenv(name)
        patched.setenv("ACCELBENCH_LOCK", f"accelbench-tests-{os.getpid()}")
        patched.setenv("ACCELBENCH_BUSY", "allowed")
        yield


class JudgedHosts(Hosts):
    """Their outcomes have the status that the measurement deserves, as a record has."""

    def run(self, cell, *folders, **files):
        outcome = super().run(cell, *folders, **files)
        reason = judge(cell, outcome.measurement) if outcome.measurement else None
        return replace(outcome, status=Status.invalid, reason=reason) if reason else outcome


@pytest.fixture(scope="session")
def hosts():
    """The processes that real cells are forked from: each imports its framework once for all tests."""

    def seedless(cell):
        spec = host_spec(cell)
        return spec if cell.engine == Engine.keras else replace(spec, preload=(*spec.preload, "seedless"))

    with JudgedHosts(seedless) as running:
        yield running


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A root, with both kinds of quotes in its name, with a store: to be copied, since making one takes seconds."""
    from accelbench.sinks.mlflow import Store  # its import takes over a second

    root = tmp_path_factory.mktemp("created") / "'odd' and \"quoted\""
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        Store(root).delivered("another")
    return root


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium without a window, which keeps what the page logs and where downloads go, in `downloads`."""
    from browsing import chromium  # `make gpu-check` runs tests where selenium is not installed

    if (opened := chromium("disable-quic", "disable-background-networking", logs=True)) is None:
        pytest.skip("needs chromium and chromedriver on the PATH")
    opened.downloads = tmp_path_factory.mktemp("downloads")
    opened.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(opened.downloads)})
    yield opened
    opened.quit()


@pytest.fixture(scope="session")
def fits_schema():
    import fastjsonschema

    return fastjsonschema.compile(json_schema.record())


@pytest.fixture(autouse=True)
def records_fit_their_schema(request, monkeypatch):
    """Every record that a test writes, or that a sweep of it writes in this process, is as its JSON Schema says."""
    if importlib.util.find_spec("fastjsonschema") is None:
        return  # in the environments of a wheel, of a cluster and of a GPU
    write = record.write

    def checked(written, folder):
        path = write(written, folder)
        request.getfixturevalue("fits_schema")(msgspec.json.decode(path.read_bytes()))
        return path

    monkeypatch.setattr(record, "write", checked)
