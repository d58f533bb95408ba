"""Sets the precision of a PyTorch network: dtypes, autocast and torch's global settings. Observes what really ran."""

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_hook

from accelbench.engines.pytorch.structure import tensors_in
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import FORMATS, word_for
from accelbench.schema.ceilings import MIXED
from accelbench.schema.cell import XLA, Cell, Mode, Precision
from accelbench.schema.measurement import Observed

# Dtypes of the factors of matrix products (DTYPES) and of the weights (STORED_DTYPES).
DTYPES: dict[Precision, torch.dtype] = {
    word: getattr(torch, names.computed) for word, names in FORMATS.items()
}
STORED_DTYPES: dict[Precision, torch.dtype] = {
    word: getattr(torch, formats.stored) for word, formats in FORMATS.items()
}

# The settings of the precision in which torch multiplies fp32 matrices: (library, operation).
FP32_SETTINGS = [
    (library, operation) for library in ("cuda", "mkldnn") for operation in ("matmul", "conv", "rnn")
]
FULL, TF32 = "ieee", "tf32"  # values of these settings

# PyTorch's advice to use its newer settings is silenced.
warnings.filterwarnings("ignore", message="Please use the new API settings to control TF32")


def reset_settings(*, allow_tf32: bool) -> None:
    """Sets torch's global settings that affect speed or numbers, because the user's code may have changed them.

    A GPU computes fp32 in TF32 only if `allow_tf32` is true. This includes convolutions, which PyTorch computes in TF32
    by default. cuDNN does not search for its fastest algorithm, because two processes may find different ones.
    """
    # The older two settings come first: they set some of the others.
    torch.set_float32_matmul_precision("high" if allow_tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = allow_tf32
    for library, operation in FP32_SETTINGS:
        torch._C._set_fp32_precision_setter(
            library, operation, TF32 if allow_tf32 and library == "cuda" else FULL
        )
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(False)
    # Any call of `set_default_device`, even for the CPU, makes each later call of torch slower. `get_default_device`
    # fails after `torch.set_default_device(None)`.
    if torch.empty(0).device.type != "cpu":
        torch.set_default_device("cpu")


def use_threads(num: int) -> None:
    """Sets PyTorch's number of CPU threads, unless it is `num` already."""
    # Any call of `torch.set_num_threads` also forbids MKL to use fewer threads for small products, until the process
    # ends. Training a small transformer takes 4 % longer after the call.
    if torch.get_num_threads() != num:
        torch.set_num_threads(num)


def flush_denormals() -> None:
    """Makes this thread compute with 0 instead of denormal numbers. Threads that it starts later do so, too.

    Raises UnsupportedError if the CPU can't do that.
    """
    if not torch.set_flush_denormal(True):
        raise UnsupportedError(
            "flush_denormals=true: this CPU can't flush denormals: use flush_denormals=false"
        )


@contextmanager
def new_tensors_in(dtype: torch.dtype) -> Iterator[None]:
    """A context in which `dtype` is torch's default for new tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_generators(seed: int) -> None:
    """Seeds the random generators of Python, NumPy and torch on the host."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def cast_tensor(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Casts a tensor of real floating-point numbers to `dtype`. Returns any other tensor (also complex) unchanged."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def cast_module(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Casts the weights and buffers of a module, as `cast_tensor` does."""
    return module._apply(lambda tensor: cast_tensor(tensor, dtype))


def stored_in(module: nn.Module, precision: Precision) -> nn.Module:
    """Casts the weights of a module to the format in which `precision` stores them. Returns the module."""
    dtype = STORED_DTYPES[precision]
    return _without_doubles(module) if dtype == torch.float32 else cast_module(module, dtype)


def _without_doubles(module: nn.Module) -> nn.Module:
    """Casts a module to fp32 if all its floating-point tensors are in fp64. Returns the module.

    They are in fp64 if the user's script sets fp64 as torch's default dtype.
    """
    tensors = [*module.parameters(), *module.buffers()]
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return cast_module(module, torch.float32) if dtypes == {torch.float64} else module


def check_normalises(network: nn.Module, cell: Cell) -> None:
    """Raises UnsupportedError if the cell trains batch normalisation in fp16 on XLA.

    XLA sums the squares in fp16. With XLA on a CPU, outputs were wrong by up to 25 %. From about 65,000 pixels per
    channel on, outputs were not finite.
    """
    trains_in_fp16 = (cell.mode, cell.precision) == (Mode.train, Precision.fp16)
    if (
        cell.device in XLA
        and trains_in_fp16
        and any(isinstance(layer, _BatchNorm) for layer in network.modules())
    ):
        raise UnsupportedError(
            "precision=fp16: XLA trains batch normalisation wrongly in fp16: use precision=bf16"
        )


def step_context(precision: Precision, torch_type: str) -> Callable[[], AbstractContextManager[Any]]:
    """Returns a function that makes the context of a forward pass: autocast in mixed precision, else `nullcontext`."""
    if precision not in MIXED:
        return nullcontext
    # No cache of cast weights on XLA: autocast drops the cache at its end, but torch_xla launches the step later.
    cached = {"cache_enabled": False} if torch_type == "xla" else {}
    return partial(torch.autocast, torch_type, dtype=DTYPES[precision], **cached)


WATCHED = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)


class Observer:
    """Observes the dtype in which the layers of a network compute in the first step.

    It is for networks whose operators can't be observed one by one. The observer stores the result of the first layer
    that has a weight matrix. If no such layer runs, it stores the network's output. If the output has no floating-point
    numbers, it stores the network's input. The observer calls `check` with the network's first output.
    """

    def __init__(self, network: nn.Module, check: Callable[[Any], object] | None = None) -> None:
        self.network = network
        self.result: Tensor | None = None
        layers = {id(layer) for layer in network.modules() if layer is network or isinstance(layer, WATCHED)}

        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            if id(module) not in layers or torch.compiler.is_compiling():
                return
            self.see((output, inputs))
            if module is network or check is None:
                self.handle.remove()
            if module is network and check is not None:
                check(output)

        self.handle = register_module_forward_hook(note)  # a global hook: the network's modules get none

    def see(self, output: Any) -> None:
        """Keeps the first floating-point tensor in `output`. If a tensor is kept already, does nothing."""
        results = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
        if self.result is None and results:
            self.result = results[0]

    def observed(self, run: Any, **more: Any) -> Observed:
        """Returns the precision and the device that really ran. `more` contains additional fields of the result.

        `run` is a `CellRun`.
        """
        self.handle.remove()  # it is still there if no such layer ran
        products = run.observations.products
        expected = FORMATS[run.cell.precision]
        numbers = [
            weight
            for weight in self.network.parameters()
            if weight.is_floating_point() or weight.is_complex()
        ]
        sizes = Counter[torch.dtype]()
        for weight in numbers:
            sizes[weight.dtype] += weight.numel()
        # A weight of the dtype that most numbers have stands for all.
        weights = max(numbers, key=lambda weight: sizes[weight.dtype], default=None)
        stored = expected.stored if weights is None else real_format(weights)
        of_result = expected.computed if self.result is None else real_format(self.result)
        computed = products.ran_in(expected.computed) or of_result
        # The result comes first: Lightning's Trainer may have moved the weights back to the host.
        places = [tensor.device.type for tensor in (self.result, weights) if tensor is not None]
        kind = max(
            products.devices,
            key=products.devices.__getitem__,
            default=next(iter(places), run.backend.torch_type),
        )
        return Observed(
            device=run.backend.ran_on(kind),
            device_name=run.device_name(),
            precision=word_for(
                stored, computed, tf32=not run.backend.on_host and run.backend.multiplies_coarsely()
            ),
            cudnn_benchmark=torch.backends.cudnn.benchmark if kind == "cuda" else None,
            **{"num_devices": 1, "threads": torch.get_num_threads(), **more},
        )


def real_format(tensor: Tensor) -> str:
    """Returns NumPy's name for the dtype of a tensor. For a complex tensor, this is the dtype of the real parts."""
    dtype = tensor.real.dtype if tensor.is_complex() else tensor.dtype
    return str(dtype).removeprefix("torch.")
