"""Measures a sweep on this machine or in the jobs of a cluster. The setting `executor` decides where.

For a cluster, the controller divides the cells among jobs, and shows records as they arrive. It measures nothing. Each
node decides which cells can't run there, because it may have devices that this machine lacks.

The jobs write their records into the sweep's folder, which is on a file system that all nodes share. It also contains:

    .jobs/<sweep>/part-<n>.json        the cells of a job
    .jobs/<sweep>/part-<n>.problem     why the job could not continue
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from accelbench.cluster.job import PROBLEM, ClusterEngine, Need, Part
from accelbench.errors import UserError, how_to_install
from accelbench.grid.fingerprint import identity
from accelbench.grid.plan import Evidence, Planned, in_order
from accelbench.isolation.hosts import Hosts
from accelbench.lock import hold
from accelbench.presentation import counted
from accelbench.project import RECORDS, shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, read_all
from accelbench.schema.serialize import digest, grouped, write_json
from accelbench.settings.config import Executor, ExecutorConfig, Retry, SweepOptions
from accelbench.sinks.delivery import Delivery
from accelbench.sweep import run as local
from accelbench.sweep.session import Session
from accelbench.sweep.terminal import SweepProgress

OF_NODE = ("nvidia-driver",)  # versions that may differ between nodes; nodes share all packages
JOBS = ".jobs"  # folder in the sweep's folder
POLL_S = 5.0


def shares(cells: Sequence[Cell], num: int) -> list[list[Cell]]:
    """Divides cells among at most `num` jobs. With enough repeats, all cells of a repeat go to the same job."""
    repeats = list(dict.fromkeys(cell.repeat for cell in cells))
    parts: list[list[Cell]] = [[] for _ in range(min(num, len(cells)))]
    for number, cell in enumerate(cells):
        position = repeats.index(cell.repeat) if len(repeats) >= len(parts) else number
        parts[position % len(parts)].append(cell)
    return parts


def name_of_jobs(folder: Path) -> str:
    """Returns the name of all jobs that measure a sweep into `folder`. Slurm would split a name with a comma."""
    return f"accelbench-{folder.name.replace(',', '-')}-{digest(str(folder))[:8]}"


class Controller:
    """Divides one sweep among the jobs of an engine."""

    def __init__(self, engine: ClusterEngine) -> None:
        self.engine = engine

    def measure(self, session: Session, delivery: Delivery) -> list[Record]:
        """Measures the cells without a record. Returns all records, also those of earlier starts. Raises UserError."""
        self.session, self.ready, self.delivery = session, session.ready, delivery
        self.job_name = name_of_jobs(session.folder)
        self.folder = session.folder / JOBS
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # reading submitit's pickles runs code
        self.round = self.folder / session.sweep_id
        with hold(self.folder / "lock", "a sweep into this folder"):
            try:
                done = self._done(session.options.retry)
                if running := self.engine.states(self.job_name):
                    session.say(f"Waiting for {counted(len(running), 'job')} of an earlier start.")
                    self._wait(self._todo(done))
                    done = self._done(session.options.retry)
                if done:
                    session.say(f"{len(done)} of {len(self.ready.planned)} cells have their record already.")
                if todo := self._todo(done):
                    self._submit(todo)
                    self._wait(todo)
                    done = self._done(Retry.none)  # cells that were retried have new records
            except (KeyboardInterrupt, UserError):
                self._cancel()
                self._done(Retry.none)
                raise
            if not self._todo(done):
                # NFS keeps files that are open, such as the lock.
                shutil.rmtree(self.folder, ignore_errors=True)
        return [done[item.cell.id] for item in self.ready.planned if item.cell.id in done]

    def check_complete(self, records: Sequence[Record]) -> None:
        """Raises UserError: some cells have no record."""
        if num := len(self.ready.planned) - len(records):
            problems = dict.fromkeys(
                path.read_text().strip() for path in sorted(self.round.glob(f"*{PROBLEM}"))
            )
            why = "; ".join(problems) or f"their jobs ended early: see the logs in {shown(self.round)}"
            again = f"The same command with out={shown(self.session.folder)} continues"
            raise UserError(f"{num} of {len(self.ready.planned)} cells have no record: {why}. {again}")

    def _todo(self, done: Mapping[str, Record]) -> list[Planned]:
        return [item for item in in_order(self.ready.planned) if item.cell.id not in done]

    def _submit(self, todo: Sequence[Planned]) -> None:
        self.round.mkdir(exist_ok=True)
        labels = {item.cell.id: item.label for item in todo}
        options = replace(self.session.options, tracking="none", out=None, executor=ExecutorConfig())
        num_parts = 0
        for need, group in grouped([item.cell for item in todo], Need.of).items():
            jobs = []
            for cells in shares(group, self.engine.num_jobs):
                part = Part(
                    sweep_id=self.session.sweep_id,
                    project=str(Path.cwd()),
                    folder=str(self.session.folder),
                    options=options,
                    cells=cells,
                    labels={cell.id: labels[cell.id] for cell in cells},
                )
                path = self.round / f"part-{num_parts:05}.json"
                num_parts += 1
                write_json(path, part)
                jobs.append(self.engine.submit(path, need, self.job_name))
            by = f"{counted(len(jobs), 'job')} of {self.engine.name} ({', '.join(jobs)})"
            self.session.say(f"{counted(len(group), 'cell')} for {need}: {by}")

    def _cancel(self) -> None:
        """Cancels the jobs. If that fails, prints a message."""
        try:
            jobs = list(self.engine.states(self.job_name))
            self.session.say(f"Cancelling {counted(len(jobs), 'job')} ...")
            self.engine.cancel(jobs)
        except UserError as error:
            self.session.say(f"{error}: the jobs may still run", "yellow")

    def _wait(self, todo: Sequence[Planned]) -> None:
        """Waits until all jobs have ended. Delivers each record when it arrives."""
        seen = self._files()
        if len(todo) > 1:
            self.delivery.open()
        with SweepProgress(self.session.console, todo, Evidence()) as progress:
            while True:
                states = self.engine.states(self.job_name)  # before the records: an ended job adds no record
                files = self._files()
                new = read_all(path for path, _ in files - seen)
                seen = files
                for record in sorted(new, key=lambda record: record.started_at):
                    progress.finish(record)
                    self.delivery.add(record)
                self.delivery.deliver()
                if not states:
                    return
                words = ", ".join(f"{num} {state}" for state, num in Counter(states.values()).most_common())
                progress.describe(f"jobs: {words}")
                time.sleep(POLL_S)

    def _files(self) -> set[tuple[Path, int]]:
        """Returns the path of each record, and when the record was written."""
        files = set()
        for path in self.session.folder.glob(RECORDS):
            with suppress(FileNotFoundError):  # a job may remove a record
                files.add((path, path.stat().st_mtime_ns))
        return files

    def _done(self, retry: Retry) -> dict[str, Record]:
        """Returns cell id -> valid record, and writes a plan with these records."""
        cells = {item.cell.id: item.cell for item in self.ready.planned}
        paths = [path for path in self.session.folder.glob(RECORDS) if path.stem.partition("-")[0] in cells]
        records = filter(self._is_current, self.session.read_records(paths))
        done = {}
        for record in sorted(records, key=lambda record: record.started_at):
            if local.stands(record, retry, cells[record.cell.id]):
                done[record.cell.id] = record
        planned = [item for item in self.ready.planned if item.cell.id in done]
        self.session.write_plan(
            [WantedCell(item.cell, done[item.cell.id].name, item.label) for item in planned]
        )
        return done

    def _is_current(self, record: Record) -> bool:
        """Is true if a new run on the record's node would give a record with the same identity.

        The new run would have the present code, data and package versions (see `grid.fingerprint.identity`).
        """
        here = self.ready.fingerprints[record.cell.engine]
        there = record.environment
        installed = {name: version for name, version in here["versions"].items() if name not in OF_NODE}
        versions = {name: installed.get(name, version) for name, version in there["versions"].items()}
        kept = {name: there[name] for name in ("machine", "variables")}
        try:
            today = identity(
                record.cell, self.ready.data, {**kept, "versions": versions, "code": here["code"]}
            )
        except UserError:
            return False
        return today == record.identity


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Callable[[local.SweepResult], None] | None = None,
) -> local.SweepResult:
    """Does the same as `sweep.run.run`. But if `options` name a cluster, jobs of the cluster measure the cells.

    Raises UserError: some cells have no record.
    """
    records: list[Record] = []
    engine = engine_of(options.executor)
    with closing(engine) if engine else nullcontext():
        for of_data in grouped(cells, lambda cell: cell.data.name).values():
            controller = Controller(engine) if engine else None
            measure = controller.measure if controller else None
            result = local.run(of_data, options, console, out, hosts=hosts, show=show, measure=measure)
            if controller is not None:
                controller.check_complete(result.records)
            records += result.records
            options = replace(options, out=str(result.folder))
    return replace(result, records=records)


def engine_of(executor: ExecutorConfig) -> ClusterEngine | None:
    """Returns the engine of the cluster that the user has chosen, or None for this machine.

    Raises UserError: its package is not installed, or the cluster does not answer.
    """
    try:
        if executor.name == Executor.slurm:
            from accelbench.cluster.on_slurm import SlurmEngine

            return SlurmEngine(executor.slurm)
        if executor.name == Executor.ray:
            # Ray then uses the loopback address; its import reads the variable.
            if executor.ray.address == "local":
                os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
            from accelbench.cluster.on_ray import RayEngine

            return RayEngine(executor.ray)
    except ModuleNotFoundError as error:
        if error.name not in ("submitit", "ray"):
            raise
        extra = executor.name.value
        problem = f"executor={extra}: {error.name} is not installed: {how_to_install(extra)}"
        raise UserError(problem) from error
    return None
