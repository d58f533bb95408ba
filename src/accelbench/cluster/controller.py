"""Measures the cells of a sweep in the jobs of a cluster.

The controller divides the cells among jobs, shows records as they arrive, and collects them in the sweep's folder. It
measures nothing. Each node decides which cells can't run there, because it may have devices that this machine lacks.

The controller and its jobs share a folder on the shared file system. Only its owner can read the folder. It contains:

    .accelbench/runs/mine/<round>/part-<n>.json        the cells of a job
    .accelbench/runs/mine/<round>/part-<n>/finished/   finished records of the job; unfinished ones are in work/
    .accelbench/runs/mine/<round>/part-<n>.problem     why the job could not continue
    .accelbench/runs/mine/<round>/jobs.json            the jobs
"""

import contextlib
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelbench.cluster.job import PROBLEM, Part, finished
from accelbench.errors import UserError
from accelbench.grid.estimate import Evidence
from accelbench.grid.fingerprint import identity
from accelbench.grid.plan import Prepared, in_order
from accelbench.lock import hold
from accelbench.presentation import counted
from accelbench.project import CLUSTER, RECORD_FOLDERS, RECORDS, Workplace, resolved, shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, read_all
from accelbench.schema.serialize import grouped, read_json, write_json
from accelbench.schema.vocab import SHARE_ONE_CPU, Device
from accelbench.settings.config import ExecutorConfig, Retry
from accelbench.sinks.delivery import Delivery
from accelbench.sweep.merge import Merged, merge_into
from accelbench.sweep.run import stands
from accelbench.sweep.session import SweepContext
from accelbench.sweep.terminal import SweepProgress

OF_NODE = ("nvidia-driver",)  # versions that may differ between nodes; nodes share all packages
REPLACED = "replaced"  # folder for records of cells that were measured again
POLL_S = 5.0


@dataclass(frozen=True)
class Need:
    """What a cell needs on its node: `num` devices of the kind `device`. Devices `cpu` and `xla_cpu` need one `cpu`."""

    device: Device
    num: int

    @classmethod
    def of(cls, cell: Cell) -> "Need":
        return cls(Device.cpu, 1) if cell.device in SHARE_ONE_CPU else cls(cell.device, cell.devices)

    def __str__(self) -> str:
        return self.device.value if self.num == 1 else f"{self.num} x {self.device.value}"


class ClusterEngine(ABC):
    """A scheduler and the user's settings for it. If a method fails, it raises a UserError with the reason."""

    name: str  # name in messages
    num_jobs: int  # maximum number of jobs for a group of cells

    @abstractmethod
    def submit(self, parts: Sequence[Path], need: Need, job_name: str) -> Iterator[str]:
        """Submits a job for each part, to nodes that have `need`. Yields the name of each job once it is submitted."""

    @abstractmethod
    def states(self, jobs: Sequence[str], job_name: str) -> Mapping[str, str]:
        """Returns job -> state for jobs that may still run: the jobs in `jobs`, and all with the name `job_name`."""

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """Ends the jobs."""

    def close(self) -> None:  # noqa: B027  # an engine may have nothing to close
        """Leaves the cluster. The engine is not used afterwards."""


def shares(cells: Sequence[Cell], num: int) -> list[list[Cell]]:
    """Divides cells among at most `num` jobs. With enough repeats, all cells of a repeat go to the same job."""
    repeats = list(dict.fromkeys(cell.repeat for cell in cells))
    parts: list[list[Cell]] = [[] for _ in range(min(num, len(cells)))]
    for number, cell in enumerate(cells):
        position = repeats.index(cell.repeat) if len(repeats) >= len(parts) else number
        parts[position % len(parts)].append(cell)
    return parts


def shared_folder(place: Workplace, folder: Path) -> Path:
    """Returns the folder that controller and jobs share. `folder`: the folder of the sweep. runs/ may be a link."""
    real = resolved(folder)
    for name in RECORD_FOLDERS:
        if real.is_relative_to(parent := resolved(place.root / name)):
            return place.root / CLUSTER / name / real.relative_to(parent)
    return place.root / CLUSTER / real.relative_to(resolved(place.root))


@dataclass(frozen=True)
class Round:
    """The jobs that one start of a sweep has submitted, and their folder."""

    folder: Path

    @property
    def job_name(self) -> str:
        """The name of the jobs of this round. No other job has it."""
        return f"accelbench-{self.folder.parent.name}-{self.folder.name.rpartition('-')[2]}"

    def parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.json"))

    def jobs(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return list(map(str, read_json(self.folder / "jobs.json")))
        return []

    def records(self) -> set[Path]:
        """Returns the files of all finished records of the round's jobs."""
        return {path for part in self.parts() for path in finished(part).glob(RECORDS)}


class Controller:
    """Divides one sweep among the jobs of an engine."""

    def __init__(self, engine: ClusterEngine) -> None:
        self.engine = engine
        self._problems: list[str] = []  # why jobs ended with unmeasured cells
        self._is_merged = True  # whether the sweep's folder has all files of the jobs

    def measure(self, context: SweepContext, ready: Prepared, delivery: Delivery) -> list[Record]:
        """Measures the cells without a record. Returns all records, also those of earlier starts. Raises BusyError."""
        self.context, self.ready, self.delivery = context, ready, delivery
        self.folder = shared_folder(context.place, context.folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # reading submitit's pickles runs code
        with hold(self.folder / "lock", "a sweep into this folder"):
            last = self._last_round()
            if last and (running := self._states(last)):
                context.say(f"Waiting for {counted(len(running), 'job')} of an earlier start.")
                self._watch(last)
            done = self._collect(context.options.retry)
            if done:
                context.say(f"{len(done)} of {len(ready.planned)} cells have their record already.")
            if todo := [item.cell for item in in_order(ready.planned) if item.cell.id not in done]:
                self._watch(self._submit(todo))
                done = self._collect(Retry.none)  # cells that were retried have new records
            if len(done) == len(ready.planned):
                self._forget_round()
        return [done[item.cell.id] for item in ready.planned if item.cell.id in done]

    def check_complete(self, records: Sequence[Record]) -> None:
        """Raises UserError: some cells have no record."""
        if num := len(self.ready.planned) - len(records):
            why = "; ".join(self._problems) or f"their jobs ended early: see the logs in {shown(self.folder)}"
            again = f"The same command with out={shown(self.context.folder)} continues"
            raise UserError(f"{num} of {len(self.ready.planned)} cells have no record: {why}. {again}")

    def _last_round(self) -> Round | None:
        return next((Round(path) for path in self.folder.glob("round-*")), None)

    def _forget_round(self) -> None:
        if last := self._last_round():
            if self._is_merged:
                shutil.rmtree(last.folder, ignore_errors=True)
            else:  # a record or weights exist only here
                last.folder.rename(self.folder / f"kept-{last.folder.name}")

    def _states(self, spread: Round) -> Mapping[str, str]:
        return self.engine.states(spread.jobs(), spread.job_name)

    def _submit(self, todo: Sequence[Cell]) -> Round:
        """Submits jobs for the cells, and writes each job's name to disk at once. If a job is refused, cancels all."""
        self._forget_round()  # none of its jobs runs, and its records were collected
        new = Round(self.folder / f"round-{secrets.token_hex(4)}")
        new.folder.mkdir(mode=0o700)
        labels = {item.cell.id: item.label for item in self.ready.planned}
        options = replace(self.context.options, tracking="none", out=None, retry=Retry.none, executor=ExecutorConfig())
        try:
            for need, group in grouped(todo, Need.of).items():
                paths, names = [], []
                for cells in shares(group, self.engine.num_jobs):
                    part = Part(
                        sweep_id=self.context.sweep_id,
                        project=str(Path.cwd()),
                        options=options,
                        cells=cells,
                        labels={cell.id: labels[cell.id] for cell in cells},
                    )
                    paths.append(new.folder / f"part-{len(new.parts()):05}.json")  # sorted in the order of the jobs
                    write_json(paths[-1], part)
                for job in self.engine.submit(paths, need, new.job_name):
                    names.append(job)
                    write_json(new.folder / "jobs.json", [*new.jobs(), job])
                by = f"{counted(len(names), 'job')} of {self.engine.name} ({', '.join(names)})"
                self.context.say(f"{counted(len(group), 'cell')} for {need}: {by}")
        except BaseException:
            self._cancel(new)
            raise
        return new

    def _cancel(self, spread: Round) -> None:
        """Cancels the jobs of the round, including jobs that were not written to disk. If that fails, says so."""
        try:
            self.engine.cancel(list(dict.fromkeys([*spread.jobs(), *self._states(spread)])))
        except UserError as error:
            self.context.say(f"{error}: the jobs may still run", "yellow")

    def _watch(self, spread: Round) -> None:
        try:
            self._wait(spread)
        except KeyboardInterrupt:
            self.context.say(f"Cancelling {counted(len(spread.jobs()), 'job')} ...")
            self._cancel(spread)
            self._collect(Retry.none)
            raise
        texts = [path.read_text().strip() for path in sorted(spread.folder.glob(f"*{PROBLEM}"))]
        self._problems = list(dict.fromkeys(texts))

    def _wait(self, spread: Round) -> None:
        """Waits until all jobs of the round have ended. Delivers each record when it arrives."""
        collected = {path.name for path in self.context.folder.glob(RECORDS)}
        shown_before = {path for path in spread.records() if path.name in collected}
        wanted = {cell_id for path in spread.parts() for cell_id in read_json(path)["labels"]}
        wanted -= {path.stem.partition("-")[0] for path in shown_before}
        todo = [item for item in self.ready.planned if item.cell.id in wanted]
        if len(todo) > 1:
            self.delivery.open()
        with SweepProgress(self.context.console, todo, Evidence()) as progress:
            while True:
                states = self._states(spread)  # before the records: an ended job adds no record
                new = spread.records() - shown_before
                shown_before |= new
                for record in sorted(read_all(new), key=lambda record: record.started_at):
                    progress.finish(record)
                    self.delivery.add(record)
                self.delivery.deliver()
                if not states:
                    return
                words = ", ".join(f"{num} {state}" for state, num in Counter(states.values()).most_common())
                progress.describe(f"jobs: {words}")
                time.sleep(POLL_S)

    def _collect(self, retry: Retry) -> dict[str, Record]:
        """Merges finished records into the sweep's folder, and writes a plan. Returns cell id -> valid record."""
        # Records that are not valid are moved away, because new records will have the same names.
        folder, merged = self.context.folder, Merged()
        last = self._last_round()
        sources = [finished(part) for part in last.parts()] if last else []
        merge_into(folder, [(source, "a job") for source in sources if source.exists()], merged)
        self._is_merged = not merged.problems
        cells = {item.cell.id: item.cell for item in self.ready.planned}
        paths = [path for path in folder.glob(RECORDS) if path.stem.partition("-")[0] in cells]
        for line in merged.problems:
            self.context.say(line, "yellow")
        records = filter(self._is_current, self.context.read_records(paths))
        done: dict[str, Record] = {}
        for record in sorted(records, key=lambda record: record.started_at):
            if stands(record, retry, cells[record.cell.id]):
                done[record.cell.id] = record
                continue
            replaced = self.folder / REPLACED
            replaced.mkdir(exist_ok=True)
            for path in folder.glob(f"{record.name}.*"):  # also its weights
                shutil.move(path, replaced / path.name)
        planned = [item for item in self.ready.planned if item.cell.id in done]
        self.context.write_plan([WantedCell(item.cell, done[item.cell.id].name, item.label) for item in planned])
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
            today = identity(record.cell, self.ready.data, {**kept, "versions": versions, "code": here["code"]})
        except UserError:
            return False
        return today == record.identity
