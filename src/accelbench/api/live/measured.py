"""A live network or a function -> its `Measurement`, and PyTorch as it was."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from accelbench.api.live.run import FunctionRun, NetworkRun, copy_of
from accelbench.api.live.state import as_in_a_fresh_process
from accelbench.api.live.task import LiveTask, own_batch
from accelbench.engines.lightning.backends import backend_for
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.structure import tensors_in
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Device, Pipeline, Precision


def network(
    model: nn.Module, batch: Any, loss: Callable[[Any, Any], Any] | None, samples: int | None, cell: Cell
) -> tuple[Cell, Measurement]:
    """Measures a copy of `model`; returns the cell with the batch's samples and place, and the measurement.

    Raises:
        UserError: the model can't be copied, or the batch holds no tensors.
        UnsupportedError: the model computes nothing with floating-point numbers.
    """
    torch_type = "cuda" if cell.device == Device.gpu else "cpu"
    dtype = STORED_DTYPES[cell.precision]
    with as_in_a_fresh_process(torch_type, dtype, tf32=cell.precision == Precision.tf32):
        backend = backend_for(cell.device)
        stays = _is_on(torch_type, batch)
        place = backend.device() if stays else torch.device("cpu")
        own = own_batch(batch, samples, dtype, place)
        data = dataclasses.replace(cell.data, pipeline=Pipeline.device if stays else Pipeline.host)
        cell = dataclasses.replace(cell, batch_size=own.num_samples, data=data)
        copied = copy_of(model).to(device=backend.device(), dtype=dtype)
        task = LiveTask(getattr(model, "_orig_mod", model), own, loss)
        return cell, _of(NetworkRun(cell, copied, model, task, own, backend))


def function(called: Callable[[], object], cell: Cell) -> Measurement:
    """Measures calls of `called`, and waits for the cell's device; PyTorch's state is what the function finds."""
    from lightning_fabric.accelerators import XLAAccelerator

    finds_tpus = vars(XLAAccelerator)["is_available"]
    try:
        return _of(FunctionRun(cell, called, backend_for(cell.device)))
    finally:
        XLAAccelerator.is_available = finds_tpus


def _of(run: NetworkRun | FunctionRun) -> Measurement:
    measurement = run.measure()
    assert measurement is not None, "a single process has the measurement"
    return measurement


def _is_on(torch_type: str, batch: Any) -> bool:
    tensors = list(tensors_in(batch))
    return torch_type != "cpu" and bool(tensors) and all(tensor.device.type == torch_type for tensor in tensors)
