"""How long trainings take to a target: what every surface shows of it, computed here alone.

A setting is trained with several seeds, each a run. A run that does not arrive takes longer than any that does, so
medians and their intervals are known all the same (`stats/arrivals.py`).
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median_high

from accelbench.answers.cells import MeasuredCell, Word
from accelbench.answers.groups import Group, told_apart
from accelbench.answers.process import Process
from accelbench.answers.words import data_text, model_text
from accelbench.compare.sureness import LIKELY_RATIO, MARGIN, are_interleaved
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Cell, Options
from accelbench.schema.measurement import TargetTraining
from accelbench.schema.vocab import UNEXPECTED, Definition, Engine, Precision, Protocol, Span, Status
from accelbench.schema.workload import ModelSpec
from accelbench.stats import arrivals

MIN_SEEDS = 6  # of each setting: with fewer, a median has no interval
MIN_LIKELY = 3  # of each: a training of another seed may take twice as long
NO_REFERENCE = "no reference runs"
MORE, FEWER = "more epochs than the reference", "fewer epochs than the reference"


@dataclass(frozen=True)
class Run:
    """The training of one seed, from the start of its process to the end of the evaluation that reached the target."""

    process: Process
    seconds: float  # inf: none reached it
    epochs: float  # of training; inf

    @property
    def training(self) -> TargetTraining | None:
        """What was measured; None of a run that failed."""
        return self.process.measurement.target if self.process.measurement else None

    @property
    def watched_s(self) -> float:
        """How long it was seen not to arrive; inf if it did, or never can: it failed, or its loss is not finite."""
        evaluations = self.training.evaluations if self.training and math.isinf(self.seconds) else []
        return evaluations[-1].ended_s if evaluations and evaluations[-1].value is not None else math.inf

    @property
    def spans_s(self) -> dict[str, float]:
        """The seconds of each span until it arrived, compiling apart; empty if it did not."""
        if self.training is None or math.isinf(self.seconds):
            return {}
        inside = [each for each in self.training.log if each.ended_s <= self.seconds]
        found = {span.value: sum(each.seconds for each in inside if each.span == span) for span in Span}
        found["compile"] = min(self.training.compile_s, found[Span.train])
        return found | {Span.train.value: found[Span.train] - found["compile"]}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting with its runs."""

    name: str  # such as `fp32 b32`
    cell: MeasuredCell
    runs: Sequence[Run]  # at least one, by their start, each of another seed
    missing: Set[int] = frozenset()  # seeds that are planned, and have no valid run
    guard: str = ""  # how its epochs compare with those of its reference
    refused: str = ""  # why it is no winner, however fast it is

    @property
    def times(self) -> list[float]:
        """The seconds of each run; inf."""
        return [each.seconds for each in self.runs]

    @property
    def num_arrived(self) -> int:
        """How many runs reached the target."""
        return sum(map(math.isfinite, self.times))

    @property
    def num_added(self) -> int:
        """Runs of seeds that another sweep planned than the first one's: perhaps after a look at those."""
        sweeps = [each.training.planned_in for each in self.runs if each.training]
        return sum(each != sweeps[0] for each in sweeps)

    @property
    def budget_s(self) -> float:
        """What a run that did not arrive surely takes longer than; inf if unknown, as where all failed."""
        watched = min(each.watched_s for each in self.runs)
        return watched if math.isfinite(watched) else max(filter(math.isfinite, self.times), default=math.inf)

    @property
    def median_s(self) -> float:
        """The median of the times, of an even number the longer one next to it; inf."""
        return median_high(self.times)

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The exact 95 % interval of the median; the upper end may be inf. None with fewer than six seeds."""
        return arrivals.median_interval(self.times)

    @cached_property
    def share(self) -> tuple[float, float]:
        """The exact 95 % interval of the share that arrives."""
        return arrivals.share_interval(self.num_arrived, len(self.runs))

    @property
    def expected_s(self) -> float | None:
        """The expected time if a run that does not arrive is begun anew; None if none arrived."""
        latest = max([self.budget_s, *filter(math.isfinite, self.times)])
        return arrivals.expected_with_restarts(self.times, latest) if self.num_arrived else None

    @property
    def middle(self) -> Run:
        """The run whose time is the median."""
        return next(each for each in self.runs if each.seconds == self.median_s)

    def number(self, column: str) -> float | None:
        """The median of a column, such as of `times`; None if it is unknown of half of the runs."""
        values = [each.process.number(column) for each in self.runs]
        found = median_high(math.inf if value is None else value for value in values)
        return found if math.isfinite(found) else None

    @property
    def median_text(self) -> str:
        """Such as `12.1`, or `> 41.0` where it is only known that it takes longer."""
        known = min(self.median_s, self.budget_s)
        return f"{'> ' * math.isinf(self.median_s)}{significant(known)}" if math.isfinite(known) else "> any"

    @property
    def interval_text(self) -> str:
        """Such as `9.80 to 14.0`, or `9.80 to > 41.0`; empty with too few seeds, or if none arrived."""
        if self.interval is None or not self.num_arrived:
            return ""
        ends = (f"{'> ' * math.isinf(end)}{significant(min(end, self.budget_s))}" for end in self.interval)
        return " to ".join(ends)

    @property
    def arrived_text(self) -> str:
        """Such as `9 of 10 seeds, 1 failed`."""
        num_failed = sum(each.process.outcome in UNEXPECTED for each in self.runs)
        said = {"failed": num_failed, "not measured": len(self.missing), "added later": self.num_added}
        words = [f"{num} {what}" for what, num in said.items() if num]
        return ", ".join([f"{self.num_arrived} of {counted(len(self.runs), 'seed')}", *words])


@dataclass(frozen=True, kw_only=True)
class Lead:
    """How many times as fast one setting reaches the target as another, and how sure that is."""

    second: Setting
    found: arrivals.ArrivalRatio  # of the other's times over its own
    word: Word
    why: str  # what speaks for or against a difference, besides the interval

    @property
    def ratio_text(self) -> str:
        """Such as `1.31 times as fast`; without a number where too few arrived."""
        return "faster" if self.found.ratio is None else f"{significant(self.found.ratio)} times as fast"

    @property
    def how_sure(self) -> str:
        """Such as `1.12 to 1.52; likely: no reference runs`; without bounds of too few seeds."""
        low, high = self.found.low, self.found.high
        bounds = [] if low is None else [f"at least {significant(low)}"]
        bounds = bounds if low is None or high in (None, math.inf) else [f"{significant(low)} to {significant(high)}"]
        return "; ".join([*bounds, f"{self.word}: {self.why}" if self.why else self.word])


@dataclass(frozen=True)
class TargetAnswer:
    """The settings that trained one network on one data set to one target, in one place."""

    what: str  # such as `mlp on mnist 28x28 to accuracy at least 0.97 (first passage)`
    settings: Sequence[Setting]  # at least one, the fastest first; those that are no winners at the end

    @property
    def fastest(self) -> Setting | None:
        """The fastest one that counts; None if none arrived."""
        first = self.settings[0]
        return None if first.refused or not first.num_arrived else first

    @cached_property
    def leads(self) -> list[Lead]:
        """The fastest over each other setting that counts, in their order."""
        first = self.fastest
        return [_lead(first, each) for each in self.settings[1:] if first and not each.refused]

    @property
    def sentence(self) -> str:
        """What is the fastest, by how much, and how sure that is; which settings do not count, and why."""
        if (first := self.fastest) is None:
            settings = [each for each in self.settings if not each.refused]
            times = "; ".join(f"{each.name} takes {each.median_text} s ({each.arrived_text})" for each in settings)
            text = f"none reached it: {times}" if times else ""
        else:
            within = ", ".join(filter(None, [first.interval_text, first.arrived_text]))
            text = f"{first.name} takes {first.median_text} s ({within})"
            for lead in self.leads[:1]:
                than = "than" if lead.found.ratio is None else "as"
                text += f", {lead.ratio_text} {than} {lead.second.name} ({lead.how_sure})"
        refused = [f"{each.name} does not count: {each.refused}" for each in self.settings if each.refused]
        longer = [f"{each.name} takes {each.guard}" for each in self.settings if each.guard.startswith(MORE)]
        return f"{self.what}: {'; '.join(filter(None, [text, *longer, *refused]))}."


def target_answers(cells: Iterable[MeasuredCell]) -> list[TargetAnswer]:
    """An answer for each workload that was trained to a target, and each machine with its packages."""
    found: dict[tuple[str, str], dict[str, MeasuredCell]] = defaultdict(dict)
    for cell in cells:
        if cell.cell.protocol == Protocol.target:
            work = _plain(cell)
            found[work.workload_key, work.place_key].setdefault(cell.measured_key, cell)  # it may be of several sweeps
    groups = told_apart(Group([_plain(each) for each in of_work.values()]) for of_work in found.values())
    settings = [[*_settings(*pair)] for pair in zip(groups, map(dict.values, found.values()), strict=True)]
    references: dict[Hashable, list[float]] = defaultdict(list)  # epochs, which no machine changes
    for (workload, _), of_work in zip(found, settings, strict=True):
        for each in filter(_is_reference, of_work):
            references[workload, *_schedule_of(each)] += [run.epochs for run in each.runs]
    made = []
    for group, (workload, _), of_work in zip(groups, found, settings, strict=True):
        guarded = [_guarded(each, references[workload, *_schedule_of(each)]) for each in of_work]
        guarded.sort(key=lambda each: (bool(each.refused), each.median_s, -each.num_arrived, min(each.times)))
        what = f"{model_text(group.fastest)} on {data_text(group.fastest)}"
        made += [TargetAnswer(", ".join(filter(None, [what, group.where])), guarded)] if guarded else []
    return made


def _plain(cell: MeasuredCell) -> MeasuredCell:
    """Without the learning rate: equal but for `CHOSEN_SETTINGS` in cells that train the same to the same target."""
    model = replace(cell.cell.model, learning_rate=ModelSpec.learning_rate)
    return replace(cell, cell=replace(cell.cell, model=model))


def _settings(group: Group, cells: Collection[MeasuredCell]) -> Iterator[Setting]:
    has_rates = len({each.cell.model.learning_rate for each in cells}) > 1
    for each in cells:
        name = f"{group.setting(each)} b{each.cell.batch_size}"
        name += f" lr {each.cell.model.learning_rate:g}" if has_rates else ""
        planned = [process for process in each.processes if process.outcome != Status.skipped]
        by_seed: dict[int, Process] = {}
        for process in sorted(planned, key=lambda process: process.started_at):
            if process.is_ok or process.outcome in UNEXPECTED:
                by_seed.setdefault(process.cell.seed, process)
        if by_seed:
            runs, refused = _runs(list(by_seed.values()))
            missing = {process.cell.seed for process in planned} - set(by_seed)
            yield Setting(name=name, cell=each, runs=runs, missing=missing, refused=refused)


def _runs(processes: Sequence[Process]) -> tuple[list[Run], str]:
    """The runs, and why their setting is no winner. Those of a fixed length arrive if their mean is beyond it."""
    runs = [Run(each, *(each.number(f"target_{what}") or math.inf for what in ("s", "epochs"))) for each in processes]
    target = processes[0].cell.target
    if target.definition == Definition.passage:
        return runs, ""
    measured = [each.process.measurement for each in runs]
    # One that its time limit ended is of another length.
    ends = [each.target.evaluations[-1] if each and each.target and not each.is_partial else None for each in measured]
    values = [math.nan if end is None or end.value is None else end.value for end in ends]
    if not arrivals.fixed_is_met(values, target.threshold, target.is_lower):
        return runs, "the mean of its seeds is not surely beyond the target"
    return [Run(each.process, end.ended_s, end.epochs) for each, end in zip(runs, ends, strict=True) if end], ""


def reference_of(cell: Cell) -> Cell:
    """The training that tells how many epochs a setting should need: in fp32, with PyTorch, without options."""
    return replace(cell, precision=Precision.fp32, engine=Engine.pytorch, keras=None, options=Options())


def _is_reference(setting: Setting) -> bool:
    return reference_of(setting.cell.cell) == setting.cell.cell


def _schedule_of(setting: Setting) -> tuple[int, float]:
    return setting.cell.cell.batch_size, setting.cell.cell.model.learning_rate


def _guarded(setting: Setting, reference: Sequence[float]) -> Setting:
    """With how its epochs compare with the reference's: with surely fewer it is another training."""
    own = [each.epochs for each in setting.runs]
    found = arrivals.fewer_epochs(own, reference)
    if _is_reference(setting) or found is None:
        return replace(setting, guard="the reference" if _is_reference(setting) else NO_REFERENCE)
    p, detectable = found
    if p >= arrivals.RISK:
        more = arrivals.fewer_epochs(reference, own)
        if more is not None and more[0] < arrivals.RISK:
            return replace(setting, guard=_epochs_text(MORE, own, reference))
        least = f"; {100 * (1 - detectable):.0f} % fewer would show" if detectable < 1 else ""
        return replace(setting, guard=f"not fewer epochs{least}")
    said = _epochs_text(FEWER, own, reference)
    return replace(setting, guard=said, refused=setting.refused or f"{said}: not the same training")


def _epochs_text(what: str, own: Sequence[float], reference: Sequence[float]) -> str:
    arrived = [[*filter(math.isfinite, side)] for side in (own, reference)]
    means = (significant(fmean(side), 2) if side else "none that arrived" for side in arrived)
    return f"{what}, {' against '.join(means)}"


def _lead(first: Setting, second: Setting) -> Lead:
    """Of the seeds that both have, since a reference has further ones, which ran alone."""
    seeds = [{each.process.cell.seed for each in setting.runs} for setting in (first, second)]
    shared = seeds[0] & seeds[1] or seeds[0] | seeds[1]
    runs = [[each for each in setting.runs if each.process.cell.seed in shared] for setting in (first, second)]
    own, other = ([each.seconds for each in side] for side in runs)
    budget = min(each.watched_s for side in runs for each in side)
    found = arrivals.arrival_ratio(other, own, budget if math.isfinite(budget) else None)
    processes = [[each.process.compared for each in side if each.process.compared] for side in runs]
    nums = [f"{setting.num_arrived} of {len(setting.runs)}" for setting in (first, second)]
    doubts = {
        f"they do not arrive equally often, {nums[0]} against {nums[1]}": found.shares_apart,
        f"fewer than {MIN_SEEDS} seeds": min(map(len, runs)) < MIN_SEEDS,
        "with restarts it takes longer": (first.expected_s or 0.0) > (second.expected_s or math.inf),
        NO_REFERENCE: first.guard == NO_REFERENCE,
        "not all planned seeds are measured": (seeds[0] | first.missing) & (seeds[1] | second.missing) - shared,
        "seeds were added later": first.num_added or second.num_added,
        "they were not interleaved": not are_interleaved(*processes),
        "other programs used the CPU": any(
            2 * sum(p.was_beside_others for p in side) >= len(side) for side in processes
        ),
    }
    why = next((why for why, holds in doubts.items() if holds), "")
    word, low, high = Word.cant_tell, found.low, found.high
    if low is None or high is None:
        is_apart = min(map(len, runs)) >= MIN_LIKELY and max(own) * LIKELY_RATIO < min(other)
        word = Word.likely if is_apart else word
        why = "too few seeds for an interval"
    elif low > 1:
        word = Word.likely if why else Word.sure
    elif low > 1 / (1 + MARGIN) and high < 1 + MARGIN:
        word = word if why else Word.same
    else:
        why = ""  # the interval says it
    return Lead(second=second, found=found, word=word, why=why)
