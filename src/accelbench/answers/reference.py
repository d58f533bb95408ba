"""Groups of cells with comparable speeds: they did the same work on one machine with the same packages."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from accelbench.answers.cells import Gap, MeasuredCell, gap
from accelbench.answers.words import choice_text, environment_names, short_text, workload_text
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell
from accelbench.schema.record import device_names
from accelbench.schema.serialize import flat, grouped

MAX_NAMED = 3  # settings or packages named for a group, at most
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
class Group:
    """Cells that did the same work on one machine with one set of packages. They differ only in `CHOSEN_SETTINGS`."""

    cells: list[MeasuredCell]  # at least one, each with a speed, the fastest first
    reference: tuple[object, ...]  # the `setting_key` of the cell that was asked for first
    where: str = ""  # what distinguishes it from other groups of its workload, such as the machine; may be empty

    @property
    def what(self) -> str:
        """The model, its mode, its data, and `where`."""
        return ", ".join(filter(None, [workload_text(self.fastest), self.where]))

    @property
    def fastest(self) -> MeasuredCell:
        """The cell with the highest speed."""
        return self.cells[0]

    @cached_property
    def others(self) -> list[MeasuredCell]:
        """The fastest cell of each setting, at any batch size. The fastest setting is left out. Sorted by speed."""
        by_setting: dict[tuple[object, ...], MeasuredCell] = {}
        for cell in self.cells:
            by_setting.setdefault(setting_key(cell.cell), cell)
        return list(by_setting.values())[1:]

    @cached_property
    def references(self) -> dict[int, MeasuredCell]:
        """Batch size -> the reference cell of that size. Sizes without a reference cell are left out."""
        return {cell.cell.batch_size: cell for cell in self.cells if self.is_reference(cell)}

    @cached_property
    def rival(self) -> MeasuredCell | None:
        """The cell that the fastest cell is compared with: the reference of its batch size.

        If the fastest cell is the reference, or if this batch size has no reference, it is the second-fastest cell of
        this batch size. If the group only compares batch sizes, it is the second-fastest cell of the group. None if
        there is no such cell.
        """
        others = self.cells[1:]
        if self.others:
            others = [cell for cell in others if cell.cell.batch_size == self.fastest.cell.batch_size]
        return next(filter(self.is_reference, others), None) or next(iter(others), None)

    @property
    def lead(self) -> Gap | None:
        """The fastest cell's speed divided by its rival's speed. None without a rival."""
        return gap(self.fastest, self.rival) if self.rival else None

    def is_reference(self, cell: MeasuredCell) -> bool:
        """Is true if the other cells of the same batch size are compared with this cell."""
        return setting_key(cell.cell) == self.reference

    def gain(self, cell: MeasuredCell) -> Gap | None:
        """Divides the cell's speed by the speed of the reference cell of the same batch size.

        Returns None if there is no such reference cell, or if the cell itself is the reference cell.
        """
        reference = self.references.get(cell.cell.batch_size)
        return None if reference is None or self.is_reference(cell) else gap(cell, reference)

    @cached_property
    def gains(self) -> list[Gap]:
        """The gain of each setting except the reference, the largest gain first.

        A setting may have several cells, with different batch sizes. Its gain is the gain of its fastest cell whose
        batch size has a reference cell.
        """
        by_setting: dict[tuple[object, ...], Gap] = {}
        for cell in self.cells:
            gain = self.gain(cell)
            if gain is not None:
                by_setting.setdefault(setting_key(cell.cell), gain)
        return sorted(by_setting.values(), key=lambda gain: -gain.ratio)

    def within(self, limit: Limit | None) -> "Group | None":
        """Returns the group without cells whose latency is unknown or above the limit. None if no cell is left."""
        if limit is None:
            return self
        inside = [cell for cell in self.cells if (cell.number(limit.column) or float("inf")) <= limit.ms]
        return replace(self, cells=inside) if inside else None

    @cached_property
    def has_engines(self) -> bool:
        """Whether several engines were measured."""
        return len({cell.cell.engine for cell in self.cells}) > 1

    @cached_property
    def has_devices(self) -> bool:
        """Whether several devices were measured."""
        return len({cell.cell.device for cell in self.cells}) > 1

    @cached_property
    def environments(self) -> dict[str, str]:
        """See `environment_names`."""
        return environment_names(self.cells)

    def setting(self, cell: MeasuredCell) -> str:
        """Names the cell's settings except the batch, such as `bf16 openvino`, and the device if there are several."""
        device = cell.cell.device.value if self.has_devices else None
        return " ".join(filter(None, [device, cell.cell.precision.value, self._choice(cell)]))

    def short_text(self, cell: MeasuredCell) -> str:
        """Names the cell's settings, such as `cpu bf16 b32, channels_last`, and its engine if there are several."""
        return short_text(cell, self._choice(cell))

    def text(self, cell: MeasuredCell) -> str:
        """A cell's settings in a sentence, such as `bf16 on gpu with compile, batch 16`."""
        on = f" on {cell.cell.device}" if self.has_devices else ""
        choice = self._choice(cell)
        options = f" with {choice}" if choice else ""
        return f"{cell.cell.precision}{on}{options}, batch {cell.cell.batch_size}"

    def _choice(self, cell: MeasuredCell) -> str:
        environment = self.environments.get(cell.measured_key)
        return choice_text(cell, has_engines=self.has_engines, environment=environment)


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


def groups(cells: Iterable[MeasuredCell]) -> list[Group]:
    """Returns the groups of cells with comparable speeds. They have the order of their first cells in `cells`."""
    return [group for group, _ in alike(cell for cell in cells if cell.competes)]


def alike(
    cells: Iterable[MeasuredCell], plain: Callable[[Cell], Cell] | None = None
) -> list[tuple[Group, list[MeasuredCell]]]:
    """Groups the cells that did the same work. Returns (group, list of its cells as they are in `cells`) pairs.

    The cells of a group may differ in `CHOSEN_SETTINGS`, and in the settings that `plain` removes. `Group.cells` lack
    these removed settings, but the cells in the list have them. Both have the same order, the fastest cell first.
    """

    def plain_of(cell: MeasuredCell) -> MeasuredCell:
        return replace(cell, cell=plain(cell.cell)) if plain else cell

    by_work: dict[tuple[str, str], dict[str, MeasuredCell]] = defaultdict(dict)
    for cell in cells:
        work = plain_of(cell)
        by_work[work.workload_key, work.place_key].setdefault(cell.measured_key, cell)  # sweeps may share a cell
    made = []
    every = []
    for of_work in by_work.values():
        first = next(iter(of_work.values()))
        ranked = sorted(of_work.values(), key=lambda cell: (-(cell.speed or 0.0), cell.measured_key))
        made.append(Group(list(map(plain_of, ranked)), setting_key(first.cell)))
        every.append(ranked)
    return list(zip(_told_apart(made), every, strict=True))


def _told_apart(made: Sequence[Group]) -> list[Group]:
    """Returns the same groups. Groups with the same `what` get a `where`, which distinguishes them."""
    alike = grouped(made, lambda group: group.what)
    return [replace(group, where=_where(group, alike[group.what])) for group in made]


def _where(group: Group, alike: Sequence[Group]) -> str:
    """Returns what distinguishes `group` from the others of `alike`: its machine, and its settings or system there.

    The system includes the packages. If nothing of these differs there, it is the folder.
    """
    own = _place(group)
    here = [place for place in map(_place, alike) if place[""] == own[""]]
    words = [own[""]] if len(here) < len(alike) else []
    names = [name for name in own if len({place.get(name) for place in here}) > 1]
    words += [f"{name}{own[name]}".replace('"', "") for name in names[:MAX_NAMED]]
    if len(here) > 1 and not names:
        words.append(group.fastest.folder)
    return ", ".join(words)


def _place(group: Group) -> dict[str, str]:
    """Returns the settings of a group that are not chosen, its packages, its system, and at "" its machine.

    A machine is named by its devices, such as `AMD EPYC 9654 + NVIDIA A100`. Equal devices have one name.
    """
    environment = group.fastest.environment
    settings = flat(group.fastest.cell.settings())
    fixed = {f"{name}=": text for name, text in settings.items() if name.partition(".")[0] not in CHOSEN_SETTINGS}
    home = environment.get("home", environment)
    system = flat({**(home.get("versions") or {}), **(home.get("machine") or {})})
    others = {f"{name} ": text for name, text in system.items()}
    return {"": " + ".join(dict.fromkeys(device_names(environment))), **fixed, **others}


def choices(group: Group) -> list[tuple[Group, MeasuredCell, str]]:
    """Returns the best cell for each criterion. A cell that is best for several appears once, with all of them."""
    best: dict[str, tuple[MeasuredCell, list[str]]] = {}
    for criterion, (column, sign) in CRITERIA.items():
        choices_of = [(sign * value, cell) for cell in group.cells if (value := cell.number(column)) is not None]
        if choices_of:
            _, cell = max(choices_of, key=lambda pair: pair[0])
            best.setdefault(cell.measured_key, (cell, []))[1].append(criterion)
    return [(group, cell, ", ".join(criteria)) for cell, criteria in best.values()]
