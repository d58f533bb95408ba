"""Precision: the formats of each word, autocast, and which precision really ran."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_hook

from accelbench.engines.formats import FORMATS, word_for
from accelbench.engines.pytorch.global_state import multiplies_in_tf32
from accelbench.engines.pytorch.structure import tensors_in
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Observed
from accelbench.schema.vocab import XLA, Mode, Precision

# What matrix products are computed in, and what weights are stored in.
DTYPES: dict[Precision, torch.dtype] = {word: getattr(torch, names.computed) for word, names in FORMATS.items()}
STORED_DTYPES: dict[Precision, torch.dtype] = {
    word: getattr(torch, formats.stored) for word, formats in FORMATS.items()
}
MIXED = frozenset({Precision.fp16_mixed, Precision.bf16_mixed})


def cast_tensor(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in `dtype` if it is of real floating-point numbers: no format of 16 bits holds complex ones."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def cast_module(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Casts the weights and buffers of a module, as `cast_tensor` does."""
    return module._apply(lambda tensor: cast_tensor(tensor, dtype))


def stored_in(module: nn.Module, precision: Precision) -> nn.Module:
    """The module, its weights in the format that `precision` stores."""
    dtype = STORED_DTYPES[precision]
    return _without_doubles(module) if dtype == torch.float32 else cast_module(module, dtype)


def _without_doubles(module: nn.Module) -> nn.Module:
    """A module whose numbers are all fp64, as where a script makes that its default, in fp32."""
    tensors = [*module.parameters(), *module.buffers()]
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return cast_module(module, torch.float32) if dtypes == {torch.float64} else module


def check_normalises(network: nn.Module, cell: Cell) -> None:
    """Raises an UnsupportedError if the cell trains batch normalisation in fp16 on XLA, which sums squares in fp16."""
    # Seen on its CPU: the output is up to 25 % off, and not finite from some 65,000 pixels a channel on.
    trains_in_fp16 = (cell.mode, cell.precision) == (Mode.train, Precision.fp16)
    if cell.device in XLA and trains_in_fp16 and any(isinstance(layer, _BatchNorm) for layer in network.modules()):
        raise UnsupportedError("XLA trains batch normalisation wrongly in fp16: use bf16 or bf16_mixed")


def step_context(precision: Precision, torch_type: str) -> Callable[[], AbstractContextManager[Any]]:
    """The context of a step's forward pass: autocast in mixed precision, else `nullcontext`."""
    if precision not in MIXED:
        return nullcontext
    # Autocast drops its cache of cast weights at the end; torch_xla's step is launched later.
    cached = {"cache_enabled": False} if torch_type == "xla" else {}
    return partial(torch.autocast, torch_type, dtype=DTYPES[precision], **cached)


def scaler_of(precision: Precision, torch_type: str) -> GradScaler | None:
    """What scales the losses of training in `fp16_mixed`, whose small gradients would be 0."""
    return GradScaler(torch_type) if precision == Precision.fp16_mixed else None


WATCHED = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)


class Observer:
    """Watches the first step of a network, for what is not watched operator by operator: in what its layers computed.

    It looks at the first layer that runs and has a weight matrix: the dtype of its result is what was computed in. If
    no such layer runs, it looks at the network's own output, or at its input if the output has no such numbers. `check`
    gets the network's first output.
    """

    def __init__(self, network: nn.Module, check: Callable[[Any], object] | None = None) -> None:
        self.network = network
        self.result: Tensor | None = None
        layers = {id(layer) for layer in network.modules() if layer is network or isinstance(layer, WATCHED)}

        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if id(module) not in layers or torch.compiler.is_compiling():
                return
            self.see(inputs, output)
            if module is network or check is None:
                self.handle.remove()
            if module is network and check is not None:
                check(output)

        self.handle = register_module_forward_hook(look)  # the network itself gets no hook

    def see(self, inputs: Any, output: Any) -> None:
        """Keeps a result, if there is none yet."""
        results = [tensor for tensor in tensors_in((output, inputs)) if tensor.is_floating_point()]
        if self.result is None and results:
            self.result = results[0]

    def stored(self) -> Tensor | None:
        """A weight in the format that most numbers are stored in; of real ones if there are any."""
        every = list(self.network.parameters())
        weights = list(filter(Tensor.is_floating_point, every)) or list(filter(Tensor.is_complex, every))
        sizes = Counter[torch.dtype]()
        for weight in weights:
            sizes[weight.dtype] += weight.numel()
        return max(weights, key=lambda weight: sizes[weight.dtype], default=None)

    def observed(self, run: Any, **more: Any) -> Observed:
        """What ran, as it was seen, and as the backend of a `CellRun` reports; and what `more` the run has observed."""
        self.handle.remove()  # of layers that never ran
        products = run.seen.products
        asked = FORMATS[run.cell.precision]
        weights = self.stored()
        stored = asked.stored if weights is None else real_format(weights)
        of_result = asked.computed if self.result is None else real_format(self.result)
        computed = products.ran_in(asked.computed) or of_result
        # Lightning's Trainer may have moved the weights to the host since.
        places = [tensor.device.type for tensor in (self.result, weights) if tensor is not None]
        kind = max(
            products.devices, key=products.devices.__getitem__, default=next(iter(places), run.backend.torch_type)
        )
        return Observed(
            device=run.backend.ran_on(kind),
            device_name=run.device_name(),
            precision=word_for(stored, computed, tf32=kind == "cuda" and multiplies_in_tf32()),
            cudnn_benchmark=torch.backends.cudnn.benchmark if kind == "cuda" else None,
            **{"num_devices": 1, "threads": torch.get_num_threads(), **more},
        )


def real_format(tensor: Tensor) -> str:
    """NumPy's name of the format of a tensor's numbers; of complex ones, of their parts."""
    dtype = tensor.real.dtype if tensor.is_complex() else tensor.dtype
    return str(dtype).removeprefix("torch.")
