import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from accelbench.cluster import controller
from accelbench.cluster.controller import name_of_jobs, shares
from accelbench.cluster.job import ClusterEngine
from accelbench.errors import UserError
from accelbench.lock import hold
from accelbench.schema.cell import Device, Status
from accelbench.settings.config import Executor, ExecutorConfig, Retry
from fakes import TESTS, make_cell, make_options

OPTIONS = make_options(executor=ExecutorConfig(name=Executor.slurm))
SHARED = "runs/test/.jobs"

JOB = """
import os, sys
from functools import partial
from accelbench.cluster import job
from accelbench.isolation.hosts import Hosts
from fakes import faulty_host
job.Hosts = partial(Hosts, faulty_host)
job.run_part(sys.argv[1], str(os.getpid()))
"""


class ProcessEngine(ClusterEngine):  # starts a process for each part; as Slurm's, they go on without their controller
    name, num_jobs = "processes", 1

    def __init__(self):
        self.processes = {}  # by job

    def submit(self, part, need, job_name):
        variables = {**os.environ, "PYTHONPATH": str(TESTS), "ACCELBENCH_LOCK": f"{os.getpid()}-{len(self.processes)}"}
        process = subprocess.Popen([sys.executable, "-c", JOB, str(part)], env=variables)
        self.processes[str(process.pid)] = process
        return str(process.pid)

    def states(self, job_name):
        return {job: "RUNNING" for job, process in self.processes.items() if process.poll() is None}

    def cancel(self, jobs):
        for job in jobs:
            self.processes[job].terminate()


@pytest.fixture
def swept(project, monkeypatch):
    """A function that runs a sweep by processes, or by an engine that does as told.

    It gives the records by batch size, what was printed, and the engine. If `match` is given, an error ends it.
    """
    monkeypatch.setattr(controller, "POLL_S", 0.05)

    def swept(cells, match=None, retry=Retry.none, **does):
        processes, result = ProcessEngine(), None
        vars(processes).update(does)
        monkeypatch.setattr(controller, "engine_of", lambda executor: processes)
        console = Console(file=io.StringIO(), width=300)
        with pytest.raises(UserError, match=match) if match else contextlib.nullcontext():
            result = controller.run(cells, dataclasses.replace(OPTIONS, retry=retry), console, hosts=None)
        records = {record.cell.batch_size: record for record in result.records} if result else {}
        return records, console.file.getvalue(), processes

    return swept


def cells_of(*sizes, fault="none", **changes):
    return [make_cell(fault, batch_size=size, **changes) for size in sizes]


def files(project):
    return {path.name: path.read_bytes() for path in (project / "runs/test").glob("*-*.json") if path.exists()}


def statuses(records):
    return {size: record.status for size, record in records.items()}


@pytest.mark.parametrize(
    ("num_repeats", "num_jobs", "expected"),
    [
        (1, 1, [[(0, 1), (0, 2)]]),
        (1, 5, [[(0, 1)], [(0, 2)]]),  # no more jobs than cells
        (3, 2, [[(0, 1), (0, 2), (2, 1), (2, 2)], [(1, 1), (1, 2)]]),  # whole repeats
        (2, 3, [[(0, 1), (1, 2)], [(0, 2)], [(1, 1)]]),  # fewer repeats than jobs
    ],
)
def test_each_cell_has_one_job(num_repeats, num_jobs, expected):
    cells = [cell for repeat in range(num_repeats) for cell in cells_of(1, 2, repeat=repeat)]
    assert [[(cell.repeat, cell.batch_size) for cell in part] for part in shares(cells, num_jobs)] == expected


def test_a_sweep_by_jobs_leaves_a_record_of_each_cell_and_the_next_start_measures_what_is_new_and_failed(
    project, swept, monkeypatch
):
    cells = [*cells_of(1), *cells_of(2, fault="raise")]
    records, text, _ = swept(cells)
    assert statuses(records) == {1: Status.ok, 2: Status.failed}
    assert set(before := files(project)) == {f"{record.name}.json" for record in records.values()}
    assert not (project / SHARED).exists()
    assert "1 ok, 1 failed" in text

    def refuse(path, **options):  # as NFS does, since the lock in the folder is open
        raise OSError("Directory not empty")

    monkeypatch.setattr(controller.os, "rmdir", refuse)
    (project / "runs/test/0123456789ab-01234567.json").symlink_to("gone")  # as a record that is removed meanwhile
    records, text, _ = swept([*cells, *cells_of(4)], retry=Retry.failed)
    assert "1 of 3 cells have their record already" in text
    assert statuses(records) == {1: Status.ok, 2: Status.failed, 4: Status.ok}
    kept = before.items() & files(project).items()
    assert [name for name, _ in kept] == [f"{records[1].name}.json"]


def test_a_refused_job_cancels_those_of_other_groups(project, swept):
    cancelled, states = [], {}

    def refuse(part, need, job_name):
        assert (project / SHARED).stat().st_mode & 0o777 == 0o700  # submitit's pickles are code
        if str(need) == "gpu":
            raise UserError("executor=slurm: refused")
        states[job_name] = {"0": "running"}
        return "0"

    has = {"submit": refuse, "states": lambda job_name: states.get(job_name, {}), "cancel": cancelled.extend}
    swept([*cells_of(1), make_cell(device=Device.gpu)], match="refused", **has)
    assert cancelled == ["0"]


def test_jobs_of_an_earlier_start_are_waited_for_and_not_submitted_again(project, swept):
    """As when a controller is killed. They end without a record; so does the new job, whose log is named and kept."""
    parts, answers = [], iter([{"7": "running"}] * 4)

    def submit(part, need, job_name):
        parts.append(part)
        (part.parent / "0.err").write_text("out of memory")
        return "0"

    message = rf"1 of 1 cells have no record: their jobs ended early: see the logs in {SHARED}/\S+\. The same"
    _, text, _ = swept(cells_of(1), message, submit=submit, states=lambda job_name: next(answers, {}))
    assert "Waiting for 1 job of an earlier start" in text
    (part,) = parts
    assert (part.parent / "0.err").exists()


def test_a_second_controller_of_one_folder_is_refused(project, swept):
    (project / SHARED).mkdir(parents=True)
    with hold(project / SHARED / "lock", "a sweep into this folder"):
        swept(cells_of(1), "a sweep into this folder .* is under way", submit=pytest.fail)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_that_is_ended_loses_no_record_leaves_none_of_a_cut_off_cell_and_goes_on(project, swept, number):
    """A scheduler signals all processes of a job: the cell's end too."""
    processes, cells = {}, cells_of(1, 2, 4, 8)

    def end_after_first():
        while not files(project):
            time.sleep(0.02)
        for process in [*processes.values()]:
            os.kill(process.pid, number)

    killer = threading.Thread(target=end_after_first, daemon=True)
    killer.start()
    swept(cells, "of 4 cells have no record: ", processes=processes)
    killer.join()
    before = files(project)
    assert 1 <= len(before) < 4
    assert all(json.loads(content)["status"] == "ok" for content in before.values())
    records, _, _ = swept(cells)
    assert statuses(records) == dict.fromkeys((1, 2, 4, 8), Status.ok)
    assert before.items() <= files(project).items()


@pytest.mark.parametrize("executor", [Executor.slurm, Executor.ray])
def test_without_its_extra_an_executor_is_refused(executor, monkeypatch):
    package = {Executor.slurm: "submitit", Executor.ray: "ray"}[executor]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"accelbench.cluster.on_{executor}", raising=False)
    message = f"executor={executor}: {package} is not installed: pip install 'accelbench[{executor}]'"
    with pytest.raises(UserError, match=re.escape(message)):
        controller.engine_of(ExecutorConfig(name=executor))


def test_squeue_can_select_the_name_of_the_jobs():
    names = {name_of_jobs(Path(folder)) for folder in ("runs/a,b", "runs/a-b")}
    assert len(names) == 2
    assert all(name.startswith("accelbench-a-b-") for name in names)
