"""The Lightning engine where PJRT says that it has joined all processes, as on a TPU: on CPUs it joins none."""

from pathlib import Path

from accelbench.engines.lightning import engine
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work


def host(cell: Cell) -> HostSpec:
    """A host whose engine is this module."""
    variables = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"}
    preload = ("accelbench.isolation.host_process", "xla_world", "torch_xla")
    return HostSpec("xla_world", preload, variables, num_processes=cell.devices)


def run(cell: Cell, data_folder: Path, work: Work | None = None) -> Measurement | None:
    """Runs the cell in its part of a world that only says that it is one."""
    from torch_xla import runtime
    from torch_xla._internal import pjrt

    initialize = pjrt.initialize_multiprocess

    def initialize_and_tell(local_rank: int, num_here: int) -> None:
        initialize(local_rank, num_here)
        runtime._WORLD_SIZE, runtime._ORDINAL = cell.devices, local_rank

    pjrt.initialize_multiprocess = initialize_and_tell
    return engine.run(cell, data_folder, work=work)
