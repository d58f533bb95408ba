"""How long trainings take to reach a target. The report, the terminal and the Python interface show these numbers.

A setting is trained with several seeds. Each training is a run. A run that misses the target is ranked as slower than
every run that reaches it. So the median and its interval are computed from all runs (`stats/intervals.py`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median_high
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell, Process
from accelbench.answers.gaps import Word
from accelbench.answers.jobs import Job, alike
from accelbench.answers.sureness import LIKELY_RATIO, MARGIN, are_interleaved, ran_beside_others
from accelbench.answers.words import model_text
from accelbench.presentation import counted, significant
from accelbench.schema.cell import UNEXPECTED, Cell, Definition, ModelSpec, Protocol, Status
from accelbench.stats import intervals

MIN_SEEDS = 6  # of each setting; with fewer seeds, the median has no interval
MIN_LIKELY = 3  # of each setting; fewer seeds decide nothing, as one seed may take twice as long as another


class Run(NamedTuple):
    """The training of one seed, from the start of its process to the end of the evaluation that reached the target."""

    process: Process
    seconds: float  # inf: it did not reach the target
    watched_s: float  # seconds that it trained without reaching the target; inf if it reached it or failed


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting with its runs."""

    name: str  # such as `fp32 b32`
    cell: MeasuredCell
    runs: Sequence[Run]  # at least one, in order of their start, each with another seed
    missing: Set[int] = frozenset()  # planned seeds without a valid run
    refused: str = ""  # why it can't be the fastest

    @property
    def times(self) -> list[float]:
        """The seconds of each run. inf for a run that did not reach the target."""
        return [run.seconds for run in self.runs]

    @property
    def num_arrived(self) -> int:
        """How many runs reached the target."""
        return sum(map(math.isfinite, self.times))

    @property
    def num_added(self) -> int:
        """The number of seeds that a later sweep added, perhaps after the user saw the first results."""
        trainings = [run.process.measurement.target for run in self.runs if run.process.measurement]
        sweeps = [training.planned_in for training in trainings if training]
        return sum(sweep != sweeps[0] for sweep in sweeps)

    @property
    def median_s(self) -> float:
        """The median of `times`, which may be inf. If the number of runs is even, it is the larger middle time."""
        return median_high(self.times)

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The exact 95 % interval of the median. Its upper end may be inf. None if there are fewer than six seeds."""
        return intervals.median_interval(self.times)

    def number(self, column: str) -> float | None:
        """Returns the median of a column of `cells.csv` over the runs. None if at least half of them are unknown."""
        values = [run.process.number(column) for run in self.runs]
        middle = median_high(math.inf if value is None else value for value in values)
        return middle if math.isfinite(middle) else None

    @property
    def median_text(self) -> str:
        """The median with its unit. `not reached` if fewer than half of the runs reached the target."""
        return f"{significant(self.median_s)} s" if math.isfinite(self.median_s) else "not reached"

    @property
    def interval_text(self) -> str:
        """The interval of the median as text, such as `9.80 to 14.0`, or `at least 9.80`.

        Empty if there are fewer than six seeds, or if no run reached the target.
        """
        if self.interval is None or not self.num_arrived:
            return ""
        low, high = self.interval
        return (
            f"{significant(low)} to {significant(high)}"
            if math.isfinite(high)
            else f"at least {significant(low)}"
        )

    @property
    def arrived_text(self) -> str:
        """How many seeds reached the target, such as `9 of 10 seeds, 1 failed`."""
        num_failed = sum(run.process.outcome in UNEXPECTED for run in self.runs)
        nums = {"failed": num_failed, "not measured": len(self.missing), "added later": self.num_added}
        words = [f"{num} {what}" for what, num in nums.items() if num]
        return ", ".join([f"{self.num_arrived} of {counted(len(self.runs), 'seed')}", *words])


class Lead(NamedTuple):
    """The second setting's time to the target divided by the first setting's time, and how sure this ratio is."""

    second: Setting
    ratio: intervals.ArrivalRatio
    word: Word
    why: str  # why the word is not `sure`, besides the interval

    @property
    def text(self) -> str:
        """The ratio and how sure it is, such as `1.31 times as fast as fp32 b32 (1.12 to 1.52; sure)`."""
        ratio, low, high = self.ratio.ratio, self.ratio.low, self.ratio.high
        than = f"faster than {self.second.name}"
        if self.word == Word.cant_tell:
            is_slower = high is not None and high < 1  # although its median is lower
            than = f"{'in most pairs of runs' if is_slower else 'maybe'} not {than}"
        elif ratio is not None:
            than = f"{significant(ratio)} times as fast as {self.second.name}"
        how = f"{self.word}: {self.why}" if self.why else self.word.value
        if low is None or high is None:
            return f"{than} ({how})"
        bounds = (
            f"{significant(low)} to {significant(high)}"
            if math.isfinite(high)
            else f"at least {significant(low)}"
        )
        return f"{than} ({bounds}; {how})"


@dataclass(frozen=True)
class TargetAnswer:
    """The settings that trained one network on one data set to one target, on one machine."""

    what: str  # such as `mlp on mnist 28x28 to accuracy at least 0.97 (first passage)`
    settings: Sequence[Setting]  # at least one, the fastest first; settings that can't win are last

    @property
    def fastest(self) -> Setting | None:
        """The fastest setting that may win (see `refused`). None if no run of such a setting reached the target."""
        first = self.settings[0]
        return None if first.refused or not first.num_arrived else first

    @cached_property
    def leads(self) -> list[Lead]:
        """Compares the fastest setting with every other setting that is not refused, in the order of `settings`."""
        first = self.fastest
        return [_lead(first, setting) for setting in self.settings[1:] if first and not setting.refused]

    @property
    def sentence(self) -> str:
        """A sentence that names the fastest setting, its lead, how sure the lead is, and why settings are refused."""
        parts = []
        first = self.fastest
        if first is None:
            tried = [
                f"{setting.name} ({setting.arrived_text})" for setting in self.settings if not setting.refused
            ]
            parts += [f"none reached it: {', '.join(tried)}"] if tried else []
        else:
            within = ", ".join(filter(None, [first.interval_text, first.arrived_text]))
            parts.append(f"{first.name}: {first.median_text} ({within})")
            parts[0] += "".join(f", {lead.text}" for lead in self.leads[:1])
        parts += [
            f"{setting.name} does not count: {setting.refused}"
            for setting in self.settings
            if setting.refused
        ]
        return f"{self.what}: {'; '.join(parts)}."


def target_answers(cells: Iterable[MeasuredCell]) -> list[TargetAnswer]:
    """Returns an answer for each combination of network, data set, target, machine and packages."""
    made = []
    for job in alike((cell for cell in cells if cell.cell.protocol == Protocol.target), work_of):
        settings = list(_settings(job))
        settings.sort(key=lambda one: (bool(one.refused), one.median_s, -one.num_arrived, min(one.times)))
        if not settings:
            continue
        what = f"{model_text(job.fastest)} on {job.data}"
        made.append(TargetAnswer(what, settings))
    return made


def work_of(cell: Cell) -> Cell:
    """Returns the cell. A training to a target loses its learning rate, in which compared cells may differ."""
    if cell.protocol != Protocol.target:
        return cell
    return replace(cell, model=replace(cell.model, learning_rate=ModelSpec.learning_rate))


def _settings(job: Job) -> Iterator[Setting]:
    has_rates = len({cell.cell.model.learning_rate for cell in job.cells}) > 1
    for cell in job.cells:
        name = job.text(cell)
        name += f" lr {cell.cell.model.learning_rate:g}" if has_rates else ""
        planned = [process for process in cell.processes if process.outcome != Status.skipped]
        by_seed: dict[int, Process] = {}
        for process in sorted(planned, key=lambda process: process.started_at):
            if process.is_ok or process.outcome in UNEXPECTED:
                by_seed.setdefault(process.cell.seed, process)
        if by_seed:
            runs, refused = _runs(list(by_seed.values()))
            missing = {process.cell.seed for process in planned} - set(by_seed)
            yield Setting(name=name, cell=cell, runs=runs, missing=missing, refused=refused)


def _runs(processes: Sequence[Process]) -> tuple[list[Run], str]:
    """Returns the runs of a setting, and the reason why the setting can't be the fastest. Empty if it can be.

    If `target.definition=fixed`, the time of a run is the end of its last evaluation. The setting can then be the
    fastest only if the mean of the last evaluations is surely beyond the target (`intervals.fixed_is_met`).
    """
    runs = []
    ends = []
    for process in processes:
        measurement = process.measurement
        training = measurement.target if measurement else None
        seconds = process.number("target_s") or math.inf
        watched_s = math.inf
        if measurement and training:
            last = training.evaluations[-1]
            if last.value is not None and math.isinf(seconds):
                watched_s = last.ended_s
            # If its time limit ended a run, its length differs, so it has no end here.
            if not measurement.is_partial:
                ends.append(last)
        runs.append(Run(process, seconds, watched_s))
    target = processes[0].cell.target
    if target.definition == Definition.passage:
        return runs, ""
    values = [math.nan if end.value is None else end.value for end in ends]
    if len(ends) < len(runs) or not intervals.fixed_is_met(values, target.threshold, target.is_lower):
        return runs, "it is not sure that the mean of its seeds' last evaluations reaches the target"
    return [
        run._replace(seconds=end.ended_s, watched_s=math.inf) for run, end in zip(runs, ends, strict=True)
    ], ""


def _lead(first: Setting, second: Setting) -> Lead:
    """Compares the times of all runs of two settings."""
    times = [first.times, second.times]
    runs = [first.runs, second.runs]
    budget_s = min(run.watched_s for side in runs for run in side)
    ratio = intervals.arrival_ratio(times[1], times[0], budget_s)
    num = min(map(len, runs))
    if ratio.low is None or ratio.high is None:
        is_apart = num >= MIN_LIKELY and max(times[0]) * LIKELY_RATIO < min(times[1])
        return Lead(
            second, ratio, Word.likely if is_apart else Word.cant_tell, "too few seeds for an interval"
        )
    processes = [[run.process for run in side] for side in runs]
    share_arrived = [setting.num_arrived / len(setting.runs) for setting in (first, second)]
    doubts = {
        f"fewer than {MIN_SEEDS} seeds": num < MIN_SEEDS,
        "not all planned seeds are measured": first.missing or second.missing,
        "seeds were added later": first.num_added or second.num_added,
        "fewer of its seeds arrive": share_arrived[0] < share_arrived[1],
        "they were not interleaved": not are_interleaved(*processes),
        "other programs used the CPU": any(map(ran_beside_others, processes)),
    }
    why = next((why for why, holds in doubts.items() if holds), "")
    if ratio.low > 1:
        return Lead(second, ratio, Word.likely if why else Word.sure, why)
    if ratio.low > 1 / (1 + MARGIN) and ratio.high < 1 + MARGIN:
        return Lead(second, ratio, Word.cant_tell if why else Word.same, why)
    return Lead(second, ratio, Word.cant_tell, "")  # the interval is the reason
