"""A sweep whose cells are measured by the jobs of a cluster.

The controller submits jobs, shows their records as they come, and brings them together in the sweep's folder. It
measures nothing. Which cells can't run is for each node to say: it may have devices that this machine lacks.
"""

import math
import shutil
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from accelbench.cluster.shared_state import Part, Round, SharedState
from accelbench.errors import UserError
from accelbench.grid.estimate import read_evidence
from accelbench.grid.fingerprint import fingerprint, identity
from accelbench.grid.plan import Prepared
from accelbench.presentation import counted
from accelbench.project import RECORDS, shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, listed, read_all
from accelbench.schema.serialize import write_json
from accelbench.schema.vocab import SHARE_ONE_CPU, Device
from accelbench.settings.config import ExecutorConfig, Retry
from accelbench.sinks.delivery import Delivery
from accelbench.sweep.context import SweepContext, read_or_set_aside
from accelbench.sweep.merge import merge
from accelbench.sweep.prober import PROBING_ENGINE
from accelbench.sweep.run import stands
from accelbench.sweep.terminal import SweepProgress

UNKNOWN = "no answer"  # the state of each job while the scheduler does not answer
OF_NODE = ("nvidia-driver",)  # versions of the node, and not of the packages, which all nodes share
SETTLE_S = 10.0  # for which a job that an earlier controller was submitting may come
POLL_S = 2.0
ASK_S = 10.0  # between two questions to the scheduler, while cells have no record
SILENCE_S = 60.0  # without an answer of the scheduler, after which a warning is shown
MERGE_S = 30.0  # between two merges on the way, at least; ten times as long as one takes
SHARE = 10


@dataclass(frozen=True)
class Need:
    """What a cell needs of its node: `num` devices. `cpu` is also for what else computes on the processor.

    A processor is needed once, since several devices of it are parts of one.
    """

    device: Device
    num: int

    @classmethod
    def of(cls, cell: Cell) -> "Need":
        return cls(Device.cpu, 1) if cell.device in SHARE_ONE_CPU else cls(cell.device, cell.devices)

    def __str__(self) -> str:
        return self.device.value if self.num == 1 else f"{self.num} x {self.device.value}"


class ClusterEngine(ABC):
    """A scheduler, with the settings that the user gave for it. Each method may raise a UserError, which says why."""

    name: str  # as messages name it
    num_jobs: int  # of each group of cells, at most
    jobs_outlive: bool  # whether jobs go on after their controller has ended

    @abstractmethod
    def submit(self, parts: Sequence[Path], need: Need, job_name: str) -> Iterator[str]:
        """Submits a job for each part, for nodes that have what is needed; yields each job as soon as it is there."""

    @abstractmethod
    def states(self, jobs: Sequence[str], job_name: str) -> Mapping[str, str]:
        """Job -> its state in the scheduler's word, of those that may still measure or be started again.

        Of the known `jobs`, and of others with `job_name`, which only the scheduler knows.
        """

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """Ends the jobs."""

    def last_words(self, spread: Path, job: str) -> str:
        """What the log of a job of the round in the folder `spread` says of its end, and the log; empty if nothing."""
        return ""

    def close(self) -> None:  # noqa: B027  # an engine may have nothing to leave
        """Leaves the cluster. The engine is not used afterwards."""


def groups(cells: Iterable[Cell]) -> dict[Need, list[Cell]]:
    """Need -> the cells that have it, in their order."""
    found: dict[Need, list[Cell]] = {}
    for cell in cells:
        found.setdefault(Need.of(cell), []).append(cell)
    return found


def shares(cells: list[Cell], num: int) -> list[list[Cell]]:
    """The cells in the order in which each of `num` jobs takes them: first its own, then what the others left.

    All cells of a repeat belong to one job, on whose node they can be compared; to several if there are fewer repeats
    than jobs. There are at most as many jobs as cells.
    """
    num = min(num, len(cells))
    repeats: dict[int, list[Cell]] = {}
    for cell in cells:
        repeats.setdefault(cell.repeat, []).append(cell)
    parts: list[list[Cell]] = [[] for _ in range(num)]
    for number, repeat in enumerate(repeats.values()):
        own = parts[number % num :: len(repeats)]  # one job, unless there are fewer repeats than jobs
        for k, cell in enumerate(repeat):
            own[k % len(own)].append(cell)
    return [[cell for part in (*parts[k:], *parts[:k]) for cell in part] for k in range(num)]


class Controller:
    """Spreads one sweep over the jobs of an engine."""

    def __init__(self, engine: ClusterEngine) -> None:
        self.engine = engine
        self._problems: list[str] = []  # why jobs ended before their cells were measured

    def measure(self, context: SweepContext, ready: Prepared, delivery: Delivery) -> list[Record]:
        """Measures every cell without a record; returns the records of all cells that have one."""
        self.context, self.ready, self.delivery = context, ready, delivery
        self.state = SharedState(context.place, context.folder)
        # Another controller's jobs that end with it can't be seen: then nobody else may work in this folder.
        with nullcontext() if self.engine.jobs_outlive else self.state.locked(patience_s=0):
            if (running := self._running()) is not None:
                num = len(self._states(running))
                context.say(f"Waiting for {counted(num, 'job')} of an earlier start.")
                self._watch(running)
            if (started := self._start()) is not None:
                self._watch(started)
            with self._locked():
                self._collect()
                done = self._done(self._present(), Retry.none)  # those that were retried have their new records
                self._write_plan(done)
        return [done[item.cell.id] for item in ready.planned if item.cell.id in done]

    def check_complete(self, found: Sequence[Record]) -> None:
        """Raises a UserError if cells have no record."""
        if num := len(self.ready.planned) - len(found):
            why = "; ".join(dict.fromkeys(self._problems)) or "their jobs were ended from outside"
            again = f"The same command with out={shown(self.context.folder)} goes on"
            raise UserError(f"{num} of {len(self.ready.planned)} cells have no record: {why}. {again}")

    def _locked(self) -> AbstractContextManager[None]:
        """Holds the lock of the controllers, unless it is held all the time."""
        return self.state.locked() if self.engine.jobs_outlive else nullcontext()

    def _states(self, spread: Round) -> Mapping[str, str]:
        return self.engine.states(spread.jobs(), spread.job_name)

    def _running(self) -> Round | None:
        """The newest round of which jobs run; None without one.

        A controller that was killed leaves the command that submits a job, which the scheduler may not know yet.
        """
        rounds = self.state.rounds()
        may_be_submitting = any(len(each.parts()) > len(each.jobs()) for each in rounds)
        until = time.monotonic() + SETTLE_S * may_be_submitting
        while (found := next((each for each in reversed(rounds) if self._states(each)), None)) is None:
            if time.monotonic() >= until:
                break
            time.sleep(POLL_S)
        return found

    def _start(self) -> Round | None:
        """Submits jobs for the cells without a record; returns their round, None if there is nothing to do."""
        with self._locked():
            if (running := self._running()) is not None:  # of another controller, meanwhile
                return running
            self._present()  # what is unreadable must be out of the way of the jobs' records
            self._collect()
            present, retry = self._present(), self.context.options.retry
            done = self._done(present, retry)
            for record in present:
                if not stands(record, retry):  # the next one will have its name
                    self.state.set_aside(self.context.folder / f"{record.name}.json")
            self._write_plan(done)
            todo = [item.cell for item in self.ready.planned if item.cell.id not in done]
            if done:
                self.context.say(f"{len(done)} of {len(self.ready.planned)} cells have their record already.")
            return self._submit(todo) if todo else None

    def _submit(self, todo: list[Cell]) -> Round:
        """Submits jobs for the cells; if not all can be, none stays. Each is on disk as soon as it is known."""
        new = self.state.new_round()
        try:
            for need, group in groups(todo).items():
                paths, names = [], []
                for share in shares(group, self.engine.num_jobs):
                    paths.append(new.folder / f"part-{len(new.parts())}.json")
                    write_json(paths[-1], asdict(self._part(share)))
                for job in self.engine.submit(paths, need, new.job_name):
                    names.append(job)
                    new.write_jobs([*new.jobs(), job])
                by = f"{counted(len(names), 'job')} of {self.engine.name} ({', '.join(names)})"
                self.context.say(f"{counted(len(group), 'cell')} for {need}: {by}")
        except BaseException:
            self._cancel(new)
            raise
        return new

    def _part(self, cells: list[Cell]) -> Part:
        labels = {item.cell.id: item.label for item in self.ready.planned}
        options = replace(self.context.options, tracking="none", out=None, retry=Retry.none, executor=ExecutorConfig())
        return Part(
            name=self.context.folder.name,
            sweep_id=self.context.sweep_id,
            project=str(Path.cwd()),
            options=options,
            cells=cells,
            labels=[labels[cell.id] for cell in cells],
        )

    def _cancel(self, spread: Round) -> None:
        """Ends the jobs of the round, known or not; says so if that fails."""
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
            self._bring(spread)
            raise
        words = {job: self.engine.last_words(spread.folder, job) for job in spread.jobs()}
        lines = [f"job {job}: {why}" for job, why in spread.problems().items()]
        self._problems += lines or listed([f"job {job} ended: {text}" for job, text in words.items() if text])

    def _wait(self, spread: Round) -> None:
        """Waits until no job runs or is to run, and delivers the records that come meanwhile."""
        context, wanted = self.context, spread.cell_ids()
        todo = [item for item in self.ready.planned if item.cell.id in wanted]
        evidence = read_evidence(context.place.root, fingerprint(PROBING_ENGINE)["machine"], set())
        if len(wanted) > 1:
            self.delivery.open()
        seen = {path.name for path in context.folder.glob(RECORDS)}
        ask_at, warn_at, merge_at = (time.monotonic() + after_s for after_s in (0.0, SILENCE_S, MERGE_S))
        with SweepProgress(context.console, todo, evidence) as progress:
            while True:
                now = time.monotonic()
                if now >= ask_at or not wanted:  # before the records: a job leaves none after it has ended
                    states = self._states(spread)
                    ask_at = time.monotonic() + ASK_S
                    if set(states.values()) != {UNKNOWN}:
                        warn_at = now + SILENCE_S
                    elif now > warn_at:
                        words = f"{self.engine.name} has not answered for {SILENCE_S:.0f} s: still waiting for its jobs"
                        context.say(words, "yellow")
                        warn_at = math.inf  # once, until it answers
                paths = (path for source in spread.sources() for path in source.glob(RECORDS))
                new = [path for path in paths if path.name not in seen]
                seen |= {path.name for path in new}
                for record in sorted(read_all(new), key=lambda record: record.started_at):
                    progress.finish(record)
                    self.delivery.add(record)
                    wanted.discard(record.cell.id)
                self.delivery.deliver()
                if not states:
                    return
                words = ", ".join(f"{num} {state}" for state, num in Counter(states.values()).most_common())
                progress.bar.update(progress.task, description=f"jobs: {words}")
                if (start := time.monotonic()) > merge_at:
                    self._bring(spread)
                    merge_at = time.monotonic() + max(MERGE_S, SHARE * (time.monotonic() - start))
                time.sleep(POLL_S)

    def _bring(self, spread: Round) -> list[str]:
        """Adds the round's finished records to the sweep's folder; returns a line for each that could not be added."""
        merged = merge([str(source) for source in spread.sources()], self.context.folder.parent)
        return [*merged.conflicts, *merged.problems]

    def _collect(self) -> None:
        """Brings the finished records of all rounds into the sweep's folder; removes the rounds that are over.

        The newest first: of two records of one cell, the later measured one is added.
        """
        folder, planned = self.context.folder, {item.cell.id for item in self.ready.planned}
        for each in reversed(self.state.rounds()):
            conflicts = self._bring(each)
            for line in conflicts:
                self.context.say(line, "yellow")
            measured = {path.stem.partition("-")[0] for path in folder.glob(RECORDS)}
            is_whole = each.cell_ids() & planned <= measured and each.is_in(folder)
            if is_whole and not conflicts and not self._states(each):
                shutil.rmtree(each.folder, ignore_errors=True)

    def _present(self) -> list[Record]:
        """The records of the planned cells, of today's code and data, the oldest first.

        What is in the place of one and can't be read is set aside: a line says so.
        """
        ids = {item.cell.id for item in self.ready.planned}
        paths = (path for path in self.context.folder.glob(RECORDS) if path.stem.partition("-")[0] in ids)
        found, lines = read_or_set_aside(paths)
        for line in listed(lines):
            self.context.say(line, "yellow")
        return sorted((each for each in found if self._is_present(each)), key=lambda record: record.started_at)

    def _is_present(self, record: Record) -> bool:
        """Whether the node that measured the record would give it the same identity today.

        The record says what its machine is, this machine what code, data and packages are there now.
        """
        here, there = self.ready.fingerprints[record.cell.engine], record.environment
        installed = {name: version for name, version in here["versions"].items() if name not in OF_NODE}
        versions = {name: installed.get(name, version) for name, version in there["versions"].items()}
        kept = {name: there[name] for name in ("machine", "variables")}
        try:
            today = identity(record.cell, self.ready.data, {**kept, "versions": versions, "code": here["code"]})
        except UserError:
            return False
        return today == record.identity

    def _done(self, present: Sequence[Record], retry: Retry) -> dict[str, Record]:
        """Cell id -> the record that stands."""
        return {record.cell.id: record for record in present if stands(record, retry)}

    def _write_plan(self, done: Mapping[str, Record]) -> None:
        """Writes the plan: earlier cells, and those of this sweep that have a record, in the order of the sweep."""
        found = [(done[item.cell.id], item.label) for item in self.ready.planned if item.cell.id in done]
        self.context.write_plan([WantedCell(record.cell, record.name, label) for record, label in found])
