"""The workload of a cell, by its library and its batches."""

from pathlib import Path

from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.own.workload import OwnWorkload, TransformersWorkload
from accelbench.engines.lightning.ranks import Ranks
from accelbench.engines.lightning.workload import Images, Workload
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Library


def workload_of(cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> Workload:
    """The network and the batches of a cell."""
    if cell.model.library == Library.transformers:
        return TransformersWorkload(cell, backend, ranks)
    if cell.model.batch is not None:
        return OwnWorkload(cell, backend, ranks)
    return Images(cell, data_folder, backend, ranks)
