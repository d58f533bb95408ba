"""Sweeps by jobs that are real processes, of the engine that fails as told (`fakes`)."""

import contextlib
import dataclasses
import io
import json
import os
import signal
import threading
import time

import pytest
from rich.console import Console

from accelbench.cluster import controller, dispatch
from accelbench.cluster.job import run_part
from accelbench.cluster.shared_state import Round
from accelbench.errors import UserError
from accelbench.schema.vocab import Device, Status
from accelbench.settings.config import Executor, ExecutorConfig, Retry
from accelbench.sweep import context
from accelbench.sweep import run as local
from cluster.jobs import ProcessEngine
from fakes import give_ceilings, make_cell, make_options, make_project

OPTIONS = make_options(executor=ExecutorConfig(name=Executor.slurm))
SIZES = (1, 2, 4, 8)


@pytest.fixture
def project(tmp_path, monkeypatch):
    make_project(tmp_path)
    give_ceilings(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("POLL_S", "ASK_S", "SETTLE_S"):
        monkeypatch.setattr(controller, name, 0.1)
    return tmp_path


@pytest.fixture
def swept(project, monkeypatch):
    """A function that runs a sweep by processes: its result, what it printed and the engine."""

    def swept(cells, num_jobs=1, processes=None, error=None, match=None, **options):
        processes = processes or ProcessEngine(num_jobs)
        monkeypatch.setattr(dispatch, "engine_of", lambda executor: processes)
        console, result = Console(file=io.StringIO(), width=300), None
        with pytest.raises(error, match=match) if error else contextlib.nullcontext():
            result = dispatch.run(cells, dataclasses.replace(OPTIONS, **options), console, hosts=None)
        return result, console.file.getvalue(), processes

    return swept


@pytest.fixture
def stopped(swept):
    """A function: runs a sweep by an engine that does as told, which ends with an error; what was printed."""

    def stopped(error=UserError, match="1 of 1 cells have no record", cells=None, **does):
        processes = ProcessEngine()
        vars(processes).update({"submit": lambda parts, need, job_name: ["0"]} | does)
        return swept(cells or cells_of(1), processes=processes, error=error, match=match)[1]

    return stopped


def cells_of(*sizes, fault="none"):
    return [make_cell(fault, batch_size=size) for size in sizes]


def files(project):
    return {path.name: path.read_bytes() for path in (project / "runs/test").glob("*-*.json")}


def rounds(project):
    return list((project / ".accelbench/runs/test").glob("round-*"))


def interrupted(*_):
    raise KeyboardInterrupt


def answering(*answers):
    """The states of jobs, one answer for each question, and none afterwards."""
    left = iter(answers)
    return lambda jobs, job_name: next(left, {})


def test_a_sweep_by_a_job_leaves_the_records_of_each_cell_and_nothing_else(project, swept):
    result, text, _ = swept(cells_of(1, 2))
    assert [(record.cell.batch_size, record.status) for record in result.records] == [(1, Status.ok), (2, Status.ok)]
    assert {name.partition(".")[0] for name in files(project)} == {record.name for record in result.records}
    assert rounds(project) == []
    assert (project / ".accelbench/runs/test").stat().st_mode & 0o777 == 0o700  # submitit's pickles are code
    assert "2 ok" in text


def test_a_refused_job_cancels_those_of_other_groups(stopped):
    cancelled = []

    def refuse(parts, need, job_name):
        if str(need) == "gpu":
            raise UserError("executor=slurm: refused")
        return ["0"]

    cells = [*cells_of(1), make_cell(device=Device.gpu)]
    stopped(match="refused", cells=cells, submit=refuse, cancel=cancelled.extend)
    assert cancelled == ["0"]


def test_a_job_is_on_disk_as_soon_as_it_is_known_and_an_interrupt_cancels_the_unknown_too(project, stopped):
    cancelled, known = [], []

    def submit(parts, need, job_name):
        yield "0"
        known.extend(json.loads((rounds(project)[0] / "jobs.json").read_text()))
        raise KeyboardInterrupt

    def states(jobs, job_name):
        return {"7": "running"} if job_name.startswith("accelbench-test-") else {}

    stopped(KeyboardInterrupt, None, submit=submit, cancel=cancelled.extend, states=states)
    assert known == ["0"]
    assert cancelled == ["0", "7"]


def test_a_job_that_only_the_scheduler_knows_is_waited_for(stopped):
    submitted = []
    stopped(KeyboardInterrupt, None, submit=interrupted)
    text = stopped(
        submit=lambda parts, need, job_name: submitted.append(job_name) or [],
        states=answering(*[{"7": "running"}] * 3),
    )
    assert "Waiting for 1 job of an earlier start" in text
    assert len(submitted) == 1


def test_a_job_that_the_scheduler_gets_to_know_late_is_not_submitted_again(project, stopped, monkeypatch):
    """As when a controller is killed while `sbatch` runs."""
    monkeypatch.setattr(controller, "POLL_S", 0.01)
    stopped(KeyboardInterrupt, None, submit=interrupted)
    (left,) = rounds(project)
    monkeypatch.setattr(controller, "SETTLE_S", 60.0)
    monkeypatch.setattr(controller.Controller, "_start", lambda self: None)
    text = stopped(submit=pytest.fail, states=answering({}, {}, *[{"7": "running"}] * 3, {}))
    assert "Waiting for 1 job of an earlier start" in text
    assert rounds(project) == [left]


def test_the_end_of_a_jobs_log_is_named_and_the_log_kept(project, stopped):
    def submit(parts, need, job_name):
        (parts[0].parent / "0.err").write_text("a\nout of memory\n")
        return ["0"]

    def last_words(spread, job):
        return (spread / f"{job}.err").read_text().splitlines()[-1]

    told = r"1 of 1 cells have no record: job 0 ended: out of memory\. The same"
    stopped(match=told, submit=submit, last_words=last_words)
    (spread,) = rounds(project)
    assert (spread / "0.err").exists()


def test_whatever_stops_a_job_is_said(project, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)  # the signals of pytest stay
    spread = project / "round-000001-0"
    spread.mkdir()
    with pytest.raises(FileNotFoundError):
        run_part(str(spread / "part-0.json"), "5", lambda job: False)
    assert "FileNotFoundError" in Round(spread, "test").problems()["5"]


def test_an_unreadable_file_in_the_place_of_a_record_is_set_aside(project, stopped):
    path = project / "runs/test" / f"{cells_of(1)[0].id}-00000000.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    text = stopped(match="1 of 1 cells have no record: their jobs were ended from outside")
    assert path.with_name(f"{path.name}.unreadable").read_text() == "{"
    assert f"kept as {path.name}.unreadable" in text


def test_a_scheduler_that_does_not_answer_is_named_once(stopped, monkeypatch):
    monkeypatch.setattr(controller, "SILENCE_S", 0.0)
    text = stopped(states=answering(*[{"0": controller.UNKNOWN}] * 4))
    assert text.count("processes has not answered for 0 s") == 1


def test_an_interrupt_says_so_if_the_jobs_can_not_be_cancelled(stopped, monkeypatch):
    def refuse(jobs):
        raise UserError("executor=slurm: scancel failed: no reason")

    monkeypatch.setattr(controller.Controller, "_wait", interrupted)
    assert "scancel failed: no reason: the jobs may still run" in stopped(KeyboardInterrupt, None, cancel=refuse)


@pytest.mark.slow
def test_the_records_and_the_plan_are_those_of_a_sweep_on_one_machine(project, swept, shared):
    cells = [*cells_of(*SIZES), make_cell(device=Device.gpu)]
    result, text, processes = swept(cells, num_jobs=2)
    assert [record.cell.batch_size for record in result.records] == [1, 2, 4, 8, 32]
    assert [record.status for record in result.records] == [Status.ok] * 4 + [Status.skipped]
    assert sorted(processes.needs) == ["cpu", "cpu", "gpu"]
    plan = json.loads((project / "runs/test/plan.json").read_text())
    assert plan["title"] == "A test"
    elsewhere = dataclasses.replace(OPTIONS, executor=ExecutorConfig(), out="runs/local")
    local.run(cells, elsewhere, Console(file=io.StringIO()), hosts=shared)
    ours = json.loads((project / "runs/local/plan.json").read_text())
    assert plan["cells"] == ours["cells"]  # identities too, on one machine
    assert {record.environment["node"]["job"] for record in result.records} <= set(processes.processes)
    assert rounds(project) == []
    assert "4 ok, 1 skipped" in text


@pytest.mark.slow
def test_a_second_start_measures_nothing_and_a_new_cell_alone(project, swept):
    swept(cells_of(1, 2))
    before = files(project)
    _, text, processes = swept(cells_of(1, 2))
    assert not processes.processes
    assert "2 of 2 cells have their record already" in text
    result, _, _ = swept(cells_of(1, 2, 4))
    assert len(result.records) == 3
    assert {name: files(project)[name] for name in before} == before


@pytest.mark.slow
def test_failed_cells_are_measured_again_if_asked_for_and_their_records_kept(project, swept):
    result, _, _ = swept([*cells_of(1), *cells_of(2, fault="raise")])
    assert [record.status for record in result.records] == [Status.ok, Status.failed]
    first = files(project)
    _, text, processes = swept([*cells_of(1), *cells_of(2, fault="raise")], retry=Retry.failed)
    assert len(processes.processes) == 1
    kept = project / ".accelbench/runs/test/replaced" / f"{result.records[1].name}.json"
    assert kept.read_bytes() == first[kept.name]
    assert files(project)[kept.name] != first[kept.name]


@pytest.mark.slow
def test_a_job_that_is_killed_loses_no_record_and_the_next_start_goes_on(project, swept):
    processes = ProcessEngine()
    killer = threading.Thread(target=_kill_after_first, args=(project, processes, signal.SIGKILL))
    killer.start()
    told = "of 4 cells have no record: their jobs were ended from outside"
    swept(cells_of(*SIZES), processes=processes, error=UserError, match=told)
    killer.join()
    before = files(project)
    assert 1 <= len(before) < 4
    result, _, _ = swept(cells_of(*SIZES))
    assert [record.status for record in result.records] == [Status.ok] * 4
    assert {name: files(project)[name] for name in before} == before


@pytest.mark.slow
def test_a_cell_that_is_cut_off_with_its_job_leaves_no_record(project, swept):
    """A scheduler signals all processes of a job: the cell's end too."""
    processes = ProcessEngine()
    killer = threading.Thread(target=_kill_after_first, args=(project, processes, signal.SIGTERM))
    killer.start()
    swept(cells_of(*SIZES), processes=processes, error=UserError, match="have no record")
    killer.join()
    assert all(json.loads(content)["status"] == "ok" for content in files(project).values())


def _kill_after_first(project, processes, number):
    finished = (project / ".accelbench/runs/test").glob
    while not list(finished("round-*/jobs/*/test/*-*.json")):
        time.sleep(0.02)
    for process in processes.processes.values():
        os.kill(process.pid, number)


@pytest.mark.slow
def test_jobs_that_still_run_are_waited_for(project, swept):
    processes = ProcessEngine()
    with contextlib.suppress(UserError), pytest.MonkeyPatch.context() as patched:
        patched.setattr(controller.Controller, "_wait", lambda self, spread: None)  # a controller that ends at once
        swept(cells_of(*SIZES), processes=processes)
    result, text, _ = swept(cells_of(*SIZES), processes=processes)
    assert "Waiting for 1 job of an earlier start" in text
    assert len(processes.processes) == 1
    assert len(result.records) == 4
    assert rounds(project) == []


@pytest.mark.slow
def test_an_interrupt_cancels_the_jobs(project, swept):
    processes = ProcessEngine()

    def interrupt():
        _kill_after_first(project, ProcessEngine(), signal.SIGINT)  # waits for the first record
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    swept(cells_of(*range(1, 41)), processes=processes, error=KeyboardInterrupt)  # more than end before the signal
    (process,) = processes.processes.values()
    assert process.wait(20) != 0
    assert files(project)


@pytest.mark.slow
def test_why_a_job_could_not_go_on_is_said(project, swept, monkeypatch):
    monkeypatch.setattr(context, "prepare_missing", lambda *given: None)
    processes = ProcessEngine()
    submit = processes.submit

    def without_data(parts, need, job_name):
        for manifest in (project / "data").rglob("manifest.json"):
            manifest.unlink()
        return submit(parts, need, job_name)

    processes.submit = without_data
    told = r"2 of 2 cells have no record: job \d+: .*mnist"
    swept(cells_of(1, 2), processes=processes, error=UserError, match=told)


def test_without_its_extra_an_executor_is_refused(project, monkeypatch):
    for name in ("submitit", "ray"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    for name in ("on_slurm", "on_ray"):
        monkeypatch.delitem(__import__("sys").modules, f"accelbench.cluster.{name}", raising=False)
    with pytest.raises(UserError, match=r"executor=slurm: submitit is not installed: the extra `slurm` has it"):
        dispatch.engine_of(ExecutorConfig(name=Executor.slurm))
    with pytest.raises(UserError, match=r"executor=ray: ray is not installed: the extra `ray` has it"):
        dispatch.engine_of(ExecutorConfig(name=Executor.ray))
