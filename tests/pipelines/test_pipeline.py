"""The main job as a user runs it: real DVC, real MLflow and real cells, in a copy of a used checkout."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import checkouts
from accelbench.lock import hold
from fakes import give_ceilings

SUITE = """\
profile: quick
profiles: {}
retry: none
confirm_s: 0
costs: {}
report_extension: null
data: {mnist: {source: auto}}
suites:
  mnist_networks:
    data: mnist
    override: {batch_size: ~}
    always: >-
      model=mlp mode=infer device=cpu,gpu threads=1 timeout_s=100
      window.warmup_s=0.02 window.measure_s=0.1 window.block_s=0.01 window.latency_s=0.05
    quick:
      - batch_size=8,16
"""

pytestmark = pytest.mark.timeout(600)


class Project:
    """A copy of the project in a new git repository, where gpu cells are skipped."""

    def __init__(self, root):
        self.root = root
        bin_folder = Path(sys.executable).parent
        # SHELL: DVC runs stages in it, and in /bin/sh if it is not set, as in many containers.
        # CUDA_VISIBLE_DEVICES: the gpu cells are skipped, also on a machine with a GPU, so that the counts below hold.
        self.env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "SHELL": "/bin/sh"}
        self.env["CUDA_VISIBLE_DEVICES"] = ""

    def set(self, old, new):
        text = self.read("params.yaml")
        assert old in text
        (self.root / "params.yaml").write_text(text.replace(old, new))

    def read(self, name):
        return (self.root / name).read_text()

    def start(self):
        command = [sys.executable, "pipelines/repro.py"]
        return subprocess.Popen(command, cwd=self.root, env=self.env, stdout=-1, stderr=subprocess.STDOUT, text=True)

    def repro(self, status=0):
        """What the job prints, and how many cells it measured."""
        job = self.start()
        output, _ = job.communicate(timeout=300)
        assert job.returncode == status, output
        return output, measured(output)

    def dvc(self, *words):
        command = [sys.executable, "-m", "dvc", *words]
        return subprocess.run(command, cwd=self.root, env=self.env, check=True, capture_output=True, text=True).stdout

    def git(self, *words):
        return checkouts.git(self.root, *words)

    def records(self):
        return sorted((self.root / "results" / "mnist_networks").glob("*-*.json"))


def measured(output):
    """How many cells the sweep ran, counted from its output."""
    return len(re.findall(r"^\[ *\d+/\d+\] ", output, re.MULTILINE))


@pytest.fixture(scope="module")
def project(tmp_path_factory, empty_store):
    checkout = checkouts.used(tmp_path_factory.mktemp("used"))
    root = checkouts.copy(tmp_path_factory.mktemp("project"), *checkouts.JOB, source=checkout)
    shutil.copy(empty_store / "mlflow.db", root)
    (root / "params.yaml").write_text(SUITE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CUDA_VISIBLE_DEVICES", "")  # as in the project
        give_ceilings(root)
    made = Project(root)
    made.git("init", "-q")
    made.git("add", "-A")
    made.git("commit", "-qm", "start")
    return made


def test_the_main_job_makes_records_runs_and_a_report(project):
    output, num = project.repro()
    for part in (
        r"^Running data/mnist ...\n1 suite, 2 cells to measure: about \d+ (s|min) "
        r"\(\d+ s of cells, \d+ (s|min) for data and report\)\.\n",
        r"\nSuite 1 of 1: mnist_networks \(2 of 4 cells to measure, about \d+ s\)\nMeasures a stand-in ",
        r"\n- 2 of 4 cells: 2 skipped \((no NVIDIA driver|CUDA_VISIBLE_DEVICES='')",
        r"\nReport  report/index.html   \(\d+ (s|min)\)\nNext .*git add dvc.lock && git commit\n$",
    ):
        assert re.search(part, output), output
    assert (num, "Running stage" in output) == (2, False)
    assert project.git("status", "--porcelain") == "?? dvc.lock\n"
    assert len(project.records()) == 4
    with sqlite3.connect(project.root / "mlflow.db") as store:
        assert store.execute("SELECT count(*) FROM tags WHERE key = 'record'").fetchone() == (2,)
    assert "stand-ins for mnist" in project.read("report/report.md")
    assert "NOT MNIST" in project.read("report/index.html")
    assert json.loads(project.read("report/metrics.json"))["ok"] == 2


@pytest.mark.slow
def test_pushed_cloned_and_pulled_the_report_is_the_same(project, tmp_path):
    project.git("add", "dvc.lock")
    project.git("commit", "-qm", "Measure")
    project.git("clone", "-q", str(project.root), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone")
    for each, word in ((project, "push"), (clone, "pull")):
        each.dvc("remote", "add", "--local", "--default", "storage", str(tmp_path / "storage"))
        each.dvc(word)
    contents = [
        {path.relative_to(root): path.read_bytes() for path in (root / "report").rglob("*") if path.is_file()}
        for root in (project.root, clone.root)
    ]
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_unchanged_nothing_is_measured_and_with_a_changed_value_the_new_cells_only(project):
    before = {path: path.stat().st_mtime_ns for path in project.records()}
    with (project.root / "pyproject.toml").open("a") as file:
        file.write("# changed\n")  # a part of neither the machine nor the code
    project.git("commit", "-qam", "words")
    output, num = project.repro()
    assert num == 0
    assert output.startswith("1 suite: every cell has its record.\n")
    assert "Stage 'sweep@mnist_networks' didn't change, skipping" in project.read("runs/repro.log")
    assert {path: path.stat().st_mtime_ns for path in project.records()} == before
    assert "git commit" not in output
    assert project.git("status", "--porcelain") == ""
    project.set("batch_size=8,16", "batch_size=8,32")
    output, num = project.repro()
    assert num == 1
    assert "2 of 4 cells have their record already." in output
    assert len(project.records()) == 6  # the records of batch 16 are kept
    assert "-b16" not in project.read("report/cells.csv")
    assert re.search(r"ok +skipped\nreport/metrics.json +0 +0 +[0-2] +1 +2 +2\n", project.dvc("metrics", "show"))
    changed = r"params.yaml +suites.mnist_networks.quick +\['batch_size=8,16'\] +\['batch_size=8,32'\]"
    assert re.search(changed, project.dvc("params", "diff"))


def test_a_second_job_exits_while_one_is_under_way(project):
    with hold(project.root / ".accelbench.lock", "the test"):
        assert "is under way" in project.repro(status=2)[0]


@pytest.mark.slow
def test_a_killed_job_ends_all_its_processes_and_the_next_continues_where_it_stopped(project):
    project.set("batch_size=8,32", "batch_size=8,32,33,34,35,36")
    before = len(project.records())
    job = project.start()
    deadline = time.monotonic() + 120
    while len(project.records()) < before + 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(job.pid, signal.SIGKILL)
    job.communicate(timeout=60)  # returns once all processes that it started have ended
    kept = len(project.records())
    assert before + 1 <= kept < 12 + 2
    output, _ = project.repro()
    assert len(project.records()) == 14  # 12 cells, and the two of batch 16, which the plan no longer names
    assert f"{kept - 2} of 12 cells have their record already." in output


@pytest.mark.slow
def test_changed_measuring_code_measures_again_and_a_cell_that_fails_is_in_the_report_and_the_exit_status(project):
    project.set("batch_size=8,32,33,34,35,36", "batch_size=8")
    project.set("timeout_s=100", "timeout_s=0.001")  # no part of a cell's identity
    with (project.root / "src" / "accelbench" / "measuring" / "clock.py").open("a") as file:
        file.write("CHANGED = 1\n")  # a comment measures nothing again
    output, num = project.repro(status=1)
    assert num == 1
    assert "have their record already" not in output
    assert "timeout: no result within 0.001 s" in output
    assert "timeout" in project.read("report/cells.csv")
    # Plain `dvc repro` ends like it, and tries the cell again as often as it is asked to.
    project.set("retry: none", "retry: failed")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError) as failed:
            project.dvc("repro")
        assert measured(failed.value.stdout) == 1
        assert "timeout: no result within 0.001 s" in failed.value.stderr
    # An experiment keeps its result.
    project.dvc("exp", "run", "-n", "kept", "-S", "suites.mnist_networks.override.batch_size=9")
    assert "kept" in project.dvc("exp", "list")
