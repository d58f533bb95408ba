"""What the cells that were measured on this machine show of how long others will take.

A cell's length is estimated as

    fixed + stretch x steps(step length),

where `timed_steps.expected_s` gives the seconds of all steps under the cell's protocol. All three come from finished
cells whose steps do the same work: the same model, data, engine, device, mode, precision and options.

- fixed: what such a cell took besides its steps, compilation included.
- stretch: how many times longer its steps took than expected, for example because noisy blocks were repeated; 1 for
  another protocol.
- step length: that of such a cell if it has the same batch. A batch k times as large takes at least as long, and at
  most k times as long; if a smaller and a larger batch were measured, both limits count.

That gives limits, the shortest and the longest. If cells of the same batch differ, the limits include all of them. If
other processes used the processor while a cell was measured, such a cell may take that much less without them, or that
much more with more of them.

If the work was never measured, cells of other models give the limits, as shares of their expected seconds: if there are
enough of the same engine, device, data set and protocol. Otherwise the limits are the windows' sum, and infinity.
`estimate.Length` says when limits are an estimate.
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from accelbench.engines.registry import host_spec
from accelbench.grid.timed_steps import NUM_CHECK_STEPS, expected_s, observed_s, step_s
from accelbench.project import RECORD_FOLDERS, RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record, read_all
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Protocol

# Settings that change how many steps are run, but not what a step does for a sample.
COUNTS = {"batch_size", "scaling", "protocol", "window", "warmup", "steps", "epochs", "breakdown_s", "seed", "repeat"}
NUM_LATEST = 3  # of the cells of one batch, the latest count
MIN_OTHERS, MAX_OTHERS = 3, 8  # other models that are enough, and how many cells of them count
MAX_READ = 500  # records of other cells that are read, the newest; reading one takes some .5 ms
# Records whose offsets (`_offset_s`) differ less are of one start of the machine: an export may take minutes.
SAME_START_S = 600.0
START_S = (0.0, 15.0)  # of a host, where no cell waited for one yet
IMPORT_S = 0.5  # a host that a cell waited for this long imported its framework, or exported a network

Limits = tuple[float, float]  # the shortest and the longest, in seconds


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished cell, reduced to what others are estimated from: see above."""

    cell: Cell
    took_s: float  # from the start of its process to its outcome
    step_s: float  # of one step in the steady state
    fixed_s: float
    stretch: float
    free: float  # share of the processor that other processes left
    num_samples: tuple[int, int]  # in the training set and in the test set

    @classmethod
    def of(cls, record: Record, waited_s: float) -> "Finished | None":
        """What `record` shows; None if it measured nothing. The cell waited for its host or its network."""
        cell, measured = record.cell, record.measurement
        if measured is None or (one_s := step_s(cell, measured)) is None:
            return None
        took_s = record.wall_s - waited_s
        compile_s = max(0.0, (measured.first_step_s or 0.0) - one_s) if measured.blocks else measured.compile_s or 0.0
        steps_s = min(took_s, observed_s(measured) - compile_s + NUM_CHECK_STEPS[cell.mode] * one_s)
        num_samples = (measured.num_train_samples or 0, measured.num_test_samples or 0)
        expected = expected_s(cell, one_s, num_samples)
        if not (0.0 < expected < math.inf and 0.0 < steps_s < math.inf):  # of a record that was made up
            return None
        return cls(
            cell=cell,
            took_s=took_s,
            step_s=one_s,
            fixed_s=took_s - steps_s,
            stretch=steps_s / expected,
            free=_free(record),
            num_samples=num_samples,
        )

    def limits_s(self, cell: Cell, shortest_step_s: float, longest_step_s: float) -> Limits:
        """The limits of `cell`, which does the same work, from those of its steps."""
        stretch = self.stretch if cell.protocol == self.cell.protocol else 1.0
        shortest, longest = (
            self.fixed_s + stretch * expected_s(cell, one_s, self.num_samples)
            for one_s in sorted((shortest_step_s, longest_step_s))
        )
        return self.free * shortest, longest / self.free

    @cached_property
    def shares(self) -> Limits:
        """What the cell took at least and at most, as shares of its `_scale`."""
        share = self.took_s / _scale(self.cell, self.num_samples)
        return self.free * share, share / self.free


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What the estimate of a cell depends on, besides its numbers of steps."""

    cell: Cell
    work: str  # equal for cells whose steps do the same work for each sample
    kind: str  # equal for cells of other models that may take about as long
    host: tuple[object, ...]  # equal for cells that are forked from the same host
    needs: tuple[object, ...]  # equal for cells that wait for the same host or export: only the first does

    @classmethod
    def of(cls, cell: Cell) -> "Traits":
        spec, backend = host_spec(cell), cell.keras and cell.keras.backend
        work = {name: value for name, value in cell.settings().items() if name not in COUNTS}
        kind = [cell.engine, backend, cell.device, cell.devices, cell.data.name, cell.protocol]
        needs = (*spec.key, spec.exported_as)
        return cls(cell=cell, work=canonical_json(work), kind=canonical_json(kind), host=spec.key, needs=needs)


class Evidence:
    """What the finished cells of a machine show."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._offsets_s: list[float] = []
        self._traits: dict[int, Traits] = {}  # by the cell's address, which is its own as long as it is kept here
        self._same_work: dict[str, dict[int, list[Finished]]] = defaultdict(lambda: defaultdict(list))
        self._others: dict[str, dict[tuple[str, int], Finished]] = defaultdict(dict)
        self._waits_s: dict[tuple[object, ...], list[float]] = defaultdict(list)
        found = sorted(records, key=lambda record: record.started_at)
        self._offsets_s = sorted(offset for record in found if (offset := _offset_s(record)) is not None)
        for record in found:
            self._note(record)

    def add(self, record: Record) -> None:
        """Takes in what a further record shows."""
        if (offset := _offset_s(record)) is not None:
            bisect.insort(self._offsets_s, offset)
        self._note(record)

    def traits(self, cell: Cell) -> Traits:
        """The traits of `cell`. They are kept: a sweep estimates the cells to come again whenever one has finished."""
        if id(cell) not in self._traits:
            self._traits[id(cell)] = Traits.of(cell)
        return self._traits[id(cell)]

    def limits_s(self, cell: Cell) -> Limits:
        """The shortest and the longest time that `cell` may take, without the start of its host."""
        least_s = expected_s(cell, 0.0, (0, 0))
        shortest, longest = self._from_same_work(cell) or self._from_others(cell) or (least_s, math.inf)
        return max(shortest, least_s), max(longest, least_s)

    def has_same_work(self, cell: Cell) -> bool:
        """Whether a cell was measured whose steps do the same work."""
        return self.traits(cell).work in self._same_work

    def start_s(self, cell: Cell) -> Limits:
        """Seconds until the cell's process can start: its host imports the framework, and may export the network.

        A network that was never exported takes as long as the host's others.
        """
        traits = self.traits(cell)
        waits_s = self._waits_s.get(traits.needs) or self._waits_s.get(traits.host)
        return (median(waits_s[-NUM_LATEST:]),) * 2 if waits_s else START_S

    def _note(self, record: Record) -> None:
        waited_s = self._waited_s(record)
        finished = Finished.of(record, waited_s)
        if finished is None:
            return
        cell, traits = finished.cell, Traits.of(finished.cell)
        self._same_work[traits.work][cell.batch_size].append(finished)
        self._others[traits.kind].pop((traits.work, cell.batch_size), None)
        self._others[traits.kind][traits.work, cell.batch_size] = finished
        if waited_s > IMPORT_S:
            for key in (traits.host, traits.needs):
                self._waits_s[key].append(waited_s)

    def _waited_s(self, record: Record) -> float:
        """How long the cell waited for its host or its network; other cells since the machine started did not."""
        offset_s = _offset_s(record)
        if offset_s is None:
            return 0.0
        first = self._offsets_s[bisect.bisect_left(self._offsets_s, offset_s - SAME_START_S)]
        return min(offset_s - first, record.wall_s)

    def _from_same_work(self, cell: Cell) -> Limits | None:
        batches, size = self._same_work.get(self.traits(cell).work), cell.batch_size
        if not batches:
            return None
        nearest = [
            *sorted(each for each in batches if each <= size)[-1:],
            *sorted(each for each in batches if each >= size)[:1],
        ]
        shortest, longest = 0.0, math.inf  # of a step
        for batch in nearest:
            low, high = sorted((1.0, size / batch))
            steps_s = [finished.step_s for finished in _latest(batches[batch], cell.protocol)]
            shortest, longest = max(shortest, low * min(steps_s)), min(longest, high * max(steps_s))
        like = _latest(batches[min(nearest, key=lambda batch: abs(math.log(batch / size)))], cell.protocol)
        return _around(finished.limits_s(cell, shortest, longest) for finished in like)

    def _from_others(self, cell: Cell) -> Limits | None:
        others = self._others.get(self.traits(cell).kind, {})
        latest = list(others.values())[-MAX_OTHERS:]
        if len({finished.cell.model.name for finished in latest}) < MIN_OTHERS:
            return None
        lowest, highest = _around(finished.shares for finished in latest)
        scale_s = _scale(cell, latest[-1].num_samples)
        return lowest * scale_s, highest * scale_s


def read_evidence(root: Path, machine: Mapping[str, Any], cell_ids: Collection[str] = ()) -> Evidence:
    """The evidence of the records of the project in `root`; those of another machine do not count.

    Of the cells that are to be estimated, `cell_ids`, all records are read.
    """
    paths = {path for folder in RECORD_FOLDERS for path in (root / folder).rglob(RECORDS)}
    own = {path for path in paths if path.name.partition("-")[0] in cell_ids}
    newest = sorted(paths - own, key=_modified_s)[-MAX_READ:]
    return Evidence(each for each in read_all([*own, *newest]) if each.environment.get("machine") == machine)


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _scale(cell: Cell, num_samples: tuple[int, int]) -> float:
    return expected_s(cell, 0.0 if cell.protocol == Protocol.window else 1.0, num_samples)


def _latest(finished: Sequence[Finished], protocol: Protocol) -> Sequence[Finished]:
    return ([each for each in finished if each.cell.protocol == protocol] or finished)[-NUM_LATEST:]


def _around(limits: Iterable[Limits]) -> Limits:
    lows, highs = zip(*limits, strict=True)
    return min(lows), max(highs)


def _free(record: Record) -> float:
    others = record.system.values.get("other_cpu_utilization_percent", []) if record.system else []
    percents = [percent for percent in others if percent is not None]
    num_threads = record.environment.get("machine", {}).get("num_threads")
    return max(0.01, 1.0 - fmean(percents) / 100 / num_threads) if percents and num_threads else 1.0


def _offset_s(record: Record) -> float | None:
    """The start of the cell's process, by the clock since the machine started, minus the request's time of day.

    Since the machine started, all records have the same offset, except for the time that a cell waited for its host.
    """
    if record.system is None or record.system.started_boot_s is None:
        return None
    return record.system.started_boot_s - datetime.fromisoformat(record.started_at).timestamp()
