"""Measures the cells of a sweep, judges them by their device's ceilings, and writes their records."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from accelbench.data.arrays import read_manifest
from accelbench.devices import energy_counters
from accelbench.errors import ChangedError, DataError
from accelbench.grid.estimate import REPEATED, Evidence, read_evidence, total
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.plan import Planned, Prepared
from accelbench.isolation.messages import Outcome
from accelbench.judging.verdict import ALLOWED, BUSY, DISTURBED, Word, is_allowed, judge, verdict
from accelbench.presentation import counted
from accelbench.project import REQUESTS, SAFETENSORS
from accelbench.schema.plan_file import joined
from accelbench.schema.record import TRACKING, UNTRACKED, Record, read_all, write
from accelbench.schema.serialize import grouped, plain, without_secrets
from accelbench.schema.text import ending
from accelbench.schema.vocab import MODULE, SERVING, Device, Status
from accelbench.settings.config import check_local
from accelbench.sweep.context import SweepContext
from accelbench.sweep.prober import PROBING_ENGINE, Prober, Quiet
from accelbench.sweep.terminal import SweepProgress

MAX_OUTPUT = 20_000  # characters that are shown of the libraries' output for one cell, with -v


class Session:
    """Measures and shows the cells `todo` of one sweep. Without cells, it starts nothing."""

    evidence: Evidence  # evidence of how long cells take; set on entering, if there are cells

    def __init__(
        self,
        context: SweepContext,
        ready: Prepared,
        todo: Sequence[Planned],
        *,
        is_brief: bool = False,
    ) -> None:
        check_local(context.options.executor)
        self.context = context
        self.ready = ready
        self.todo = todo
        self._is_brief = is_brief
        self._stack = ExitStack()  # of contexts that end with the session

    def __enter__(self) -> "Session":
        with self._stack as stack:
            if self.todo:
                self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _start(self) -> None:
        hosts, place, options = self.context.hosts, self.context.place, self.context.options
        runnable = [item.cell for item in self.todo if item.skip_reason is None]
        num_gpus = max((cell.devices for cell in runnable if cell.device == Device.gpu), default=0)
        self._idle_w = energy_counters.idle_w(energy_counters.counters(num_gpus))
        if options.verbose:  # also for the hosts' output at their end
            hosts.listener = lambda printed: self.context.say(ending(Text.from_ansi(printed).plain, MAX_OUTPUT), "dim")
        environment = fingerprint(PROBING_ENGINE)
        self._quiet = Quiet(0.0 if is_allowed() else options.quiet_s, self.context.say)
        self._prober = Prober(hosts, place.cache, environment, self.context.say, runnable, quiet=self._quiet)
        if runnable and runnable[0].engine == PROBING_ENGINE:
            # The host imports the framework while the trackers are opened. An earlier import would disturb the idle
            # power, and the host of another engine would disturb the probe.
            hosts.start(runnable[0])
        self.evidence = read_evidence(place.root)
        plan = joined(self.context.earlier, self.ready.planned)
        progress = SweepProgress(
            self.context.console,
            self.todo,
            self.evidence,
            plan=plan,
            earlier=read_all([self.context.folder / f"{wanted.record_name}.json" for wanted in plan]),
            is_brief=self._is_brief,
            says_mistakes=len(self.ready.planned) > 1,  # a single cell's mistake is printed at the end
        )
        self._progress = self._stack.enter_context(progress)
        for cells in grouped(runnable, lambda cell: (cell.device, cell.python)).values():
            self._prober.ceilings(cells[0])
        if runnable and not self._is_brief:
            expected = total(runnable, self.evidence)
            if len(runnable) > 1:
                num = len({cell.key_without(REPEATED) for cell in runnable})
                runs = f" ({len(runnable)} runs)" if num < len(runnable) else ""
                self.context.say(f"{counted(num, 'cell')}{runs} to measure: {expected}")

    def measure(self, item: Planned, left_s: float = math.inf) -> Record:
        """Runs or skips the cell, judges it, writes its record, and shows the outcome.

        If other programs disturbed the cell, waits for a quiet machine, and runs the cell once more if `left_s` allows
        it. Raises ChangedError if the user's code or data changed before the cell.
        """
        if item.skip_reason is None and (change := self._changed(item)) is not None:
            raise ChangedError(f"{change} after the sweep began: run the sweep again")
        cell, options, folder = item.cell, self.context.options, self.context.folder
        environment = self.ready.environment(cell)
        skipped = None
        if item.skip_reason is not None:
            skipped = Outcome(status=Status.skipped, reason=item.skip_reason)
        weights = folder / f"{item.record_name}{SAFETENSORS}" if cell.save_weights else None
        requests = folder / f"{item.record_name}{REQUESTS}" if cell.protocol in SERVING else None
        note = None
        while True:
            self._progress.start(item)
            started_at = datetime.now(UTC)
            start_s = time.perf_counter()
            outcome = skipped or self.context.hosts.run(cell, self.ready.data_folder, weights, requests)
            wall_s = time.perf_counter() - start_s
            measured = outcome.measurement
            status: Word = outcome.status
            reason = outcome.reason
            if measured is not None:
                status, reason = verdict(cell, measured, system=None if is_allowed() else outcome.system)
            if status != DISTURBED or note:
                break
            self._progress.begin("waiting for a quiet machine")
            if not self._quiet.comes(f"{item.label} was disturbed ({reason})", left_s - 2 * wall_s):
                break
            note = f"measured again: the first time, {reason}"
        served = measured.serving if measured else None
        if requests is not None and (served is None or served.requests_digest is None):
            requests.unlink(missing_ok=True)  # belongs to an earlier record of this name
        ceilings = self._prober.after(cell, measured if status == Status.ok else None, item.label)
        if status == Status.ok and measured is not None and (why := judge(cell, measured, ceilings)):
            status = Status.invalid
            reason = why
        if status in (Status.ok, DISTURBED) and (change := self._changed(item)) is not None:
            status = Status.invalid
            reason = f"{change} while it was measured: run the sweep again"
        if measured is not None and note:
            measured = replace(measured, notes=[*measured.notes, note])
        if measured is not None and measured.target is not None:
            measured = replace(measured, target=replace(measured.target, planned_in=self.context.planned_in(cell)))
        environment |= {"probe_code": self._prober.environment["code"], "idle_w": self._idle_w}
        environment["ceilings"] = plain(ceilings)
        if options.tracking == UNTRACKED:
            environment[TRACKING] = UNTRACKED
        if is_allowed():
            environment[BUSY] = ALLOWED
        record = Record(
            status=Status.ok if status == DISTURBED else status,
            reason=None if status == DISTURBED else reason,
            error=outcome.error,
            user_error=outcome.user_error,
            measurement=without_secrets(measured),
            system=outcome.system,
            cell=cell,
            label=item.label,
            identity=item.identity,
            started_at=started_at.isoformat(timespec="milliseconds"),
            wall_s=wall_s,
            environment=without_secrets(environment),
            sweep_id=self.context.sweep_id,
            of_search=self.context.of_search,
            data=without_secrets(self.ready.data),
        )
        write(record, folder)
        self._progress.finish(record)
        return record

    def _changed(self, item: Planned) -> str | None:
        """Returns what the user changed after the plan was made, such as `the data set was prepared anew`, or None."""
        if self.ready.data.name != MODULE:  # data from a module have no manifest
            try:
                if read_manifest(self.ready.data_folder) != self.ready.data:
                    return "the data set was prepared anew"
            except DataError as error:
                return f"the data set was changed ({error})"
        return "your code or weights were changed" if self.ready.is_changed(item.cell, item.identity) else None
