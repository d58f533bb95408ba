"""torch_xla under Lightning, and replacements for the parts of Lightning that fall short on XLA.

Lightning's XLAPrecision ignores `16-true`, sets a process-wide environment variable for `bf16-true` and refuses fp64
and mixed precision; its accelerator does not support PJRT's CPU. torch_xla is imported inside the functions: its import
replaces parts of torch.nn, which only a cell on XLA may do.
"""

from contextlib import AbstractContextManager
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.precision.utils import _convert_fp_tensor, _DtypeContextManager
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning.plugins.precision.xla import XLAPrecision
from torch import Tensor
from torch.nn import Module

from accelbench.measuring.runner import Compiles
from accelbench.schema.vocab import Device

# The operator of `.item()`: it reads a number back and computes nothing on the CPU.
READ_BACK = "aten::_local_scalar_dense"


class TrueXLAPrecision(XLAPrecision):
    """One dtype for weights, inputs and computation, without XLA's process-wide settings.

    Args:
        dtype: the number format.
        name: Lightning's word for it, such as `bf16-true`.
    """

    def __init__(self, dtype: torch.dtype, name: str) -> None:
        super().__init__("32-true")
        self.precision = name  # type: ignore[assignment]
        self._desired_dtype = dtype

    def convert_module(self, module: Module) -> Module:
        """The module with its weights in the dtype."""
        return module.to(self._desired_dtype)

    def convert_input(self, data: Any) -> Any:
        """The batch with its floats in the dtype."""
        return apply_to_collection(data, Tensor, _convert_fp_tensor, dst_type=self._desired_dtype)

    def tensor_init_context(self) -> AbstractContextManager[Any]:
        """A context in which new float tensors get the dtype."""
        context: AbstractContextManager[Any] = _DtypeContextManager(self._desired_dtype)
        return context

    module_init_context = forward_context = tensor_init_context


def register_accelerator(device: Device) -> None:
    """Lets `Trainer(accelerator="tpu")` run on PJRT's CPU for `xla_cpu`; does nothing for a TPU."""
    from lightning_fabric.accelerators import XLAAccelerator as FabricXLA

    if device == Device.tpu:
        return

    class PJRTCPU(pl.accelerators.XLAAccelerator):
        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def parse_devices(devices: int | str | list[int]) -> int:
            return int(devices)  # type: ignore[arg-type]

        @staticmethod
        def get_parallel_devices(devices: int | list[int]) -> list[torch.device]:
            return [torch.device("xla", index) for index in range(int(devices))]  # type: ignore[arg-type]

    FabricXLA.is_available = staticmethod(lambda: True)
    pl.accelerators.AcceleratorRegistry.register("tpu", PJRTCPU, override=True)


def launch() -> None:
    """Compiles what was recorded, if it is new, and launches it; returns before it is done."""
    import torch_xla

    torch_xla.sync()


def seed(number: int) -> None:
    """Seeds the random numbers on the device, such as those of dropout."""
    import torch_xla.core.xla_model as xm

    xm.set_rng_state(number)


def wait() -> None:
    """Returns when all launched work is done."""
    import torch_xla.core.xla_model as xm

    xm.wait_device_ops()


def compiles() -> Compiles:
    """Compilations so far, and their seconds, from torch_xla's metrics (kept in nanoseconds)."""
    import torch_xla.debug.metrics as met

    data = met.metric_data("CompileTime")
    return (data[0], data[1] / 1e9) if data else (0, 0.0)


def fallbacks() -> list[str]:
    """The operators that XLA does not have and that ran on the CPU instead, such as `aten::nonzero`."""
    import torch_xla.debug.metrics as met

    names: list[str] = met.executed_fallback_ops()
    return sorted(name for name in names if name != READ_BACK)


def peak_memory_bytes() -> int | None:
    """The device's peak memory; None if PJRT keeps no statistics."""
    import torch_xla.core.xla_model as xm

    try:
        peak = xm.get_memory_info().get("peak_bytes_used")
    except RuntimeError:  # PJRT's CPU client has no memory statistics
        return None
    return int(peak) if peak else None


def multiply_precisely() -> None:
    """Sets XLA's matrix precision to its highest: on a TPU the default multiplies fp32 in bf16."""
    import torch_xla.backends

    torch_xla.backends.set_mat_mul_precision("highest")


def changed_precision() -> list[str]:
    """A sentence if XLA's matrix precision is no longer its highest."""
    import torch_xla.backends

    now = torch_xla.backends.get_mat_mul_precision()
    found = f"its code changed torch_xla's matrix precision from highest to {now} while it was measured"
    return [] if now == "highest" else [found]


def device_name() -> str | None:
    """The TPU's name, such as `TPU v4`; None on PJRT's CPU."""
    import torch_xla
    import torch_xla.runtime as xr

    if xr.device_type() != "TPU":
        return None
    return str(torch_xla._XLAC._xla_device_kind(str(torch_xla.device())))
