"""Random kills of all processes that a sweep has; commands that read its folder while it writes; what can't be written.

FAULTS_SEED chooses the kills; else they are others each time.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from accelbench.errors import UserError
from accelbench.project import CEILINGS, PLAN, RECORDS
from accelbench.schema import record as records
from accelbench.schema.cell import Status
from accelbench.schema.plan_file import read_planned
from accelbench.sinks.mlflow_fields import start_ms
from fakes import QUICK, TESTS, blocks_of, give_ceilings, make_measurement, make_project

SEED = int(os.environ.get("FAULTS_SEED") or random.randrange(1000))
# Runs a command on cells of the engine that fails as told (`fakes`).
COMMAND = """
import json, sys
from accelbench import cli
from accelbench.isolation import hosts
from accelbench.settings import compose
from accelbench.settings.config import Retry
from accelbench.sweep import run, session, terminal  # before the kills begin
from fakes import faulty_host, make_cell, make_options

job = json.loads(sys.argv[1])
cells = [make_cell("last", batch_size=size, timeout_s=3.0) for size in range(1, job["num"] + 1)]
options = make_options(tracking=job["tracking"], out=job["out"], retry=Retry.failed)
hosts.START_S, hosts.MARGIN_S = 10.0, 5.0  # how long a sweep waits for a host that is stopped
faulty = hosts.Hosts(faulty_host)
hosts.Hosts = lambda *_: faulty
# Hydra takes longer than all the rest, and is over when the sweep begins.
compose.asked = lambda words: [[] for _ in cells]
compose.runs_of = lambda jobs: cells
compose.cells_of = lambda configs: (cells, options)
print("begins", flush=True)
sys.exit(cli.main(job["words"]))
"""
NUM_CELLS = 40
SIZES = [*range(1, NUM_CELLS + 1)]
# What befalls a process, and how many of the kills.
KILLED = {"sweep": 10, "host": 6, "forkserver": 5, "cell": 6, "tracker": 2}
STOPPED = {"cell": 2, "forkserver": 1, "host": 1, "sweep": 1}
KILLS = {(name, signal.SIGKILL): num for name, num in KILLED.items()}
KILLS |= {(name, signal.SIGSTOP): num for name, num in STOPPED.items()}
LONGEST_WAIT_S = 0.8  # until the next kill
STOPPED_S = 1.0  # for how long a sweep is stopped; other processes stay so
PATIENCE_S = 120.0
ENDS_S = 15.0  # until all processes of a killed sweep must have ended

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]


class Bed:  # a project and a temporary folder, both in `watched`, and sweeps in it
    def __init__(self, folder, tracking="none"):
        self.folder, self.tracking, self.watched = folder, tracking, folder / "in"
        self.project, self.scratch = make_project(self.watched / "project"), self.watched / "tmp"
        self.scratch.mkdir()

    def start(self, *words, out="runs/faults"):
        job = {"words": words or ["run", f"out={out}"], "out": out, "tracking": self.tracking, "num": NUM_CELLS}
        variables = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        variables |= {"FAULTS_BED": str(self.watched), "TMPDIR": str(self.scratch)}
        variables |= {"ACCELBENCH_LOCK": str(self.watched), "PYTHONPATH": str(TESTS)}
        output = self.folder / f"output-{time.monotonic_ns()}"
        with output.open("wb") as file:
            options = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, "env": variables}
            process = subprocess.Popen([sys.executable, "-c", COMMAND, json.dumps(job)], cwd=self.project, **options)
        process.output = output
        while not output.read_text() and process.poll() is None:
            time.sleep(0.01)
        return process

    def end(self, process, codes=(0,)):
        code, printed = process.wait(PATIENCE_S), process.output.read_text(errors="replace")
        assert code in codes, printed
        assert "Traceback" not in printed
        assert "not a readable record" not in printed
        return code

    def run(self, *words, **options):
        self.end(self.start(*words, **options))

    def records(self, out="runs/faults"):
        """The records that can be read, each of which is true, by batch size."""
        found = {}
        for path in (self.project / out).glob(RECORDS):
            with contextlib.suppress(UserError):
                record = records.read(path)
                assert is_true(record)
                found[record.cell.batch_size] = record
        return found

    def processes(self):
        """Those that the sweeps started and that still run; not the sweep itself, if it runs."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                if f"FAULTS_BED={self.watched}".encode() in variables and COMMAND not in process.cmdline():
                    found.append(process)
        return found

    def all_end(self):
        deadline = time.monotonic() + ENDS_S
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for process in left:
            process.kill()
        return not left

    def left_behind(self, out):
        """Files that no sweep should leave, once what killed processes were writing is old enough to be removed."""
        for path in self.watched.rglob(".accelbench-*"):
            os.utime(path, (0, 0))
        self.run(out=out)
        wanted = {PLAN, ".hydra", *(path.name for path in (self.project / out).glob(RECORDS))}
        found = [path for path in (self.project / out).iterdir() if path.name not in wanted]
        # Python's tempfile writes a file to try a folder; what it leaves when it is killed then has no name of ours.
        return found + [path for path in self.scratch.iterdir() if not re.fullmatch("[a-z0-9_]{8}", path.name)]

    def wrong_runs(self, outs):
        """What the store should not have: not one finished run for each record, or one of another that does not end."""
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{self.project}/mlflow.db")
        experiment = client.get_experiment_by_name("accelbench/test").experiment_id
        found = client.search_runs([experiment], "tags.record != ''", max_results=10_000)
        runs = [((run.data.tags["record"], run.info.start_time), run.info.status) for run in found]
        wanted = {(record.name, start_ms(record)) for out in outs for record in self.records(out).values()}
        delivered = Counter(key for key, status in runs if status == "FINISHED")
        # Those of a cell that failed and was measured again.
        unfinished = [run for run in runs if run[0] not in wanted and run[1] not in ("FINISHED", "KILLED", "FAILED")]
        return [key for key in wanted if delivered[key] != 1] + unfinished


def is_true(record):
    """Whether it is what the engine `fakes` measures, or a failure with a reason and without numbers."""
    if record.status == Status.ok:
        found = record.measurement and replace(record.measurement, allocator=None, allocator_library=None, checked=[])
        return found == make_measurement(blocks=blocks_of(record.cell)) and record.reason is None
    is_failure = record.status in (Status.failed, Status.killed, Status.timeout)
    return is_failure and bool(record.reason) and record.measurement is None


def role_of(process):
    """Which of a sweep's processes this one is; None if it has ended."""
    try:
        words, words_of_parent = (" ".join(each.cmdline()) for each in (process, process.parent()))
    except (psutil.Error, AttributeError):
        return None
    if "multiprocessing.forkserver" in words:
        return "cell" if "multiprocessing.forkserver" in words_of_parent else "forkserver"
    return "tracker" if "resource_tracker" in words else "host"


def disturb(bed, sweep, kills, generator):
    """Kills or stops processes of a sweep until it ends; whether it was killed itself."""
    while kills and sweep.poll() is None:
        time.sleep(generator.uniform(0, LONGEST_WAIT_S))
        role, number = kill = kills.pop()
        found = [psutil.Process(sweep.pid)] if role == "sweep" else bed.processes()
        victims = [process for process in found if role in ("sweep", role_of(process))]
        try:
            victims[0].send_signal(number)
        except (psutil.NoSuchProcess, IndexError):
            kills.insert(0, kill)  # another one, if there is no such process at the moment
            continue
        if role == "sweep" and number == signal.SIGKILL:
            return True
        if role == "sweep":
            time.sleep(STOPPED_S)
            victims[0].resume()
    return False


def test_a_sweep_survives_kills_of_all_its_processes(tmp_path, capsys):
    generator = random.Random(SEED)
    kills = [kill for kill, num in KILLS.items() for _ in range(num)]
    generator.shuffle(kills)
    ends, outs, start = Counter(), [], time.monotonic()
    bed = Bed(tmp_path, "mlflow")
    while kills:
        outs.append(out := f"runs/kills{len(outs)}")
        code = None
        while code != 0:
            sweep = bed.start(out=out)
            is_killed = disturb(bed, sweep, kills, generator)
            code = bed.end(sweep, codes=(0, 1, -9) if is_killed else (0, 1))
            ends[code] += 1
            found = bed.records(out)
            assert len(found) == len([*(bed.project / out).glob(RECORDS)])
        assert sorted(found) == SIZES
        assert {each.status for each in found.values()} == {Status.ok}
        assert bed.all_end()
        assert bed.left_behind(out) == []
    bed.run("sync")
    with capsys.disabled():
        print(f"seed {SEED}: {len(outs)} sweeps of {NUM_CELLS} cells, {dict(ends)}, {time.monotonic() - start:.0f} s")
    assert bed.wrong_runs(outs) == []
    for path in bed.watched.rglob("*.lock"):
        with path.open() as file:  # nobody holds it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_who_reads_while_a_sweep_measures_sees_whole_records_alone(tmp_path):
    bed, reads = Bed(tmp_path), (["best"], ["merge", "--into", "merged"], ["report"])
    sweep = bed.start()
    while sweep.poll() is None:
        if bed.records():
            for process in [bed.start(*words, "runs/faults") for words in reads]:
                bed.end(process)
    bed.end(sweep)
    found = bed.records()
    assert sorted(found) == SIZES
    bed.run("merge", "runs/faults", "--into", "merged")
    merged = [records.read(path) for path in bed.project.glob("merged/*/*-*.json")]
    assert {each.name: each for each in merged} == {each.name: each for each in found.values()}


TINY = ["model=mlp", "model.args.widths=[8]", "data=mnist", "tracking=none", *QUICK]
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
    assert {records.read(path).error for path in project.glob("runs/*/*-*.json")} == {None}
