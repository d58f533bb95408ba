"""Jobs: the cells that did the same work on one machine with the same packages, and so have comparable speeds.

A job's answer names the fastest setting, how much faster it is than a reference, and how sure this is.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import Gap, Word, gap
from accelbench.answers.words import (
    DEVICES,
    ENGINES,
    data_text,
    environment_names,
    feeding_text,
    model_text,
    setting_name,
    speed_text,
    token_times,
)
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import significant
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Protocol
from accelbench.schema.record import device_names
from accelbench.schema.serialize import flat, grouped

MAX_NAMED = 3  # settings or packages named for a job, at most
REFERENCE = "reference"
# Criterion -> its column of cells.csv, and 1 if higher values are better, -1 if lower values are better.
CRITERIA = {
    "throughput": ("samples_per_s", 1),
    "latency": ("latency_p50_ms", -1),
    "energy": ("energy_j_per_sample", -1),
    "money": ("cost_per_million_samples", -1),
}


@dataclass(frozen=True)
class Limit:
    """How long a step of a cell may take."""

    ms: float
    percentile: int = 50  # which percentile of the steps' times is limited: 50 (the median), 90 or 99

    @property
    def column(self) -> str:
        """The column of cells.csv whose values are limited."""
        return f"latency_p{self.percentile}_ms"

    def __str__(self) -> str:
        return f"{self.ms:g} ms" + ("" if self.percentile == 50 else f" (p{self.percentile})")


@dataclass(frozen=True)
class Job:
    """Cells that did the same work on one machine with one set of packages. They differ only in `CHOSEN_SETTINGS`."""

    cells: list[MeasuredCell]  # at least one, each with a speed, the fastest first
    first: tuple[object, ...]  # the `setting_key` of the cell that was asked for first
    # What distinguishes it from other jobs with the same work, such as the machine; may be empty.
    where: str = ""
    limit: Limit | None = None  # all cells are within it
    name: str = ""  # such as `mlp train`; other jobs have other names

    @property
    def fastest(self) -> MeasuredCell:
        """The cell with the highest speed."""
        return self.cells[0]

    @property
    def data(self) -> str:
        """The data and their pipeline, such as `random 3x224x224 host`, and `where`."""
        return ", ".join(filter(None, [data_text(self.fastest), self.where]))

    @property
    def what(self) -> str:
        """The model, its mode, its data, and `where`, such as `resnet18 infer, random 3x224x224`."""
        return f"{model_text(self.fastest)} {self.fastest.cell.mode}, {self.data}"

    @cached_property
    def others(self) -> list[MeasuredCell]:
        """The fastest cell of each setting, at any batch size. The fastest setting is left out. Sorted by speed."""
        by_setting: dict[tuple[object, ...], MeasuredCell] = {}
        for cell in self.cells:
            by_setting.setdefault(setting_key(cell.cell), cell)
        return list(by_setting.values())[1:]

    @property
    def lead(self) -> Gap | None:
        """The fastest cell's speed divided by the speed of the reference of its batch size.

        If the fastest cell is the reference, or if this batch size has no reference, it is compared with the
        second-fastest cell of this batch size. If the job only compares batch sizes, it is compared with the
        second-fastest cell of the job. None if there is no such cell.
        """
        others = self.cells[1:]
        if self.others:
            others = [cell for cell in others if cell.cell.batch_size == self.fastest.cell.batch_size]
        rivals = [*filter(self.is_reference, others), *others]
        return gap(self.fastest, rivals[0]) if rivals else None

    def is_reference(self, cell: MeasuredCell) -> bool:
        """Is true if the other cells of the same batch size are compared with this cell."""
        return setting_key(cell.cell) == self.first

    def gain_of(self, cell: MeasuredCell) -> Gap | None:
        """Divides the cell's speed by the speed of the reference cell of the same batch size.

        Returns None if there is no such reference cell, or if the cell itself is the reference cell.
        """
        reference = self._references.get(cell.cell.batch_size)
        return None if reference is None or self.is_reference(cell) else gap(cell, reference)

    @cached_property
    def _references(self) -> dict[int, MeasuredCell]:
        """Batch size -> its reference cell."""
        return {cell.cell.batch_size: cell for cell in reversed(self.cells) if self.is_reference(cell)}

    @cached_property
    def gains(self) -> list[Gap]:
        """The gain of each setting except the reference, the largest gain first.

        A setting may have several cells, with different batch sizes. Its gain is the gain of its fastest cell whose
        batch size has a reference cell.
        """
        by_setting: dict[tuple[object, ...], Gap] = {}
        for cell in self.cells:
            gain = self.gain_of(cell)
            if gain is not None:
                by_setting.setdefault(setting_key(cell.cell), gain)
        return sorted(by_setting.values(), key=lambda gain: -gain.ratio)

    @property
    def best(self) -> Gap | None:
        """The largest gain above 1 that is sure or likely. None if there is no such gain."""
        return next((gain for gain in self.gains if gain.is_told and gain.ratio > 1), None)

    @property
    def gain(self) -> Gap:
        """The gain that is shown for a job with gains: `best`, else the largest that may exceed 1, else the largest."""
        undecided = [gain for gain in self.gains if gain.word == Word.cant_tell]
        may_gain = [gain for gain in undecided if gain.bounds is None or gain.bounds[1] > 1]
        return self.best or [*may_gain, *self.gains][0]

    @cached_property
    def environments(self) -> dict[str, str]:
        """See `environment_names`."""
        return environment_names(self.cells)

    def setting(self, cell: MeasuredCell, *, has_batch: bool = False) -> str:
        """Names a cell's setting, such as `OpenVINO int8, freeze`, and its device if the reference has another."""
        return setting_name(
            cell,
            has_batch=has_batch,
            has_device=cell.cell.device != self.first[0],
            environment=self.environments.get(cell.measured_key),
        )

    def text(self, cell: MeasuredCell) -> str:
        """Names a cell's setting and batch size, such as `OpenVINO int8 b16, freeze`."""
        return self.setting(cell, has_batch=True)

    @property
    def rate(self) -> str:
        """The fastest cell's speed with its unit."""
        return speed_text(self.fastest.cell, self.fastest.speed)

    @property
    def sentence(self) -> str:
        """A sentence that names the fastest setting, its `lead`, and how sure this ratio is."""
        within = "" if self.limit is None else f" within {self.limit}"
        first = self.text(self.fastest)
        rate = self.rate + self._latency
        lead = self.lead
        if lead is None:
            return f"{first} gives {rate}."
        other = self.text(lead.second)
        if lead.word == Word.same:
            return f"{first} and {other} are equally fast{within}, {rate} ({lead.how_sure})."
        second = f"{lead.text} as {other}"
        if lead.word == Word.cant_tell:
            return f"{first} measured fastest{within}, {rate}; {second}, but {lead.how_sure}."
        return f"{first} is fastest here{within}, {rate}; {second} ({lead.word})."

    @property
    def remark(self) -> str:
        """Says how far the fastest cell's output is from the fp32 output. Empty unless its precision is below fp32."""
        text = output_error_text(self.fastest.cell.precision, self.fastest.number("output_error"))
        return text and f"{self.fastest.cell.precision}'s output differs from fp32's by {text}."

    @property
    def _latency(self) -> str:
        if self.limit is not None:
            p_ms = significant(self.fastest.number(self.limit.column))
            return f", p{self.limit.percentile} of a step {p_ms} ms"
        times = token_times(self.fastest.row)
        p50_ms = self.fastest.number("latency_p50_ms")
        if times or p50_ms is None:
            return times and f", {times}"
        return f", median step {significant(p50_ms)} ms"


def setting_key(cell: Cell) -> tuple[object, ...]:
    """Returns a key that is equal for cells of one job that differ only in the batch size."""
    return (
        cell.device,
        cell.devices,
        cell.precision,
        cell.options,
        cell.engine,
        cell.keras,
        cell.threads,
        cell.python,
    )


def jobs(cells: Iterable[MeasuredCell], limit: Limit | None = None) -> list[Job]:
    """Returns the jobs: first those with a gain above 1 that is sure or likely, then others with gains, then the rest.

    Within each kind, the job with the largest gain comes first. Cells whose latency is unknown or above the `limit` are
    left out.
    """
    made = alike(cell for cell in cells if cell.competes)
    if limit is not None:
        inside = []
        for job in made:
            kept = [cell for cell in job.cells if (cell.number(limit.column) or float("inf")) <= limit.ms]
            if kept:
                inside.append(replace(job, cells=kept, limit=limit))
        made = inside
    named = [replace(job, name=name) for job, name in zip(made, _names(made), strict=True)]
    return sorted(
        named, key=lambda job: (not job.gains, job.best is None, -job.gain.ratio if job.gains else 0.0)
    )


def alike(cells: Iterable[MeasuredCell], plain: Callable[[Cell], Cell] = lambda cell: cell) -> list[Job]:
    """Groups the cells that did the same work into jobs, which have no names yet.

    The cells of a job may differ in `CHOSEN_SETTINGS`, and in the settings that `plain` removes.
    """
    by_work: dict[tuple[object, ...], dict[str, MeasuredCell]] = defaultdict(dict)
    for cell in cells:
        work = (plain(cell.cell).key_without(CHOSEN_SETTINGS), cell.data_digest, cell.place_key)
        by_work[work].setdefault(cell.measured_key, cell)  # sweeps may share a cell
    made = []
    for of_work in by_work.values():
        first = next(iter(of_work.values()))
        ranked = sorted(of_work.values(), key=lambda cell: (-(cell.speed or 0.0), cell.measured_key))
        made.append(Job(ranked, setting_key(first.cell)))
    same = grouped(made, lambda job: job.what)
    return [replace(job, where=_where(job, same[job.what], plain)) for job in made]


def _where(job: Job, same: Sequence[Job], plain: Callable[[Cell], Cell]) -> str:
    """Returns what distinguishes `job` from the others of `same`: its machine, and its settings or system there.

    The system includes the packages. If nothing of these differs there, it is the folder.
    """
    own = _place(job.fastest, plain)
    here = [place for place in (_place(other.fastest, plain) for other in same) if place[""] == own[""]]
    words = [own[""]] if len(here) < len(same) else []
    names = [name for name in own if len({place.get(name) for place in here}) > 1]
    words += [f"{name}{own[name]}".replace('"', "") for name in names[:MAX_NAMED]]
    if len(here) > 1 and not names:
        words.append(job.fastest.folder)
    return ", ".join(words)


def _place(cell: MeasuredCell, plain: Callable[[Cell], Cell]) -> dict[str, str]:
    """Returns the settings of a cell that are not chosen, its packages, its system, and at "" its machine's devices."""
    settings = flat(plain(cell.cell).settings())
    fixed = {
        f"{name}=": text for name, text in settings.items() if name.partition(".")[0] not in CHOSEN_SETTINGS
    }
    home = cell.environment.get("home", cell.environment)
    system = flat({**(home.get("versions") or {}), **(home.get("machine") or {})})
    others = {f"{name} ": text for name, text in system.items()}
    return {"": " + ".join(dict.fromkeys(device_names(cell.environment))), **fixed, **others}


def _names(made: Sequence[Job]) -> list[str]:
    """Returns names such as `mlp train` and `cnn train fit`. Adds details such as the data to equal names."""
    names = []
    details = []
    for job in made:
        cell = job.fastest.cell
        how = "" if cell.protocol == Protocol.window else f" {cell.protocol}"
        names.append(f"{model_text(job.fastest)} {cell.mode}{how}")
        fed = feeding_text(job.fastest).removesuffix(cell.protocol).strip()
        details.append((fed, job.where, cell.data.name, job.data, f"#{len(names)}"))
    for of_all in zip(*details, strict=True):
        nums = Counter(names)
        for place, detail in enumerate(of_all):
            if nums[names[place]] > 1 and detail:
                names[place] += f" {detail}"
    return names


def verdict_text(job: Job, cell: MeasuredCell) -> str:
    """Returns the cell's gain over the reference cell of its batch size, and how sure the gain is.

    Returns `reference` for the reference cell. Empty if the gain is unknown, or if the job has only one setting.
    """
    if job.others and job.is_reference(cell):
        return REFERENCE
    gain = job.gain_of(cell)
    return f"{significant(gain.ratio)} times, {gain.word}" if gain else ""


def reference_text(every: Sequence[Job]) -> str:
    """Names the reference, such as `PyTorch fp32 on CPU`. If the jobs' references differ, the text is general."""
    names = {setting_name(gain.second, has_device=True) for job in every for gain in job.gains}
    return names.pop() if len(names) == 1 else "what was asked for first"


def kind_of(gap: Gap) -> str:
    """Names the engine of the first cell. If the two cells ran on different devices, also names the first's device."""
    cell = gap.first.cell
    on = "" if cell.device == gap.second.cell.device else f" on {DEVICES[cell.device]}"
    return ENGINES[cell.engine] + on


def choices(job: Job) -> list[tuple[Job, MeasuredCell, str]]:
    """Returns the best cell for each criterion. A cell that is best for several appears once, with all of them."""
    best: dict[str, tuple[MeasuredCell, list[str]]] = {}
    for criterion, (column, sign) in CRITERIA.items():
        choices_of = [
            (sign * value, cell) for cell in job.cells if (value := cell.number(column)) is not None
        ]
        if choices_of:
            _, cell = max(choices_of, key=lambda pair: pair[0])
            best.setdefault(cell.measured_key, (cell, []))[1].append(criterion)
    return [(job, cell, ", ".join(criteria)) for cell, criteria in best.values()]
