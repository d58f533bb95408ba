"""PyTorch's global state, put back after a measurement in the user's own process, however it ended."""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from lightning_fabric.accelerators import XLAAccelerator

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning.global_state import (
    ANOMALIES,
    BENCHMARK,
    CUDNN_DETERMINISTIC,
    DEFAULT_DEVICE,
    DEFAULT_DTYPE,
    DETERMINISTIC,
    restore,
    snapshot,
    values_of_a_cell,
)
from accelbench.schema.measurement import Measurement

# Settings of the process that a measurement may keep, as they do not change the precision -> what one means if it is on
KEPT = {
    DETERMINISTIC: "deterministic algorithms are on",
    CUDNN_DETERMINISTIC: "cuDNN's deterministic algorithms are on",
    BENCHMARK: "cuDNN chooses algorithms by trial",
    ANOMALIES: "anomaly detection is on",
}


def kept() -> Iterator[str]:
    """A warning for each setting of the process that changes how long things take."""
    found = snapshot()
    for name, meaning in KEPT.items():
        if found[name]:
            yield f"{meaning} in this process: {name}"


@contextlib.contextmanager
def as_in_a_fresh_process(torch_type: str, dtype: torch.dtype, *, tf32: bool = False) -> Iterator[None]:
    """Sets what a cell's own process has, and puts the process's state back on leaving.

    Inside, autocast is off, gradients are on, new tensors are `dtype`, cuDNN chooses algorithms by its rules, and fp32
    is computed in full precision, or on a GPU in TF32. Deterministic algorithms and the detection of anomalies stay as
    they are. Put back are these, the random generators, the numbers of threads, and what Lightning and the user's
    network change of them.
    """
    with contextlib.ExitStack() as stack:
        if torch_type == "cuda":  # else no GPU is started
            torch.cuda.init()  # type: ignore[no-untyped-call]
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        stack.callback(setattr, XLAAccelerator, "is_available", vars(XLAAccelerator)["is_available"])
        stack.callback(restore, snapshot())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())  # type: ignore[no-untyped-call]
        for each in {"cpu", torch_type}:
            stack.enter_context(torch.autocast(each, enabled=False))
        # A default device costs time at each call of torch.
        restore({**values_of_a_cell(allow_tf32=tf32), DEFAULT_DTYPE: dtype, DEFAULT_DEVICE: None})
        yield


def result(run: CellRun) -> Measurement:
    """What a run measures in this single process."""
    measurement = run.measure()
    assert measurement is not None, "a single process has the measurement"
    return measurement
