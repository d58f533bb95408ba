"""PyTorch's global state, put back after a measurement in the user's own process, however it ended."""

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from lightning_fabric.accelerators import XLAAccelerator

BACKENDS: Any = torch.backends
# The objects whose `fp32_precision` says what fp32 is computed in, from the general to the particular.
FP32_PLACES: tuple[Any, ...] = (
    *(BACKENDS, BACKENDS.cudnn, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn, BACKENDS.cuda.matmul),
    *(BACKENDS.mkldnn, BACKENDS.mkldnn.conv, BACKENDS.mkldnn.rnn, BACKENDS.mkldnn.matmul),
)
CPU_PLACES: tuple[Any, ...] = (BACKENDS.mkldnn.conv, BACKENDS.mkldnn.rnn, BACKENDS.mkldnn.matmul)
FULL = "ieee"


@contextlib.contextmanager
def as_in_a_fresh_process(torch_type: str, dtype: torch.dtype, *, tf32: bool = False) -> Iterator[None]:
    """Sets what a cell's own process has, and puts the process's state back on leaving.

    Inside, autocast is off, gradients are on, new tensors are `dtype`, cuDNN chooses algorithms by its rules, and fp32
    is computed in full precision, or in TF32. Put back are these, the random generators, the numbers of threads, and
    what Lightning and the user's network change of them.

    Args:
        torch_type: `cpu` or `cuda`.
        dtype: that the network's weights are stored in.
        tf32: whether products of fp32 matrices are computed in TF32, on a GPU.
    """
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Please use the new API settings to control TF32")
        for put_back in (_generators(torch_type), _flags(), _fp32()):
            stack.callback(put_back)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())  # type: ignore[no-untyped-call]
        for each in {"cpu", torch_type}:
            stack.enter_context(torch.autocast(each, enabled=False))
        torch.set_default_dtype(dtype)
        if _default_device() is not None:  # it costs time at each call of torch
            torch.set_default_device(None)
        torch.backends.cudnn.benchmark = False
        for place in CPU_PLACES:
            place.fp32_precision = FULL
        if torch_type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        yield


def _generators(torch_type: str) -> Callable[[], None]:
    """Returns what sets the random generators to their present states. It starts a GPU only if one is measured."""
    if torch_type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
    python, numpy_s, of_torch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy_s)
        torch.set_rng_state(of_torch)
        if of_gpus is not None:
            torch.cuda.set_rng_state_all(of_gpus)

    return put_back


def _flags() -> Callable[[], None]:
    dtype, threads, benchmark = torch.get_default_dtype(), torch.get_num_threads(), torch.backends.cudnn.benchmark
    device = _default_device()
    finds_tpus = vars(XLAAccelerator)["is_available"]

    def put_back() -> None:
        torch.set_default_dtype(dtype)
        if _default_device() != device:
            torch.set_default_device(device)
        torch.backends.cudnn.benchmark = benchmark
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        XLAAccelerator.is_available = finds_tpus

    return put_back


def _default_device() -> torch.device | None:
    """That the user has set for the process's new tensors; None if they did not."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _fp32() -> Callable[[], None]:
    """Returns what sets the precisions of fp32 to the present ones, in PyTorch's newer settings and in its older."""
    newer = [place.fp32_precision for place in FP32_PLACES]
    older = _or_none(torch.get_float32_matmul_precision)

    def put_back() -> None:
        if older is not None and _or_none(torch.get_float32_matmul_precision) != older:
            torch.set_float32_matmul_precision(older)
        for place, precision in zip(FP32_PLACES, newer, strict=True):
            if place.fp32_precision != precision:
                place.fp32_precision = precision

    return put_back


def _or_none(get: Callable[[], str]) -> str | None:
    try:
        return get()
    except RuntimeError:  # the newer settings and the older ones disagree: the newer ones hold
        return None
