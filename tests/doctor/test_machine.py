import io
import re
import subprocess
import sys

import pytest
from rich.console import Console

from accelbench.data.obtain import Obtained
from accelbench.data.prepare import describe
from accelbench.devices import packages
from accelbench.devices.registry import look
from accelbench.doctor import show
from accelbench.errors import UserError
from accelbench.project import OUR_LAUNCHER, Workplace
from accelbench.schema.vocab import Device, Precision


@pytest.fixture
def project(tmp_path):
    models = {"cnn": "adam", "lstm": "sgd"}
    (tmp_path / "conf/model").mkdir(parents=True)
    for name, optimizer in models.items():
        (tmp_path / f"conf/model/{name}.yaml").write_text(f"name: {name}\noptimizer: {optimizer}\n")
    (tmp_path / "conf/config.yaml").write_text(f"defaults:\n  - {OUR_LAUNCHER}\n")
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
    assert len(others) < 12
    assert max(map(len, others)) <= width
    for words in ("fp16*", "int8*", "2 suites", "doctor --all"):
        assert any(words in line for line in others)


def test_the_summary_counts_the_data_sets_by_state(project):
    assert re.search(r"^data +1 not prepared yet", shown(project, whole=False), re.MULTILINE)
    prepare(project, "mnist", stand_in=True)
    assert re.search(r"^data +1 stand-in", shown(project, whole=False), re.MULTILINE)


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(project, width):
    text = shown(project, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for word in [*Device, *Precision]:
        assert word in text


def test_says_of_each_device_what_it_is_or_why_it_is_not_there(project):
    text = shown(project)
    for report in map(look, Device):
        assert (report.name if report.present else report.reason) in text


def test_says_which_engines_run_and_how_another_one_is_installed(project, monkeypatch):
    found = packages.folder
    monkeypatch.setattr(packages, "folder", lambda name: None if name == "openvino" else found(name))
    text = shown(project)
    assert re.search(r"^lightning +yes", text, re.MULTILINE)
    assert re.search(r"^openvino +no +engine=openvino: openvino is not installed", text, re.MULTILINE)


def test_says_what_is_skipped_and_why(project):
    text = shown(project)
    assert "cpu fp16, train: cnn\n" in text
    assert "Adam's epsilon underflows in fp16 and the weights turn non-finite: use fp16_mixed" in text
    assert "cpu tf32\n" in text


def test_data_set_not_prepared(project):
    line = next(line for line in shown(project).splitlines() if line.startswith("mnist"))
    assert "data/mnist/manifest.json: not there; prepare it with: dvc repro data@mnist" in line


@pytest.mark.parametrize(("stand_in", "state"), [(True, "stand-in"), (False, "yes")])
def test_data_set_prepared(project, stand_in, state):
    prepare(project, "mnist", stand_in)
    line = next(line for line in shown(project).splitlines() if line.startswith("mnist"))
    assert line.split() == ["mnist", state, "somewhere"]


def test_outside_of_a_project(project, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = Workplace.outside(project)
    out = io.StringIO()
    for prepared in (False, True):
        if prepared:
            (place.data / "mnist").mkdir(parents=True)
            describe(Obtained(classes=(), source="somewhere"), "mnist", place.data / "mnist")
        show.show(place, Console(file=out, width=200), whole=True)
    text = out.getvalue()
    assert f"none yet in {place.data}" in text
    assert re.search(r"^mnist +yes +somewhere", text, re.MULTILINE)
    assert "no params.yaml with suites here or above: `accelbench init` makes a project" in text


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "prfile: quick\n", "suites: true\n", "data: 1\n"])
def test_params_that_are_not_readable_are_part_of_the_answer(project, text):
    (project / "params.yaml").write_text(text)
    found = shown(project)
    assert "params.yaml: " in found.partition("Settings")[2]
    assert "cpu" in found


@pytest.mark.parametrize("text", ["name: [", "- 1\n", "optimizer: adam\n", "name: x\noptimizer: ${nowhere}\n"])
def test_a_broken_model_is_named(project, text):
    (project / "conf/model/odd.yaml").write_text(text)
    with pytest.raises(UserError, match=r"conf/model/odd\.yaml"):
        shown(project)


def test_it_imports_no_framework(project):
    code = (
        "import sys; from accelbench.project import workplace; from accelbench.doctor.show import show; "
        "show(workplace(), whole=True); "
        "sys.exit(bool({'torch', 'torch_xla', 'tensorflow', 'pytorch_lightning', 'mlflow'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=project)


@pytest.mark.parametrize(
    ("shown", "tensorflows", "found", "words"),
    [
        ([], ["never asked"], False, "no NVIDIA GPU or driver found"),
        (["H200"], [], False, "finds none of 1 GPU and would take the CPU: it needs CUDA libraries of its own"),
        (["H200", "H200"], None, False, "TensorFlow did not start"),
        (["H200", "H200"], ["NVIDIA H200"], True, "NVIDIA H200, 1 of 2"),
        (["H200"], ["NVIDIA H200"], True, "NVIDIA H200"),
    ],
)
def test_a_gpu_that_tensorflow_does_not_find_is_named_with_the_reason(shown, tensorflows, found, words):
    answer = show.tensorflow_gpus(lambda: shown, lambda: tensorflows)
    assert answer[0] is found
    assert words in answer[1]


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("""print('a log'); print('["NVIDIA H200"]')""", ["NVIDIA H200"]),
        ("raise SystemExit(1)", None),
        ("", None),
        ("print('no json')", None),
    ],
)
def test_the_answer_is_the_last_line_of_a_process(monkeypatch, code, answer):
    monkeypatch.setattr(show, "ASK", [sys.executable, "-c", code])
    assert show.ask_tensorflow() == answer
