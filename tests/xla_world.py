"""The Lightning engine where PJRT says that it has joined all processes, as on a TPU: on CPUs it joins none.

And code in a process of its own, since importing torch_xla replaces parts of torch.nn.
"""

import contextlib
import io
import multiprocessing
import os
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from accelbench.engines.lightning import engine
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement


def printed(code: str, **variables: str) -> list[str]:
    """What a process of its own prints, a value a line, on PJRT's CPU unless `variables` say otherwise.

    It is forked from one that has imported torch_xla and Lightning, which takes seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch_xla", "accelbench.engines.lightning.backends"])
    lines, its_lines = context.Pipe(duplex=False)
    process = context.Process(target=_print, args=(code, {"PJRT_DEVICE": "CPU", **variables}, its_lines))
    process.start()
    its_lines.close()
    found = lines.recv()
    process.join()
    assert isinstance(found, list), found
    return found


def _print(code: str, variables: dict[str, str], lines: Connection) -> None:
    """Sends what the code prints, or the traceback of its error."""
    os.environ.update(variables)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, {})
        lines.send(output.getvalue().splitlines())
    except BaseException:
        lines.send(traceback.format_exc())


def host(cell: Cell) -> HostSpec:
    """A host whose engine is this module."""
    variables = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"}
    preload = ("accelbench.isolation.host", "xla_world", "torch_xla")
    return HostSpec("xla_world", preload, variables, num_processes=cell.devices)


def run(cell: Cell, data_folder: Path) -> Measurement | None:
    """Runs the cell in its part of a world that only says that it is one."""
    from torch_xla import runtime
    from torch_xla._internal import pjrt

    initialize = pjrt.initialize_multiprocess

    def initialize_and_tell(local_rank: int, num_here: int) -> None:
        initialize(local_rank, num_here)
        runtime._WORLD_SIZE, runtime._ORDINAL = cell.devices, local_rank

    pjrt.initialize_multiprocess = initialize_and_tell
    return engine.run(cell, data_folder)
