"""Makes the rows of `cells.csv`, with scaling efficiencies. Writes CSV in which no text looks like a formula."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.schema.record import Row
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Scaling

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "scaling_efficiency"


def rows(sweeps: Iterable[Sweep]) -> Iterator[Row]:
    """Yields the rows of `cells.csv`. Each row has the scaling efficiency of its cell.

    The efficiency is None for a cell on a single device, and if no comparable cell of its sweep ran on a single device.
    """
    for sweep in sweeps:
        ok = [cell for cell in sweep.cells if cell.speed]
        singles = {_key(cell, cell.cell.batch_size): cell for cell in ok if cell.cell.devices == 1}
        efficiency: dict[str, float] = {}
        for cell in ok:
            of = cell.cell
            # If devices share the threads of a process, no cell on one device has comparable threads.
            if of.devices > 1 and not (of.device in SHARE_ONE_CPU and of.num_processes == 1):
                batch_size = of.batch_size if of.scaling == Scaling.strong else of.batch_size_per_device
                if (single := singles.get(_key(cell, batch_size))) is not None:
                    efficiency[cell.name] = (cell.speed or 0.0) / (single.speed or 1.0) / of.devices
        for cell in sweep.cells:
            yield cell.row | {COLUMN: efficiency.get(cell.name)}


def _key(cell: MeasuredCell, batch_size: int) -> str:
    """Returns a key. A cell on several devices has the same key as its counterpart on one device."""
    settings = cell.all_but("devices", "xla_processes", "scaling", "batch_size", "threads")
    threads = cell.row["threads"] if cell.cell.device == Device.cpu else cell.cell.threads
    return digest([settings, batch_size, threads])


# A spreadsheet takes text that begins with one of these for a formula. An apostrophe before the text prevents this.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def text(rows: Iterable[Row]) -> str:
    """Converts rows with equal columns to CSV with a heading. Unknown values are empty. Keeps no row in memory."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(row)
        values = row.values()
        writer.writerow([f"'{each}" if isinstance(each, str) and each.startswith(FORMULA) else each for each in values])
    return file.getvalue()


def frame(rows: Iterable[Row]) -> "pd.DataFrame":
    """Converts rows with equal columns to a data frame. An unknown number is NaN, any other unknown value is None."""
    import pandas as pd  # imported here, since it takes half a second

    return pd.DataFrame(list(rows))
