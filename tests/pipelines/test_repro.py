import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from accelbench.schema import plan_file, record
from accelbench.schema.vocab import Status
from fakes import make_project
from sinks import samples

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "pipelines" / "repro.py"


@pytest.fixture
def repro(tmp_path, monkeypatch):
    """The script in a temporary project; `calls` holds the arguments of its calls of DVC."""
    spec = importlib.util.spec_from_file_location("repro", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.calls = []
    root = make_project(tmp_path)
    settings = yaml.safe_load((root / "params.yaml").read_text())
    suites = {name: axes for name, axes in settings["suites"].items() if name == "mnist_networks"}
    (root / "params.yaml").write_text(yaml.safe_dump({**settings, "suites": suites}))
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(module, "dvc", lambda *words: module.calls.append(words) or True)
    monkeypatch.setattr(module.sys, "argv", ["repro.py"])
    return module


def write_records(root, *statuses):
    """Writes a sweep's records, one per status, and the plan that names them."""
    folder = root / "results" / "mnist_networks"
    made = [samples.record(samples.cell(seed=number), status) for number, status in enumerate(statuses)]
    for planned in made:
        record.write(planned, folder)
    cells = [plan_file.WantedCell(planned.cell, planned.name) for planned in made]
    plan = plan_file.PlanFile(suite="mnist_networks", title="Five networks", study="001", profile="quick", cells=cells)
    plan_file.write_plan(plan, folder)


def ask_to_retry(root):
    settings = yaml.safe_load((root / "params.yaml").read_text())
    (root / "params.yaml").write_text(yaml.safe_dump({**settings, "retry": "failed"}))


@pytest.mark.parametrize("status", [Status.failed, Status.timeout, Status.killed])
def test_retry_forces_a_suite_with_failed_cells_because_dvc_sees_no_change(repro, status):
    write_records(repro.ROOT, Status.ok, status)
    repro.main()
    assert repro.calls == [("repro", "report")]
    ask_to_retry(repro.ROOT)
    repro.calls.clear()
    repro.main()
    assert repro.calls == [("repro", "--force", "--single-item", "sweep@mnist_networks"), ("repro", "report")]


@pytest.mark.parametrize("status", [Status.ok, Status.skipped, Status.oom, Status.invalid])
def test_retry_does_not_force_a_suite_that_would_end_the_same_way(repro, status):
    write_records(repro.ROOT, status)
    ask_to_retry(repro.ROOT)
    repro.main()
    assert repro.calls == [("repro", "report")]


def test_before_the_first_run_there_is_nothing_to_retry(repro):
    ask_to_retry(repro.ROOT)
    repro.main()
    assert repro.calls == [("repro", "report")]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [((Status.ok, Status.skipped), 0), ((Status.ok, Status.oom), 1), ((Status.failed,), 1), ((Status.invalid,), 1)],
)
def test_the_exit_status_says_whether_a_cell_failed_unexpectedly(repro, statuses, code, capsys):
    write_records(repro.ROOT, *statuses)
    assert repro.main() == code
    assert ("mnist_networks: " in capsys.readouterr().err) == bool(code)


def test_a_record_that_cannot_be_read_is_named_and_counts_as_a_failure(repro, capsys):
    write_records(repro.ROOT, Status.ok, Status.ok)
    bad = next((repro.ROOT / "results" / "mnist_networks").glob("*-*.json"))
    bad.write_text("{")
    ask_to_retry(repro.ROOT)
    assert repro.main() == 1
    assert f"{bad.name}: not a readable record (" in capsys.readouterr().err


def test_the_report_depends_on_every_module_that_makes_it():
    code = "import sys, accelbench.report.build; print(*(m.__file__ for m in map(sys.modules.get, sorted(sys.modules)) "
    code += "if m.__name__.startswith('accelbench.') and m.__file__))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    made_of = {Path(name).relative_to(ROOT).as_posix() for name in done.stdout.split()}
    listed = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["report"]["deps"]
    missing = {name for name in made_of if not any(name == dep or name.startswith(f"{dep}/") for dep in listed)}
    exempt = {"src/accelbench/errors.py"}  # an error's class does not change the report
    assert {name for name in missing if not name.endswith("__init__.py")} <= exempt
