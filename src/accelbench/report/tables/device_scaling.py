"""What several devices gain over one: each such cell beside the one of the same sweep that it is to be held against."""

from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Table, count, number, percent, word
from accelbench.schema.cell import Cell
from accelbench.schema.record import Row
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Scaling

COLUMN = "scaling_efficiency"
NOTES = [
    "Efficiency: samples/s on N devices over N times those of the cell on one device that is equal in all else, of the "
    "same whole batch (strong) or the same batch per device (weak).",
    "Devices of a CPU that have a process each are parts of its cores: they are held against one process of as many "
    "threads as each of theirs. Those of XLA's CPU and of Keras share all cores: they have no efficiency. Each cell is "
    "one process, or one group of them: a difference of some percent may be noise.",
]


@dataclass(frozen=True)
class Scaled:
    """An ok cell on several devices, and the one on one device that it is held against."""

    planned: ReportedCell
    alone: ReportedCell

    @property
    def speedup(self) -> float:
        """Samples/s over those of one device."""
        return _rate(self.planned) / _rate(self.alone)

    @property
    def efficiency(self) -> float:
        """Speed-up over the number of devices: 1 where none waits for another."""
        return self.speedup / self.planned.cell.devices


def scaled(sweep: Sweep) -> list[Scaled]:
    """The cells on several devices whose counterpart on one was measured too."""
    ok = [planned for planned in sweep.cells if planned.is_ok and planned.number("samples_per_s")]
    alone = {_key(planned, planned.cell.batch_size): planned for planned in ok if planned.cell.devices == 1}
    found = []
    for planned in (planned for planned in ok if planned.cell.devices > 1 and not _shares_threads(planned.cell)):
        cell = planned.cell
        batch_size = cell.batch_size if cell.scaling == Scaling.strong else cell.batch_size_per_device
        other = alone.get(_key(planned, batch_size))
        if other is not None:
            found.append(Scaled(planned, other))
    return found


def rows(sweep: Sweep) -> list[Row]:
    """The rows of `cells.csv`, with the efficiency of those that have one."""
    known = {each.planned.name: each.efficiency for each in scaled(sweep)}
    return [planned.row | {COLUMN: known.get(planned.name)} for planned in sweep.cells]


def table(sweep: Sweep) -> Table | None:
    """What several devices gain; None where no cell has one to be held against."""
    entries = []
    for each in scaled(sweep):
        cell, row = each.planned.cell, each.planned.row
        on = [*cell.options.enabled, *(["a process each"] if cell.xla_processes else [])]
        words = (cell.model.name, cell.mode, cell.device, cell.precision, " + ".join(on), cell.scaling)
        entries.append(
            [*map(word, words), count(cell.devices), count(cell.batch_size), count(row["threads"])]
            + [number(each.alone.row["samples_per_s"]), number(row["samples_per_s"])]
            + [number(each.speedup), percent(each.efficiency)]
        )
    headings = [
        "network",
        "mode",
        "device",
        "precision",
        "options",
        "scaling",
        "devices",
        "whole batch",
        "threads each",
    ]
    headings += ["samples/s on one", "samples/s", "speed-up (x)", "efficiency (%)"]
    return Table(title="Several devices", headings=headings, rows=entries, notes=NOTES).known() if entries else None


def _shares_threads(cell: Cell) -> bool:
    """Whether its devices are one process's views of the same cores: no cell on one of them has as many."""
    return cell.device in SHARE_ONE_CPU and cell.num_processes == 1


def _key(planned: ReportedCell, batch_size: int) -> str:
    """What two cells share that are held against each other."""
    settings = planned.all_but("devices", "xla_processes", "scaling", "batch_size", "threads")
    threads = planned.row["threads"] if planned.cell.device == Device.cpu else planned.cell.threads
    return canonical_json([settings, batch_size, threads])


def _rate(planned: ReportedCell) -> float:
    rate = planned.number("samples_per_s")
    assert rate
    return rate
