"""A sweep whose cells are measured by the jobs of a cluster.

The controller submits jobs, shows their records as they come, and brings them together in the sweep's folder. It
measures nothing. Which cells can't run is for each node to say: it may have devices that this machine lacks.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from accelbench.cluster.engine import UNKNOWN, ClusterEngine, groups, shares
from accelbench.cluster.shared_state import Part, Round, SharedState
from accelbench.errors import UserError
from accelbench.grid.evidence import read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.identity import identity
from accelbench.grid.prepare import Prepared
from accelbench.judging.disturbed import is_retried
from accelbench.presentation import counted
from accelbench.project import RECORDS, shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, listed, read_all
from accelbench.settings.config import Retry
from accelbench.settings.executors import ExecutorConfig
from accelbench.sweep.context import SweepContext
from accelbench.sweep.delivery import Delivery
from accelbench.sweep.kept import read_or_set_aside
from accelbench.sweep.prober import PROBING_ENGINE
from accelbench.sweep.progress import SweepProgress
from accelbench.sweep.session import NOT_JUDGED

OF_NODE = ("nvidia-driver",)  # versions of the node, and not of the packages, which all nodes share
SETTLE_S = 10.0  # for which a job that an earlier controller was submitting may come
POLL_S = 2.0
ASK_S = 10.0  # between two questions to the scheduler, while cells have no record
SILENCE_S = 60.0  # without an answer of the scheduler, after which a warning is shown
MERGE_S = 30.0  # between two merges on the way, at least; ten times as long as one takes
SHARE = 10


class Watch:
    """Waits for the jobs of a round, and delivers the records that come meanwhile."""

    def __init__(
        self, context: SweepContext, ready: Prepared, spread: Round, engine: ClusterEngine, delivery: Delivery
    ) -> None:
        self._context, self._ready, self._spread = context, ready, spread
        self._engine, self._delivery = engine, delivery
        self._seen = {path.name for path in context.folder.glob(RECORDS)}
        self._merge_at = time.monotonic() + MERGE_S
        self._states_now: Mapping[str, str] = {}
        self._ask_at = 0.0
        self._warn_at = time.monotonic() + SILENCE_S

    def run(self) -> None:
        """Returns when no job runs or is to run."""
        wanted = self._spread.cell_ids()
        todo = [item for item in self._ready.planned if item.cell.id in wanted]
        evidence = read_evidence(self._context.place.root, fingerprint(PROBING_ENGINE)["machine"], set())
        if len(wanted) > 1:
            self._delivery.open()
        with SweepProgress(self._context.console, todo, evidence) as progress:
            while True:
                states = self._states(is_whole=not wanted)  # before the records: a job leaves none after it has ended
                for record in self._new():
                    progress.finish(record)
                    self._delivery.add(record)
                    wanted.discard(record.cell.id)
                self._delivery.deliver()
                if not states:
                    return
                words = ", ".join(f"{num} {state}" for state, num in Counter(states.values()).most_common())
                progress.bar.update(progress.task, description=f"jobs: {words}")
                if time.monotonic() > self._merge_at:
                    self.collect()
                time.sleep(POLL_S)

    def collect(self) -> None:
        """Brings the records that are there into the sweep's folder."""
        start = time.monotonic()
        self._spread.collect(self._context.folder)
        self._merge_at = time.monotonic() + max(MERGE_S, SHARE * (time.monotonic() - start))

    def _states(self, is_whole: bool) -> Mapping[str, str]:
        """The states of the jobs, not older than `ASK_S`; those of now if each cell has its record."""
        now = time.monotonic()
        if now < self._ask_at and not is_whole:
            return self._states_now
        self._states_now = self._engine.states(self._spread.jobs(), self._spread.job_name)
        self._ask_at = time.monotonic() + ASK_S
        if set(self._states_now.values()) != {UNKNOWN}:
            self._warn_at = now + SILENCE_S
        elif now > self._warn_at:
            words = f"{self._engine.name} has not answered for {SILENCE_S:.0f} s: still waiting for its jobs"
            self._context.say(words, "yellow")
            self._warn_at = math.inf  # once, until it answers
        return self._states_now

    def _new(self) -> list[Record]:
        paths = [path for source in self._spread.sources() for path in source.glob(RECORDS)]
        new = [path for path in paths if path.name not in self._seen]
        self._seen |= {path.name for path in new}
        return sorted(read_all(new), key=lambda record: record.started_at)


class Controller:
    """Spreads one sweep over the jobs of an engine."""

    def __init__(self, context: SweepContext, engine: ClusterEngine) -> None:
        self.context, self.engine, self.folder = context, engine, context.folder
        self.state = SharedState(context.place, context.folder)
        self._problems: list[str] = []  # why jobs ended before their cells were measured

    def run(self, ready: Prepared, delivery: Delivery) -> list[Record]:
        """Measures every cell without a record; returns the records of all cells that have one."""
        self.ready, self.delivery = ready, delivery
        # Another controller's jobs that end with it can't be seen: then nobody else may work in this folder.
        with nullcontext() if self.engine.jobs_outlive else self.state.locked(patience_s=0):
            running = self._running()
            if running is not None:
                num = len(self._states(running))
                self.context.say(f"Waiting for {counted(num, 'job')} of an earlier start.")
                self._watch(running)
            started = self._start()
            if started is not None:
                self._watch(started)
            with self._locked():
                self._collect()
                done = self._done(self._present(), Retry.none)  # those that were retried have their new records
                self._write_plan(done)
        return [done[item.cell.id] for item in ready.planned if item.cell.id in done]

    def check_complete(self, found: Sequence[Record]) -> None:
        """Raises a UserError if cells have no record."""
        num = len(self.ready.planned) - len(found)
        if num:
            why = "; ".join(dict.fromkeys(self._problems)) or "their jobs were ended from outside"
            again = f"The same command with out={shown(self.folder)} goes on"
            raise UserError(f"{num} of {len(self.ready.planned)} cells have no record: {why}. {again}")

    def _locked(self) -> AbstractContextManager[None]:
        """Holds the lock of the controllers, unless it is held all the time."""
        return self.state.locked() if self.engine.jobs_outlive else nullcontext()

    def _running(self) -> Round | None:
        """The newest round of which jobs run; None without one.

        A controller that was killed leaves the command that submits a job, which the scheduler may not know yet.
        """
        rounds = self.state.rounds()
        until = time.monotonic() + SETTLE_S * any(each.may_be_submitting for each in rounds)
        while (found := next((each for each in reversed(rounds) if self._states(each)), None)) is None:
            if time.monotonic() >= until:
                break
            time.sleep(POLL_S)
        return found

    def _states(self, spread: Round) -> Mapping[str, str]:
        return self.engine.states(spread.jobs(), spread.job_name)

    def _start(self) -> Round | None:
        """Submits jobs for the cells without a record; returns their round, None if there is nothing to do."""
        with self._locked():
            running = self._running()  # of another controller, meanwhile
            if running is not None:
                return running
            self._present()  # what is unreadable must be out of the way of the jobs' records
            self._collect()
            present, retry = self._present(), self.context.options.retry
            done = self._done(present, retry)
            for record in present:
                if not _stands(record, retry):  # the next one will have its name
                    self.state.set_aside(self.folder / f"{record.name}.json")
            self._write_plan(done)
            todo = [item.cell for item in self.ready.planned if item.cell.id not in done]
            if done:
                self.context.say(f"{len(done)} of {len(self.ready.planned)} cells have their record already.")
            return self._submit(todo) if todo else None

    def _submit(self, todo: list[Cell]) -> Round:
        """Submits jobs for the cells; if not all can be, none stays. Each is on disk as soon as it is known."""
        new, num = self.state.new_round(), 0
        try:
            for need, group in groups(todo).items():
                paths = []
                for share in shares(group, self.engine.num_jobs):
                    paths.append(new.write_part(num, self._part(share)))
                    num += 1
                names = []
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
            name=self.folder.name,
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
        watch = Watch(self.context, self.ready, spread, self.engine, self.delivery)
        try:
            watch.run()
        except KeyboardInterrupt:
            self.context.say(f"Cancelling {counted(len(spread.jobs()), 'job')} ...")
            self._cancel(spread)
            watch.collect()
            raise
        words = {job: self.engine.last_words(spread.folder, job) for job in spread.jobs()}
        lines = [f"job {job}: {why}" for job, why in spread.problems().items()]
        self._problems += lines or listed([f"job {job} ended: {text}" for job, text in words.items() if text])

    def _collect(self) -> None:
        """Brings the finished records of all rounds into the sweep's folder; removes the rounds that are over.

        The newest first: of two records of one cell, the later measured one is added.
        """
        planned = {item.cell.id for item in self.ready.planned}
        for each in reversed(self.state.rounds()):
            conflicts = each.collect(self.folder)
            for line in conflicts:
                self.context.say(line, "yellow")
            measured = {path.stem.partition("-")[0] for path in self.folder.glob(RECORDS)}
            is_whole = each.cell_ids() & planned <= measured and each.is_in(self.folder)
            if is_whole and not conflicts and not self._states(each):
                self.state.remove_round(each)

    def _present(self) -> list[Record]:
        found, lines = _present(self.folder, self.ready)
        for line in listed(lines):
            self.context.say(line, "yellow")
        return found

    def _done(self, present: Sequence[Record], retry: Retry) -> dict[str, Record]:
        """Cell id -> the record that stands."""
        return {record.cell.id: record for record in present if _stands(record, retry)}

    def _write_plan(self, done: Mapping[str, Record]) -> None:
        """Writes the plan: earlier cells, and those of this sweep that have a record, in the order of the sweep."""
        found = [(done[item.cell.id], item.label) for item in self.ready.planned if item.cell.id in done]
        self.context.write_plan([WantedCell(record.cell, record.name, label) for record, label in found])


def _present(folder: Path, ready: Prepared) -> tuple[list[Record], list[str]]:
    """The records of the planned cells, of today's code and data, the oldest first.

    What is in the place of one and can't be read is set aside: a line says so.

    Raises:
        RefusedError: the system refused to read a file; the record may be whole.
        WriteError: a file can't be renamed.
    """
    ids = {item.cell.id for item in ready.planned}
    found, lines = read_or_set_aside(path for path in folder.glob(RECORDS) if path.stem.partition("-")[0] in ids)
    return sorted((each for each in found if _is_present(each, ready)), key=lambda record: record.started_at), lines


def _stands(record: Record, retry: Retry) -> bool:
    """Whether the cell of a present record needs no other one."""
    return record.reason != NOT_JUDGED and not (retry == Retry.failed and is_retried(record))


def _is_present(record: Record, ready: Prepared) -> bool:
    """Whether the node that measured the record would give it the same identity today.

    The record says what its machine is, this machine what code, data and packages are there now.
    """
    here, there = ready.fingerprints[record.cell.engine], record.environment
    installed = {name: version for name, version in here["versions"].items() if name not in OF_NODE}
    versions = {name: installed.get(name, version) for name, version in there["versions"].items()}
    fingerprint = {
        "machine": there["machine"],
        "versions": versions,
        "variables": there["variables"],
        "code": here["code"],
    }
    try:
        return identity(record.cell, ready.data, fingerprint) == record.identity
    except UserError:
        return False
