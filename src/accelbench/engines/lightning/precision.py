"""Precision: Lightning's plugin for each word, and the word for what really ran."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from pytorch_lightning.plugins.precision import DoublePrecision, HalfPrecision, MixedPrecision
from pytorch_lightning.plugins.precision import Precision as LightningPrecision
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from accelbench.engines.lightning.xla import TrueXLAPrecision
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.vocab import Precision

DTYPES = {
    Precision.fp16: torch.float16,
    Precision.bf16: torch.bfloat16,
    Precision.fp32: torch.float32,
    Precision.tf32: torch.float32,
    Precision.fp64: torch.float64,
    Precision.fp16_mixed: torch.float16,
    Precision.bf16_mixed: torch.bfloat16,
}
MIXED = {Precision.fp16_mixed: "16-mixed", Precision.bf16_mixed: "bf16-mixed"}
XLA_TRUE = {Precision.fp32: "32-true", Precision.bf16: "bf16-true", Precision.fp64: "64-true"}


class MixedPerStep(MixedPrecision):
    """Autocast that the step enters around its own forward pass.

    Lightning enters autocast around the whole `training_step`, which here holds many steps and their
    backward passes; a plain loop enters it once per forward pass.
    """

    def forward_context(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Nothing: see the class."""
        return nullcontext()

    def autocast_context_manager(self) -> torch.autocast:
        """One step's autocast; its cache of cast weights ends with it."""
        return torch.autocast(self.device, dtype=torch.float16 if self.precision == "16-mixed" else torch.bfloat16)


class MixedXLAPerStep(TrueXLAPrecision):
    """bf16 autocast on XLA, entered by the step, over fp32 weights."""

    def __init__(self) -> None:
        super().__init__(torch.float32, "32-true")

    def autocast_context_manager(self) -> torch.autocast:
        """One step's autocast."""
        return torch.autocast("xla", dtype=torch.bfloat16, cache_enabled=False)


def plugin_for(precision: Precision, torch_type: str) -> LightningPrecision:
    """Lightning's plugin that computes in `precision` on `torch_type` (`cpu`, `cuda` or `xla`).

    It is given to the Trainer as a plugin since the Trainer's own `precision=` substitutes in silence:
    `16-mixed` on the CPU becomes `bf16-mixed`.
    """
    if torch_type == "xla":
        return MixedXLAPerStep() if precision in MIXED else TrueXLAPrecision(DTYPES[precision], XLA_TRUE[precision])
    if precision in MIXED:
        return MixedPerStep(MIXED[precision], torch_type)  # type: ignore[arg-type]
    if precision == Precision.fp64:
        return DoublePrecision()
    if precision in (Precision.fp16, Precision.bf16):
        return HalfPrecision("16-true" if precision == Precision.fp16 else "bf16-true")
    return LightningPrecision()


def step_context(plugin: Any) -> Callable[[], AbstractContextManager[Any]]:
    """What a step enters around its forward pass: autocast in mixed precision, else nothing."""
    return getattr(plugin, "autocast_context_manager", nullcontext)


WATCHED = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)


class Observer:
    """Watches one step of a network: which dtypes and device its matrix work really used.

    Of the modules with a weight matrix whose operation autocast may change, the first that runs: what its result is
    made of is what the matrix units computed in.

    Raises:
        UnsupportedError: it has no such module.
    """

    def __init__(self, network: nn.Module) -> None:
        watched = [module for module in network.modules() if isinstance(module, WATCHED)]
        if not watched:
            raise UnsupportedError("the network has no dense, convolutional or recurrent layer to watch")
        self.weights: Tensor
        self.result: Tensor | None = None
        self.handles: list[RemovableHandle] = [module.register_forward_hook(self._see) for module in watched]

    def _see(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self.result is None:
            self.weights = next(module.parameters())
            self.result = output[0] if isinstance(output, tuple) else output
        for handle in self.handles:
            handle.remove()

    def precision(self) -> str:
        """The word for what ran, or the dtypes where there is no word for them."""
        if self.result is None:
            raise UserError("no dense, convolutional or recurrent layer of the network was called")
        weights, computed = self.weights.dtype, self.result.dtype
        if weights == computed == torch.float32:
            tf32 = self.result.device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32
            return Precision.tf32 if tf32 else Precision.fp32
        for word, dtype in DTYPES.items():
            stored = torch.float32 if word in MIXED else dtype
            if (stored, dtype) == (weights, computed):
                return word
        return f"weights {weights}, computed in {computed}"

    def place(self) -> torch.device:
        """PyTorch's device that computed: its type is `cpu`, `cuda` or `xla`."""
        if self.result is None:
            raise UserError("no dense, convolutional or recurrent layer of the network was called")
        return self.result.device
