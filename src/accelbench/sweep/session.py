"""Measures the cells of a sweep, judges them by their device's ceilings, and writes their records."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.data.manifest import read_manifest
from accelbench.devices import energy_counters
from accelbench.errors import DataError, UserError
from accelbench.grid.evidence import Evidence, read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import Prepared
from accelbench.isolation.messages import Outcome
from accelbench.judging import disturbed
from accelbench.project import SAFETENSORS, shown
from accelbench.schema import record as records
from accelbench.schema.record import Record
from accelbench.schema.secrets import without_secrets
from accelbench.schema.text import ending, one_line
from accelbench.schema.vocab import MODULE, Device, Status
from accelbench.settings.executors import check_local
from accelbench.sweep import quiet
from accelbench.sweep.context import SweepContext
from accelbench.sweep.preflight import Preflight
from accelbench.sweep.prober import PROBING_ENGINE, Prober, slow_formats
from accelbench.sweep.progress import SweepProgress
from accelbench.sweep.quiet import Quiet

MAX_LIBRARY_OUTPUT = 20_000  # characters of what one cell's libraries printed, with -v
DATA_CHANGED = "the data set was prepared anew while it was measured: run the sweep again"
NOT_JUDGED = "the sweep ended before the cell's speed was compared with what its device can do: run it again"


class Session:
    """Measures, judges and shows the cells `todo` of one sweep. With nothing to do it starts nothing.

    Attributes:
        evidence: of how long cells take; once entered, with something to do.
    """

    evidence: Evidence

    def __init__(
        self,
        context: SweepContext,
        ready: Prepared,
        todo: Sequence[Planned],
        progress: Callable[[Console, Sequence[Planned], Evidence], SweepProgress] = SweepProgress,
    ) -> None:
        check_local(context.options.executor)
        self.context, self.ready, self.todo, self._new_progress = context, ready, todo, progress
        self._devices_said: set[Device] = set()  # the devices of which it was said which precisions are slow
        self._stack = ExitStack()
        self._library_output: list[str] = []  # with -v: what the cells' libraries printed, until it is shown

    def __enter__(self) -> "Session":
        if self.todo:
            with ExitStack() as stack:
                self._start(stack)
                self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        self._show_library_output()
        if self.context.options.verbose:
            self.context.hosts.listener = self._show_printed  # what the hosts say when they end

    def _start(self, stack: ExitStack) -> None:
        hosts, place, options = self.context.hosts, self.context.place, self.context.options
        runnable = [item.cell for item in self.todo if item.skip_reason is None]
        num_gpus = max((cell.devices for cell in runnable if cell.device == Device.gpu), default=0)
        hosts.end_starting(needed=runnable)
        self._idle_w = energy_counters.idle_w(energy_counters.counters(num_gpus))
        if options.verbose:
            hosts.listener = self._library_output.append
        environment = fingerprint(PROBING_ENGINE)
        self._quiet = Quiet(0.0 if quiet.is_allowed() else options.quiet_s, self._say)
        self._prober = Prober(hosts, place.cache, environment, self._say, runnable, quiet=self._quiet)
        if runnable and self._prober.runs_first(runnable[0]):
            # Its host imports the framework while the trackers are opened. Not before: that would disturb the idle
            # power. Not where another host probes the device first: that would disturb the probe.
            hosts.start(runnable[0])
        self.evidence = read_evidence(place.root, environment["machine"], {cell.id for cell in runnable})
        self._preflight = Preflight(hosts, self.ready.data_folder)
        self._preflight.check(runnable)
        self._progress = stack.enter_context(self._new_progress(self.context.console, self.todo, self.evidence))

    def measure(self, item: Planned, left_s: float = math.inf) -> Record:
        """Runs the cell, or skips it with its reason, and writes its record at once; an ok one without its status.

        The sweep may be killed before the cell is judged, which can take minutes if its speed is not plausible. A cell
        that other programs disturbed waits for a quiet machine, and is run once more; both take at most `left_s`.
        """
        self._progress.start(item)
        failure = self._preflight.failure(item.cell) if item.skip_reason is None else None
        if item.skip_reason is None and failure is None:
            self._say_slow_formats(item)
        environment = self.ready.environment(item.cell.engine)
        environment |= {"probe_code": self._prober.environment["code"], "idle_w": self._idle_w}
        environment |= {disturbed.BUSY: disturbed.ALLOWED} if quiet.is_allowed() else {}
        record = self._run(item, failure, environment)
        reason, left_s = disturbed.reason(record), left_s - 2 * record.wall_s
        if reason is not None and self._quiet.comes(f"{item.label} was disturbed ({reason})", left_s):
            record = _repeated(self._run(item, failure, environment), reason)
        is_ok = record.status == Status.ok
        unjudged = replace(record, status=Status.invalid, reason=NOT_JUDGED) if is_ok else record
        records.write(unjudged, self.context.folder)
        return record

    def _run(self, item: Planned, failure: Outcome | None, environment: Mapping[str, Any]) -> Record:
        """The record of the cell's process; of none if the cell is skipped, or the check of its network failed."""
        weights = self.context.folder / f"{item.record_name}{SAFETENSORS}" if item.cell.save_weights else None
        started_at, start = datetime.now(UTC), time.perf_counter()
        if item.skip_reason is not None:
            outcome = Outcome(status=Status.skipped, reason=item.skip_reason)
        else:
            outcome = failure or self.context.hosts.run(item.cell, self.ready.data_folder, weights)
        return Record(
            cell=item.cell,
            label=item.label,
            identity=item.identity,
            status=outcome.status,
            reason=outcome.reason,
            error=outcome.error,
            user_error=outcome.user_error,
            started_at=started_at.isoformat(timespec="milliseconds"),
            wall_s=time.perf_counter() - start,
            environment=without_secrets(environment),
            sweep_id=self.context.sweep_id,
            data=without_secrets(self.ready.data),
            measurement=without_secrets(outcome.measurement),
            system=outcome.system,
        )

    def _say_slow_formats(self, item: Planned) -> None:
        """Probes the cell's device before its first cell, and says which of the sweep's precisions lack units there."""
        device, ceilings = item.cell.device, self._prober.ceilings(item.cell)
        if device not in self._devices_said:
            self._devices_said.add(device)
            cells = [each.cell for each in self.todo if each.skip_reason is None and each.cell.device == device]
            for line in slow_formats(ceilings, [each.precision for each in cells]):
                self._say(line)

    def judge(self, record: Record) -> Record:
        """The record with the ceilings of its device and what follows from them; may probe the device again."""
        try:
            judged = self._prober.judged(record)
            if judged.status == Status.ok and (defect := self._data_defect() or self._file_defect(record)) is not None:
                judged = replace(judged, status=Status.invalid, reason=defect)
            records.write(judged, self.context.folder)
        except (UserError, OSError):
            if record.status == Status.ok:  # what was written first does not count
                (self.context.folder / f"{record.name}.json").unlink(missing_ok=True)
            raise
        return judged

    def _data_defect(self) -> str | None:
        if self.ready.data.name == MODULE:  # there is no manifest
            return None
        try:
            return None if read_manifest(self.ready.data_folder) == self.ready.data else DATA_CHANGED
        except DataError as error:
            return f"the data set could not be read after the measurement: {error}"

    def _file_defect(self, record: Record) -> str | None:
        path = self.ready.changed_file(record)
        return None if path is None else f"{one_line(shown(path))} changed while it was measured: run the sweep again"

    def show(self, record: Record) -> None:
        """Shows the record's outcome."""
        self._show_library_output()
        self._progress.finish(record)

    def _say(self, line: str) -> None:
        self.context.console.print(line, markup=False)

    def _show_library_output(self) -> None:
        while self._library_output:
            self._show_printed(self._library_output.pop(0))

    def _show_printed(self, printed: str) -> None:
        self.context.console.print(shown_output(printed), soft_wrap=True)


def _repeated(record: Record, reason: str) -> Record:
    if record.measurement is None:
        return record
    notes = [*record.measurement.notes, f"measured again: the first time, {reason}"]
    return replace(record, measurement=replace(record.measurement, notes=notes))


def shown_output(printed: str) -> Text:
    """What libraries printed, without colours and moves of the cursor; of a long output the end."""
    return Text(ending(Text.from_ansi(printed).plain, MAX_LIBRARY_OUTPUT), "dim")
