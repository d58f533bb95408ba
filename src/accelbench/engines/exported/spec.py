"""What the process of an engine needs that runs exported networks of PyTorch."""

from dataclasses import replace

from accelbench.engines.pytorch import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import QUANTIZED, SERVING, Engine

EXPORTER = "torch.export._trace"  # what torch.export imports when it is first called: a third of a second
# Modules that take long to import and start no threads; those that are not installed are passed over.
PRELOADED = {Engine.onnxruntime: ("torch.onnx._internal.exporter._core",), Engine.openvino: ("openvino",)}
# Settings of a measurement alone, whatever the network is.
OF_MEASUREMENT = ("repeat", "protocol", "epochs", "warmup", "steps", "window", "server", "breakdown_s", "budget_s")


def serves_any_size(cell: Cell) -> bool:
    """Whether the network is exported for batches of any size, if it can be: to export one takes seconds."""
    return cell.protocol in SERVING and cell.batch_size > 1


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: that of PyTorch, with another engine, which imports its framework only when it runs."""
    base = of_torch.host_spec(cell)
    engine = f"accelbench.engines.{cell.engine}.engine"
    # Weights depend on the number of threads too: LAPACK, which makes orthogonal ones, rounds differently.
    settings = cell.settings()
    settings["options"] = {**settings["options"], "allocator": None}
    if cell.engine != Engine.aotinductor:  # it compiles the network for its precision before it is saved, others later
        settings["precision"] = cell.precision in QUANTIZED
    settings |= {"any_size": serves_any_size(cell), "instances": cell.num_instances}  # which divide the threads
    if serves_any_size(cell) and not cell.model.samples:  # with which an output's rows depend on the batch
        del settings["batch_size"]
    exported_as = digest({name: value for name, value in settings.items() if name not in OF_MEASUREMENT})
    preload = (*base.preload, engine, EXPORTER, *PRELOADED.get(cell.engine, ()))
    return replace(base, engine=engine, preload=preload, exported_as=exported_as)
