import io
import re

import pytest
from rich.console import Console

from accelbench.data.obtain import Obtained
from accelbench.data.prepare import describe
from accelbench.devices import packages
from accelbench.devices.registry import look
from accelbench.doctor import show
from accelbench.project import OUR_SCHEMA, Workplace
from accelbench.schema.vocab import Device


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.yaml").write_text(f"defaults:\n  - {OUR_SCHEMA}\n")
    (tmp_path / "params.yaml").write_text("profile: quick\ndata: {mnist: {source: auto}}\nsuites: {one: {}, two: {}}\n")
    return tmp_path


def shown(root, width=200, *, whole=True):
    out = io.StringIO()
    show.show(Workplace.of_project(root), Console(file=out, width=width), whole=whole)
    return out.getvalue()


def prepare(project, name, stand_in):
    (project / "data" / name).mkdir(parents=True)
    reason = "no network" if stand_in else None
    describe(Obtained(classes=(), source="somewhere", stand_in_reason=reason), name, project / "data" / name)


@pytest.mark.parametrize("width", [80, 120])
def test_the_summary_begins_with_the_devices_and_fits_a_terminal(project, width):
    first, *others = shown(project, width, whole=False).splitlines()
    present = [device for device in Device if look(device).present]
    assert first.startswith(f"{', '.join(present)} run")
    assert len(others) < 24  # lines of a terminal; the processor alone may take several
    assert max(map(len, others)) <= width
    for words in ("fp16*", "int8*", "2 suites", "doctor --all"):
        assert any(words in line for line in others)


def test_says_of_devices_engines_and_what_is_skipped_what_they_are_or_why_not(project, monkeypatch):
    folder_of = packages.folder
    monkeypatch.setattr(packages, "folder", lambda name: None if name == "openvino" else folder_of(name))
    text = shown(project)
    for report in map(look, Device):
        assert (report.name if report.present else report.reason) in text
    for line in (
        "pytorch +yes: ",
        "openvino +no: engine=openvino: openvino is not installed",
        "cpu fp16, train +Adam's epsilon underflows in fp16 and the weights turn non-finite: use fp16_mixed",
        "cpu tf32 +tf32 needs",
    ):
        assert re.search(f"^{line}", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("stand_in", "state"),
    [
        (None, "not prepared yet: data/mnist/manifest.json: not there; prepare it with: dvc repro data@mnist"),
        (True, "stand-in: somewhere"),
        (False, "ready: somewhere"),
    ],
)
def test_says_of_each_data_set_whether_it_was_prepared(project, stand_in, state):
    if stand_in is not None:
        prepare(project, "mnist", stand_in)
    line = next(line for line in shown(project).splitlines() if line.startswith("mnist"))
    assert line.removeprefix("mnist").strip() == state
