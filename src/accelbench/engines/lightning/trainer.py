"""Lightning's Trainer on each kind of device, and in each precision."""

import importlib
import logging
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.accelerators import XLAAccelerator
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from lightning_utilities.core import rank_zero
from pytorch_lightning.plugins.precision.xla import XLAPrecision
from pytorch_lightning.strategies import DDPStrategy, SingleDeviceStrategy
from torch import nn

from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import new_tensors_in
from accelbench.engines.pytorch.precision import STORED_DTYPES, cast_module, cast_tensor, step_context, stored_in
from accelbench.engines.pytorch.structure import mapped
from accelbench.schema.vocab import Precision

HALF = {Precision.fp16: "16-true", Precision.bf16: "bf16-true"}
WORDS = {Precision.fp16_mixed: "16-mixed", Precision.bf16_mixed: "bf16-mixed"}


def hush_lightning() -> None:
    """Silences Lightning's warnings about what is intended here: predictions of None, training without validation.

    Its other ones stay warnings, whatever the user's code makes of warnings.
    """
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    rank_zero._warn = _warn


def _warn(message: str | Warning, stacklevel: int = 2, **kwargs: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for note in ("predict returned None", "You defined a `validation_step`"):
            warnings.filterwarnings("ignore", message=note)
        warnings.warn(message, stacklevel=stacklevel + 1, **kwargs)


def trainer_for(package: str, precision: Precision, backend: Backend, **settings: Any) -> Any:
    """A Trainer from `package`, `pytorch_lightning` or `lightning.pytorch`, for the device and the precision."""
    kind = backend.torch_type
    # Elsewhere Lightning would import torch_xla to look for a TPU, which takes 1.5 s and replaces parts of torch.nn.
    XLAAccelerator.is_available = staticmethod(lambda: kind == "xla")
    if kind == "xla":  # Lightning's own accelerator does not support PJRT's CPU
        pl.accelerators.AcceleratorRegistry.register("tpu", _Pjrt, override=True)
    elif kind not in ("cpu", "cuda"):
        pl.accelerators.AcceleratorRegistry.register("torch", _OfTorch, override=True)
        settings["strategy"] = SingleDeviceStrategy(backend.device())  # with `auto`, the network would be on the CPU
    connector: Any = importlib.import_module(f"{package}.trainer.connectors.callback_connector")
    connector._load_external_callbacks = lambda group: []  # those of installed packages would be timed
    left_out = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return importlib.import_module(package).Trainer(
        accelerator={"cpu": "cpu", "cuda": "cuda", "xla": "tpu"}.get(kind, "torch"),
        num_sanity_val_steps=0,
        plugins=[plugin_for(precision, backend.torch_type, package)],
        **left_out,
        **settings,
    )


def plugin_for(precision: Precision, torch_type: str, package: str = "pytorch_lightning") -> Any:
    """The plugin of Lightning's `package` that computes in `precision` on `torch_type`."""
    if torch_type == "xla":
        return _OnXla(precision)
    # The Trainer's argument `precision=` substitutes silently: `16-mixed` on the CPU becomes `bf16-mixed`.
    plugins = importlib.import_module(f"{package}.plugins.precision")
    if precision in WORDS:
        return plugins.MixedPrecision(WORDS[precision], torch_type)
    if precision == Precision.fp64:
        return plugins.DoublePrecision()
    if precision in HALF:
        plugin = plugins.HalfPrecision(HALF[precision])
        plugin.convert_module = partial(cast_module, dtype=STORED_DTYPES[precision])  # its own drops imaginary parts
        return plugin
    plugin = plugins.Precision()
    plugin.convert_module = partial(stored_in, precision=precision)
    return plugin


def of_ranks(num: int) -> Any:
    """Lightning's strategy for several processes, which another launcher has started; `auto` for one."""
    return DDPStrategy(cluster_environment=TorchElasticEnvironment()) if num > 1 else "auto"


class _OnXla(XLAPrecision):  # type: ignore[misc]
    """One dtype for weights and inputs on XLA, and the autocast of mixed precision.

    Lightning's plugin ignores `16-true`, sets a process-wide environment variable for `bf16-true`, and refuses fp64.
    """

    def __init__(self, precision: Precision) -> None:
        super().__init__("32-true")
        self._desired_dtype = STORED_DTYPES[precision]
        self.autocast = step_context(precision, "xla")

    def forward_context(self) -> AbstractContextManager[Any]:
        return self.tensor_init_context() if self.autocast is nullcontext else self.autocast()

    def convert_module(self, module: nn.Module) -> nn.Module:
        return cast_module(module, self._desired_dtype)

    def convert_input(self, data: Any) -> Any:
        return mapped(data, lambda tensor: cast_tensor(tensor, self._desired_dtype))

    def tensor_init_context(self) -> AbstractContextManager[Any]:
        return new_tensors_in(self._desired_dtype)

    module_init_context = tensor_init_context


class _Pjrt(pl.accelerators.XLAAccelerator):  # type: ignore[misc]
    """Lightning's view of one of PJRT's devices, such as its CPU."""

    is_available = staticmethod(lambda: True)
    auto_device_count = staticmethod(lambda: 1)
    parse_devices = staticmethod(int)
    get_parallel_devices = staticmethod(lambda num: [torch.device("xla", index) for index in range(int(num))])


class _OfTorch(pl.accelerators.Accelerator):  # type: ignore[misc]
    """Lightning's view of the device that `torch.accelerator` drives."""

    is_available = staticmethod(torch.accelerator.is_available)
    auto_device_count = staticmethod(torch.accelerator.device_count)
    parse_devices = staticmethod(int)
    name = staticmethod(lambda: "torch")

    @staticmethod
    def get_parallel_devices(devices: int) -> list[torch.device]:
        found = torch.accelerator.current_accelerator()
        assert found is not None, "its backend has checked that there is one"
        return [torch.device(found.type, index) for index in range(devices)]

    def setup_device(self, device: torch.device) -> None:
        torch.accelerator.set_device_index(device)

    def teardown(self) -> None:
        """Its tensors are freed with the process."""

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}
