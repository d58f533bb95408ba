"""Creates Lightning's Trainer for each kind of device and each precision."""

import importlib
import logging
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from lightning_fabric.accelerators import XLAAccelerator
from pytorch_lightning.plugins.precision.xla import XLAPrecision
from torch import nn

from accelbench.engines.lightning.timed_loop import NEVER
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import new_tensors_in
from accelbench.engines.pytorch.precision import STORED_DTYPES, cast_module, cast_tensor, step_context, stored_in
from accelbench.engines.pytorch.structure import mapped
from accelbench.schema.vocab import Precision

HALF = {Precision.fp16: "16-true", Precision.bf16: "bf16-true"}
MIXED = {Precision.fp16_mixed: "16-mixed", Precision.bf16_mixed: "bf16-mixed"}


def hush_lightning() -> None:
    """Suppresses two warnings of Lightning, on predictions that are None and on training without validation.

    Here, such predictions and such training are intended. All other warnings of Lightning are shown. They remain
    warnings even if the user's code turned warnings into errors.
    """
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
        warnings.filterwarnings("default", module=name)
    for note in ("predict returned None", "You defined a `validation_step`"):
        warnings.filterwarnings("ignore", message=note)


def trainer_for(package: str, precision: Precision, backend: Backend, **settings: Any) -> Any:
    """Creates a Trainer for the device and the precision.

    `package` is `pytorch_lightning` or `lightning.pytorch`. The Trainer runs a validation only when `IntervalHooks`
    sets the Trainer's attribute `val_check_batch`.
    """
    lightning = importlib.import_module(package)
    kind = backend.torch_type
    # On other devices, Lightning would import torch_xla to look for a TPU. That takes 1.5 s and replaces parts of
    # torch.nn.
    XLAAccelerator.is_available = staticmethod(lambda: kind == "xla")
    settings["accelerator"] = kind
    hush_lightning()
    if kind == "xla":
        settings |= _on_xla_device(lightning, backend)
    return lightning.Trainer(
        num_sanity_val_steps=0,
        check_val_every_n_epoch=None,
        val_check_interval=NEVER,
        plugins=[plugin_for(precision, kind, package)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def _on_xla_device(lightning: Any, backend: Backend) -> dict[str, Any]:
    """Returns settings that make the Trainer use the backend's XLA device. Lightning knows only TPUs."""
    device = backend.device()
    methods = {
        "parse_devices": staticmethod(int),
        "get_parallel_devices": staticmethod(lambda num: [device]),
        "setup_device": lambda accelerator, device: None,  # the backend has set it up
    }
    accelerator = type("BackendsDevice", (lightning.accelerators.XLAAccelerator,), methods)()
    return {"accelerator": accelerator, "strategy": lightning.strategies.SingleDeviceXLAStrategy(device)}


def plugin_for(precision: Precision, torch_type: str, package: str) -> Any:
    """Returns the plugin of Lightning's `package` that makes a Trainer compute in `precision` on `torch_type`."""
    if torch_type == "xla":
        return _OnXla(precision)
    # A plugin, because the Trainer's argument `precision` is replaced silently: `16-mixed` on the CPU becomes
    # `bf16-mixed`.
    plugins = importlib.import_module(f"{package}.plugins.precision")
    if precision in MIXED:
        return plugins.MixedPrecision(MIXED[precision], torch_type)
    if precision == Precision.fp64:
        return plugins.DoublePrecision()
    plugin = plugins.HalfPrecision(HALF[precision]) if precision in HALF else plugins.Precision()
    plugin.convert_module = partial(stored_in, precision=precision)  # HalfPrecision's method drops imaginary parts
    return plugin


class _OnXla(XLAPrecision):  # type: ignore[misc]
    """The precision plugin for XLA. Weights and inputs have the same dtype. Mixed precisions use autocast.

    Lightning's own plugin is not used. It ignores `16-true`, rejects fp64, and sets an environment variable for
    `bf16-true`.
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
