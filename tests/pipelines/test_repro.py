import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from accelbench.schema.cell import Status
from fakes import make_project, write_sweep
from sinks import samples

ROOT = Path(__file__).resolve().parents[2]
SUITE = {"data": "mnist", "quick": ["model=mlp mode=train,infer"]}


@pytest.fixture
def repro(tmp_path, monkeypatch):
    """The script in a temporary project of one suite; `calls` holds the arguments of its calls of DVC."""
    monkeypatch.syspath_prepend(ROOT / "pipelines")
    monkeypatch.delitem(sys.modules, "repro", raising=False)
    module = importlib.import_module("repro")
    module.calls, module.real_dvc, module.STARTED_S = [], module.Job.dvc, 1.0
    monkeypatch.chdir(make_project(tmp_path))
    change(tmp_path, suites={"mnist_networks": SUITE})
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.Job, "dvc", lambda job, *words: module.calls.append(words) or True)
    return module


def change(root, **changes):
    settings = yaml.safe_load((root / "params.yaml").read_text())
    (root / "params.yaml").write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False))


@pytest.mark.parametrize(
    ("statuses", "code"),
    [((Status.ok, Status.skipped), 0), ((Status.ok, Status.invalid), 1), ((Status.ok, Status.failed), 1)],
)
def test_the_exit_status_says_whether_a_cell_failed_unexpectedly(repro, statuses, code, capsys, monkeypatch):
    made = [samples.record(samples.cell(seed=number), status) for number, status in enumerate(statuses)]
    write_sweep(repro.ROOT / "results" / "mnist_networks", *made, suite="mnist_networks")
    opened = []
    monkeypatch.setattr(repro.Job, "measure", lambda job: None)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert repro.main() == code
    assert opened == [f"{(repro.ROOT / 'report' / 'index.html').as_uri()}#viewer"]
    out, err = capsys.readouterr()
    assert ("mnist_networks: " in err) == bool(code)
    assert ("\nWithout a number: 1 cell. Set retry: failed in params.yaml" in out) == (Status.failed in statuses)
    parts = "19 s of cells, 30 s to measure the best again, 60 s for data and report"
    assert f"1 suite, 2 cells to measure: about 109 s ({parts})." in out
    assert repro.calls == [("data@mnist",), ("report",)]
    assert "The report lacks" not in out
    change(repro.ROOT, strict=False, report_extension="nope/mine.py")
    assert repro.main() == 0
    assert "The report lacks the project's extension: params.yaml: report_extension: " in capsys.readouterr().out


def test_a_failure_of_dvc_is_shown_with_its_log_of_which_neither_holds_a_secret(repro, monkeypatch, capsys):
    monkeypatch.setattr(repro.Job, "dvc", repro.real_dvc)
    log = repro.ROOT / "runs" / "repro.log"
    (repro.ROOT / "dvc.lock").touch()
    assert repro.main("nope") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: DVC could not finish:\nERROR: you are not inside of a DVC repository")
    assert f"\nThe whole output: {log}\ndvc.lock is empty or invalid: remove it" in err
    monkeypatch.setenv("SERVICE_TOKEN", "q8ZpL2xVw7")
    code = "import os\nprint('401 for', os.environ['SERVICE_TOKEN'])\nprint('the end', end='')\nraise SystemExit(1)\n"
    (repro.ROOT / "dvc.py").write_text(code)  # which `python -m dvc` runs in this folder
    assert repro.main("any") == 2
    assert log.read_text() == "401 for ***\nthe end"
    assert capsys.readouterr().err.startswith("error: DVC could not finish:\n401 for ***\nthe end\n")


@pytest.mark.parametrize("changes_code", [False, True])
def test_suites_are_measured_after_their_data_unless_code_or_settings_have_changed(
    repro, monkeypatch, capsys, changes_code
):
    def measure(suite, *_, **__):
        repro.calls.append(suite.name)
        if changes_code:
            (repro.ROOT / "conf/model/mine.yaml").touch()

    monkeypatch.setattr(repro.pipeline.Suite, "measure", measure)
    monkeypatch.setattr(repro.pipeline, "confirm_best", lambda *_: repro.calls.append("confirm"))
    # On most machines all cells of the first one are skipped; its plan is written before the best cells are chosen.
    change(repro.ROOT, suites={"gpus": {**SUITE, "always": "device=gpu"}, "mnist_networks": SUITE})
    with repro.Job(repro.Console(highlight=False, soft_wrap=True)) as job:
        assert job.prepare_data()
        job.measure()
    assert repro.calls[:2] == [("data@mnist",), "gpus"]
    if changes_code:
        assert job.done == []
        assert "DVC's stages measure the rest" in capsys.readouterr().out
    else:  # the stages of DVC find them done
        assert job.done == repro.calls[1:] == ["gpus", "mnist_networks", "confirm"]


def test_the_report_depends_on_every_module_that_makes_it():
    code = "import sys, accelbench.report.build; print(*(m.__file__ for m in map(sys.modules.get, sorted(sys.modules)) "
    code += "if m.__name__.startswith('accelbench.') and m.__file__))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    made_of = {Path(name).relative_to(ROOT).as_posix() for name in done.stdout.split()}
    listed = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["report"]["deps"]
    missing = {name for name in made_of if not any(name == dep or name.startswith(f"{dep}/") for dep in listed)}
    # An error's class, and how a reading process ends with its parent, do not change the report.
    exempt = {"src/accelbench/errors.py", "src/accelbench/lifeline.py"}
    assert {name for name in missing if not name.endswith("__init__.py")} <= exempt
