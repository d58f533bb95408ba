"""Cells that did the same on one machine with the same packages, so that their speeds compare, and the best of them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from accelbench.answers.cells import Gap, MeasuredCell, gap
from accelbench.answers.words import choice_text, short_text, workload_text
from accelbench.presentation import and_more

MAX_FOLDERS, MAX_PACKAGES = 2, 3  # named of one group
# Criterion -> its column of cells.csv, and whether more or less is better.
CRITERIA: dict[str, tuple[str, Literal["most", "least"]]] = {
    "throughput": ("samples_per_s", "most"),
    "latency": ("latency_p50_ms", "least"),
    "energy": ("energy_j_per_sample", "least"),
    "money": ("cost_per_million_samples", "least"),
}
UNBEATEN = "unbeaten"
MAX_UNBEATEN = 8  # of one model and mode


@dataclass(frozen=True)
class Group:
    """The cells of one workload, machine and set of packages, which differ in `CHOSEN_SETTINGS` alone."""

    cells: list[MeasuredCell]  # at least one, each with a speed, the fastest first
    where: str = ""  # on which machine, in which sweep, or when; empty if nothing else did the same

    @property
    def what(self) -> str:
        """The model, what is done with it, on what, and where."""
        return ", ".join(filter(None, [workload_text(self.fastest), self.where]))

    @property
    def fastest(self) -> MeasuredCell:
        """The cell with the highest speed."""
        return self.cells[0]

    @cached_property
    def others(self) -> list[MeasuredCell]:
        """The fastest cell of each other device, precision, engine and options, the fastest first."""
        by_setting: dict[tuple[object, ...], MeasuredCell] = {}
        for each in self.cells:
            by_setting.setdefault(setting_key(each), each)
        return list(by_setting.values())[1:]

    @property
    def lead(self) -> Gap | None:
        """The fastest cell over that of the other settings, or of the other batch sizes of the only one; None alone."""
        return next(map(self.gap_to, self.others or self.cells[1:]), None)

    def gap_to(self, other: MeasuredCell) -> Gap:
        """How many times as fast the fastest cell is as `other`."""
        return gap(self.fastest, other)

    def within(self, latency_ms: float | None) -> "Group | None":
        """The cells with a known median latency of at most `latency_ms`; None if there is none."""
        if latency_ms is None:
            return self
        inside = [each for each in self.cells if (each.number("latency_p50_ms") or float("inf")) <= latency_ms]
        return Group(inside, self.where) if inside else None

    @cached_property
    def has_engines(self) -> bool:
        """Whether several engines were measured."""
        return len({each.cell.engine for each in self.cells}) > 1

    @cached_property
    def has_devices(self) -> bool:
        """Whether several devices were measured."""
        return len({each.cell.device for each in self.cells}) > 1

    def options(self, cell: MeasuredCell) -> str:
        """A cell's engine if there are several, and its options, such as `lightning, channels_last`."""
        return choice_text(cell, has_engines=self.has_engines)

    def setting(self, cell: MeasuredCell) -> str:
        """A cell's settings without the batch, such as `bf16 openvino`; with the device if there are several."""
        device = cell.cell.device.value if self.has_devices else None
        return " ".join(filter(None, [device, cell.cell.precision.value, self.options(cell)]))

    def short_text(self, cell: MeasuredCell) -> str:
        """A cell's settings, such as `cpu bf16 b32, channels_last`; with the engine if there are several."""
        return short_text(cell, has_engines=self.has_engines)

    def text(self, cell: MeasuredCell) -> str:
        """A cell's settings in a sentence, such as `bf16 on gpu with compile, batch 16`."""
        on = f" on {cell.cell.device}" if self.has_devices else ""
        options = self.options(cell)
        return f"{cell.cell.precision}{on}{f' with {options}' if options else ''}, batch {cell.cell.batch_size}"


def setting_key(cell: MeasuredCell) -> tuple[object, ...]:
    """Equal for cells that differ in the batch size alone."""
    of = cell.cell
    return of.device, of.devices, of.precision, of.options, of.engine, of.keras, of.threads


def groups(cells: Iterable[MeasuredCell]) -> list[Group]:
    """The groups of the cells that have a speed, in the order of their first cells."""
    found: dict[tuple[str, str], list[MeasuredCell]] = defaultdict(list)
    for each in cells:
        if each.speed:
            found[each.workload_key, each.place_key].append(each)
    folders = [sorted({each.folder for each in of_group}) for of_group in found.values()]
    made = []
    for of_group in found.values():
        firsts = {each.measured_key: each for each in reversed(of_group)}.values()  # a cell may be of several sweeps
        made.append(Group(sorted(firsts, key=lambda each: (-(each.speed or 0.0), each.measured_key))))
    placed = [replace(each, where=_place(each, made)) for each in made]
    return [
        replace(each, where=_told_apart(each, of, placed, folders)) for each, of in zip(placed, folders, strict=True)
    ]


def _place(group: Group, every: Sequence[Group]) -> str:
    """The machine, and the packages that differ, if the same was done in several places."""
    alike = [each for each in every if each.fastest.workload_key == group.fastest.workload_key]
    here = [each for each in alike if _machine(each) == _machine(group)]
    words = [_machine(group)] if len(here) < len(alike) else []
    if len(here) > 1:
        known = [_versions(each) for each in here]
        names = dict.fromkeys(name for versions in known for name in versions)
        differing = [name for name in names if len({versions.get(name) for versions in known}) > 1]
        own = _versions(group)
        words += [f"{name} {own.get(name)}" for name in differing[:MAX_PACKAGES]] or [f"measured {max(_days(group))}"]
    return ", ".join(words)


def _environment(group: Group) -> Mapping[str, Any]:
    return group.fastest.record.environment if group.fastest.record else {}


def _machine(group: Group) -> str:
    return str(_environment(group).get("machine", {}).get("cpu_name"))


def _versions(group: Group) -> Mapping[str, object]:
    return _environment(group).get("versions") or {}


def _days(group: Group) -> list[str]:
    return [str(each.row["started_at"])[:10] for each in group.cells]


def _told_apart(group: Group, own: Sequence[str], every: Sequence[Group], folders: Sequence[Sequence[str]]) -> str:
    """`where`; of groups about the same that come from several sweeps, with the sweep, and how it was measured."""
    alike = [(each, of) for each, of in zip(every, folders, strict=True) if each.what == group.what]
    if len(alike) == 1 or len({folder for _, of in alike for folder in of}) == 1:
        return group.where
    day = min(_days(group))
    where = [*own[:MAX_FOLDERS], and_more(len(own) - MAX_FOLDERS, "sweep")] if len(own) > MAX_FOLDERS else [*own]
    where += [] if any(day in folder for folder in own) else [day]
    windows = [vars(each.fastest.cell.window) for each, _ in alike]
    differing = [name for name in windows[0] if len({window[name] for window in windows}) > 1]
    where += [f"window.{name}={getattr(group.fastest.cell.window, name):g}" for name in differing]
    return ", ".join(filter(None, [group.where, *where]))


def best_by(cells: Sequence[MeasuredCell], criterion: str) -> MeasuredCell | None:
    """The best cell by one of `CRITERIA`; None if it is unknown for all of them."""
    column, kind = CRITERIA[criterion]
    known = [(value, each) for each in cells if (value := each.number(column)) is not None]
    if not known:
        return None
    return (max if kind == "most" else min)(known, key=lambda pair: pair[0])[1]


def unbeaten(cells: Sequence[MeasuredCell]) -> list[MeasuredCell]:
    """The Pareto front, fastest first.

    A cell is left out if another is at least as good by every criterion that is known of all cells.
    """
    columns = [(c, kind) for c, kind in CRITERIA.values() if all(each.number(c) is not None for each in cells)]

    def merits(cell: MeasuredCell) -> list[float]:
        return [(1 if kind == "most" else -1) * (cell.number(column) or 0.0) for column, kind in columns]

    scored = sorted(((merits(each), each) for each in cells), key=lambda pair: pair[0], reverse=True)
    front: list[tuple[list[float], MeasuredCell]] = []
    for merit, each in scored:  # in this order, no cell beats an earlier one
        if columns and not any(all(a >= b for a, b in zip(better, merit, strict=True)) for better, _ in front):
            front.append((merit, each))
    return [each for _, each in front]


def choices(cells: Sequence[MeasuredCell]) -> list[tuple[MeasuredCell, str]]:
    """The best cells of a group, each with what it is best by (`throughput, latency`); then the rest of the front."""
    criteria: dict[str, list[str]] = {}
    found: dict[str, MeasuredCell] = {}
    best = [(criterion, best_by(cells, criterion)) for criterion in CRITERIA]
    for criterion, each in [*best, *((UNBEATEN, each) for each in unbeaten(cells)[:MAX_UNBEATEN])]:
        if each is not None and not (criterion == UNBEATEN and each.measured_key in found):
            found[each.measured_key] = each
            criteria.setdefault(each.measured_key, []).append(criterion)
    return [(each, ", ".join(criteria[key])) for key, each in found.items()]
