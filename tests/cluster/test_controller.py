"""Sweeps by jobs that are real processes, of the engine that fails as told (`fakes`)."""

import contextlib
import dataclasses
import errno
import io
import json
import os
import re
import signal
import sys
import threading
import time

import pytest
from rich.console import Console

from accelbench.cluster import controller
from accelbench.cluster.controller import shares
from accelbench.errors import UserError
from accelbench.lock import hold
from accelbench.schema.vocab import Device, Status
from accelbench.settings.config import Executor, ExecutorConfig, Retry
from cluster.jobs import ProcessEngine
from fakes import make_cell, make_options

OPTIONS = make_options(executor=ExecutorConfig(name=Executor.slurm))
SIZES = (1, 2, 4, 8)
SHARED = "runs/test/.jobs"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(controller, "POLL_S", 0.05)


@pytest.fixture
def swept(project, monkeypatch):
    """A function that runs a sweep by processes: its result, what it printed and the engine."""

    def swept(cells, num_jobs=1, processes=None, error=None, match=None, **options):
        processes = processes or ProcessEngine(num_jobs)
        monkeypatch.setattr(controller, "engine_of", lambda executor: processes)
        console, result = Console(file=io.StringIO(), width=300), None
        with pytest.raises(error, match=match) if error else contextlib.nullcontext():
            result = controller.run(cells, dataclasses.replace(OPTIONS, **options), console, hosts=None)
        return result, console.file.getvalue(), processes

    return swept


@pytest.fixture
def stopped(swept):
    """A function: runs a sweep by an engine that does as told, which ends with an error; what was printed."""

    def stopped(error=UserError, match="1 of 1 cells have no record", cells=None, **does):
        processes = ProcessEngine()
        vars(processes).update({"submit": lambda part, need, job_name: "0"} | does)
        return swept(cells or cells_of(1), processes=processes, error=error, match=match)[1]

    return stopped


def cells_of(*sizes, fault="none", **changes):
    return [make_cell(fault, batch_size=size, **changes) for size in sizes]


def files(project):
    return {path.name: path.read_bytes() for path in (project / "runs/test").glob("*-*.json")}


def rounds(project):
    return [path for path in (project / SHARED).glob("*") if path.is_dir()]


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


def test_a_sweep_by_a_job_leaves_the_records_of_each_cell_and_nothing_else(project, swept):
    result, text, _ = swept(cells_of(1, 2))
    assert [(record.cell.batch_size, record.status) for record in result.records] == [(1, Status.ok), (2, Status.ok)]
    assert {name.partition(".")[0] for name in files(project)} == {record.name for record in result.records}
    assert not (project / SHARED).exists()
    assert "2 ok" in text


def test_a_folder_of_jobs_that_nfs_does_not_remove_stays(project, swept, monkeypatch):
    """Because the lock in it is open."""

    def refuse(path, **options):
        raise OSError(errno.ENOTEMPTY, "Directory not empty", path)

    monkeypatch.setattr(controller.os, "rmdir", refuse)
    result, _, _ = swept(cells_of(1))
    assert [record.status for record in result.records] == [Status.ok]


def test_a_refused_job_cancels_those_of_other_groups(project, stopped):
    cancelled = []

    def refuse(part, need, job_name):
        assert (project / SHARED).stat().st_mode & 0o777 == 0o700  # submitit's pickles are code
        if str(need) == "gpu":
            raise UserError("executor=slurm: refused")
        states[job_name] = {"0": "running"}
        return "0"

    states = {}
    cells = [*cells_of(1), make_cell(device=Device.gpu)]
    has = {"submit": refuse, "states": lambda job_name: states.get(job_name, {}), "cancel": cancelled.extend}
    stopped(match="refused", cells=cells, **has)
    assert cancelled == ["0"]


def test_jobs_of_an_earlier_start_are_waited_for_and_not_submitted_again(stopped):
    """As when a controller is killed."""
    submitted, answers = [], iter([{"7": "running"}] * 4)
    text = stopped(
        submit=lambda part, need, job_name: submitted.append(job_name) or "0",
        states=lambda job_name: next(answers, {}),
    )
    assert "Waiting for 1 job of an earlier start" in text
    assert len(submitted) == 1  # after it had ended without a record


def test_a_second_controller_of_one_folder_is_refused(project, stopped):
    (project / SHARED).mkdir(parents=True)
    with hold(project / SHARED / "lock", "a sweep into this folder"):
        stopped(match="a sweep into this folder .* is under way", submit=pytest.fail)


def test_the_logs_of_jobs_that_ended_early_are_named_and_kept(project, stopped):
    def submit(part, need, job_name):
        (part.parent / "0.err").write_text("out of memory")
        return "0"

    message = rf"1 of 1 cells have no record: their jobs ended early: see the logs in {SHARED}/\S+\. The same"
    stopped(match=message, submit=submit)
    (spread,) = rounds(project)
    assert (spread / "0.err").exists()


@pytest.mark.slow
def test_a_second_start_measures_what_is_new_and_what_failed_if_asked_for(project, swept):
    swept([*cells_of(1), *cells_of(2, fault="raise")])
    before = files(project)
    _, text, processes = swept([*cells_of(1), *cells_of(2, fault="raise")])
    assert not processes.processes
    assert "2 of 2 cells have their record already" in text
    result, _, _ = swept([*cells_of(1, 4), *cells_of(2, fault="raise")], retry=Retry.failed)
    statuses = {record.cell.batch_size: record.status for record in result.records}
    assert statuses == {1: Status.ok, 4: Status.ok, 2: Status.failed}
    changed = {name for name in before if files(project)[name] != before[name]}
    (failed,) = (f"{record.name}.json" for record in result.records if record.status == Status.failed)
    assert changed == {failed}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_that_is_ended_loses_no_record_leaves_none_of_a_cut_off_cell_and_goes_on(project, swept, number):
    """A scheduler signals all processes of a job: the cell's end too."""
    processes = ProcessEngine()

    def end_after_first():
        while not files(project):
            time.sleep(0.02)
        for process in list(processes.processes.values()):
            os.kill(process.pid, number)

    killer = threading.Thread(target=end_after_first, daemon=True)
    killer.start()
    swept(cells_of(*SIZES), processes=processes, error=UserError, match="of 4 cells have no record: ")
    killer.join()
    before = files(project)
    assert 1 <= len(before) < 4
    assert all(json.loads(content)["status"] == "ok" for content in before.values())
    result, _, _ = swept(cells_of(*SIZES))
    assert [record.status for record in result.records] == [Status.ok] * 4
    assert {name: files(project)[name] for name in before} == before


@pytest.mark.parametrize("executor", [Executor.slurm, Executor.ray])
def test_without_its_extra_an_executor_is_refused(executor, monkeypatch):
    package = {Executor.slurm: "submitit", Executor.ray: "ray"}[executor]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"accelbench.cluster.on_{executor}", raising=False)
    message = f"executor={executor}: {package} is not installed: pip install 'accelbench[{executor}]'"
    with pytest.raises(UserError, match=re.escape(message)):
        controller.engine_of(ExecutorConfig(name=executor))
