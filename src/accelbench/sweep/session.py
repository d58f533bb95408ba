"""What a sweep needs while it measures: the hosts, the prober and the progress display."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.text import Text

from accelbench.data.manifest import read_manifest
from accelbench.devices import energy_counters
from accelbench.errors import DataError, UserError
from accelbench.grid.evidence import Evidence, read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.project import SAFETENSORS, shown
from accelbench.schema import record as records
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.text import ending, one_line
from accelbench.schema.vocab import MODULE, Device, Status
from accelbench.settings.config import SweepOptions
from accelbench.settings.executors import check_local
from accelbench.sweep import slow_formats
from accelbench.sweep.preflight import Preflight
from accelbench.sweep.prober import PROBING_ENGINE, Prober
from accelbench.sweep.progress import SweepProgress
from accelbench.sweep.run_cell import run_cell

MAX_LIBRARY_OUTPUT = 20_000  # characters of what one cell's libraries printed, with -v
DATA_CHANGED = "the data set was prepared anew while it was measured: run the sweep again"
NOT_JUDGED = "the sweep ended before the cell's speed was compared with what its device can do: run it again"


class Session(AbstractContextManager["Session"]):
    """Measures, judges and shows the cells of one sweep. With nothing to do it starts nothing.

    Args:
        ready: the prepared sweep.
        todo: the cells to measure.
        folder: where the records go.
        options: settings of the whole sweep.
        console: where progress is shown.
        sweep_id: kept in every record.
        hosts: from which the cells are forked.
        progress: shows the cells; by default the progress of a sweep.

    Attributes:
        evidence: of how long cells take; once entered, with something to do.
    """

    evidence: Evidence

    def __init__(
        self,
        ready: Prepared,
        todo: Sequence[Planned],
        folder: Path,
        options: SweepOptions,
        console: Console,
        sweep_id: str,
        hosts: Hosts,
        progress: Callable[[Console, Sequence[Planned], Evidence], SweepProgress] = SweepProgress,
    ) -> None:
        check_local(options.executor)
        self.ready, self.todo, self.folder = ready, todo, folder
        self.options, self.console, self.sweep_id = options, console, sweep_id
        self._hosts, self._new_progress = hosts, progress
        self._told: set[Device] = set()  # the devices of which it was said which precisions are slow
        self._stack = ExitStack()
        self._library_output: list[str] = []  # with -v: what the cells' libraries printed, until it is shown

    def __enter__(self) -> "Session":
        if self.todo:
            with ExitStack() as stack:
                self._start(stack)
                self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        self._show_library_output()
        if self.options.verbose:
            self._hosts.listener = self._show_printed  # what the hosts say when they end

    def _start(self, stack: ExitStack) -> None:
        runnable = [item.cell for item in self.todo if item.skip_reason is None]
        num_gpus = max((cell.devices for cell in runnable if cell.device == Device.gpu), default=0)
        self._hosts.end_starting(needed=runnable)
        self._idle_w = energy_counters.idle_w(energy_counters.counters(num_gpus))
        if self.options.verbose:
            self._hosts.listener = self._library_output.append
        place = self.ready.place
        self._prober = Prober(self._hosts, place.cache, fingerprint(PROBING_ENGINE), self._say, runnable)
        if runnable and self._prober.runs_first(runnable[0]):
            # Its host imports the framework while the trackers are opened. Not before: that would disturb the idle
            # power. Not where another host probes the device first: that would disturb the probe.
            self._hosts.start(runnable[0])
        machine = fingerprint(PROBING_ENGINE)["machine"]
        self.evidence = read_evidence(place.root, machine, {cell.id for cell in runnable})
        self._preflight = Preflight(self._hosts, self.ready.data_folder)
        self._preflight.check(runnable)
        self._progress = stack.enter_context(self._new_progress(self.console, self.todo, self.evidence))

    def measure(self, item: Planned) -> Record:
        """Runs the cell, or skips it with its reason, and writes its record at once; an ok one without its status.

        The sweep may be killed before the cell is judged, which can take minutes if its speed is not plausible.
        """
        self._progress.start(item)
        failure = self._preflight.failure(item.cell) if item.skip_reason is None else None
        if item.skip_reason is None and failure is None:
            self._tell_slow_formats(item.cell)
        ready = self.ready
        measured = {"probe_code": self._prober.environment["code"], "idle_w": self._idle_w}
        environment = {**ready.environment(item.cell.engine), **measured}
        weights = self.folder / f"{item.record_name}{SAFETENSORS}" if item.cell.save_weights else None
        record = run_cell(
            item, self._hosts, ready.data, ready.data_folder, environment, self.sweep_id, failure, weights
        )
        is_ok = record.status == Status.ok
        unjudged = dataclasses.replace(record, status=Status.invalid, reason=NOT_JUDGED) if is_ok else record
        records.write(unjudged, self.folder)
        return record

    def _tell_slow_formats(self, cell: Cell) -> None:
        """Probes the cell's device before its first cell, and says which of the sweep's precisions lack units there."""
        ceilings = self._prober.ceilings(cell)
        if cell.device not in self._told:
            self._told.add(cell.device)
            cells = [item.cell for item in self.todo if item.skip_reason is None and item.cell.device == cell.device]
            for line in slow_formats.lines(ceilings, [each.precision for each in cells]):
                self._say(line)

    def judge(self, record: Record) -> Record:
        """The record with the ceilings of its device and what follows from them; may probe the device again."""
        try:
            judged = self._prober.judged(record)
            if judged.status == Status.ok and (defect := self._data_defect() or self._file_defect(record)) is not None:
                judged = dataclasses.replace(judged, status=Status.invalid, reason=defect)
            records.write(judged, self.folder)
        except (UserError, OSError):
            if record.status == Status.ok:  # what was written first does not count
                (self.folder / f"{record.name}.json").unlink(missing_ok=True)
            raise
        return judged

    def _data_defect(self) -> str | None:
        """Why the data is not what the sweep began with; None if it is."""
        if self.ready.data.name == MODULE:  # there is no manifest
            return None
        try:
            return None if read_manifest(self.ready.data_folder) == self.ready.data else DATA_CHANGED
        except DataError as error:
            return f"the data set could not be read after the measurement: {error}"

    def _file_defect(self, record: Record) -> str | None:
        """Why the user's code and weights are not what the sweep was planned with; None if they are."""
        path = self.ready.changed_file(record)
        if path is None:
            return None
        return f"{one_line(shown(path))} changed while it was measured: run the sweep again"

    def show(self, record: Record) -> None:
        """Shows the record's outcome."""
        self._show_library_output()
        self._progress.finish(record)

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False)

    def _show_library_output(self) -> None:
        while self._library_output:
            self._show_printed(self._library_output.pop(0))

    def _show_printed(self, printed: str) -> None:
        self.console.print(shown_output(printed), soft_wrap=True)


def shown_output(printed: str) -> Text:
    """What libraries printed, without colours and moves of the cursor; of a long output the end."""
    return Text(ending(Text.from_ansi(printed).plain, MAX_LIBRARY_OUTPUT), "dim")
