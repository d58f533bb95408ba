"""What the process of an engine needs that runs exported networks of PyTorch."""

from collections.abc import Sequence
from dataclasses import replace

from accelbench.engines.lightning import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import QUANTIZED

EXPORTER = "torch.export._trace"  # what torch.export imports when it is first called: a third of a second
# Settings of a measurement alone, whatever the network is.
OF_MEASUREMENT = ("repeat", "protocol", "epochs", "warmup", "steps", "window", "breakdown_s")


def exporting_host(cell: Cell, more: Sequence[str] = (), *, saves_compiled: bool = False) -> HostSpec:
    """The host of `cell`: that of PyTorch, with another engine, which imports its framework only when it runs.

    `more` are modules that take long to import and start no threads. An engine that `saves_compiled` compiles the
    network for its precision before it is saved; others do so when they load it.
    """
    base, engine = of_torch.host_spec(cell), f"accelbench.engines.{cell.engine}.engine"
    # Weights depend on the number of threads too: LAPACK, which makes orthogonal ones, rounds differently.
    settings = cell.settings()
    settings["options"] = {**settings["options"], "allocator": None}
    if not saves_compiled:
        settings["precision"] = cell.precision in QUANTIZED
    exported_as = digest({name: value for name, value in settings.items() if name not in OF_MEASUREMENT})
    return replace(base, engine=engine, preload=(*base.preload, engine, EXPORTER, *more), exported_as=exported_as)
