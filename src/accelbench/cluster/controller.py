"""A sweep whose cells are measured by the jobs of a cluster.

The controller plans the sweep, submits jobs, shows their records as they come, and brings them together in the sweep's
folder. It measures nothing. Which cells can't run is for each node to say: it may have devices that this machine lacks.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console

from accelbench.cluster import collecting
from accelbench.cluster.engine import ClusterEngine, engine_of
from accelbench.cluster.groups import groups, shares
from accelbench.cluster.shared_state import Part, Round, SharedState
from accelbench.cluster.watching import POLL_S, Watch
from accelbench.errors import UserError
from accelbench.grid.prepare import Prepared, check_request, prepare
from accelbench.presentation import counted
from accelbench.project import RECORDS, RUNS, shown, workplace
from accelbench.schema import plan_file
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, listed
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep.delivery import Delivery
from accelbench.sweep.missing_data import prepare_missing
from accelbench.sweep.run import (
    SweepResult,
    announce_stand_in,
    conclude,
    deliver_rest,
    folder_under_runs,
    set_aside_plan,
    telling_where_it_stopped,
    write_wanted,
)

SETTLE_S = 10.0  # for which a job that an earlier controller was submitting may come


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    show: Callable[[SweepResult], None] | None = None,
) -> SweepResult:
    """As `sweep.run.run`, by the jobs of a cluster. If interrupted, it cancels them.

    Jobs of an earlier controller of the same folder that still run are not submitted again, but waited for.

    Raises:
        UserError: the sweep could not start, or its jobs ended before every cell had its record.
    """
    sweep_id = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{options.suite}"
    place = workplace().with_data(options.data_root)
    folder = out or folder_under_runs(place, options.out or f"{RUNS}/{sweep_id}")
    check_request(cells)
    engine = engine_of(options.executor)
    with closing(engine), Delivery(options.tracking, place.store) as delivery:
        prepare_missing(place, cells[0].data, console)
        earlier = plan_file.cells_in(folder) if out is None else []
        ready = prepare(cells, place, earlier)
        announce_stand_in(ready, console)
        with telling_where_it_stopped(ready, folder):
            set_aside_plan(folder, console)
            spread = _SpreadSweep(ready, earlier, folder, options, console, sweep_id, engine, delivery)
            result = SweepResult(folder, spread.run())
        if result.records:
            (show or (lambda result: conclude(result, console)))(result)
        deliver_rest(delivery, result.records, console)
    spread.check_complete(result.records)
    return result


@dataclass
class _SpreadSweep:
    """One controller's sweep."""

    ready: Prepared
    earlier: Sequence[WantedCell]
    folder: Path
    options: SweepOptions
    console: Console
    sweep_id: str
    engine: ClusterEngine
    delivery: Delivery
    _problems: list[str] = field(default_factory=list)  # why jobs ended before their cells were measured

    def __post_init__(self) -> None:
        self.state = SharedState(self.ready.place, self.folder)

    def run(self) -> list[Record]:
        """Measures every cell without a record; returns the records of all cells that have one."""
        with ExitStack() as stack:
            if not self.engine.jobs_outlive:  # another controller's jobs can't be seen
                stack.enter_context(self.state.locked(patience_s=0))
            running = self._running()
            if running is not None:
                num = len(self._states(running))
                self.console.print(f"Waiting for {counted(num, 'job')} of an earlier start.", markup=False)
                self._watch(running)
            started = self._start()
            if started is not None:
                self._watch(started)
            with self._locked():
                self._collect()
                done = self._done(Retry.none)  # those that were retried have their new records
                self._write_plan(done)
        return [done[item.cell.id] for item in self.ready.planned if item.cell.id in done]

    def check_complete(self, found: Sequence[Record]) -> None:
        """Raises a UserError if cells have no record."""
        num = len(self.ready.planned) - len(found)
        if num:
            why = "; ".join(dict.fromkeys(self._problems)) or "their jobs were ended from outside"
            raise UserError(
                f"{num} of {len(self.ready.planned)} cells have no record: {why}. The same command with "
                f"out={shown(self.folder)} goes on"
            )

    def _locked(self) -> ExitStack:
        """Holds the lock of the controllers, unless it is held all the time."""
        inner = ExitStack()
        if self.engine.jobs_outlive:
            inner.enter_context(self.state.locked())
        return inner

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
            for line in collecting.set_aside_unreadable(self.folder, self.ready):
                self.console.print(line, style="yellow", markup=False, soft_wrap=True)
            self._collect()
            done = self._done(self.options.retry)
            for record in collecting.replaced(self.folder, self.ready, self.options.retry):
                self.state.set_aside(record)
            self._write_plan(done)
            todo = [item.cell for item in self.ready.planned if item.cell.id not in done]
            if done:
                self.console.print(f"{len(done)} of {len(self.ready.planned)} cells have their record already.")
            return self._submit(todo) if todo else None

    def _submit(self, todo: list[Cell]) -> Round:
        """Submits jobs for the cells; if not all can be, none stays. Each is on disk as soon as it is known."""
        new, num = self.state.new_round(), 0
        try:
            for need, group in groups(todo).items():
                paths = [
                    new.write_part(number, self._part(share))
                    for number, share in enumerate(shares(group, self.engine.num_jobs), start=num)
                ]
                num += len(paths)
                names = []
                for job in self.engine.submit(paths, need, new.job_name):
                    names.append(job)
                    new.write_jobs([*new.jobs(), job])
                by = f"{counted(len(names), 'job')} of {self.engine.name} ({', '.join(names)})"
                what = f"{counted(len(group), 'cell')} for {need}: {by}"
                self.console.print(what, markup=False, soft_wrap=True)
        except BaseException:
            self._cancel(new)
            raise
        return new

    def _part(self, cells: list[Cell]) -> Part:
        labels = {item.cell.id: item.label for item in self.ready.planned}
        return Part(
            name=self.folder.name,
            sweep_id=self.sweep_id,
            project=str(Path.cwd()),
            data_root=self.options.data_root,
            quiet_s=self.options.quiet_s,
            verbose=self.options.verbose,
            cells=cells,
            labels=[labels[cell.id] for cell in cells],
        )

    def _cancel(self, spread: Round) -> None:
        """Ends the jobs of the round, known or not; says so if that fails."""
        try:
            self.engine.cancel(list(dict.fromkeys([*spread.jobs(), *self._states(spread)])))
        except UserError as error:
            self.console.print(f"{error}: the jobs may still run", style="yellow", markup=False, soft_wrap=True)

    def _watch(self, spread: Round) -> None:
        watch = Watch(self.ready, spread, self.folder, self.engine, self.console, self.delivery)
        try:
            watch.run()
        except KeyboardInterrupt:
            self.console.print(f"Cancelling {counted(len(spread.jobs()), 'job')} ...", markup=False)
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
            conflicts = collecting.collect(each, self.folder)
            for line in conflicts:
                self.console.print(line, style="yellow", markup=False, soft_wrap=True)
            measured = {path.stem.partition("-")[0] for path in self.folder.glob(RECORDS)}
            is_whole = each.cell_ids() & planned <= measured and each.is_in(self.folder)
            if is_whole and not conflicts and not self._states(each):
                self.state.remove_round(each)

    def _done(self, retry: Retry) -> dict[str, Record]:
        """Cell id -> the record that stands."""
        return collecting.standing(self.folder, self.ready, retry)

    def _write_plan(self, done: dict[str, Record]) -> None:
        """Writes the plan: earlier cells, and those of this sweep that have a record, in the order of the sweep."""
        labels = {item.cell.id: item.label for item in self.ready.planned}
        ids = [item.cell.id for item in self.ready.planned if item.cell.id in done]
        new = [WantedCell(done[cell_id].cell, done[cell_id].name, labels[cell_id]) for cell_id in ids]
        write_wanted(plan_file.joined(self.earlier, new), self.options, self.folder)
