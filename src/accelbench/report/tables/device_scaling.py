"""What several devices gain over one: each such cell and its counterpart on one device, of the same sweep."""

from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Table, count, number, percent, tabulate_known, word
from accelbench.schema.cell import Cell
from accelbench.schema.record import Row
from accelbench.schema.serialize import group_digest
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Scaling

COLUMN = "scaling_efficiency"
NOTES = [
    "Efficiency: samples/s on N devices over N times the samples/s of the same cell on one device, with the same whole "
    "batch (strong) or the same batch per device (weak).",
    "CPU devices with a process each divide the CPU's cores: they are compared with one process that has as many "
    "threads as each of them. Devices of XLA's CPU and of Keras share all cores and have no efficiency. Each cell is "
    "one process, or one group of processes: a difference of a few percent may be noise.",
]


@dataclass(frozen=True)
class ScaledCell:
    """An ok cell on several devices, and its counterpart on one device."""

    reported: ReportedCell
    single: ReportedCell

    @property
    def cell(self) -> Cell:
        """The cell on several devices."""
        return self.reported.cell

    @property
    def options(self) -> str:
        """The options that are on, and whether each device has a process."""
        return " + ".join([*self.cell.options.enabled, *(["a process each"] if self.cell.xla_processes else [])])

    @property
    def speedup(self) -> float:
        """Samples/s over those of one device."""
        return _rate(self.reported) / _rate(self.single)

    @property
    def efficiency(self) -> float:
        """Speed-up over the number of devices: 1 if no device waits for another."""
        return self.speedup / self.cell.devices


COLUMNS: list[Column[ScaledCell]] = [
    Column("network", lambda scaled: word(scaled.cell.model.name)),
    Column("mode", lambda scaled: word(scaled.cell.mode)),
    Column("device", lambda scaled: word(scaled.cell.device)),
    Column("precision", lambda scaled: word(scaled.cell.precision)),
    Column("options", lambda scaled: word(scaled.options)),
    Column("scaling", lambda scaled: word(scaled.cell.scaling)),
    Column("devices", lambda scaled: count(scaled.cell.devices)),
    Column("whole batch", lambda scaled: count(scaled.cell.batch_size)),
    Column("threads each", lambda scaled: count(scaled.reported.row["threads"])),
    Column("samples/s on one", lambda scaled: number(scaled.single.row["samples_per_s"])),
    Column("samples/s", lambda scaled: number(scaled.reported.row["samples_per_s"])),
    Column("speed-up (x)", lambda scaled: number(scaled.speedup)),
    Column("efficiency (%)", lambda scaled: percent(scaled.efficiency)),
]


def scaled_cells(sweep: Sweep) -> list[ScaledCell]:
    """The cells on several devices whose counterpart on one was measured too."""
    ok = [reported for reported in sweep.cells if reported.is_ok and reported.number("samples_per_s")]
    keys = [(reported, each) for reported in ok if (each := scaling_keys(reported)) is not None]
    singles = {each.own: reported for reported, each in keys if each.own}
    return [ScaledCell(reported, singles[each.on_one]) for reported, each in keys if each.on_one in singles]


@dataclass(frozen=True)
class ScalingKeys:
    """How a cell finds its counterpart on one device.

    Attributes:
        own: the key of a cell on one device; None on several.
        on_one: the key of its counterpart; None if there can be none.
    """

    own: str | None
    on_one: str | None
    devices: int


def scaling_keys(reported: ReportedCell) -> ScalingKeys | None:
    """The keys of an ok cell; None if its devices share threads."""
    cell = reported.cell
    if cell.devices == 1:
        return ScalingKeys(group_digest(_key(reported, cell.batch_size)), None, 1)
    if _shares_threads(cell):
        return None
    batch_size = cell.batch_size if cell.scaling == Scaling.strong else cell.batch_size_per_device
    return ScalingKeys(None, group_digest(_key(reported, batch_size)), cell.devices)


def rows(sweep: Sweep) -> list[Row]:
    """The rows of `cells.csv`: each cell's row with its scaling efficiency, None if there is no counterpart."""
    efficiency = {scaled.reported.name: scaled.efficiency for scaled in scaled_cells(sweep)}
    return [reported.row | {COLUMN: efficiency.get(reported.name)} for reported in sweep.cells]


def table(sweep: Sweep) -> Table | None:
    """What several devices gain; None if no such cell has a counterpart on one device."""
    return tabulate_known("Several devices", COLUMNS, scaled_cells(sweep), NOTES)


def _shares_threads(cell: Cell) -> bool:
    """Whether the devices share one process's threads, so that no cell on one device has comparable threads."""
    return cell.device in SHARE_ONE_CPU and cell.num_processes == 1


def _key(reported: ReportedCell, batch_size: int) -> list[object]:
    """What a cell on several devices shares with its counterpart on one."""
    settings = reported.all_but("devices", "xla_processes", "scaling", "batch_size", "threads")
    threads = reported.row["threads"] if reported.cell.device == Device.cpu else reported.cell.threads
    return [settings, batch_size, threads]


def _rate(reported: ReportedCell) -> float:
    rate = reported.number("samples_per_s")
    assert rate
    return rate
