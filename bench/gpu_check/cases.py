"""The cells that are compared with a plain loop, and those that try an option."""

import dataclasses
import importlib.util
from collections.abc import Iterator

from accelbench.schema.cell import Cell, Options, Window
from accelbench.schema.vocab import XLA, Device, Library, Mode, Pipeline, Precision
from accelbench.schema.workload import DataSpec, ModelSpec
from bench import rounds

WINDOW = Window(measure_s=1.0, width=0.01, latency_s=0.2, latency_steps=20)
TIMEOUT_S = 60.0
# The most usual ones first: the last ones are left out if there is no time for them.
PRECISIONS = [
    *(Precision.fp32, Precision.tf32, Precision.bf16_mixed, Precision.fp16_mixed),
    *(Precision.bf16, Precision.fp16, Precision.fp64),
]
ON_XLA = [Precision.fp32, Precision.bf16_mixed, Precision.bf16]

MLP = ModelSpec(name="mlp", args={"widths": [512, 512, 512, 512], "dropout": 0.45})
CNN = ModelSpec(name="cnn", args={"channels": 64, "dropout": 0.2})
RESNET = ModelSpec(name="resnet50", library=Library.timm, input_shape=(3, 224, 224), num_classes=1000)


def compared(device: Device) -> Iterator[Cell]:
    """The cells that are compared with a plain loop on `device`."""
    if device == Device.cpu:  # a quick trial of the check itself
        for precision in (Precision.fp32, Precision.bf16_mixed):
            for mode in Mode:
                yield dataclasses.replace(cell(device, MLP, mode, precision, 128), threads=1)
        yield dataclasses.replace(cell(device, RESNET, Mode.infer, Precision.fp32, 1), threads=1)
        return
    for precision in ON_XLA if device in XLA else PRECISIONS:
        for model in (MLP, CNN) if device in XLA else (MLP, CNN, RESNET):
            for mode in Mode:
                yield cell(device, model, mode, precision, _batch(model, precision))


def _batch(model: ModelSpec, precision: Precision) -> int:
    if model is not RESNET:
        return 128
    return 8 if precision == Precision.fp64 else 32  # many GPUs compute fp64 at a 64th of the speed of fp32


def with_options(device: Device) -> Iterator[Cell]:
    """The cells that try an option."""
    graphs, compiled = Options(cuda_graphs=True), Options(compile=True)
    both = Options(cuda_graphs=True, compile=True)
    tried = [(CNN, Mode.train, graphs), (CNN, Mode.infer, graphs), (MLP, Mode.train, compiled)]
    tried += [(CNN, Mode.infer, compiled), (MLP, Mode.infer, both)]
    for model, mode, options in tried:
        yield dataclasses.replace(cell(device, model, mode, Precision.fp32, 128), options=options)


def cell(device: Device, model: ModelSpec, mode: Mode, precision: Precision, batch_size: int) -> Cell:
    """A short cell, whose one batch of random images lies on the device."""
    if (precision, mode) == (Precision.fp16, Mode.train):  # Adam's epsilon underflows in fp16
        model = dataclasses.replace(model, optimizer="sgd")
    resident = DataSpec(name="random", pipeline=Pipeline.device)
    others = {"suite": "gpu_check", "window": WINDOW, "timeout_s": TIMEOUT_S}
    return rounds.cell(model, mode, batch_size, device=device, data=resident, precision=precision, **others)


def missing_library(tried: Cell) -> str | None:
    """The library of the cell's network, if it is not installed."""
    name = tried.model.library.value
    return name if tried.model.library == Library.timm and importlib.util.find_spec(name) is None else None
