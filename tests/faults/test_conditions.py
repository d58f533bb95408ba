import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.project import CEILINGS
from accelbench.schema import record
from accelbench.schema.cell import Status
from accelbench.schema.plan_file import read_planned
from fakes import TESTS, give_ceilings, make_project

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

TINY = ["model=mlp", "model.args.widths=[8]", "data=mnist", "mode=infer", "device=cpu", "batch_size=8", "tracking=none"]
TINY += ["window.measure_s=0.05", "window.warmup_s=0.02", "window.latency_s=0.05"]
TINY += ["window.block_s=0.01", "breakdown_s=0"]
NOBODY = 54_321  # a user without an entry in /etc/passwd
NO_HOME = {"HOME": "/nonexistent"}
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@pytest.fixture
def project(tmp_path):
    """A project on a machine that was probed before, since a probe takes 20 s."""
    root = make_project(tmp_path / "pfad mit ümlaut 'x' und \"y\"")
    give_ceilings(root)
    return root


def accelbench(project, *words, status=0, prefix=(), environment=None, **options):
    """Runs a command in `project`, which ends with this status and without a traceback; what it printed."""
    variables = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src"), **(environment or {})}
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"} | options
    command = [*prefix, sys.executable, "-m", "accelbench.cli", *words]
    done = subprocess.run(command, cwd=project, env=variables, timeout=600, **outputs)
    shown = f"{done.stdout or ''}{done.stderr or ''}"
    assert done.returncode == status, shown
    assert "Traceback" not in shown
    return shown


def is_measured(folder):
    found = list(read_planned(folder))
    return bool(found) and all(each.status == Status.ok for each in found)


def as_nobody():
    """The words before a command that make it another user's.

    If only root may enter the folder of Python, as in root's home, the user may read everything, and write nothing.
    """
    folders = [*Path(sys.executable).resolve().parents, *TESTS.parents]
    may_enter = all(folder.stat().st_mode & 1 for folder in folders)
    reads = [] if may_enter else ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reads]


def give(path, user):
    for each in [path, *path.rglob("*")]:
        os.chown(each, user, user)


@is_root
def test_a_user_without_a_name_or_a_home_who_hides_files(project):
    give(project, NOBODY)
    options = {"prefix": as_nobody(), "umask": 0o077, "environment": NO_HOME | {"LANG": "C"}}
    for words in (["plan", *TINY], [*TINY, "tracking=mlflow", "out=runs/a"], ["best", "runs/a"], ["report", "runs/a"]):
        accelbench(project, *words, **options)
    assert accelbench(project, "sync", **options) == "MLflow: 0 runs delivered.\n"
    assert is_measured(project / "runs/a")


@is_root
def test_a_checkout_that_can_not_be_written(project):
    give(project, 0)
    options = {"prefix": as_nobody(), "environment": NO_HOME}
    accelbench(project, "plan", *TINY, **options)
    shown = accelbench(project, *TINY, "out=runs/a", status=2, **options)
    assert shown.startswith("accelbench: out=runs/a: not writable (Permission denied)")
    (project / "runs").mkdir()
    give(project / "runs", NOBODY)
    shown = accelbench(project, *TINY, "tracking=mlflow", "out=runs/a", **options)
    assert "MLflow lacks runs (mlflow.lock: not writable (Permission denied))" in " ".join(shown.split())
    assert is_measured(project / "runs/a")
    told = "accelbench: mlflow.lock: not writable (Permission denied)\n"
    assert accelbench(project, "sync", status=2, **options) == told
    for words in (["best", "runs/a"], ["report", "runs/a"], ["doctor"]):
        accelbench(project, *words, **options)
    assert sorted(path.name for path in project.iterdir()) == [CEILINGS, "conf", "data", "params.yaml", "runs"]


def test_outputs_that_are_full_or_closed(project):
    with Path("/dev/full").open("w") as full:
        told = accelbench(project, *TINY, "out=runs/full", status=2, stdout=full, stderr=subprocess.PIPE)
    assert told == "accelbench: the output, or a temporary file: disk full\n"
    accelbench(project, *TINY, "out=runs/full")  # it goes on
    accelbench(project, *TINY, "out=runs/closed", prefix=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
    for folder in ("runs/full", "runs/closed"):
        assert is_measured(project / folder)
    assert {record.read(path).error for path in project.glob("runs/*/*-*.json")} == {None}
